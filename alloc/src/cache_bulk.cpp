/// Many objects at once. Never a section: a masked loop over what the magazines have, kBulkChunk objects at a time; the
/// rest, and every object of a traced cache, one by one.

#include <qm/cache.hpp>

namespace qm {

/// Takes what the own magazines and the depot's have. @returns how many, 0 if the cache records, checks or has a fault.
unsigned Cache::take_chunk(void** objects, std::size_t count) noexcept {
  if (kChecked || is_dead() || !has_magazines()) return 0;
  if (count > kBulkChunk) count = kBulkChunk;
  const hal::InterruptGuard masked;
  // acquire: as in record().
  if ((state_.load(std::memory_order_acquire) & (trace_state::kHearsAllocation | trace_state::kFault)) != 0) return 0;
  const unsigned hart = hal::Port::hart_index();
  cell(hart).close();
  unsigned taken = 0;
  while (taken < count && (objects[taken] = take_from_cell(cell(hart))) != nullptr) {
    count_allocation();
    ++taken;
  }
  expose(hart);
  return taken;
}

std::size_t Cache::allocate_bulk_at(const CallSite* site, void** objects, std::size_t count, Effort effort) noexcept {
  std::size_t have = 0;
  while (have < count) {
    const unsigned taken = take_chunk(objects + have, count - have);
    if constexpr (kCallSites) {
      for (unsigned i = 0; i < taken; ++i) charge(objects[have + i], site);
    }
    have += taken;
    if (have == count) break;
    objects[have] = allocate_at(site, 0, effort);
    if (objects[have] == nullptr) break;
    ++have;
  }
  return have;
}

/// Puts what the own magazines and the depot's empty ones hold. @returns how many, 0 if frees are watched or checked.
unsigned Cache::put_chunk(void* const* objects, std::size_t count) noexcept {
  if (kChecked || is_dead() || !has_magazines()) return 0;
  if (count > kBulkChunk) count = kBulkChunk;
  const hal::InterruptGuard masked;
  // acquire: as in record().
  if ((state_.load(std::memory_order_acquire) & trace_state::kHearsFree) != 0 || reserve_missing() != 0) return 0;
  const unsigned hart = hal::Port::hart_index();
  cell(hart).close();
  unsigned placed = 0;
  while (placed < count && slabs_.judge(objects[placed]) == SlabLayer::Standing::kOut &&
         put_in_cell(cell(hart), objects[placed]) == Placed::kHere) {
    ++placed;
  }
  expose(hart);
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
