/// Many objects in one call. No restartable section: a masked loop moves up to kBulkChunk objects at a time between the
/// caller and the magazines. The rest, and every object of a traced cache, are moved one by one.

#include <qm/cache.hpp>

namespace qm {

/// Takes objects from the hart's magazines and the depot's. @returns how many; 0 if the cache records, checks or has a
/// fault.
unsigned Cache::take_chunk(void** objects, std::size_t count) noexcept {
  if (kChecked || is_dead() || !has_magazines()) return 0;
  if (count > kBulkChunk) count = kBulkChunk;
  const hal::InterruptGuard masked;
  // acquire: as in record().
  if ((state_.load(std::memory_order_acquire) & (trace_state::kHearsAllocation | trace_state::kFault)) != 0) return 0;
  const unsigned hart = hal::Port::hart_index();
  hart_cache(hart).close();
  unsigned taken = 0;
  while (taken < count && (objects[taken] = take_from_hart_cache(hart_cache(hart))) != nullptr) {
    count_allocation();
    ++taken;
  }
  open_hart_cache(hart);
  return taken;
}

std::size_t Cache::allocate_bulk_at(const CallSite* site, void** objects, std::size_t count,
                                    WaitPolicy wait_policy) noexcept {
  std::size_t have = 0;
  while (have < count) {
    const unsigned taken = take_chunk(objects + have, count - have);
    if constexpr (kCallSites) {
      for (unsigned i = 0; i < taken; ++i) charge(objects[have + i], site);
    }
    have += taken;
    if (have == count) break;
    objects[have] = allocate_at(site, 0, wait_policy);
    if (objects[have] == nullptr) break;
    ++have;
  }
  return have;
}

/// Puts objects into the hart's magazines and the depot's empty ones. @returns how many; 0 if frees are watched or
/// checked, or freed objects wait in quarantine.
unsigned Cache::put_chunk(void* const* objects, std::size_t count) noexcept {
  if (kChecked || is_dead() || !has_magazines()) return 0;
  if (count > kBulkChunk) count = kBulkChunk;
  const hal::InterruptGuard masked;
  // acquire: as in record().
  if ((state_.load(std::memory_order_acquire) & (trace_state::kHearsFree | trace_state::kQuarantine)) != 0 ||
      reserve_missing() != 0) {
    return 0;
  }
  const unsigned hart = hal::Port::hart_index();
  hart_cache(hart).close();
  unsigned placed = 0;
  while (placed < count && slabs_.classify(objects[placed]) == SlabLayer::ObjectState::kOut &&
         put_in_hart_cache(hart_cache(hart), objects[placed]) == Placed::kHere) {
    ++placed;
  }
  open_hart_cache(hart);
  return placed;
}

void Cache::free_bulk(void* const* objects, std::size_t count) noexcept {
  if constexpr (kCallSites) {
    for (std::size_t i = 0; i < count; ++i) discharge(objects[i]);
  }
  std::size_t done = 0;
  while (done < count) {
    done += put_chunk(objects + done, count - done);
    if (done < count) free_slow(objects[done++]);
  }
}

}  // namespace qm
