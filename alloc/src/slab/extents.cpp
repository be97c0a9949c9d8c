#include "slab/extents.hpp"

#include <new>

#include <qm/detail/bits.hpp>
#include <qm/exhaustion.hpp>
#include <qm/fault.hpp>

#include "arena/arena_request.hpp"
#include "segments/boundary_tag_pool.hpp"
#include "slab/upkeep.hpp"

namespace qm {

constinit Extents extents;

namespace {

// A tag's `pages`: bit p: no slab has page p; bit 8 + p: page p belongs to the same slab as the page before it.

/// The first pages of the free places of one, two and four pages.
constexpr unsigned long places_of_two(unsigned long free) noexcept { return free & free >> 1 & 0x55; }
constexpr unsigned long places_of_four(unsigned long of_two) noexcept { return of_two & of_two >> 2 & 0x11; }

constexpr std::size_t order_of(std::size_t bytes) noexcept { return bytes / (2 * Extents::kPageBytes); }
static_assert(order_of(Extents::kPageBytes) == 0 && order_of(2 * Extents::kPageBytes) == 1 &&
              order_of(Extents::kMostBytes) == 2);

/// What a slab of @p bytes that begins with page 0 changes in `pages`: its pages are no longer free, and all but the
/// first continue the slab.
constexpr unsigned long share_of(std::size_t bytes) noexcept {
  const unsigned long behind = 1UL << bytes / Extents::kPageBytes;
  return behind - (behind << Extents::kPages) + 2 * Extents::kAllPages + 1;  // (behind - 1) - ((behind - 2) << kPages)
}

/// The list of an extent with the free pages @p free, which are not all.
constexpr unsigned list_of_used(unsigned long free) noexcept {
  const unsigned long two = places_of_two(free);
  if (two == 0) return 0;
  return places_of_four(two) == 0 ? 1 : 2;
}
constexpr unsigned list_of(unsigned long free) noexcept { return free == Extents::kAllPages ? 3 : list_of_used(free); }

}  // namespace

void Extents::initialize(Arena& arena) noexcept {
  new (this) Extents;
  arena_ = &arena;
}

/// @param[in,out] first the first extent of the list.
inline void Extents::enter_locked(BoundaryTag& extent, BoundaryTag*& first) noexcept {
  BoundaryTag* const next = first;
  extent.kid[0] = next;
  extent.kid[1] = nullptr;
  if (next != nullptr) next->kid[1] = &extent;
  first = &extent;
}

inline void Extents::leave_locked(BoundaryTag& extent, BoundaryTag*& first) noexcept {
  BoundaryTag* const next = extent.kid[0];
  BoundaryTag* const before = extent.kid[1];
  (before != nullptr ? before->kid[0] : first) = next;
  if (next != nullptr) next->kid[1] = before;
}

/// Forgets an extent that is on no list and free as a whole, before it goes back.
inline void Extents::retire_locked(BoundaryTag& extent) noexcept {
  extent.pages = 0;
  count_.fetch_sub(1, std::memory_order_relaxed);
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
  unsigned long places = extent->pages;
  if (order != 0) places = places_of_two(places);
  if (order == 2) places = places_of_four(places);
  const unsigned long first = places & (~places + 1);
  const unsigned long left = extent->pages - first * share_of(bytes);
  extent->pages = left;
  in_slabs_ += bytes;
  BoundaryTag** const after = &lists_[list_of_used(left)];
  const bool is_used_up = (left & kAllPages) == 0;
  if (after != list || is_used_up) {
    BoundaryTag* const next = extent->kid[0];
    *list = next;
    if (next != nullptr) next->kid[1] = nullptr;
    if (!is_used_up) enter_locked(*extent, *after);
  }
  if (is_low() && !are_few_outside() && !upkeep::is_due()) upkeep::want_extent();
  return extent->start + only_bit(first) * kPageBytes;
}

std::uintptr_t Extents::take_of_new(std::size_t bytes) noexcept { return draw(false) ? take_place(bytes) : 0; }

bool Extents::give_place(std::uintptr_t start, std::size_t bytes) noexcept {
  const std::uintptr_t first = start & ~(kBytes - 1);
  bool leaves = false;
  {
    const LockGuard hold(arena_->lock_);
    BoundaryTag* const extent = arena_->find_allocated_locked(first);
    if (extent == nullptr || extent->owner != SegmentOwner::kSlabs) return false;
    const unsigned long before = extent->pages;
    const unsigned long pages = before + (share_of(bytes) << ((start - first) / kPageBytes));
    extent->pages = pages;
    in_slabs_ -= bytes;
    if ((before & kAllPages) != 0) leave_locked(*extent, lists_[list_of(before)]);
    if (pages != kAllPages || (is_low() && !exhaustion::under_pressure())) {
      enter_locked(*extent, lists_[list_of(pages)]);
    } else {
      retire_locked(*extent);
      leaves = true;
    }
  }
  if (leaves) {
    release(first);
  } else if (exhaustion::under_pressure()) {
    exhaustion::note_free();
  }
  return true;
}

/// Gives an extent that has retired back to the arena.
void Extents::release(std::uintptr_t start) noexcept {
  static_cast<void>(arena_->free_segment(start, kBytes, SegmentOwner::kSlabs));
}

/// Allocates an extent. Not under pressure: memory that a drain recovered is for the requester.
/// @param[in] ahead called by upkeep: allocates only if the next slab could need the extent; if this takes new boundary
///            tags, makes only these.
bool Extents::draw(bool ahead) noexcept {
  Arena& arena = *arena_;
  const LockGuard hold(arena.lock_);
  if (arena.counts_.total < kLeastTotal || exhaustion::under_pressure()) return false;
  if (ahead && !is_low()) return false;
  if (arena.spare_count_ < kSplitTags) {
    const bool is_enough = ahead && boundary_tag_pool.is_empty() && !fault::tested() && arena.refills_tags_;
    if (!(is_enough ? boundary_tag_pool.add_page() : arena.take_tags_locked(kSplitTags))) return false;
    if (ahead) {
      upkeep::want_extent();
      return false;
    }
  }
  BoundaryTag* const segment = arena.sizes_.find(2 * kBytes - kPageBytes, Fit::kInstant);
  if (segment == nullptr) return false;
  const std::uintptr_t start = (segment->start + kBytes - 1) & ~(kBytes - 1);
  BoundaryTag& extent = arena.carve_locked({segment, start, kBytes}, {.owner = SegmentOwner::kSlabs});
  extent.pages = kAllPages;
  enter_locked(extent, lists_[kLists - 1]);
  count_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Extents::prepare() noexcept { static_cast<void>(extents.draw(true)); }

bool Extents::keeps_locked(const BoundaryTag& extent) const noexcept {
  const unsigned long free = free_pages(extent);
  const unsigned long joined = extent.pages >> kPages;
  if (extent.start % kBytes != 0 || extent.size != kBytes || (joined & (~kAllPages | free | free << 1 | 1)) != 0)
    return false;
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
      retire_locked(*extent);
      start = extent->start;
    }
    release(start);
  }
}

