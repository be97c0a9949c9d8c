// Arena: the structures. Splitting, merging, spans. Nothing here can fail; the lock is held throughout.

#include <qm/arena.hpp>

#include "arena_request.hpp"

namespace qm {
namespace {

/// A larger empty span, in quanta of the arena or of its source, is not kept.
constexpr std::size_t kKeptUnits = 16;

}  // namespace

/// A tag goes: a walk that stands on it goes back.
void Arena::tell_walks_locked(const BoundaryTag* tag) noexcept {
  for (ArenaWalk* walk = walks_; walk != nullptr; walk = walk->next_walk_) {
    if (walk->current_ == tag) walk->current_ = tag->prev;
  }
}

void Arena::insert_free_locked(BoundaryTag* tag) noexcept {
  tag->kind = TagKind::kFree;
  sizes_.insert(tag);
  if (tag->start < indexed_below_.load(std::memory_order_relaxed)) free_.insert(tag);
  ++counts_.segments_free;
}

/// What is in the address index stays there: up to its new start, nothing else is free. What comes below what has been
/// entered is entered.
void Arena::set_size_indexed_locked(BoundaryTag* tag, std::uintptr_t start, std::size_t size) noexcept {
  const std::uintptr_t below = indexed_below_.load(std::memory_order_relaxed);
  const std::size_t before = tag->size;
  const bool was = tag->start < below;
  tag->start = start;
  sizes_.resize(tag, size);
  if (was) {
    // The walk of index_addresses() may stand on it, and does not come to it again.
    if (start >= below) indexed_below_.store(start + 1, std::memory_order_relaxed);
    free_.resized(tag, before);
  } else if (start < below) {
    free_.insert(tag);
  }
}

void Arena::remove_free_locked(BoundaryTag* tag) noexcept {
  sizes_.remove(tag);
  if (tag->start < indexed_below_.load(std::memory_order_relaxed)) free_.remove(tag);
  --counts_.segments_free;
}

/// Makes the address index complete, if nobody has needed it before. What others free and take meanwhile, they enter
/// and remove below where this has come to; what lies above it, and behind no tag that was passed, is still to come.
void Arena::index_addresses() noexcept {
  if (indexed_below_.load(std::memory_order_relaxed) == UINTPTR_MAX) return;
  ArenaWalk walk(*this);
  for (;;) {
    const LockGuard guard(lock_);
    for (unsigned step = 0; step < kConstrainedSteps; ++step) {
      BoundaryTag* tag = walk.current_ == nullptr ? first_ : walk.current_->next;
      if (tag == nullptr) return indexed_below_.store(UINTPTR_MAX, std::memory_order_relaxed);
      walk.current_ = tag;
      if (tag->start < indexed_below_.load(std::memory_order_relaxed)) continue;
      const bool is_span = tag->kind == TagKind::kSpan;  // another may come in front of it, and is not passed again
      indexed_below_.store(is_span ? tag->start : tag->start + 1, std::memory_order_relaxed);
      if (tag->kind == TagKind::kFree) free_.insert(tag);
    }
  }
}

/// Takes [place.start, place.start + place.size) out of its free segment, and makes it an allocated one. What remains
/// below it keeps the segment's tag, else what remains above it. @returns the allocated one.
BoundaryTag* Arena::carve_locked(const Place& place, SegmentOwner owner, const CallSite* site) noexcept {
  BoundaryTag* const segment = place.segment;
  const std::uintptr_t end = place.start + place.size;
  const std::size_t below = place.start - segment->start;
  const std::size_t above = segment->end() - end;
  if (segment->prev == empty_span_) empty_span_ = nullptr;
  BoundaryTag* tag = segment;
  if (below == 0 && above == 0) {
    remove_free_locked(segment);
  } else {
    tag = take_spare_locked();
    tag->start = place.start;
    tag->size = place.size;
    link_after_locked(tag, below != 0 ? segment : segment->prev);
    if (below == 0) {
      set_size_locked(segment, end, above);
    } else {
      set_size_locked(segment, segment->start, below);
      if (above != 0) insert_rest_locked(tag, above);
    }
  }
  enter_allocated_locked(tag, owner, site);
  return tag;
}

/// Makes the @p size behind @p tag a free segment.
void Arena::insert_rest_locked(BoundaryTag* tag, std::size_t size) noexcept {
  BoundaryTag* rest = take_spare_locked();
  rest->start = tag->end();
  rest->size = size;
  link_after_locked(rest, tag);
  insert_free_locked(rest);
}

Status Arena::resize_locked(std::uintptr_t start, std::size_t old_size, std::size_t size) noexcept {
  BoundaryTag* tag = find_allocated_locked(start);
  if (tag == nullptr || tag->owner != SegmentOwner::kUser) return Status::kNotFound;
  if (tag->size != old_size) return Status::kMismatch;
  BoundaryTag* right = tag->next != nullptr && tag->next->kind == TagKind::kFree ? tag->next : nullptr;
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
      insert_rest_locked(tag, less);
    }
  }
  return Status::kOk;
}

