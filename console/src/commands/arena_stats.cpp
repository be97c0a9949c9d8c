/// arena_stats: everything about an arena.

#include "commands.hpp"

#include <qm/bits.hpp>
#include <qm/console/names.hpp>

namespace qm::console::commands {
namespace {

/// Segments looked at between two yields.
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
    call.print("\tList of [2^{} - 2^{}):\n\t\tNr free segs: {}\n", log2, log2 + 1, counts[log2]);
  }
  return true;
}

void print_stats(Invocation& call, const ArenaStats& stats) noexcept {
  call.print("\tStats:\n\t-----------------\n");
  call.print("\t\tAmt free: {} ({})\n", stats.free, Address{stats.free});
  call.print("\t\tAmt alloc: {} ({}), nr allocs {}\n", stats.allocated, Address{stats.allocated},
             stats.allocations_ever);
  call.print("\t\tAmt total segs: {}, amt alloc segs {}\n", stats.total, stats.allocated);
  call.print("\t\tAmt imported: {} ({}), nr imports {}\n", stats.imported, Address{stats.imported}, stats.imports);
}

/// Prints who draws from @p arena. @returns false when aborted.
bool print_importers(Invocation& call, Arena& arena) noexcept {
  call.print("\tImporting Arenas:\n\t-----------------\n");
  Matching<Arena> arenas({});
  while (Arena* importing = arenas.next()) {
    if (importing->source() == &arena) call.print("\t\t{}\n", importing->name());
    if (!call.yield()) return false;
  }
  call.print("\tImporting Slabs:\n\t-----------------\n");
  Matching<Cache> caches({});
  while (Cache* importing = caches.next()) {
    if (&importing->source() == &arena) call.print("\t\t{}\n", importing->name());
    if (!call.yield()) return false;
  }
  return true;
}

bool print_arena(Invocation& call, Arena& arena) noexcept {
  call.print("Arena: {} ({})\n--------------\n", arena.name(), Address{reinterpret_cast<std::uintptr_t>(&arena)});
  call.print("\tquantum: {}, qcache_max: {}\n", arena.quantum(), arena.quantum_cache_max());
  const Arena* source = arena.source();
  call.print("\tsource: {}\n", source == nullptr ? "none" : source->name());
  if (!print_free_lists(call, arena)) return false;
  call.print("\tSegments:\n\t--------------\n");
  const ArenaStats stats = arena.stats();
  print_stats(call, stats);
  if (!print_importers(call, arena)) return false;
  call.print("\tHigh water: {}\n", stats.high_water);
  call.print("\tLargest free: {}\n", stats.largest_free);
  call.print("\tFailures: {}, refused frees {}\n", stats.failures, stats.bad_frees);
  call.print("\tImports: {}, releases {}, spans {}, idle {}\n", stats.imports, stats.releases, stats.spans, stats.idle);
  call.print("\tNr segs: {} free, {} alloc\n", stats.segments_free, stats.segments_allocated);
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
  call.print("arenas {}: {}\n", shown, closing_word(aborted));
  return closing_status(aborted);
}

void complete_arena(Completion& completion) noexcept {
  if (completion.index() == 1) offer_arenas(completion);
}

}  // namespace

constinit const Command arena_stats = {.name = "arena_stats",
                                       .usage = "arena_stats [NAME]",
                                       .summary = "an arena, or all: free segments by size, amounts, who draws from it",
                                       .run = run_arena_stats,
                                       .max_arguments = 1,
                                       .complete = complete_arena,
                                       .in_panic = true,
                                       .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
