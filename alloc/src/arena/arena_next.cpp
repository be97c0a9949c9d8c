// Arena: next fit, which searches by address. Linked where it is used.

#include <qm/arena.hpp>

#include <qm/exhaustion.hpp>
#include <qm/fault.hpp>
#include <qm/detail/observer.hpp>

#include "arena/arena_request.hpp"

namespace qm {

std::uintptr_t Arena::allocate_next(std::size_t size, const CallSite* site, WaitPolicy wait_policy) noexcept {
  const std::size_t rounded = round_up(size, quantum_);
  if (rounded - 1 < quantum_cache_max_) return quantum_caches_->allocate(*this, rounded, site, wait_policy);
  auto attempt = [=, this]() noexcept {
    const std::uintptr_t start = take_next(rounded, site);
    if (start != 0 && traced()) observer()->taken(*this, start, size, site, wait_policy);
    return start;
  };
  const std::uintptr_t start = attempt();
  return start != 0 ? start : reclaim_and_retry(size, wait_policy, exhaustion::attempt_of(attempt), &attempt);
}

std::uintptr_t Arena::take_next(std::size_t size, const CallSite* site) noexcept {
  if (size == 0 || !fault::may_acquire(fault::Resource::kSegment, this)) return 0;
  index_addresses();
  {
    const LockGuard guard(lock_);
    if (!reserve_tags_locked(kSplitTags)) return 0;
    const Place place = find_next_locked(size);
    if (place.segment != nullptr) {
      carve_locked(place, {.site = site});
      return place.start;
    }
  }
  const std::uintptr_t start =
      source_ != nullptr ? import({.size = size, .site = site, .fit = Fit::kNext}, size) : std::uintptr_t{0};
  if (start != 0) {
    const LockGuard guard(lock_);
    next_fit_ = start + size;
  }
  return start;
}

/// Finds the place for next fit and moves next_fit_ behind it: the caller allocates there.
Arena::Place Arena::find_next_locked(std::size_t size) noexcept {
  BoundaryTag* segment = free_.floor(next_fit_);
  std::uintptr_t start = next_fit_;
  if (segment == nullptr || segment->end() <= next_fit_ || segment->end() - next_fit_ < size) {
    segment = free_.first_fit(next_fit_, size);
    if (segment == nullptr) segment = free_.first_fit(0, size);
    if (segment == nullptr) return {};
    start = segment->start;
  }
  next_fit_ = start + size;
  return {segment, start, size};
}

}  // namespace qm
