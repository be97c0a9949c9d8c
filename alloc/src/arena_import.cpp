// Arena: spans from the source, and back to it. No lock is held while the source is asked (A5).

#include <qm/arena.hpp>

#include "arena_request.hpp"

namespace qm {

/// Looks anywhere in what the arena has for what is aligned, if that is linked; then, of the source if there is one,
/// asks for a span in which the request fits wherever it begins, as large as imports are at least; where the source has
/// none, for one no larger than need be; and both again after the empty span, which may be what it lacks, has gone back.
std::uintptr_t Arena::import(const Request& request, std::size_t taken) noexcept {
  if (request.alignment != nullptr && find_anywhere != nullptr) {
    if (const std::uintptr_t start = find_anywhere(*this, request, taken); start != 0) return start;
  }
  if (source_ == nullptr) return 0;
  if (import_with_ != nullptr) return import_with_(*this, request, taken);
  const std::size_t unit = source_->quantum_;
  // A span may begin anywhere in a quantum that does not divide the source's.
  const std::size_t odd = rounded(unit) == unit ? 0 : quantum_ - 1;
  if (odd != 0 && find_anywhere != nullptr) return find_anywhere(*this, request, taken);
  const std::size_t least = source_->rounded(taken + request.slack(quantum_) + odd);
  const std::size_t mostly = source_->rounded(minimum_import_);
  const Fit fit = request.fit == Fit::kNext ? Fit::kInstant : request.fit;  // the order is this arena's affair
  if (least < taken) return 0;                                              // more than a word
  bool reaped = false;
  for (std::size_t size = mostly > least ? mostly : least;;) {
    const std::uintptr_t start = source_->allocate_as({.size = size, .fit = fit});
    if (start != 0) return enter_span(request, taken, {start, size, SpanOrigin::kImported});
    if (size > least) {
      size = least;
    } else if (!reaped && reap() != 0) {
      reaped = true;
      size = mostly > least ? mostly : least;
    } else {
      return 0;
    }
  }
}

/// Enters the span and takes the request from it in one hold of the lock, so that nobody else can. @returns 0, and the
/// span is back at its source, if no tags are to be had, or for an alignment of which the quantum is no divisor.
std::uintptr_t Arena::enter_span(const Request& request, std::size_t taken, const SpanRange& range) noexcept {
  {
    const LockGuard guard(lock_);
    BoundaryTag* const segment = reserve_tags_locked(kImportTags) ? insert_span_locked(range) : nullptr;
    const std::uintptr_t start = segment != nullptr ? request.start_in(*segment, taken, quantum_) : 0;
    if (start != 0) {
      carve_locked({segment, start, taken}, request);
      return start;
    }
    if (segment != nullptr) remove_span_locked(segment->prev);
  }
  release_span(range);
  return 0;
}

void Arena::call_release(std::uintptr_t start, std::size_t size) noexcept {
  if (functions_in_c_) return function_cast<ReleaseFunctionInC>(release_)(source_, start, size);
  release_(*source_, start, size);
}

void Arena::release_span(const SpanRange& range) noexcept {
  if (release_ != nullptr) {
    call_release(range.start, range.size);
  } else if (range.origin == SpanOrigin::kImportedAround) {
    source_->free_constrained(range.start, range.size);
  } else {
    source_->free(range.start, range.size);
  }
}

}  // namespace qm
