// Arena: extends a span if its source has room behind it. Linked with resize_in_place().

#include <qm/arena.hpp>

#include "arena/arena_request.hpp"

namespace qm {

/// The span that contains the segment at @p start, if the source may extend it; else nullptr.
BoundaryTag* Arena::growing_span_locked(std::uintptr_t start) noexcept {
  BoundaryTag* const span = spans_.floor(start);
  const bool is_plain = import_ == nullptr && release_ == nullptr;  // custom functions know the span as it was
  return span != nullptr && span->origin != SpanOrigin::kAdded && is_plain ? span : nullptr;
}

/// The last segment of @p span.
BoundaryTag* Arena::last_of_locked(const BoundaryTag& span) noexcept {
  const BoundaryTag* const above = spans_.ceiling(span.end());
  return (above != nullptr ? above : &ends_)->prev;
}

/// Has the source extend the span in which @p start is allocated, with only free memory behind it there, to make room
/// for @p more. While that segment is allocated, no other hart gives the span back. Two harts that extend it at once
/// ask with the same old size, and the source refuses the second.
/// @returns whether there is room now; false, with nothing changed, if the source has no room there, or no tag is
///          available.
bool Arena::grow_span(std::uintptr_t start, std::size_t more) noexcept {
  if (source_ == nullptr || source_->quantum_ % quantum_ != 0) return false;
  BoundaryTag* rest = nullptr;
  std::uintptr_t first = 0;
  std::size_t before = 0;
  std::size_t after = 0;
  {
    const LockGuard guard(lock_);
    const BoundaryTag* const tag = find_allocated_locked(start);
    BoundaryTag* const span = tag != nullptr ? growing_span_locked(start) : nullptr;
    if (span == nullptr) return false;
    const BoundaryTag* const last = last_of_locked(*span);
    if (tag->prev != span || (last != tag && (last != tag->next || last->kind != TagKind::kFree))) return false;
    if (last != tag) {
      if (last->size >= more) return true;  // freed meanwhile: there is room
      more -= last->size;
    }
    first = span->start;
    before = span->size;
    more = round_up(more, source_->quantum_);
    if (more == 0 || __builtin_add_overflow(before, more, &after)) return false;  // it overflows a word
    if (!reserve_tags_locked(1)) return false;
    rest = take_spare_locked();
  }
  const bool grown = source_->resize_in_place(first, before, after) == Status::kOk;
  const LockGuard guard(lock_);
  if (grown) {
    BoundaryTag* const span = growing_span_locked(start);
    BoundaryTag* const last = last_of_locked(*span);  // other harts may have allocated free memory
    span->size += more;
    counts_.total += more;
    counts_.imported += more;
    if (last->kind != TagKind::kFree) {
      rest->start = last->end();
      rest->size = more;
      link_after(rest, last);
      insert_free_locked(rest);
      return true;
    }
    set_size_locked(last, last->start, last->size + more);
  }
  keep_spare_locked(rest);
  return grown;
}

}  // namespace qm
