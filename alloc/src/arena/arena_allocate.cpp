// Arena: allocation at multiples of the quantum or of an alignment, and free.

#include <qm/arena.hpp>

#include <qm/exhaustion.hpp>
#include <qm/fault.hpp>
#include <qm/detail/observer.hpp>

#include "arena/arena_request.hpp"

namespace qm {

/// Merges a segment that was just freed with its free neighbours. @returns the free segment.
inline BoundaryTag* Arena::merge_locked(BoundaryTag* tag) noexcept {
  BoundaryTag* const left = tag->prev;
  BoundaryTag* const right = tag->next;
  std::uintptr_t start = tag->start;
  std::size_t size = tag->size;
  BoundaryTag* rest = nullptr;
  BoundaryTag* gone = nullptr;
  if (left->kind == TagKind::kFree) {
    start = left->start;
    size += left->size;
    rest = left;
  }
  if (right->kind == TagKind::kFree) {
    size += right->size;
    // The tag of the larger one stays: mostly its place in the size index stays, too.
    gone = rest != nullptr && rest->size > right->size ? right : rest;
    if (gone != right) rest = right;
  }
  if (gone != nullptr) {
    remove_free_locked(gone);
    drop_locked(gone);
  }
  if (rest == nullptr) {
    insert_free_locked(tag);
    return tag;
  }
  drop_locked(tag);
  set_size_locked(rest, start, size);
  return rest;
}

// ---- allocation -----------------------------------------------------------------------------------------------------

[[gnu::noinline]] void Arena::carve_locked(BoundaryTag* segment, std::uintptr_t start, std::size_t size,
                                           const Request& request) noexcept {
  carve_locked({segment, start, size}, request);
}

/// Allocates from the arena's free segments. Mostly that is one of a small size, or a part of a large one whose place
/// in the size index stays. These cases call no function except perhaps at the end, so an allocation saves few
/// registers.
/// @returns 0 if the request does not fit in the segment that was found, or no tags are available.
QM_ARENA_INLINE std::uintptr_t Arena::take(const Request& request, std::size_t size) noexcept {
  const LockGuard guard(lock_);
  std::size_t wanted = size + request.slack(quantum_);
  if (spare_count_ < kSplitTags) [[unlikely]] {
    if (!reserve_tags_locked(wanted == size ? 1 : kSplitTags)) return 0;
    wanted = size + request.slack(quantum_);  // computed again rather than kept in a register
  }
  if (wanted < size) return 0;  // it overflows a word
  std::uintptr_t start = 0;
  std::size_t gap = 0;
  std::size_t rest = 0;
  // What stays free: `rest` bytes from `low` on, below or above the allocated range, and a `gap` on its other side.
  std::uintptr_t low = 0;
  const bool from_top = from_top_;
  const auto fits = [&](const BoundaryTag& segment) __attribute__((always_inline)) {
    start = low = segment.start;
    rest = segment.size - size;
    const Alignment* const alignment = request.alignment;
    if (from_top) {
      start += rest;
      if (alignment == nullptr) return true;
      gap = (start - alignment->phase) & (alignment->align - 1);
      start -= gap;
      if (gap > rest) return false;
      rest -= gap;
      return rounded(start) == start;
    }
    if (alignment != nullptr) {
      gap = (alignment->phase - start) & (alignment->align - 1);
      start += gap;
      if (rounded(start) != start || gap > rest) return false;
      rest -= gap;
    }
    low = start + size;
    return true;
  };
  const auto enter = [&](BoundaryTag* const tag) __attribute__((always_inline)) {
    tag->start = start;
    tag->size = size;
    enter_allocated_locked(tag, request);
    allocated_.insert(tag);
  };
  const auto split = [&](BoundaryTag* const before) __attribute__((always_inline)) {
    if (before == empty_span_) empty_span_ = nullptr;
    BoundaryTag* const tag = take_spare_locked();
    link_after(tag, before);
    enter(tag);
  };
  const auto take_whole = [](Arena* const arena, BoundaryTag* const tag, const Request& of) __attribute__((noinline)) {
    arena->remove_free_locked(tag);
    arena->enter_allocated_locked(tag, of);
    arena->allocated_.insert(tag);
  };
  BoundaryTag* segment = nullptr;
  if (!kForSize && addresses_ == nullptr) [[likely]] {
    std::size_t at = 0;
    segment = sizes_.find_exact(wanted, at);
    if (segment != nullptr) {
      if (!fits(*segment)) return 0;
      if (gap != 0) {
        carve_locked(segment, start, size, request);
        return start;
      }
      sizes_.remove_exact(segment, at);
      if (rest == 0) {
        if (segment->prev == empty_span_) empty_span_ = nullptr;
        --counts_.segments_free;
        enter(segment);
      } else {
        split(from_top ? segment : segment->prev);
        segment->start = low;
        segment->size = rest;
        sizes_.insert_exact(segment);
      }
      return start;
    }
    segment = request.fit == Fit::kInstant ? sizes_.find_root(wanted, at) : nullptr;
    if (segment != nullptr) {
      if (!fits(*segment)) return 0;
      if (sizes_.root_stays(segment, rest, at)) [[likely]] {
        BoundaryTag* const before = from_top ? segment : segment->prev;
        segment->start = low;
        segment->size = rest;
        split(before);
        if (gap != 0) add_free_locked(from_top ? before->next : before, from_top ? start + size : start - gap, gap);
        return start;
      }
    }
  }
  if (segment == nullptr) {
    segment = sizes_.find(size + request.slack(quantum_), request.fit);
    if (segment == nullptr && request.slack(quantum_) != 0) segment = sizes_.find(size, Fit::kBest);
    if (segment == nullptr || !fits(*segment)) return 0;
  }
  if constexpr (kForSize) {
    carve_locked({segment, start, size}, request);
  } else if (gap != 0) {
    carve_locked(segment, start, size, request);
  } else if (rest == 0) {
    if (segment->prev == empty_span_) empty_span_ = nullptr;
    take_whole(this, segment, request);
  } else {
    split(from_top ? segment : segment->prev);
    set_size_locked(segment, low, rest);
  }
  return start;
}

/// Searches all free segments for an aligned start: take() has tried two. @returns 0 if none has one, or no tags are
/// available. Not inlined: rarely called.
[[gnu::noinline]] std::uintptr_t Arena::take_anywhere(const Request& request, std::size_t size) noexcept {
  ArenaWalk walk(*this);
  for (;;) {
    const LockGuard guard(lock_);
    if (sizes_.find(size, Fit::kBest) == nullptr || !reserve_tags_locked(kSplitTags)) return 0;
    for (unsigned step = 0; step < kConstrainedSteps; ++step) {
      BoundaryTag* const tag = walk.current_->next;
      if (tag == &ends_) return 0;
      walk.current_ = tag;
      if (tag->kind != TagKind::kFree || tag->size < size) continue;
      const std::uintptr_t start = request.start_in(*tag, size, quantum_);
      if (start == 0) continue;
      carve_locked(tag, start, size, request);
      return start;
    }
  }
}

std::uintptr_t Arena::allocate_as(const Request& request) noexcept {
  const std::size_t size = rounded(request.size);
  if (size - 1 < quantum_cache_max_ && request.owner == SegmentOwner::kUser && request.alignment == nullptr)
    return quantum_caches_->allocate(*this, size, request.site, request.wait_policy);
  std::uintptr_t start = 0;
  if (size != 0 && fault::may_acquire(fault::Resource::kSegment, this)) [[likely]] {
    start = take(request, size);
    if (start == 0) [[unlikely]] {
      if (blocks_ != nullptr) return allocate_block(request);
      start = import(request, rounded(request.size));
    }
    if (start == 0 && request.slack(quantum_) != 0) [[unlikely]]
      start = take_anywhere(request, rounded(request.size));
  }
  if (start == 0) [[unlikely]]
    return request.reclaimed ? 0 : allocate_slow(request);
  if (traced() && request.owner == SegmentOwner::kUser) [[unlikely]]
    observer()->taken(*this, start, request.size, request.site, request.wait_policy);
  return start;
}

/// Reclaims for a request that neither the arena nor its source can serve.
std::uintptr_t Arena::allocate_slow(const Request& request) noexcept {
  Request again = request;
  again.reclaimed = true;
  auto attempt = [&]() noexcept { return allocate_as(again); };
  return reclaim_and_retry(request.size, request.wait_policy, exhaustion::attempt_of(attempt), &attempt);
}

std::uintptr_t Arena::reclaim_and_retry(std::size_t size, WaitPolicy wait_policy, Attempt attempt,
                                        void* argument) noexcept {
  std::uintptr_t start = 0;
  if (kind_of(wait_policy) != WaitPolicy::kQuiet && may_ever_have(size)) {
    // Idle memory lies in the importers of this arena, in its quantum caches, and in the other importers of its source.
    const bool drains = source_ != nullptr || quantum_cache_max_ != 0 || has_importers();
    start = exhaustion::reclaim_and_retry({*this, *this, true, false, drains, size, wait_policy}, attempt, argument);
  }
  if (start == 0) count_failure();
  return start;
}

std::uintptr_t Arena::allocate_slab(std::size_t size) noexcept {
  return allocate_as({.size = size, .owner = SegmentOwner::kQuantumCache, .reclaimed = true});
}

// ---- free -----------------------------------------------------------------------------------------------------------

Status Arena::free(std::uintptr_t start, std::size_t size) noexcept {
  if (blocks_ != nullptr) [[unlikely]]
    return free_counted_block(start, size != kAnySize ? size : 0);
  const std::size_t whole = rounded(size);
  if (whole - 1 < quantum_cache_max_) return free_to_cache(start, whole);
  return free_segment(start, whole != kAnySize ? whole : 0, SegmentOwner::kUser);
}

/// A separate function, so that other frees save no registers for it.
[[gnu::noinline]] Status Arena::free_to_cache(std::uintptr_t start, std::size_t size) noexcept {
  const Status status = quantum_caches_->free(*this, start, size);
  if (status != Status::kOk) count_refused_free();
  return status;
}

/// The same for a block.
[[gnu::noinline]] Status Arena::free_counted_block(std::uintptr_t start, std::size_t size) noexcept {
  const Status status = free_block(start, size);
  if (status != Status::kOk) count_refused_free();
  return status;
}

void Arena::count_refused_free() noexcept {
  const LockGuard guard(lock_);
  ++counts_.bad_frees;
}

Status Arena::free(std::uintptr_t start) noexcept { return free_segment(start, kAnySize, SegmentOwner::kUser); }

Status Arena::free_constrained(std::uintptr_t start, std::size_t size) noexcept {
  return free_segment(start, rounded(size), SegmentOwner::kUser);
}

Status Arena::free_slab(std::uintptr_t start, std::size_t size) noexcept {
  return free_segment(start, rounded(size), SegmentOwner::kQuantumCache);
}

Status Arena::free_segment(std::uintptr_t start, std::size_t size, SegmentOwner owner) noexcept {
  if (blocks_ != nullptr) return free_counted_block(start, size);
  if (owner == SegmentOwner::kUser && traced()) observer()->going(*this, start, size);
  SpanRange range;
  {
    const LockGuard guard(lock_);
    BoundaryTag** const place = allocated_.place_of(start);
    BoundaryTag* const tag = *place;
    if (tag == nullptr || tag->owner != owner || (tag->size != size && size != kAnySize)) {
      ++counts_.bad_frees;
      return tag == nullptr || tag->owner != owner ? Status::kNotFound : Status::kMismatch;
    }
    AllocatedIndex::remove(place);
    ++counts_.frees_ever;
    if (owner == SegmentOwner::kQuantumCache) --slab_segments_;
    counts_.allocated -= tag->size;
    if constexpr (kCallSites) {
      if (charged_) call_sites::discharge(tag->site, tag->size);
    }
    BoundaryTag* former = retire_span_locked(merge_locked(tag));
    if (former != nullptr) range = remove_span_locked(former);
  }
  if (range.size != 0) release_span(range);
  if (exhaustion::under_pressure()) exhaustion::note_free();
  return Status::kOk;
}

}  // namespace qm
