// Arena: segments that grow and shrink in place. Linked where it is used.

#include <qm/arena.hpp>

#include <qm/fault.hpp>
#include <qm/detail/observer.hpp>

#include "segments/allocated_index.hpp"
#include "arena/arena_request.hpp"

namespace qm {

Status Arena::resize_locked(std::uintptr_t start, std::size_t old_size, std::size_t size) noexcept {
  BoundaryTag* tag = find_allocated_locked(start);
  if (tag == nullptr || tag->owner != SegmentOwner::kUser) return Status::kNotFound;
  if (tag->size != old_size) return Status::kMismatch;
  BoundaryTag* right = tag->next->kind == TagKind::kFree ? tag->next : nullptr;
  if (size > old_size) {
    const std::size_t more = size - old_size;
    if (right == nullptr || right->size < more) return Status::kNoMemory;
    if (right->size == more) {
      remove_free_locked(right);
      drop_locked(right);
    } else {
      set_size_locked(right, right->start + more, right->size - more);
    }
    tag->size = size;
    if constexpr (kCallSites) recharge_locked(tag, old_size);
    count_allocated_locked(more);
  } else if (size < old_size) {
    const std::size_t less = old_size - size;
    tag->size = size;
    if constexpr (kCallSites) recharge_locked(tag, old_size);
    counts_.allocated -= less;
    if (right != nullptr) {
      set_size_locked(right, right->start - less, right->size + less);
    } else {
      add_free_locked(tag, tag->end(), less);
    }
  }
  return Status::kOk;
}

Status Arena::resize_in_place(std::uintptr_t start, std::size_t old_size, std::size_t new_size) noexcept {
  const std::size_t old_rounded = rounded(old_size);
  const std::size_t size = rounded(new_size);
  if (size == 0) return Status::kInvalid;
  if (size <= quantum_cache_max_ || old_rounded <= quantum_cache_max_) {
    return size == old_rounded ? Status::kOk : Status::kNoMemory;
  }
  Status status = Status::kNoMemory;
  std::size_t former = old_rounded;
  for (bool again = false;; again = true) {
    if (blocks_ != nullptr) {
      status = resize_block(start, old_size, new_size, former);
      break;
    }
    {
      const LockGuard guard(lock_);
      if (reserve_tags_locked(1)) status = resize_locked(start, old_rounded, size);
    }
    if (status != Status::kNoMemory || again || size < old_rounded || !grow_span(start, size - old_rounded)) break;
  }
  if (status == Status::kOk && traced()) {
    const hal::InterruptGuard masked;
    // acquire: as in taken().
    const std::uint32_t word = state_.load(std::memory_order_acquire);
    if ((word & trace_state::kHearsFree) != 0 && observer() != nullptr)
      observer()->resized(*this, start, new_size, former);
  }
  return status;
}

// ---- for an arena of blocks over this one ---------------------------------------------------------------------------

/// Extends the segment at @p start by @p more in place, unless @p start is 0. If there is no room, allocates @p size at
/// the start of a free segment, unless @p size is 0. Both are whole quanta.
/// @param[out] spare unless null, a tag for the span of the segment that was allocated.
/// @returns the start of the segment; 0 if neither can be done.
std::uintptr_t Arena::extend_or_take(std::uintptr_t start, std::size_t more, std::size_t size,
                                     BoundaryTag** spare) noexcept {
  const LockGuard guard(lock_);
  if (!fault::may_acquire(fault::Resource::kSegment, this)) return 0;
  if (start != 0) {
    const BoundaryTag* const tag = find_allocated_locked(start);
    if (tag->next->kind == TagKind::kFree && tag->next->size >= more)
      return resize_locked(start, tag->size, tag->size + more) == Status::kOk ? start : 0;
  }
  if (size == 0 || !reserve_tags_locked(spare != nullptr ? 2 : 1)) return 0;
  BoundaryTag* const segment = sizes_.find(size, Fit::kInstant);
  if (segment == nullptr) return 0;
  if (spare != nullptr) *spare = take_spare_locked();
  const std::uintptr_t place = segment->start;
  carve_locked({segment, place, size}, {.size = size});
  return place;
}

/// Frees [low, high), whole quanta inside the segment at @p start, which becomes two segments. @returns false, with
/// nothing changed, if no tags are available.
bool Arena::free_within(std::uintptr_t start, std::uintptr_t low, std::uintptr_t high) noexcept {
  const LockGuard guard(lock_);
  if (!reserve_tags_locked(kSplitTags)) return false;
  BoundaryTag* const tag = find_allocated_locked(start);
  if (tag == nullptr || low <= start || high >= tag->end()) return false;
  BoundaryTag* const above = take_spare_locked();
  above->start = high;
  above->size = tag->end() - high;
  link_after(above, tag);
  counts_.allocated -= tag->size;
  tag->size = low - start;
  count_allocated_locked(tag->size);
  enter_allocated_locked(above, {.size = above->size});
  allocated_.insert(above);
  add_free_locked(tag, low, high - low);
  return true;
}

/// Extends the segment at @p start over the free segment behind it, and then over the segment at @p above if that
/// follows. The caller may hold the lock of the importing arena, because this arena is the root. @returns its size.
std::size_t Arena::join_behind(std::uintptr_t start, std::uintptr_t above) noexcept {
  const LockGuard guard(lock_);
  BoundaryTag* const tag = find_allocated_locked(start);
  if (BoundaryTag* const right = tag->next; right->kind == TagKind::kFree) {
    count_allocated_locked(right->size);
    tag->size += right->size;
    remove_free_locked(right);
    drop_locked(right);
  }
  if (BoundaryTag* const right = tag->next; right->kind == TagKind::kAllocated && right->start == above) {
    AllocatedIndex::remove(allocated_.place_of(above));
    ++counts_.frees_ever;
    tag->size += right->size;
    drop_locked(right);
  }
  return tag->size;
}

}  // namespace qm
