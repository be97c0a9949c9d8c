// Arena: spans for a request with constraints, from an import function of one's own, and for quanta that are no powers of
// two. Linked where one of these is asked for.
//
//     import_congruent()       twice at most: the second time after the empty span went back
//       import_once()
//         carve_around()         the source looks for a place for the request and hands out the span around it
//         carve_padded()         an import function knows sizes only: more than is asked for, so that it fits anywhere
//         carve_from_function()  ask it, enter the span and take the request from it in one hold of the lock
//
// The source is asked a fixed number of times, then the allocation fails. No lock is held while it is (A5).

#include <qm/arena.hpp>

#include <qm/observer.hpp>

#include "arena_request.hpp"

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

/// Whether the beginning of any span will do.
inline bool Arena::fits_anywhere(const Congruence& request) const noexcept {
  return !request.constrained && source_->quantum_ % quantum_ == 0;
}

/// How much to import so that the request fits wherever the span begins. 0: more than a word.
/// @param[in] padding 0: at multiples of the source's quantum; 1: anywhere; 2: also between two boundaries that must
///                    not be crossed, if the quantum is a power of two; 3: whatever the quantum.
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
  congruence.step = quantum_;  // any multiple of the quantum will do
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

/// What is here, and what the source has: for quanta that are no powers of two.
std::uintptr_t Arena::find_by_congruence(Arena& arena, const Request& request, std::size_t taken) noexcept {
  Congruence congruence;
  return arena.make_congruence(request, taken, congruence) ? arena.find_congruent(congruence).start : 0;
}

Arena::SpanRange Arena::import_congruent(const Congruence& request) noexcept {
  if (blocks_ != nullptr) return {};
  SpanRange taken = import_once(request);
  // The empty span that waits here may be what the source lacks.
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
    if (size <= tried) continue;  // more than a word, or no more than has failed
    tried = size;
    if (!carve_from_function(request, size, taken)) break;
  }
  return taken;
}

std::uintptr_t Arena::call_import(std::size_t size, Fit fit) noexcept {
  if (functions_in_c_) return function_cast<ImportFunctionInC>(import_)(source_, size, static_cast<std::uint8_t>(fit));
  return import_(*source_, size, fit);
}

/// Asks the import function for a span of @p size and takes the request from it, if it fits. Where it does not, the span
/// goes back; without a release function it stays, for other requests. The tags are there before the function is asked, so
/// that no span is lost for want of them. @returns false if there is no span.
bool Arena::carve_from_function(const Congruence& request, std::size_t size, SpanRange& taken) noexcept {
  {
    const LockGuard guard(lock_);
    if (!reserve_tags_locked(kImportTags)) return false;
    spare_count_ -= kImportTags;  // what is not counted nobody takes
  }
  const Fit fit = request.fit == Fit::kNext ? Fit::kInstant : request.fit;  // the order is this arena's affair
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

/// Asks the source for what lies around a place for the request: nothing is imported in excess, and no place that there
/// is goes unseen. @returns size 0, and the span is back at its source, if it cannot be entered.
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
  if (source_->traced()) observer()->taken(*source_, range.start, range.size, nullptr, Effort::kQuiet);
  range.origin = SpanOrigin::kImportedAround;
  SpanRange taken;
  if (Place place; find_place(request, range, place)) {
    const LockGuard guard(lock_);
    if (reserve_tags_locked(kImportTags)) taken = enter_and_carve_locked(request, range, place);
  }
  if (taken.size == 0) release_span(range);
  return taken;
}

/// The place for the request in a span that nobody else knows yet. @returns false if it does not fit, or the span is
/// none of the source's.
bool Arena::find_place(const Congruence& request, const SpanRange& range, Place& place) const noexcept {
  const std::uintptr_t end = range.start + range.size;  // behind the last address: below the start, and nothing fits
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

/// Enters the span and takes the request from it in one hold of the lock, so that nobody else can; the tags are there.
/// @returns size 0 if it overlaps one that is there.
Arena::SpanRange Arena::enter_and_carve_locked(const Congruence& request, const SpanRange& range,
                                               Place place) noexcept {
  place.segment = insert_span_locked(range);
  if (place.segment == nullptr) return {};
  if (request.fit == Fit::kNext) next_fit_ = place.start + place.size;
  carve_locked(place, request);
  return {place.start, place.size};
}

}  // namespace qm
