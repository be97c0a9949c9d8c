#include "extents.hpp"

#include <new>

#include <qm/bits.hpp>
#include <qm/exhaustion.hpp>

#include "arena_request.hpp"
#include "upkeep.hpp"

namespace qm {

constinit Extents extents;

namespace {

constexpr unsigned long kAll = (1UL << Extents::kPages) - 1;

/// The first pages of free places of one, two and four.
constexpr unsigned long places_of_two(unsigned long free) noexcept { return free & free >> 1 & 0x55; }
constexpr unsigned long places_of_four(unsigned long of_two) noexcept { return of_two & of_two >> 2 & 0x11; }

constexpr std::size_t order_of(std::size_t bytes) noexcept { return bytes / (2 * Extents::kPageBytes); }
static_assert(order_of(Extents::kPageBytes) == 0 && order_of(2 * Extents::kPageBytes) == 1 &&
              order_of(Extents::kMostBytes) == 2);

constexpr unsigned long pages_of(std::size_t bytes) noexcept { return (1UL << bytes / Extents::kPageBytes) - 1; }

/// The list of an extent with so much free; of one that is not free as a whole.
constexpr unsigned list_of_used(unsigned long free) noexcept {
  const unsigned long two = places_of_two(free);
  if (two == 0) return 0;
  return places_of_four(two) == 0 ? 1 : 2;
}
constexpr unsigned list_of(unsigned long free) noexcept { return free == kAll ? 3 : list_of_used(free); }

}  // namespace

void Extents::initialize(Arena& arena) noexcept {
  new (this) Extents;
  arena_ = &arena;
}

/// @param[in,out] first of its list.
inline void Extents::enter_locked(BoundaryTag& extent, BoundaryTag*& first) noexcept {
  extent.kid[0] = first;
  extent.kid[1] = nullptr;
  if (first != nullptr) first->kid[1] = &extent;
  first = &extent;
}

inline void Extents::leave_locked(BoundaryTag& extent, BoundaryTag*& first) noexcept {
  BoundaryTag* const next = extent.kid[0];
  BoundaryTag* const before = extent.kid[1];
  (before != nullptr ? before->kid[0] : first) = next;
  if (next != nullptr) next->kid[1] = before;
}

std::uintptr_t Extents::take_place(std::size_t bytes) noexcept {
  const std::size_t order = order_of(bytes);
  const LockGuard hold(arena_->lock_);
  BoundaryTag** list = &lists_[order];
  BoundaryTag* extent = *list;
  while (extent == nullptr) {
    if (++list == lists_ + kLists) return 0;
    extent = *list;
  }
  const unsigned long free = extent->free_pages;
  unsigned long places = free;
  if (order != 0) places = places_of_two(places);
  if (order == 2) places = places_of_four(places);
  const unsigned long first = places & (~places + 1);
  const unsigned long left = free - first * pages_of(bytes);
  extent->free_pages = left;
  BoundaryTag** const after = &lists_[list_of_used(left)];
  if (after != list || left == 0) {
    BoundaryTag* const next = extent->kid[0];
    *list = next;
    if (next != nullptr) next->kid[1] = nullptr;
    if (left != 0) enter_locked(*extent, *after);
  }
  if (is_low() && !upkeep::is_due()) upkeep::want(prepare);
  return extent->start + lowest_bit(first) * kPageBytes;
}

std::uintptr_t Extents::take_of_new(std::size_t bytes) noexcept { return draw(false) ? take_place(bytes) : 0; }

bool Extents::give_place(std::uintptr_t start, std::size_t bytes) noexcept {
  const std::uintptr_t first = start & ~(kBytes - 1);
  bool leaves = false;
  {
    const LockGuard hold(arena_->lock_);
    BoundaryTag* const extent = arena_->find_allocated_locked(first);
    if (extent == nullptr || extent->owner != SegmentOwner::kSlabs) return false;
    const unsigned long before = extent->free_pages;
    const unsigned long free = before | pages_of(bytes) << ((start - first) / kPageBytes);
    extent->free_pages = free;
    if (before != 0) leave_locked(*extent, lists_[list_of(before)]);
    if (free != kAll || (is_low() && !exhaustion::scarce())) {
      enter_locked(*extent, lists_[list_of(free)]);
    } else {
      extent->free_pages = 0;  // nobody's any more
      leaves = true;
    }
  }
  if (leaves) {
    release(first);
  } else if (exhaustion::scarce()) {
    exhaustion::note_free();
  }
  return true;
}

/// Gives back an extent that has left its list with no page said to be free.
void Extents::release(std::uintptr_t start) noexcept {
  count_.fetch_sub(1, std::memory_order_relaxed);
  static_cast<void>(arena_->free_segment(start, kBytes, SegmentOwner::kSlabs));
}

/// Not while memory is scarce: what a drain has found is its finder's.
/// @param[in] ahead nobody waits for it: only if the next slab could want it, and if tags are to be had first, only these.
bool Extents::draw(bool ahead) noexcept {
  Arena& arena = *arena_;
  const LockGuard hold(arena.lock_);
  if (arena.counts_.total < kLeastTotal || exhaustion::scarce() || (ahead && !is_low())) return false;
  if (arena.spare_count_ < kSplitTags) {
    if (!arena.take_tags_locked(kSplitTags)) return false;
    if (ahead) {
      upkeep::want(prepare);
      return false;
    }
  }
  BoundaryTag* const segment = arena.sizes_.find(2 * kBytes - kPageBytes, Fit::kInstant);
  if (segment == nullptr) return false;
  const std::uintptr_t start = (segment->start + kBytes - 1) & ~(kBytes - 1);
  BoundaryTag& extent = arena.carve_locked({segment, start, kBytes}, {.owner = SegmentOwner::kSlabs});
  extent.free_pages = kAll;
  enter_locked(extent, lists_[kLists - 1]);
  count_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Extents::prepare() noexcept { static_cast<void>(extents.draw(true)); }

bool Extents::keeps_locked(const BoundaryTag& extent) const noexcept {
  const unsigned long free = extent.free_pages;
  if (extent.start % kBytes != 0 || extent.size != kBytes || (free & ~kAll) != 0) return false;
  if (free == 0) return true;
  const BoundaryTag* const before = extent.kid[1];
  return (before != nullptr ? before->kid[0] : lists_[list_of(free)]) == &extent;
}

void Extents::trim() noexcept {
  for (;;) {
    std::uintptr_t start = 0;
    {
      const LockGuard hold(arena_->lock_);
      BoundaryTag* const extent = lists_[kLists - 1];
      if (extent == nullptr) return;
      leave_locked(*extent, lists_[kLists - 1]);
      extent->free_pages = 0;
      start = extent->start;
    }
    release(start);
  }
}

}  // namespace qm
