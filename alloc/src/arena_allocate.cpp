// Arena: allocation at multiples of the quantum or of an alignment, and free.

#include <qm/arena.hpp>

#include <qm/exhaustion.hpp>
#include <qm/fault.hpp>
#include <qm/observer.hpp>

#include "arena_request.hpp"

namespace qm {

/// Merges what was allocated with its free neighbours. @returns the free segment.
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
    // The larger one stays: so it does in the size index, mostly.
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

/// What is mostly there: of a small size, or below a large one that stays where it is in the size index. It calls
/// nothing but at its end, so an allocation saves few registers.
/// @returns false, and nothing has changed, where it is not so.
QM_ARENA_INLINE bool Arena::take_simple_locked(const Request& request, std::size_t size,
                                               std::uintptr_t& start) noexcept {
  const std::size_t wanted = size + request.slack(quantum_);
  if (wanted < size || addresses_ != nullptr) return false;
  std::uintptr_t low = 0;
  std::size_t gap = 0;
  std::size_t rest = 0;
  const auto fits = [&](const BoundaryTag& segment) noexcept __attribute__((always_inline)) {
    low = segment.start;
    rest = segment.size - size;
    if (const Alignment* const alignment = request.alignment; alignment != nullptr) {
      gap = (alignment->phase - low) & (alignment->align - 1);
      if ((low + gap) % quantum_ != 0 || gap > rest) return false;
      rest -= gap;
    }
    start = low + gap;
    return true;
  };
  const auto enter = [&](BoundaryTag* tag) noexcept __attribute__((always_inline)) {
    tag->start = start;
    tag->size = size;
    enter_allocated_locked(tag, request);
    allocated_.insert(tag);
  };
  const auto split = [&](BoundaryTag* segment) noexcept __attribute__((always_inline)) {
    segment->start = start + size;
    BoundaryTag* const tag = take_spare_locked();
    link_after(tag, segment->prev);
    return tag;
  };
  std::size_t at = 0;
  BoundaryTag* segment = sizes_.find_exact(wanted, at);
  if (segment == nullptr) {
    segment = request.fit == Fit::kInstant ? sizes_.find_root(wanted, at) : nullptr;
    if (segment == nullptr || !fits(*segment)) return false;
    if (!sizes_.root_stays(segment, rest, at)) {
      if (gap != 0 || rest == 0) {
        carve_locked(segment, start, size, request);
      } else {
        if (segment->prev == empty_span_) empty_span_ = nullptr;
        enter(split(segment));
        sizes_.resize(segment, rest);
      }
      return true;
    }
    BoundaryTag* const before = segment->prev;
    if (before == empty_span_) empty_span_ = nullptr;
    segment->size = rest;
    enter(split(segment));
    if (gap != 0) add_free_locked(before, low, gap);
    return true;
  }
  if (!fits(*segment) || gap != 0) return false;
  if (segment->prev == empty_span_) empty_span_ = nullptr;
  sizes_.remove_exact(segment, at);
  if (rest == 0) {
    --counts_.segments_free;
    enter(segment);
  } else {
    segment->size = rest;
    enter(split(segment));
    sizes_.insert_exact(segment);
  }
  return true;
}

/// @returns 0 if it does not fit in the segment that is looked at.
[[gnu::noinline]] std::uintptr_t Arena::take_locked(const Request& request, std::size_t size) noexcept {
  const std::size_t slack = request.slack(quantum_);
  if (size + slack < size) return 0;  // more than a word
  BoundaryTag* segment = sizes_.find(size + slack, request.fit);
  if (segment == nullptr && slack != 0) segment = sizes_.find(size, Fit::kBest);
  if (segment == nullptr) return 0;
  const std::uintptr_t start = request.start_in(*segment, size, quantum_);
  if (start != 0) carve_locked({segment, start, size}, request);
  return start;
}

/// Of what the arena has. @returns 0 if it does not fit in the segment that is looked at, or no tags are to be had.
QM_ARENA_INLINE std::uintptr_t Arena::take(const Request& request, std::size_t size) noexcept {
  const LockGuard guard(lock_);
  if (spare_count_ < kSplitTags) [[unlikely]] {
    if (!reserve_tags_locked(request.slack(quantum_) == 0 ? 1 : kSplitTags)) return 0;
  }
  std::uintptr_t start = 0;
  if (!kForSize && take_simple_locked(request, size, start)) [[likely]]
    return start;
  return take_locked(request, size);
}

std::uintptr_t Arena::allocate_as(const Request& request) noexcept {
  std::size_t size = request.size;
  if (size % quantum_ != 0) [[unlikely]]
    size = round_up(size, quantum_);
  if (size - 1 < quantum_cache_max_ && request.owner == SegmentOwner::kUser && request.alignment == nullptr)
    return quantum_caches_->allocate(*this, size, request.site, request.effort);
  std::uintptr_t start = 0;
  if (size != 0 && fault::may_acquire(fault::Resource::kSegment)) [[likely]] {
    start = take(request, size);
    if (start == 0) [[unlikely]]
      start = import(request, round_up(request.size, quantum_));
  }
  if (start == 0) [[unlikely]]
    return request.pursued ? 0 : allocate_slow(request);
  if (traced() && request.owner == SegmentOwner::kUser) [[unlikely]]
    observer()->taken(*this, start, request.size, request.site, request.effort);
  return start;
}

/// What neither the arena nor its source has.
std::uintptr_t Arena::allocate_slow(const Request& request) noexcept {
  Request again = request;
  again.pursued = true;
  auto attempt = [&]() noexcept { return allocate_as(again); };
  return pursue(request.size, request.effort, exhaustion::attempt_of(attempt), &attempt);
}

std::uintptr_t Arena::pursue(std::size_t size, Effort effort, Attempt attempt, void* argument) noexcept {
  std::uintptr_t start = 0;
  if (kind_of(effort) != Effort::kQuiet && may_ever_have(size)) {
    // Idle memory lies in what draws from this arena, in its quantum caches, and in what else draws from its source.
    const bool drains = source_ != nullptr || quantum_cache_max_ != 0 || has_importers();
    start = exhaustion::pursue({*this, *this, true, false, drains, size, effort}, attempt, argument);
  }
  if (start == 0) count_failure();
  return start;
}

std::uintptr_t Arena::allocate_slab(std::size_t size) noexcept {
  return allocate_as({.size = size, .owner = SegmentOwner::kQuantumCache, .pursued = true});
}

// ---- free -----------------------------------------------------------------------------------------------------------

Status Arena::free(std::uintptr_t start, std::size_t size) noexcept {
  const std::size_t rounded = round_up(size, quantum_);
  if (rounded - 1 < quantum_cache_max_) {
    quantum_caches_->free(*this, start, rounded);
    return Status::kOk;
  }
  return free_segment(start, rounded != kAnySize ? rounded : 0, SegmentOwner::kUser);
}

Status Arena::free(std::uintptr_t start) noexcept { return free_segment(start, kAnySize, SegmentOwner::kUser); }

Status Arena::free_constrained(std::uintptr_t start, std::size_t size) noexcept {
  return free_segment(start, round_up(size, quantum_), SegmentOwner::kUser);
}

Status Arena::free_slab(std::uintptr_t start, std::size_t size) noexcept {
  return free_segment(start, round_up(size, quantum_), SegmentOwner::kQuantumCache);
}

Status Arena::free_segment(std::uintptr_t start, std::size_t size, SegmentOwner owner) noexcept {
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
  if (exhaustion::scarce()) exhaustion::note_free();
  return Status::kOk;
}

}  // namespace qm
