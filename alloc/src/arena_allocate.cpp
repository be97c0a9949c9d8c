// Arena: allocation without constraints, import, free, resize.

#include <qm/arena.hpp>

#include <qm/observer.hpp>

#include "allocated_index.hpp"
#include "arena_request.hpp"

namespace qm {
namespace {

// Import
//
//     import_and_carve()       twice at most: the second time after the empty span went back
//       import_once()
//         import_exactly()       constraints handed on to the source
//         import_span()          more than is asked for, so that it fits wherever the span begins
//         carve_from_import()    enter the span and take the request from it, in one hold of the lock
//
// The source is asked a fixed number of times, then the allocation fails.

std::size_t greatest_common_divisor(std::size_t a, std::size_t b) noexcept {
  while (b != 0) {
    const std::size_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

}  // namespace

std::uintptr_t Arena::allocate(std::size_t size, Fit fit, const CallSite* site) noexcept {
  const std::size_t rounded = round_up(size, quantum_);
  if (rounded == 0) {
    count_failure();
    return 0;
  }
  if (rounded <= quantum_cache_max_) return quantum_caches::allocate(*this, rounded, site);
  Request request;
  request.size = rounded;
  request.fit = fit;
  request.site = site;
  request.step = quantum_;
  const std::uintptr_t start = allocate_segment(request);
  if (start != 0 && trace_state_.load(std::memory_order_relaxed) != 0) record(start, size, site);
  return start;
}

std::uintptr_t Arena::allocate_segment(const Request& request) noexcept {
  {
    const LockGuard guard(lock_);
    if (spare_count_ >= request.tags() || reserve_tags_locked(request.tags())) {
      if (const Place place = find_locked(request); place.segment != nullptr) return carve_locked(place, request);
      if (source_ == nullptr) {
        ++counts_.failures;
        return 0;
      }
    }
  }
  return allocate_slow(request);
}

/// What is left when the first look found no room or no tags.
std::uintptr_t Arena::allocate_slow(const Request& request) noexcept {
  for (unsigned attempt = 0; attempt < kTagAttempts; ++attempt) {
    bool has_tags = false;
    {
      const LockGuard guard(lock_);
      has_tags = reserve_tags_locked(request.tags());
      if (has_tags) {
        if (const Place place = find_locked(request); place.segment != nullptr) return carve_locked(place, request);
      }
    }
    if (has_tags) return import_and_carve(request);
    if (!boundary_tags_refill()) break;
  }
  count_failure();
  return 0;
}

Arena::Place Arena::find_locked(const Request& request) noexcept {
  if (request.fit == Fit::kNext) return find_next_locked(request);
  BoundaryTag* segment = request.fit == Fit::kInstant ? sizes_.instant(request.size) : nullptr;
  if (segment == nullptr) segment = sizes_.best(request.size);
  return segment == nullptr ? Place{} : Place{segment, segment->start};
}

Arena::Place Arena::find_next_locked(const Request& request) noexcept {
  BoundaryTag* below = free_.floor(next_fit_);
  if (below != nullptr && below->end() > next_fit_ && below->end() - next_fit_ >= request.size) {
    return {below, next_fit_};
  }
  BoundaryTag* segment = free_.first_fit(next_fit_, request.size);
  if (segment == nullptr) segment = free_.first_fit(0, request.size);
  return segment == nullptr ? Place{} : Place{segment, segment->start};
}

// ---- import ----------------------------------------------------------------------------------------------------------

/// How much to import so that the request fits wherever the source's quantum lets the span begin. 0: more than a word.
/// @param[in] padding 0: as little as does; 1: also where starts are no multiples of the source's quantum; 2: also between
///                    two boundaries that must not be crossed.
std::size_t Arena::import_size(const Request& request, unsigned padding) const noexcept {
  const std::size_t grain = padding == 0 ? greatest_common_divisor(request.step, source_->quantum_) : 1;
  const std::size_t slack = request.step - grain;
  std::size_t size = 0;
  if (request.step == 0 || __builtin_add_overflow(request.size, slack, &size)) return 0;
  if (padding == 2 && __builtin_mul_overflow(size, std::size_t{2}, &size)) return 0;
  return round_up(size, source_->quantum_);
}

Arena::SpanRange Arena::import_span(const Request& request, std::size_t size) noexcept {
  SpanRange range{0, size, import_ == nullptr || release_ != nullptr, false};
  const Fit fit = request.fit == Fit::kNext ? Fit::kInstant : request.fit;  // the order is this arena's affair
  if (import_ != nullptr) {
    range.start = import_(*source_, size, fit);
  } else if (request.bounded()) {
    Constraint bounds;
    bounds.min = request.min;
    bounds.max = request.max == UINTPTR_MAX ? 0 : request.max;
    range.constrained = true;
    range.start = source_->allocate_constrained(size, bounds, fit);
  } else {
    range.start = source_->allocate(size, fit);
  }
  return range;
}

void Arena::release_span(const SpanRange& range) noexcept {
  if (release_ != nullptr) {
    release_(*source_, range.start, range.size);
  } else if (range.constrained) {
    source_->free_constrained(range.start, range.size);
  } else {
    source_->free(range.start, range.size);
  }
}

/// Asks the source for a span that begins where the request may: nothing is imported in excess.
Arena::SpanRange Arena::import_exactly(const Request& request) noexcept {
  SpanRange range{0, round_up(request.size, source_->quantum_), true, true};
  if (import_ != nullptr || !request.constrained || !is_power_of_two(request.step) || range.size == 0) return range;
  Constraint constraint;
  constraint.align = request.step;
  constraint.phase = request.residue & (request.step - 1);
  constraint.nocross = request.nocross;
  constraint.min = request.min;
  // The span may end behind the bound, by less than a quantum of the source.
  constraint.max = request.max == UINTPTR_MAX ? 0 : round_up(request.max, source_->quantum_);
  range.start = source_->allocate_constrained(range.size, constraint);
  return range;
}

std::uintptr_t Arena::import_and_carve(const Request& request) noexcept {
  std::uintptr_t start = import_once(request);
  // The empty span that waits here may be what the source lacks.
  if (start == 0 && reap() != 0) start = import_once(request);
  if (start == 0) count_failure();
  return start;
}

std::uintptr_t Arena::import_once(const Request& request) noexcept {
  if (const SpanRange range = import_exactly(request); range.start != 0) {
    if (const std::uintptr_t start = carve_from_import(request, range); start != 0) return start;
    release_span(range);
  }
  const unsigned paddings = request.nocross != 0 ? 3 : 2;
  std::size_t tried = 0;
  for (unsigned padding = 0; padding < paddings; ++padding) {
    const std::size_t least = import_size(request, padding);
    if (least == 0) break;
    if (least == tried) continue;  // would give the same
    tried = least;
    SpanRange range;
    if (const std::size_t wanted = round_up(minimum_import_, source_->quantum_); wanted > least) {
      range = import_span(request, wanted);
    }
    if (range.start == 0) range = import_span(request, least);
    if (range.start == 0) break;
    if (const std::uintptr_t start = carve_from_import(request, range); start != 0) return start;
    if (range.imported) release_span(range);
  }
  return 0;
}

/// Enters the span and takes the request from it in one hold of the lock, so that nobody else can. @returns 0 if it cannot
/// be entered, or the request does not fit in it: then the span is not entered.
std::uintptr_t Arena::carve_from_import(const Request& request, const SpanRange& range) noexcept {
  for (unsigned attempt = 0; attempt < kTagAttempts; ++attempt) {
    {
      const LockGuard guard(lock_);
      if (reserve_tags_locked(kImportTags)) {
        Status status = Status::kOk;
        BoundaryTag* segment = insert_span_locked(range, status);
        if (segment == nullptr) return 0;
        const Place place = place_in_segment(request, segment);
        if (place.segment != nullptr) return carve_locked(place, request);
        remove_span_locked(segment->prev);
        return 0;
      }
    }
    if (!boundary_tags_refill()) break;
  }
  return 0;
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
  if (owner == SegmentOwner::kUser && trace_state_.load(std::memory_order_relaxed) != 0 && size_of(start) == size) {
    forget(start);
  }
  SpanRange range;
  {
    const LockGuard guard(lock_);
    BoundaryTag* tag = allocated_.find(start);
    if (tag == nullptr || tag->owner != owner || tag->size != size) {
      ++counts_.bad_frees;
      return tag == nullptr || tag->owner != owner ? Status::kNotFound : Status::kMismatch;
    }
    allocated_.remove(tag);
    --counts_.segments_allocated;
    ++counts_.frees_ever;
    slab_segments_ -= owner == SegmentOwner::kQuantumCache;
    counts_.allocated -= size;
    BoundaryTag* former = retire_span_locked(merge_locked(tag));
    if (former == nullptr) return Status::kOk;
    range = remove_span_locked(former);
  }
  release_span(range);
  return Status::kOk;
}

Status Arena::resize_in_place(std::uintptr_t start, std::size_t old_size, std::size_t new_size) noexcept {
  const std::size_t old_rounded = round_up(old_size, quantum_);
  const std::size_t size = round_up(new_size, quantum_);
  if (size == 0) return Status::kInvalid;
  if (size <= quantum_cache_max_ || old_rounded <= quantum_cache_max_) {
    return size == old_rounded ? Status::kOk : Status::kNoMemory;
  }
  for (unsigned attempt = 0; attempt < kTagAttempts; ++attempt) {
    {
      const LockGuard guard(lock_);
      if (reserve_tags_locked(1)) return resize_locked(start, old_rounded, size);
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
  Observer* const books = observer();
  if (books == nullptr) return;
  const Allocation allocation{nullptr, this, requested, site, reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0))};
  auto* const object = reinterpret_cast<void*>(start);
  Observer::Prepared prepared;
  for (bool done = false; !done;) {
    {
      const hal::InterruptGuard masked;
      // acquire: pairs with the release of the command that changed the word.
      const bool recording = (trace_state_.load(std::memory_order_acquire) & trace_state::kRecord) != 0;
      done = !recording || (prepared.ready && books->record(allocation, object, prepared));
    }
    if (!done) books->prepare(allocation, object, prepared);
  }
  if (prepared.ready) books->release(prepared);
}

/// Removes the record of a segment that is about to be freed.
void Arena::forget(std::uintptr_t start) noexcept {
  const hal::InterruptGuard masked;
  // acquire: as in record().
  if ((trace_state_.load(std::memory_order_acquire) & trace_state::kWatch) != 0 && observer() != nullptr) {
    observer()->forget(*this, start);
  }
}

}  // namespace qm
