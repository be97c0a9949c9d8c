// Arena: imports spans from the source and gives them back. No lock is held during a call of the source (A5).

#include <qm/arena.hpp>

#include "arena/arena_request.hpp"

namespace qm {

/// Imports a span, at least as large as the usual import, in which the request fits wherever the span begins. If the
/// source has none, asks for one just large enough, then for one around a place for the request. If these fail too,
/// gives the empty span back, which may be what the source lacks, and asks for all three again.
std::uintptr_t Arena::import(const Request& request, std::size_t taken) noexcept {
  if (blocks_ != nullptr) return 0;  // an arena of blocks imports in allocate_block() only
  const bool has_source = source_ != nullptr;
  if (!has_source && request.alignment == nullptr) return 0;
  const ImportCall by = import_with_ != nullptr || !has_source || is_power_of_two(source_->quantum_)
                            ? import_with_
                            : source_->import_with_;
  if (by != nullptr) return by(*this, request, taken);
  if (!has_source) return 0;
  // A span of a source with smaller quanta is aligned to this arena's quantum.
  const bool is_aligned = quantum_ > source_->quantum_;
  const Alignment own{quantum_};
  const std::size_t least = source_->rounded(taken + request.slack(quantum_));
  const std::size_t mostly = source_->rounded(minimum_import_);
  const Fit fit = request.fit == Fit::kNext ? Fit::kInstant : request.fit;  // next fit concerns only this arena
  if (least < taken) return 0;                                              // it overflows a word
  bool reaped = false;
  for (std::size_t size = mostly > least ? mostly : least;;) {
    const std::uintptr_t start =
        source_->allocate_as({.size = size, .alignment = is_aligned ? &own : nullptr, .fit = fit});
    const SpanOrigin origin = is_aligned ? SpanOrigin::kImportedAround : SpanOrigin::kImported;
    if (start != 0) return enter_span(request, taken, {start, size, origin});
    if (size > least) {
      size = least;
    } else if (const std::uintptr_t around = import_around(request, taken); around != 0) {
      return around;
    } else if (!reaped && reap() != 0) {
      reaped = true;
      size = mostly > least ? mostly : least;
    } else {
      return 0;
    }
  }
}

/// Imports a span around a place for an aligned request, as small as the source can supply it. @returns 0 if there is
/// none.
std::uintptr_t Arena::import_around(const Request& request, std::size_t taken) noexcept {
  const std::size_t unit = source_->quantum_;
  if (request.slack(quantum_) == 0) return 0;
  const std::size_t phase = request.alignment->phase;
  const Alignment around{request.alignment->align, phase & ~(unit - 1)};
  const std::size_t size = source_->rounded(taken + (phase & (unit - 1)));
  if (size < taken) return 0;  // it overflows a word
  const std::uintptr_t start = source_->allocate_as({.size = size, .alignment = &around});
  return start != 0 ? enter_span(request, taken, {start, size, SpanOrigin::kImportedAround}) : 0;
}

/// Enters the span and allocates the request in one hold of the lock, so that no other hart takes the place.
/// @returns 0, with the span given back to the source, if no tags are available, or if the quantum does not divide the
///          alignment.
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
