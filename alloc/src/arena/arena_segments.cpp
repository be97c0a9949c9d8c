// Arena: the structures. Splitting, merging, spans. Nothing here can fail; the lock is held throughout.

#include <qm/arena.hpp>

#include "arena/arena_request.hpp"

namespace qm {
namespace {

/// An empty span larger than this, in quanta of the arena or of its source, goes back at once.
constexpr std::size_t kKeptUnits = 16;

}  // namespace

/// Makes [start, start + size) behind @p before, a range of no segment, a free segment.
void Arena::add_free_locked(BoundaryTag* before, std::uintptr_t start, std::size_t size) noexcept {
  BoundaryTag* const tag = take_spare_locked();
  tag->start = start;
  tag->size = size;
  link_after(tag, before);
  if constexpr (kForSize) return insert_free_locked(tag);
  // A separate function, called last: the path without this call then saves no registers.
  const auto insert = [](Arena* const arena, BoundaryTag* const free) __attribute__((noinline)) {
    arena->insert_free_locked(free);
  };
  if (addresses_ != nullptr || !sizes_.insert_exact(tag)) return insert(this, tag);
  tag->kind = TagKind::kFree;
  ++counts_.segments_free;
}

/// The tag is about to be removed: moves each walk that stands on it back by one tag.
void Arena::tell_walks_locked(const BoundaryTag* tag) noexcept {
  for (ArenaWalk* walk = walks_; walk != nullptr; walk = walk->next_walk_) {
    if (walk->current_ == tag) walk->current_ = tag->prev;
  }
}

/// Enters a span without its segment. @returns its tag; nullptr if it overlaps an existing span.
BoundaryTag* Arena::link_span_locked(const SpanRange& range) noexcept {
  const std::uintptr_t end = range.start + range.size;
  BoundaryTag* above = spans_.ceiling(range.start);
  if (above == nullptr) above = &ends_;
  BoundaryTag* const below = above->below;
  if (above->start - 1 < end - 1 || (below != nullptr && below->end() > range.start)) return nullptr;
  BoundaryTag* const span = take_spare_locked();
  span->start = range.start;
  span->size = range.size;
  span->kind = TagKind::kSpan;
  span->origin = range.origin;
  span->below = below;
  above->below = span;
  link_after(span, above->prev);
  spans_.insert(span);
  ++counts_.spans;
  if (range.imported()) {
    counts_.imported += range.size;
    ++counts_.imports;
  }
  return span;
}

/// Enters a span of at least one quantum. @returns its segment; nullptr if it overlaps an existing span.
BoundaryTag* Arena::insert_span_locked(const SpanRange& range) noexcept {
  BoundaryTag* const span = link_span_locked(range);
  if (span == nullptr) return nullptr;
  const std::uintptr_t start = rounded(range.start);
  const std::size_t size = round_down(range.start + range.size, quantum_) - start;
  add_free_locked(span, start, size);
  counts_.total += size;
  return span->next;
}

/// Removes a span whose segment is removed already.
Arena::SpanRange Arena::unlink_span_locked(BoundaryTag* span) noexcept {
  const SpanRange range{span->start, span->size, span->origin};
  if (span == empty_span_) empty_span_ = nullptr;
  --counts_.spans;
  if (range.imported()) {
    counts_.imported -= range.size;
    ++counts_.releases;
  }
  span->next->below = span->below;
  spans_.remove(span);
  drop_locked(span);
  return range;
}

/// Removes a span whose only segment is free.
Arena::SpanRange Arena::remove_span_locked(BoundaryTag* span) noexcept {
  BoundaryTag* const segment = span->next;
  counts_.total -= segment->size;
  remove_free_locked(segment);
  drop_locked(segment);
  return unlink_span_locked(span);
}

/// Keeps the span of @p segment for the next request if it has become empty and is no larger than the usual import. A
/// larger one, which a large request imported, would lie idle for long, and to import it again costs little beside its
/// use.
/// @returns the span to give back: this one, or the one kept until now.
BoundaryTag* Arena::retire_span_locked(BoundaryTag* segment) noexcept {
  BoundaryTag* span = segment->prev;
  if (span->kind != TagKind::kSpan || span->origin == SpanOrigin::kAdded) return nullptr;
  if (segment->next->kind != TagKind::kSpan) return nullptr;
  const std::size_t unit = quantum_ > source_->quantum_ ? quantum_ : source_->quantum_;
  if (segment->size > minimum_import_ && segment->size / kKeptUnits > unit) return span;
  BoundaryTag* former = empty_span_;
  empty_span_ = span;
  return former;
}

}  // namespace qm
