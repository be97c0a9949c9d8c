// Arena: spans for requests with constraints, spans from custom import functions, and spans for quanta that are not
// powers of two. Linked where one of these is used.
//
//     import_congruent()       at most twice: the second time after the empty span went back
//       import_once()
//         carve_around()         the source finds a place for the request and allocates the span around it
//         carve_padded()         asks an import function, which knows sizes only, for enough to fit anywhere
//         carve_from_function()  calls it, enters the span and allocates the request in one hold of the lock
//
// The source is asked a fixed number of times, then the allocation fails. No lock is held during the calls (A5).

#include <qm/arena.hpp>

#include <qm/detail/observer.hpp>

#include "arena/arena_request.hpp"

namespace qm {
namespace {

std::size_t greatest_common_divisor(std::size_t a, std::size_t b) noexcept {
  while (b != 0) {
    const std::size_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

}  // namespace

/// Whether the request fits at the start of any span.
inline bool Arena::fits_anywhere(const Congruence& request) const noexcept {
  return !request.constrained && source_->quantum_ % quantum_ == 0;
}

/// How much to import so that the request fits wherever the span begins. 0: that overflows a word.
/// @param[in] padding where the span may begin. 0: at multiples of the source's quantum; 1: anywhere; 2: anywhere, and
///            the request must lie between two boundaries that it must not cross, if the quantum is a power of two; 3:
///            the same for any quantum.
std::size_t Arena::import_size(const Congruence& request, unsigned padding) const noexcept {
  if (request.step == 0) return 0;
  if (padding == 0 && fits_anywhere(request)) return round_up(request.size, source_->quantum_);
  const std::size_t grain = padding == 0 ? greatest_common_divisor(request.step, source_->quantum_) : 1;
  std::size_t slack = request.step - grain;
  if (padding == 3) {
    // Starts and boundaries together repeat after their least common multiple.
    const std::size_t apart = request.step / greatest_common_divisor(request.step, request.nocross);
    if (__builtin_mul_overflow(apart, request.nocross, &slack)) return 0;
  }
  std::size_t size = 0;
  if (__builtin_add_overflow(request.size, slack, &size)) return 0;
  if (padding == 2 && __builtin_mul_overflow(size, std::size_t{2}, &size)) return 0;
  const Grain own{quantum_, request.grains};
  if (request.grains != nullptr && __builtin_add_overflow(size, Grain::slack(&own), &size)) return 0;
  return round_up(size, source_->quantum_);
}

/// @returns false for an alignment that no start could meet.
bool Arena::make_congruence(const Request& request, std::size_t taken, Congruence& congruence) const noexcept {
  congruence = {request};
  congruence.size = taken;
  congruence.step = quantum_;  // any multiple of the quantum is allowed
  const Alignment* const asked = request.alignment;
  if (asked == nullptr) return true;
  Constraint constraint;
  constraint.align = asked->align;
  constraint.phase = asked->phase;
  return congruence.constrain(constraint, quantum_);
}

std::uintptr_t Arena::import_by_function(Arena& arena, const Request& request, std::size_t taken) noexcept {
  Congruence congruence;
  return arena.make_congruence(request, taken, congruence) ? arena.import_congruent(congruence).start : 0;
}

/// Searches the arena, then the source: for quanta that are not powers of two.
std::uintptr_t Arena::find_by_congruence(Arena& arena, const Request& request, std::size_t taken) noexcept {
  Congruence congruence;
  return arena.make_congruence(request, taken, congruence) ? arena.find_congruent(congruence).start : 0;
}

Arena::SpanRange Arena::import_congruent(const Congruence& request) noexcept {
  if (blocks_ != nullptr) return {};
  SpanRange taken = import_once(request);
  // The source may lack just the empty span that waits here.
  if (taken.size == 0 && reap() != 0) taken = import_once(request);
  return taken;
}

Arena::SpanRange Arena::import_once(const Congruence& request) noexcept {
  if (import_ == nullptr) return carve_around(request);
  const std::size_t least = import_size(request, 0);
  const std::size_t wanted = round_up(minimum_import_, source_->quantum_);
  SpanRange taken;
  if (wanted > least && least != 0) static_cast<void>(carve_from_function(request, wanted, taken));
  return taken.size != 0 ? taken : carve_padded(request);
}

Arena::SpanRange Arena::carve_padded(const Congruence& request) noexcept {
  const unsigned paddings = request.nocross != 0 ? 4 : 2;
  std::size_t tried = 0;
  SpanRange taken;
  for (unsigned padding = 0; padding < paddings && taken.size == 0; ++padding) {
    const std::size_t size = import_size(request, padding);
    if (size <= tried) continue;  // it overflows a word, or is no larger than a size that failed
    tried = size;
    if (!carve_from_function(request, size, taken)) break;
  }
  return taken;
}

std::uintptr_t Arena::call_import(std::size_t size, Fit fit) noexcept {
  if (functions_in_c_) return function_cast<ImportFunctionInC>(import_)(source_, size, static_cast<std::uint8_t>(fit));
  return import_(*source_, size, fit);
}

/// Asks the import function for a span of @p size and allocates the request from it, if it fits. If it does not fit,
/// the span goes back; without a release function it stays, for other requests. The tags are reserved before the call,
/// so that no span is lost for lack of tags.
/// @returns false if there is no span.
bool Arena::carve_from_function(const Congruence& request, std::size_t size, SpanRange& taken) noexcept {
  {
    const LockGuard guard(lock_);
    if (!reserve_tags_locked(kImportTags)) return false;
    spare_count_ -= kImportTags;  // uncounted tags are not taken by others
  }
  const Fit fit = request.fit == Fit::kNext ? Fit::kInstant : request.fit;  // next fit concerns only this arena
  const SpanOrigin origin = release_ != nullptr ? SpanOrigin::kImported : SpanOrigin::kAdded;
  const SpanRange range{call_import(size, fit), size, origin};
  const bool supplied = range.start != 0;
  Place place;
  const bool fits = supplied && find_place(request, range, place);
  SpanRange quanta;
  const bool stays = supplied && !range.imported() && whole_quanta(range.start, size, quanta);
  {
    const LockGuard guard(lock_);
    spare_count_ += kImportTags;
    if (spare_count_ > kSpares) give_spares_locked();
    if (fits) {
      taken = enter_and_carve_locked(request, range, place);
    } else if (stays) {
      insert_span_locked(quanta);
    }
  }
  if (taken.size == 0 && supplied && range.imported()) release_span(range);
  return supplied;
}

/// Asks the source for a span around a place for the request: nothing is imported in excess, and every possible place
/// is found. @returns size 0, with the span given back to the source, if the span cannot be entered.
Arena::SpanRange Arena::carve_around(const Congruence& request) noexcept {
  const Grain grain{quantum_, request.grains};
  Congruence outer = request;
  outer.fit = Fit::kInstant;
  outer.owner = SegmentOwner::kUser;
  outer.site = nullptr;
  outer.constrained = true;
  outer.grains = &grain;
  SpanRange range = source_->allocate_congruent(outer);
  if (range.size == 0) {
    source_->count_failure();
    return {};
  }
  if (source_->traced()) observer()->taken(*source_, range.start, range.size, nullptr, WaitPolicy::kQuiet);
  range.origin = SpanOrigin::kImportedAround;
  SpanRange taken;
  if (Place place; find_place(request, range, place)) {
    const LockGuard guard(lock_);
    if (reserve_tags_locked(kImportTags)) taken = enter_and_carve_locked(request, range, place);
  }
  if (taken.size == 0) release_span(range);
  return taken;
}

/// The place for the request in a span that no other hart knows yet. @returns false if the request does not fit, or the
/// span is not one of the source.
bool Arena::find_place(const Congruence& request, const SpanRange& range, Place& place) const noexcept {
  const std::uintptr_t end = range.start + range.size;  // if it wraps, it is below the start, and nothing fits
  if (range.start % source_->quantum_ == 0 && range.start < end && fits_anywhere(request)) {
    place = {nullptr, range.start, request.size};
    return true;
  }
  const std::uintptr_t low = round_up(range.start, quantum_);
  const std::uintptr_t high = round_down(end, quantum_);
  if (low == 0) return false;
  for (std::uintptr_t from = low; from < high;) {
    if (!request.try_range(low, high, from, place.start)) continue;
    place.size = request.size;
    around(request, place);
    return true;
  }
  return false;
}

/// Enters the span and allocates the request in one hold of the lock, so that no other hart takes the place; the tags
/// are reserved.
/// @returns size 0 if the span overlaps an existing one.
Arena::SpanRange Arena::enter_and_carve_locked(const Congruence& request, const SpanRange& range,
                                               Place place) noexcept {
  place.segment = insert_span_locked(range);
  if (place.segment == nullptr) return {};
  if (request.fit == Fit::kNext) next_fit_ = place.start + place.size;
  carve_locked(place, request);
  return {place.start, place.size};
}

}  // namespace qm
