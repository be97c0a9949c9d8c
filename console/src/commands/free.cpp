/// free: totals of all memory.

#include "commands.hpp"

#include <span>

#include <qm/console/amount.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/system.hpp>

namespace qm::console::commands {
namespace {

/// @returns the idle bytes of @p arena's memory; for `base`, the bytes of extents that no slab uses.
std::size_t idle_bytes(Arena& arena) noexcept {
  const ArenaStats stats = arena.stats();
  return &arena == &base_arena() ? stats.in_extents : stats.free;
}

/// @returns the idle bytes of @p cache's slabs. Each idle object counts with its share of its slab, so that a slab of
/// idle objects counts with all of its bytes.
std::size_t idle_bytes(Cache& cache) noexcept {
  const CacheStats stats = cache.stats();
  return (stats.objects - stats.in_use) * cache.slab_bytes() / cache.slabs().objects();
}

struct Amount {
  std::string_view line;  ///< name in Akaros
  std::string_view column;
  std::string_view field;  ///< name in a row
  std::uint64_t bytes;
};

/// Prints a line of names and a line of amounts.
void print_amounts(Output& out, std::span<const Amount> amounts, Unit unit) noexcept {
  constexpr std::size_t kWidth = 12;
  out.print("{:<5}", unit.name());
  for (const Amount& one : amounts) print_right(out, one.column, kWidth);
  out.text("\n     ");
  for (const Amount& one : amounts) unit.print(out, one.bytes, kWidth);
  out.put('\n');
}

CommandStatus run_free(Invocation& call) noexcept {
  const std::string_view word = call.words()[1];
  if (!word.empty() && word != "-v" && word != "-b") return call.usage();
  std::size_t idle = 0;
  unsigned caches = 0;
  unsigned arenas = 0;
  bool aborted = false;
  Matching<Arena> all_arenas({});
  while (Arena* arena = aborted ? nullptr : all_arenas.next()) {
    if (&arena->root() != &base_arena()) continue;
    idle += idle_bytes(*arena);
    ++arenas;
    aborted = !call.yield();
  }
  Matching<Cache> all_caches({});
  while (Cache* cache = aborted ? nullptr : all_caches.next()) {
    if (&cache->source().root() != &base_arena()) continue;
    idle += idle_bytes(*cache);
    ++caches;
    aborted = !call.yield();
  }
  const ArenaStats base = base_arena().stats();
  if (!aborted) {
    const Amount amounts[] = {{"Total Memory", "total", "total_bytes", base.total},
                              {"Used Memory", "used", "used_bytes", base.allocated},
                              {"Free Memory", "free", "free_bytes", base.free},
                              {"Idle Memory", "idle", "idle_bytes", idle},
                              {"Least Free", "least free", "least_free_bytes", base.total - base.high_water},
                              {"Largest Free", "largest", "largest_free_bytes", base.largest_free}};
    if (call.rows()) {
      Row row(call, "memory");
      for (const Amount& one : amounts) row.number(one.field, one.bytes);
    } else if (word == "-v") {
      for (const Amount& one : amounts) call.print("{:<13}: {:15}\n", one.line, one.bytes);
    } else {
      print_amounts(call.out(), amounts, word == "-b" ? Unit::bytes() : Unit::of(base.total));
    }
  }
  call.row("end", "caches {caches}, arenas {arenas}: {verdict}\n", caches, arenas, closing_word(aborted));
  return closing_status(aborted);
}

void complete_free(Completion& completion) noexcept {
  if (completion.index() != 1) return;
  for (const std::string_view word : {"-b", "-v"}) completion.offer(word);
}

}  // namespace

constinit const Command free_memory = {.name = "free",
                                       .usage = "free [-v|-b]",
                                       .summary = "memory in total: used, free, idle, least ever free, largest piece",
                                       .run = run_free,
                                       .max_arguments = 1,
                                       .complete = complete_free,
                                       .forms = "free -v  a line an amount, in bytes; free -b  as free, in bytes",
                                       .example = "free\nfree -b\nfree -v",
                                       .in_panic = true,
                                       .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
