// Arena: allocation without constraints, free, resize.

#include <qm/arena.hpp>

#include <qm/fault.hpp>
#include <qm/observer.hpp>

#include "allocated_index.hpp"
#include "arena_pursue.hpp"
#include "arena_request.hpp"

namespace qm {
namespace {

/// Next fit may begin inside a free segment, the others take the beginning of one.
constexpr unsigned split_tags(Fit fit) noexcept { return fit == Fit::kNext ? kSplitTags : 1; }

}  // namespace

std::uintptr_t Arena::allocate(std::size_t size, Fit fit, const CallSite* site, Effort effort) noexcept {
  const std::uintptr_t start = try_allocate(size, fit, site);
  if (start != 0) return start;
  return pursue(size, effort, [&]() noexcept { return try_allocate(size, fit, site); });
}

/// What the arena and its source have.
std::uintptr_t Arena::try_allocate(std::size_t size, Fit fit, const CallSite* site) noexcept {
  const std::size_t rounded = round_up(size, quantum_);
  if (rounded == 0) return 0;
  if (rounded <= quantum_cache_max_) return quantum_caches::allocate(*this, rounded, site);
  if (!fault::may_acquire(fault::Resource::kSegment)) return 0;
  std::uintptr_t start = allocate_present(rounded, fit, site);
  if (start == 0) start = allocate_slow(rounded, fit, site);
  if (start != 0 && traced()) record(start, size, site);
  return start;
}

/// From what the arena has, with the tags at hand or in the pool.
std::uintptr_t Arena::allocate_present(std::size_t size, Fit fit, const CallSite* site) noexcept {
  const LockGuard guard(lock_);
  if (spare_count_ < split_tags(fit) && !reserve_tags_locked(split_tags(fit))) return 0;
  const Place place = find_locked(size, fit);
  if (place.segment == nullptr) return 0;
  carve_locked(place, SegmentOwner::kUser, site);
  return place.start;
}

/// What is left when the first look found no room or no tags.
std::uintptr_t Arena::allocate_slow(std::size_t size, Fit fit, const CallSite* site) noexcept {
  bool has_tags = false;
  for (unsigned attempt = 0; attempt < kTagAttempts && !has_tags; ++attempt) {
    {
      const LockGuard guard(lock_);
      has_tags = reserve_tags_locked(split_tags(fit));
      if (has_tags) {
        const Place place = find_locked(size, fit);
        if (place.segment != nullptr) {
          carve_locked(place, SegmentOwner::kUser, site);
          return place.start;
        }
      }
    }
    if (!has_tags && !boundary_tags_refill()) break;
  }
  if (has_tags && source_ != nullptr) {
    Request request;
    request.size = size;
    request.fit = fit;
    request.site = site;
    request.step = quantum_;
    return import_and_carve(request).start;
  }
  return 0;
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
  if (rounded != 0 && rounded <= quantum_cache_max_) return quantum_caches::free(*this, start, rounded);
  return free_segment(start, rounded, SegmentOwner::kUser);
}

Status Arena::free(std::uintptr_t start) noexcept {
  const std::size_t size = size_of(start);
  return free_segment(start, size, SegmentOwner::kUser);
}

Status Arena::free_slab(std::uintptr_t start, std::size_t size) noexcept {
  return free_segment(start, round_up(size, quantum_), SegmentOwner::kQuantumCache);
}

Status Arena::free_segment(std::uintptr_t start, std::size_t size, SegmentOwner owner) noexcept {
  if (owner == SegmentOwner::kUser && traced()) forget(start, size);
  SpanRange range;
  {
    const LockGuard guard(lock_);
    BoundaryTag* tag = allocated_.find(start);
    if (tag == nullptr || tag->owner != owner || tag->size != size) {
      ++counts_.bad_frees;
      return tag == nullptr || tag->owner != owner ? Status::kNotFound : Status::kMismatch;
    }
    allocated_.remove(tag);
    ++counts_.frees_ever;
    slab_segments_ -= owner == SegmentOwner::kQuantumCache;
    counts_.allocated -= size;
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
    if ((word & trace_state::kWatch) != 0 && observer() != nullptr) observer()->resized(*this, start, new_size);
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

Status Arena::resize_locked(std::uintptr_t start, std::size_t old_size, std::size_t size) noexcept {
  BoundaryTag* tag = allocated_.find(start);
  if (tag == nullptr || tag->owner != SegmentOwner::kUser) return Status::kNotFound;
  if (tag->size != old_size) return Status::kMismatch;
  BoundaryTag* right = tag->next != nullptr && tag->next->kind == TagKind::kFree ? tag->next : nullptr;
  if (size > old_size) {
    const std::size_t more = size - old_size;
    if (right == nullptr || right->size < more) return Status::kNoMemory;
    if (right->size == more) {
      remove_free_locked(right);
      unlink_locked(right);
      give_spare_locked(right);
    } else {
      set_size_locked(right, right->start + more, right->size - more);
    }
    tag->size = size;
    count_allocated_locked(more);
  } else if (size < old_size) {
    const std::size_t less = old_size - size;
    tag->size = size;
    counts_.allocated -= less;
    if (right != nullptr) {
      set_size_locked(right, right->start - less, right->size + less);
    } else {
      BoundaryTag* rest = take_spare_locked();
      rest->start = tag->end();
      rest->size = less;
      link_after_locked(rest, tag);
      insert_free_locked(rest);
    }
  }
  return Status::kOk;
}

// ---- the books -------------------------------------------------------------------------------------------------------

/// Records a segment if the state word says so. The word is read again in the masked section that inserts the record.
void Arena::record(std::uintptr_t start, std::size_t requested, const CallSite* site) noexcept {
  Observer* const told = observer();
  if (told == nullptr) return;
  const Allocation allocation{nullptr, this, requested, site, reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0))};
  auto* const object = reinterpret_cast<void*>(start);
  Observer::Prepared prepared;
  for (bool done = false; !done;) {
    {
      const hal::InterruptGuard masked;
      // acquire: pairs with the release of the command that changed the word.
      const bool recording = (state_.load(std::memory_order_acquire) & trace_state::kRecord) != 0;
      done = !recording || (prepared.ready && told->record(allocation, object, prepared));
    }
    if (!done) told->prepare(allocation, object, prepared);
  }
  if (prepared.ready) told->release(prepared);
}

/// Removes the record of a segment that is about to be freed, unless the free will be refused.
void Arena::forget(std::uintptr_t start, std::size_t size) noexcept {
  {
    const LockGuard guard(lock_);
    const BoundaryTag* tag = allocated_.find(start);
    if (tag == nullptr || tag->owner != SegmentOwner::kUser || tag->size != size) return;
  }
  const hal::InterruptGuard masked;
  // acquire: as in record().
  if ((state_.load(std::memory_order_acquire) & trace_state::kWatch) != 0 && observer() != nullptr) {
    observer()->forget(*this, start);
  }
}

}  // namespace qm
