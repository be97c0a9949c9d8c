// Arena: allocation without constraints, free, resize.

#include <qm/arena.hpp>

#include <qm/exhaustion.hpp>
#include <qm/fault.hpp>
#include <qm/observer.hpp>

#include "arena_request.hpp"

namespace qm {

// ---- what allocate() and free() do in one hold of the lock ----------------------------------------------------------------

/// Takes the first @p size of a free segment. @returns its start.
inline std::uintptr_t Arena::take_front_locked(BoundaryTag* segment, std::size_t size, const CallSite* site) noexcept {
  const std::uintptr_t start = segment->start;
  const std::size_t rest = segment->size - size;
  BoundaryTag* const before = segment->prev;  // a segment has a predecessor: its span at least
  if (before == empty_span_) empty_span_ = nullptr;
  BoundaryTag* tag = segment;
  if (rest == 0) {
    remove_free_locked(segment);
  } else {
    tag = take_spare_locked();
    tag->start = start;
    tag->size = size;
    tag->prev = before;
    tag->next = segment;
    before->next = tag;
    segment->prev = tag;
    set_size_locked(segment, start + size, rest);
  }
  enter_allocated_locked(tag, SegmentOwner::kUser, site);
  return start;
}

/// Merges what was allocated with its free neighbours. @returns the free segment.
inline BoundaryTag* Arena::merge_locked(BoundaryTag* tag) noexcept {
  BoundaryTag* const left = tag->prev;
  BoundaryTag* const right = tag->next != nullptr && tag->next->kind == TagKind::kFree ? tag->next : nullptr;
  if (left->kind == TagKind::kFree) {
    std::size_t size = left->size + tag->size;
    if (right != nullptr) {
      size += right->size;
      remove_free_locked(right);
      drop_locked(right);
    }
    drop_locked(tag);
    set_size_locked(left, left->start, size);
    return left;
  }
  if (right == nullptr) {
    insert_free_locked(tag);
    return tag;
  }
  const std::uintptr_t start = tag->start;
  const std::size_t size = tag->size + right->size;
  drop_locked(tag);
  set_size_locked(right, start, size);
  return right;
}

// ---- allocation ------------------------------------------------------------------------------------------------------

std::uintptr_t Arena::allocate(std::size_t size, Fit fit, const CallSite* site, Effort effort) noexcept {
  const std::size_t rounded = round_up(size, quantum_);
  Lack lack = Lack::kUnknown;
  if (rounded - 1 < quantum_cache_max_) {
    const std::uintptr_t start = quantum_caches::allocate(*this, rounded, site);
    if (start != 0) [[likely]] return start;
    lack = Lack::kAll;
  } else if (rounded != 0 && fit != Fit::kNext && !fault::tested()) {
    std::uintptr_t start = 0;
    {
      const LockGuard guard(lock_);
      lack = Lack::kTags;
      if (spares_ != nullptr || reserve_tags_locked(1)) {
        lack = Lack::kSegment;
        BoundaryTag* const segment = find_locked(rounded, fit);
        if (segment != nullptr) [[likely]] start = take_front_locked(segment, rounded, site);
      }
    }
    if (start != 0) [[likely]] {
      if (traced()) observer()->taken(*this, start, size, site, effort);
      return start;
    }
  }
  return allocate_slow(size, fit, site, effort, lack);
}

/// What is left when the first look found nothing.
std::uintptr_t Arena::allocate_slow(std::size_t size, Fit fit, const CallSite* site, Effort effort, Lack lack) noexcept {
  const std::uintptr_t start = lack != Lack::kAll ? try_allocate(size, fit, site, lack, effort) : 0;
  if (start != 0) return start;
  auto attempt = [&]() noexcept { return try_allocate(size, fit, site, Lack::kUnknown, effort); };
  return pursue(size, effort, exhaustion::attempt_of(attempt), &attempt);
}

/// An allocation that has found nothing: what its effort allows. Counts the failure unless an attempt gets something.
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

/// What the arena and its source have.
std::uintptr_t Arena::try_allocate(std::size_t size, Fit fit, const CallSite* site, Lack lack, Effort effort) noexcept {
  const std::size_t rounded = round_up(size, quantum_);
  if (rounded - 1 < quantum_cache_max_) return quantum_caches::allocate(*this, rounded, site);
  const std::uintptr_t start = take(rounded, fit, SegmentOwner::kUser, site, lack);
  if (start != 0 && traced()) observer()->taken(*this, start, size, site, effort);
  return start;
}

std::uintptr_t Arena::allocate_slab(std::size_t size) noexcept {
  // A failure is the cache's.
  return take(round_up(size, quantum_), Fit::kInstant, SegmentOwner::kQuantumCache, nullptr, Lack::kUnknown);
}

std::uintptr_t Arena::take(std::size_t size, Fit fit, SegmentOwner owner, const CallSite* site, Lack lack) noexcept {
  if (size == 0 || !fault::may_acquire(fault::Resource::kSegment)) return 0;
  // Next fit may begin inside a free segment, the others take the beginning of one.
  const bool is_next = fit == Fit::kNext;
  if (is_next) index_addresses();
  for (unsigned attempt = 0; lack != Lack::kSegment && attempt < kTagAttempts; ++attempt) {
    if (lack == Lack::kTags && !boundary_tags_refill()) return 0;
    lack = Lack::kTags;
    const LockGuard guard(lock_);
    if (!reserve_tags_locked(is_next ? kSplitTags : 1)) continue;
    Place place{nullptr, 0, size};
    if (is_next) {
      place = find_next_locked(size);
    } else if (BoundaryTag* segment = find_locked(size, fit); segment != nullptr) {
      place = {segment, segment->start, size};
    }
    if (place.segment != nullptr) {
      carve_locked(place, owner, site);
      return place.start;
    }
    lack = Lack::kSegment;
  }
  if (source_ == nullptr || lack != Lack::kSegment) return 0;
  Request request;
  request.size = size;
  request.fit = fit;
  request.owner = owner;
  request.site = site;
  request.step = quantum_;
  return import_and_carve(request).start;
}

/// Moves the place where next fit goes on: what is found is carved.
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

// ---- free ------------------------------------------------------------------------------------------------------------

Status Arena::free(std::uintptr_t start, std::size_t size) noexcept {
  const std::size_t rounded = round_up(size, quantum_);
  if (rounded - 1 < quantum_cache_max_) return quantum_caches::free(*this, start, rounded);
  return free_segment(start, rounded != kAnySize ? rounded : 0, SegmentOwner::kUser);
}

Status Arena::free(std::uintptr_t start) noexcept { return free_segment(start, kAnySize, SegmentOwner::kUser); }

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
    slab_segments_ -= owner == SegmentOwner::kQuantumCache;
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

Status Arena::resize_in_place(std::uintptr_t start, std::size_t old_size, std::size_t new_size) noexcept {
  const std::size_t old_rounded = round_up(old_size, quantum_);
  const std::size_t size = round_up(new_size, quantum_);
  if (size == 0) return Status::kInvalid;
  if (size <= quantum_cache_max_ || old_rounded <= quantum_cache_max_) {
    return size == old_rounded ? Status::kOk : Status::kNoMemory;
  }
  const Status status = resize_segment(start, old_rounded, size);
  if (status == Status::kOk && traced()) {
    const hal::InterruptGuard masked;
    // acquire: as in record().
    const std::uint32_t word = state_.load(std::memory_order_acquire);
    if ((word & trace_state::kHearsFree) != 0 && observer() != nullptr) observer()->resized(*this, start, new_size, old_rounded);
  }
  return status;
}

Status Arena::resize_segment(std::uintptr_t start, std::size_t old_size, std::size_t size) noexcept {
  for (unsigned attempt = 0; attempt < kTagAttempts; ++attempt) {
    {
      const LockGuard guard(lock_);
      if (reserve_tags_locked(1)) return resize_locked(start, old_size, size);
    }
    if (!boundary_tags_refill()) break;
  }
  return Status::kNoMemory;
}

}  // namespace qm