/// Splits an extent that has free pages into segments: its slabs, which lie outside from now on, and its free runs,
/// which the caller gives back. If there are no boundary tags for that, the last free page becomes tags.
/// @param[out] free the free runs, and @p runs their number.
/// @returns false if no extent has free pages.
bool Extents::split(Run (&free)[kRuns], unsigned& runs) noexcept {
  Arena& arena = *arena_;
  const LockGuard hold(arena.lock_);
  BoundaryTag** list = lists_ + kLists;
  do {
    if (list == lists_) return false;
  } while (*--list == nullptr);
  BoundaryTag* const extent = *list;
  const std::uintptr_t start = extent->start;
  const unsigned long idle = free_pages(*extent);
  // The pages that begin a slab or a free run.
  unsigned long begins = kAllPages & ~(extent->pages >> kPages) & ~(idle & idle << 1);
  unsigned more = 0;
  for (unsigned long left = begins & (begins - 1); left != 0; left &= left - 1) ++more;
  unsigned long for_tags = 0;
  if (!arena.reserve_tags_locked(more)) {
    if (!boundary_tag_pool.is_empty()) return false;  // a test makes tags fail
    const unsigned last = floor_log2(idle);
    for_tags = 1UL << last;
    begins |= for_tags;
    boundary_tag_pool.add(reinterpret_cast<void*>(start + last * kPageBytes), kPageBytes);
    while (arena.spare_count_ < kPages) arena.spare_count_ += boundary_tag_pool.take(arena.spares_, kTagBatch);
  }
  leave_locked(*extent, *list);
  BoundaryTag* piece = extent;
  std::size_t in_slabs = 0;
  runs = 0;
  for (unsigned page = 0;;) {
    begins &= begins - 1;
    const unsigned next = begins != 0 ? lowest_bit(begins) : kPages;
    piece->size = (next - page) * kPageBytes;
    piece->owner = SegmentOwner::kUser;
    if ((for_tags >> page & 1) != 0) {
      piece->owner = SegmentOwner::kTagPool;
      AllocatedIndex::remove(arena.allocated_.place_of(piece->start));  // it is never freed
    } else if ((idle >> page & 1) != 0) {
      free[runs++] = {piece->start, piece->size};
    } else {
      in_slabs += piece->size;
    }
    if (next == kPages) break;
    BoundaryTag* const above = arena.take_spare_locked();
    Arena::link_after(above, piece);
    above->start = start + next * kPageBytes;
    above->kind = TagKind::kAllocated;
    above->handle = 0;
    above->site = nullptr;
    arena.allocated_.insert(above);
    ++arena.counts_.allocations_ever;
    piece = above;
    page = next;
  }
  in_slabs_ -= in_slabs;
  outside_.fetch_add(in_slabs, std::memory_order_relaxed);
  count_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

std::size_t Extents::dissolve() noexcept {
  std::size_t bytes = 0;
  // No more than there are now: other harts may allocate new ones meanwhile.
  for (std::size_t left = count_.load(std::memory_order_relaxed); left != 0; --left) {
    Run free[kRuns];
    unsigned runs = 0;
    if (!split(free, runs)) break;
    for (const Run* run = free; run != free + runs; ++run) {
      static_cast<void>(arena_->free_segment(run->start, run->bytes, SegmentOwner::kUser));
      bytes += run->bytes;
    }
  }
  return bytes;
}

}  // namespace qm
