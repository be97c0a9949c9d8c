// Arena: allocation without constraints, free, resize.

#include <qm/arena.hpp>

#include <qm/exhaustion.hpp>
#include <qm/fault.hpp>
#include <qm/observer.hpp>

#include "arena_request.hpp"

namespace qm {

/// carve_locked() of the first @p size, for allocate_as() alone: most allocations are this. @returns the start.
inline std::uintptr_t Arena::take_front_locked(BoundaryTag* segment, std::size_t size, SegmentOwner owner,
                                               const CallSite* site) noexcept {
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
  enter_allocated_locked(tag, owner, site);
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

// ---- allocation -----------------------------------------------------------------------------------------------------

std::uintptr_t Arena::allocate_as(Asker asker, std::size_t size, Fit fit, const CallSite* site,
                                  Effort effort) noexcept {
  const std::size_t rounded = round_up(size, quantum_);
  if (rounded - 1 < quantum_cache_max_ && asker != Asker::kQuantumCache)
    return quantum_caches_->allocate(*this, rounded, site, effort);
  const SegmentOwner owner = asker == Asker::kQuantumCache ? SegmentOwner::kQuantumCache : SegmentOwner::kUser;
  std::uintptr_t start = 0;
  if (rounded != 0 && fault::may_acquire(fault::Resource::kSegment)) {
    bool imports = false;
    {
      const LockGuard guard(lock_);
      if (reserve_tags_locked(1)) {
        BoundaryTag* const segment = find_locked(rounded, fit);
        if (segment != nullptr) [[likely]] {
          start = take_front_locked(segment, rounded, owner, site);
        } else {
          imports = source_ != nullptr;
        }
      }
    }
    if (imports) start = import({rounded, fit, owner, site});
  }
  if (start == 0) return asker == Asker::kUser ? allocate_slow(size, fit, site, effort) : 0;
  if (traced() && asker != Asker::kQuantumCache) observer()->taken(*this, start, size, site, effort);
  return start;
}

/// What neither the arena nor its source has.
std::uintptr_t Arena::allocate_slow(std::size_t size, Fit fit, const CallSite* site, Effort effort) noexcept {
  auto attempt = [=, this]() noexcept { return allocate_as(Asker::kPursuit, size, fit, site, effort); };
  return pursue(size, effort, exhaustion::attempt_of(attempt), &attempt);
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
  return allocate_as(Asker::kQuantumCache, size, Fit::kInstant, nullptr, Effort::kQuiet);
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
  Status status = Status::kNoMemory;
  for (bool again = false;; again = true) {
    {
      const LockGuard guard(lock_);
      if (reserve_tags_locked(1)) status = resize_locked(start, old_rounded, size);
    }
    if (status != Status::kNoMemory || again || size < old_rounded || !grow_span(start, size - old_rounded)) break;
  }
  if (status == Status::kOk && traced()) {
    const hal::InterruptGuard masked;
    // acquire: as in record().
    const std::uint32_t word = state_.load(std::memory_order_acquire);
    if ((word & trace_state::kHearsFree) != 0 && observer() != nullptr)
      observer()->resized(*this, start, new_size, old_rounded);
  }
  return status;
}

}  // namespace qm