/// Enters a span that holds a quantum. @returns its segment, which is in no index yet; nullptr if it overlaps one that
/// is there.
BoundaryTag* Arena::insert_span_locked(const SpanRange& range) noexcept {
  const std::uintptr_t end = range.start + range.size;
  const std::uintptr_t start = round_up(range.start, quantum_);
  const std::uintptr_t usable_end = round_down(end, quantum_);
  BoundaryTag* const below = spans_.floor(end - 1);
  if (below != nullptr && below->end() > range.start) return nullptr;
  BoundaryTag* span = take_spare_locked();
  span->start = range.start;
  span->size = range.size;
  span->kind = TagKind::kSpan;
  span->origin = range.origin;
  // Behind the last segment of the span below, which is before the span above.
  BoundaryTag* const above = below != nullptr ? below->child[kSpanAbove] : first_;
  link_after_locked(span, above == nullptr ? last_ : above->prev);
  span->child[kSpanBelow] = below;
  span->child[kSpanAbove] = above;
  if (below != nullptr) below->child[kSpanAbove] = span;
  if (above != nullptr) above->child[kSpanBelow] = span;
  spans_.insert(span);
  BoundaryTag* segment = take_spare_locked();
  segment->start = start;
  segment->size = usable_end - start;
  link_after_locked(segment, span);
  ++counts_.spans;
  counts_.total += segment->size;
  if (range.imported()) {
    counts_.imported += range.size;
    ++counts_.imports;
  }
  return segment;
}

/// Takes out a span whose only segment is free.
Arena::SpanRange Arena::remove_span_locked(BoundaryTag* span) noexcept {
  const SpanRange range{span->start, span->size, span->origin};
  BoundaryTag* segment = span->next;
  if (span == empty_span_) empty_span_ = nullptr;
  counts_.total -= segment->size;
  --counts_.spans;
  if (range.imported()) {
    counts_.imported -= range.size;
    ++counts_.releases;
  }
  remove_free_locked(segment);
  drop_locked(segment);
  spans_.remove(span);
  BoundaryTag* const below = span->child[kSpanBelow];
  BoundaryTag* const above = span->child[kSpanAbove];
  if (below != nullptr) below->child[kSpanAbove] = above;
  if (above != nullptr) above->child[kSpanBelow] = below;
  drop_locked(span);
  return range;
}

/// Keeps the span of @p segment for the next request if it has become empty and is no larger than imports mostly are:
/// what a large request imported would lie idle for long, and to import it again costs little beside its use.
/// @returns the span that may go: this one, or the one kept until now.
BoundaryTag* Arena::retire_span_locked(BoundaryTag* segment) noexcept {
  BoundaryTag* span = segment->prev;
  if (span->kind != TagKind::kSpan || span->origin == SpanOrigin::kAdded) return nullptr;
  if (segment->next != nullptr && segment->next->kind != TagKind::kSpan) return nullptr;
  const std::size_t unit = quantum_ > source_->quantum_ ? quantum_ : source_->quantum_;
  if (segment->size > minimum_import_ && segment->size / kKeptUnits > unit) return span;
  BoundaryTag* former = empty_span_;
  empty_span_ = span;
  return former;
}

}  // namespace qm
