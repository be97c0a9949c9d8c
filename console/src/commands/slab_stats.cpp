/// slab_stats: everything about a cache.

#include "commands.hpp"

#include <qm/console/names.hpp>

namespace qm::console::commands {
namespace {

void print_cache(Invocation& call, Cache& cache) noexcept {
  const CacheStats stats = cache.stats();
  call.print("\nKmem_cache: {}\n---------------------\n", cache.name());
  call.print("Source: {}\n", cache.source().name());
  call.print("Objsize (incl align): {}\n", stats.object_size);
  call.print("Align: {}\n", cache.alignment());
  call.print("Nr unallocated in slab layer: {}\n", stats.in_slabs);
  call.print("Nr allocated from slab layer: {}\n", stats.objects - stats.in_slabs);
  call.print("Depot magsize: {}\n", stats.magazine_rounds);
  call.print("Nr empty mags: {}\n", stats.depot_empty);
  call.print("Nr non-empty mags: {}\n", stats.depot_full);
  call.print("High water: {}\n", stats.high_water);
  call.print("Failures: {}, refused frees {}\n", stats.failures, stats.misuses);
  call.print("Nr slabs: {}, {} bytes each\n", stats.slabs, stats.slab_bytes);
  call.print("Nr in use: {}\n", stats.in_use);
  call.print("Nr idle in magazines: {}\n", stats.in_magazines);
  call.print("Nr idle in depot: {}\n", stats.in_depot);
  call.print("Nr idle in slabs: {}\n", stats.in_slabs);
  call.print("Magazine misses: {}\n", stats.misses);
  call.print("Magsize changes: {}\n", stats.magazine_changes);
  if (stats.limit != 0) {
    call.print("Limit: {}\n", stats.limit);
  } else {
    call.print("Limit: none\n");
  }
  call.print("Reserve: {}", stats.reserve);
  if (stats.reserved != stats.reserve) call.print(", {} in it", stats.reserved);
  call.print("\n");
}

CommandStatus run_slab_stats(Invocation& call) noexcept {
  const std::string_view name = call.words()[1];
  if (!names_any<Cache>(name)) return call.fail("No such slab {}", name);
  unsigned shown = 0;
  bool aborted = false;
  Matching<Cache> caches(name);
  while (Cache* cache = aborted ? nullptr : caches.next()) {
    print_cache(call, *cache);
    ++shown;
    aborted = !call.yield();
  }
  call.print("caches {}: {}\n", shown, closing_word(aborted));
  return closing_status(aborted);
}

void complete_cache(Completion& completion) noexcept {
  if (completion.index() == 1) offer_caches(completion);
}

}  // namespace

constinit const Command slab_stats = {.name = "slab_stats",
                                      .usage = "slab_stats [SLAB_NAME]",
                                      .summary = "a cache, or all: objects in use and idle, magazines, slabs, failures",
                                      .run = run_slab_stats,
                                      .max_arguments = 1,
                                      .complete = complete_cache,
                                      .in_panic = true,
                                      .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
