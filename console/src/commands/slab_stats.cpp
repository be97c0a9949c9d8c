/// slab_stats: everything about a cache.

#include "commands.hpp"

#include <qm/console/names.hpp>
#include <qm/console/row.hpp>

namespace qm::console::commands {
namespace {

void print_cache(Invocation& call, Cache& cache) noexcept {
  const CacheStats stats = cache.stats();
  Row row(call, "cache");
  row.print("\nKmem_cache: {name}\n---------------------\n", cache.name());
  row.print("Source: {source}\n", cache.source().name());
  row.print("Objsize (incl align): {size_bytes}\n", stats.object_size);
  row.print("Align: {align_bytes}\n", cache.alignment());
  row.print("Nr unallocated in slab layer: {idle_in_slabs}\n", stats.in_slabs);
  row.print("Nr allocated from slab layer: {out_of_slabs}\n", stats.objects - stats.in_slabs);
  row.print("Depot magsize: {magazine_rounds}\n", stats.magazine_rounds);
  row.print("Nr empty mags: {empty_magazines}\n", stats.depot_empty);
  row.print("Nr non-empty mags: {full_magazines}\n", stats.depot_full);
  row.print("High water: {high_water}\n", stats.high_water);
  row.print("Failures: {failures}, refused frees {refused_frees}\n", stats.failures, stats.misuses);
  row.print("Nr slabs: {slabs}, {slab_bytes} bytes each\n", stats.slabs, stats.slab_bytes);
  row.print("Nr in use: {in_use}\n", stats.in_use);
  row.print("Nr idle in magazines: {idle_in_magazines}\n", stats.in_magazines);
  row.print("Nr idle in depot: {idle_in_depot}\n", stats.in_depot);
  row.print("Nr idle in slabs: {}\n", stats.in_slabs);
  row.print("Magazine misses: {magazine_misses}\n", stats.misses);
  row.print("Magsize changes: {magazine_changes}\n", stats.magazine_changes);
  if (stats.limit != 0) {
    row.print("Limit: {limit}\n", stats.limit);
  } else {
    row.print("Limit: none\n");
  }
  row.print("Reserve: {reserve}", stats.reserve);
  if (stats.reserved != stats.reserve) row.print(", {in_reserve} in it", stats.reserved);
  row.print("\n");
  if (stats.quarantine == 0) return;
  row.print("Quarantine: {quarantine_bytes} bytes, {in_quarantine} in it, {left_quarantine} left it\n",
            stats.quarantine, stats.quarantined, stats.quarantine_passed);
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
  call.row("end", "caches {caches}: {verdict}\n", shown, closing_word(aborted));
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
                                      .example = "slab_stats packet",
                                      .in_panic = true,
                                      .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
