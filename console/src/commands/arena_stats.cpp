/// arena_stats: everything about an arena.

#include "commands.hpp"

#include <qm/detail/bits.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>

namespace qm::console::commands {
namespace {

/// Segments read between two yields.
constexpr unsigned kWalkSteps = 64;

/// Prints how many free segments there are in each power of two. @returns false when aborted.
bool print_free_lists(Invocation& call, Arena& arena) noexcept {
  std::size_t counts[kWordBits] = {};
  ArenaWalk walk(arena);
  Segment segment;
  unsigned steps = 0;
  while (walk.next(segment)) {
    if (segment.kind == TagKind::kFree) ++counts[floor_log2(segment.size)];
    if (++steps % kWalkSteps == 0 && !call.yield()) return false;
  }
  for (unsigned log2 = 0; log2 < kWordBits; ++log2) {
    if (counts[log2] == 0) continue;
    call.row("free_list", "\tList of [2^{log2} - 2^{}):\n\t\tNr free segs: {segments}\n", log2, log2 + 1, counts[log2]);
  }
  return true;
}

void print_stats(Invocation& call, const ArenaStats& stats) noexcept {
  call.head("\tStats:\n\t-----------------\n");
  Row row(call, "amounts");
  row.print("\t\tAmt free: {free_bytes} ({})\n", stats.free, Address{stats.free});
  row.print("\t\tAmt alloc: {used_bytes} ({}), nr allocs {allocations}\n", stats.allocated, Address{stats.allocated},
            stats.allocations_ever);
  row.print("\t\tAmt total segs: {total_bytes}, amt alloc segs {}\n", stats.total, stats.allocated);
  row.print("\t\tAmt imported: {imported_bytes} ({}), nr imports {imports}\n", stats.imported, Address{stats.imported},
            stats.imports);
}

/// Prints the arenas and caches that import from @p arena. @returns false when aborted.
bool print_importers(Invocation& call, Arena& arena) noexcept {
  call.head("\tImporting Arenas:\n\t-----------------\n");
  Matching<Arena> arenas({});
  while (Arena* importing = arenas.next()) {
    if (importing->source() == &arena) call.row("importing_arena", "\t\t{name}\n", importing->name());
    if (!call.yield()) return false;
  }
  call.head("\tImporting Slabs:\n\t-----------------\n");
  Matching<Cache> caches({});
  while (Cache* importing = caches.next()) {
    if (&importing->source() == &arena) call.row("importing_cache", "\t\t{name}\n", importing->name());
    if (!call.yield()) return false;
  }
  return true;
}

bool print_arena(Invocation& call, Arena& arena) noexcept {
  {
    Row row(call, "arena");
    row.print("Arena: {name} ({address})\n--------------\n", arena.name(),
              Address{reinterpret_cast<std::uintptr_t>(&arena)});
    row.print("\tquantum: {quantum_bytes}, qcache_max: {quantum_cache_max_bytes}\n", arena.quantum(),
              arena.quantum_cache_max());
    const Arena* source = arena.source();
    source == nullptr ? row.print("\tsource: none\n") : row.print("\tsource: {source}\n", source->name());
  }
  if (!print_free_lists(call, arena)) return false;
  call.head("\tSegments:\n\t--------------\n");
  const ArenaStats stats = arena.stats();
  print_stats(call, stats);
  if (!print_importers(call, arena)) return false;
  {
    Row row(call, "figures");
    row.print("\tHigh water: {high_water_bytes}\n", stats.high_water);
    row.print("\tLargest free: {largest_free_bytes}\n", stats.largest_free);
    row.print("\tFailures: {failures}, refused frees {refused_frees}\n", stats.failures, stats.bad_frees);
    row.print("\tImports: {}, releases {releases}, spans {spans}, idle {idle_bytes}\n", stats.imports, stats.releases,
              stats.spans, stats.idle);
    row.print("\tNr segs: {free_segments} free, {used_segments} alloc\n", stats.segments_free,
              stats.segments_allocated);
  }
  return call.yield();
}

CommandStatus run_arena_stats(Invocation& call) noexcept {
  const std::string_view name = call.words()[1];
  if (!names_any<Arena>(name)) return call.fail("No such arena {}", name);
  unsigned shown = 0;
  bool aborted = false;
  Matching<Arena> arenas(name);
  while (Arena* arena = aborted ? nullptr : arenas.next()) {
    aborted = !print_arena(call, *arena);
    ++shown;
  }
  call.row("end", "arenas {arenas}: {verdict}\n", shown, closing_word(aborted));
  return closing_status(aborted);
}

void complete_arena(Completion& completion) noexcept {
  if (completion.index() == 1) offer_arenas(completion);
}

}  // namespace

constinit const Command arena_stats = {
    .name = "arena_stats",
    .usage = "arena_stats [NAME]",
    .summary = "an arena, or all: free segments by size, amounts, who imports from it",
    .run = run_arena_stats,
    .max_arguments = 1,
    .complete = complete_arena,
    .example = "arena_stats kheap",
    .in_panic = true,
    .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
