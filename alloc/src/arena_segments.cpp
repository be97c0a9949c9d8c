// Arena: the structures. Splitting, merging, spans. Nothing here can fail; the lock is held throughout.

#include <qm/arena.hpp>

#include "allocated_index.hpp"
#include "arena_request.hpp"

namespace qm {
namespace {

/// A larger empty span, in quanta of the arena or of its source, is not kept.
constexpr std::size_t kKeptUnits = 16;

}  // namespace

void Arena::unlink_locked(BoundaryTag* tag) noexcept {
  (tag->prev == nullptr ? first_ : tag->prev->next) = tag->next;
  (tag->next == nullptr ? last_ : tag->next->prev) = tag->prev;
  for (ArenaWalk* walk = walks_; walk != nullptr; walk = walk->next_walk_) {
    if (walk->current_ == tag) walk->current_ = tag->prev;
  }
}

void Arena::insert_free_locked(BoundaryTag* tag) noexcept {
  tag->kind = TagKind::kFree;
  sizes_.insert(tag);
  free_.insert(tag);
  ++counts_.segments_free;
}

/// Resizes a free segment where it stands: no neighbour is overtaken, so the address index only learns the new size.
void Arena::set_size_locked(BoundaryTag* tag, std::uintptr_t start, std::size_t size) noexcept {
  const std::size_t before = tag->size;
  tag->start = start;
  sizes_.resize(tag, size);
  free_.resized(tag, before);
}

void Arena::remove_free_locked(BoundaryTag* tag) noexcept {
  sizes_.remove(tag);
  free_.remove(tag);
  --counts_.segments_free;
}

void Arena::count_allocated_locked(std::size_t size) noexcept {
  counts_.allocated += size;
  if (counts_.allocated > counts_.high_water) counts_.high_water = counts_.allocated;
}

/// Takes [place.start, place.start + place.size) out of its free segment, and makes it an allocated one.
void Arena::carve_locked(const Place& place, SegmentOwner owner, const CallSite* site) noexcept {
  BoundaryTag* segment = place.segment;
  const std::size_t rest = segment->size - place.size;
  if (segment->prev == empty_span_) empty_span_ = nullptr;  // a segment has a predecessor: its span at least
  BoundaryTag* tag = segment;
  if (rest == 0) {
    remove_free_locked(segment);
  } else {
    tag = take_spare_locked();
    if (place.start == segment->start) {
      link_after_locked(tag, segment->prev);
      set_size_locked(segment, place.start + place.size, rest);
    } else {
      carve_inside_locked(place, tag);
    }
  }
  tag->start = place.start;
  tag->size = place.size;
  tag->kind = TagKind::kAllocated;
  tag->owner = owner;
  tag->handle = 0;
  tag->site = site;
  allocated_.insert(tag);
  ++counts_.allocations_ever;
  slab_segments_ += owner == SegmentOwner::kQuantumCache;
  count_allocated_locked(place.size);
}

/// Links @p tag behind what remains of its free segment below the place, and what remains above it behind the tag.
void Arena::carve_inside_locked(const Place& place, BoundaryTag* tag) noexcept {
  BoundaryTag* segment = place.segment;
  const std::uintptr_t end = place.start + place.size;
  const std::uintptr_t segment_end = segment->end();
  set_size_locked(segment, segment->start, place.start - segment->start);
  link_after_locked(tag, segment);
  if (end == segment_end) return;
  BoundaryTag* rest = take_spare_locked();
  rest->start = end;
  rest->size = segment_end - end;
  link_after_locked(rest, tag);
  insert_free_locked(rest);
}

BoundaryTag* Arena::merge_locked(BoundaryTag* tag) noexcept {
  BoundaryTag* left = tag->prev->kind == TagKind::kFree ? tag->prev : nullptr;
  BoundaryTag* right = tag->next != nullptr && tag->next->kind == TagKind::kFree ? tag->next : nullptr;
  if (left == nullptr && right == nullptr) {
    insert_free_locked(tag);
    return tag;
  }
  if (left == nullptr) {
    set_size_locked(right, tag->start, tag->size + right->size);
    unlink_locked(tag);
    give_spare_locked(tag);
    return right;
  }
  std::size_t size = left->size + tag->size;
  if (right != nullptr) {
    size += right->size;
    remove_free_locked(right);
    unlink_locked(right);
    give_spare_locked(right);
  }
  unlink_locked(tag);
  give_spare_locked(tag);
  set_size_locked(left, left->start, size);
  return left;
}

/// Enters a span that holds a quantum. @returns its free segment; nullptr if it overlaps one that is there.
BoundaryTag* Arena::insert_span_locked(const SpanRange& range) noexcept {
  const std::uintptr_t end = range.start + range.size;
  const std::uintptr_t start = round_up(range.start, quantum_);
  const std::uintptr_t usable_end = round_down(end, quantum_);
  const BoundaryTag* below = spans_.floor(end - 1);
  if (below != nullptr && below->end() > range.start) return nullptr;
  BoundaryTag* span = take_spare_locked();
  span->start = range.start;
  span->size = range.size;
  span->kind = TagKind::kSpan;
  span->origin = range.origin;
  // Behind the last segment of the span below, which is before the span above.
  const BoundaryTag* above = spans_.first_fit(end, 0);
  link_after_locked(span, above == nullptr ? last_ : above->prev);
  spans_.insert(span);
  BoundaryTag* segment = take_spare_locked();
  segment->start = start;
  segment->size = usable_end - start;
  link_after_locked(segment, span);
  insert_free_locked(segment);
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
  unlink_locked(segment);
  spans_.remove(span);
  unlink_locked(span);
  give_spare_locked(segment);
  give_spare_locked(span);
  return range;
}

/// Keeps the span of @p segment for the next request if it has become empty and is no larger than imports mostly are: what a
/// large request imported would lie idle for long, and to import it again costs little beside its use.
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
