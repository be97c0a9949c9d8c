/// Statistics and validation of a cache, and the place of its trace handles.

#include <qm/cache.hpp>
#include <qm/system.hpp>

namespace qm {

CacheStats Cache::stats() noexcept {
  CacheStats stats;
  const SlabStats slabs = slabs_.stats();
  const Depot::Stats depot = depot_.stats();
  const CacheExtra* extra = this->extra();
  for (unsigned hart = 0; hart < hart_count(); ++hart) {
    const HartCounts& one = counts(hart);
    if constexpr (kMagazines) stats.in_magazines += hart_cache(hart).rounds();
    stats.misses += one.misses.load(std::memory_order_relaxed);
    stats.failures += one.failures.load(std::memory_order_relaxed);
    stats.misuses += one.misuses.load(std::memory_order_relaxed);
    stats.allocations += one.allocs.load(std::memory_order_relaxed);
  }
  // Such a cache counts no allocations; its slab layer does, headers of no-touch slabs included.
  if ((flags_ & cache_flags::kNoMagazines) != 0) stats.allocations = slabs.taken_ever;
  stats.counted = kCounted;
  stats.object_size = slabs_.object_size();
  stats.objects = slabs.objects_total;
  stats.in_depot = depot.rounds;
  stats.in_slabs = slabs.objects_total - slabs.objects_out;
  stats.reserved = extra != nullptr ? extra->reserve.held() : 0;
  stats.reserve = extra != nullptr ? extra->reserve.promised() : 0;
  if (const Quarantine* quarantine = this->quarantine(); quarantine != nullptr) {
    stats.quarantine = quarantine->bytes();
    stats.quarantined = quarantine->held();
    stats.quarantine_passed = quarantine->passed();
  }
  const std::size_t idle = stats.in_magazines + stats.in_depot + stats.reserved + stats.quarantined;
  stats.in_use = slabs.objects_out > idle ? slabs.objects_out - idle : 0;
  stats.high_water = slabs.objects_out_high;
  stats.slabs = slabs.slabs;
  stats.slab_bytes = slabs_.slab_bytes();
  stats.depot_full = depot.full;
  stats.depot_empty = depot.empty;
  stats.magazine_rounds = depot_.rounds();
  stats.magazine_changes = depot.changes;
  stats.limit = slabs.limit;
  return stats;
}

bool Cache::validate() noexcept {
  if (!slabs_.validate()) return false;
  for (unsigned hart = 0; kMagazines && hart < hart_count(); ++hart) {
    const HartCache& one = hart_cache(hart);
    const bool open = one.top.load(std::memory_order_relaxed) != closed_address();
    if (open && (magazine_harts() & bit(hart)) == 0) return false;  // C2
    if (!open && one.limit.load(std::memory_order_relaxed) != nullptr) return false;
  }
  const SlabStats slabs = slabs_.stats();
  const CacheStats all = stats();
  return all.in_use + all.in_magazines + all.in_depot + all.reserved + all.quarantined == slabs.objects_out;
}

std::uint32_t* Cache::handle(void* object) noexcept {
  Slab* slab = slabs_.find(object);
  if (slab == nullptr) return nullptr;
  // acquire: pairs with the release in adopt_handles(), so that the zeroed words are seen.
  std::uint32_t* handles = slab->handles.load(std::memory_order_acquire);
  const unsigned index = slabs_.index(*slab, object);
  return handles != nullptr && index != SlabLayer::kNoIndex ? handles + index : nullptr;
}

bool Cache::adopt_handles(void* object, std::uint32_t* handles) noexcept {
  Slab* slab = slabs_.find(object);
  std::uint32_t* none = nullptr;
  return slab != nullptr && slab->handles.compare_exchange_strong(none, handles, std::memory_order_acq_rel);
}

}  // namespace qm
