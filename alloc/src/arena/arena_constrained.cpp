// Arena: allocation with constraints.
//
// Starts must be multiples of the quantum and congruent to the phase; by the Chinese remainder theorem, both together
// are one congruence. The free segments that are large enough are tried in address order, kConstrainedSteps candidates
// per hold of the lock. Between holds the search keeps only an address, so no other operation can invalidate it.
//
// The same search serves an importer that passes its request to its source: see Arena::Grain.

#include <qm/arena.hpp>
#include <qm/exhaustion.hpp>
#include <qm/fault.hpp>
#include <qm/detail/observer.hpp>

#include "arena/arena_defect.hpp"
#include "arena/arena_request.hpp"

namespace qm {
namespace {

/// The inverse of an odd number modulo 2^kWordBits. Each step doubles the number of correct bits, at first three.
std::size_t inverse(std::size_t odd) noexcept {
  std::size_t result = odd;
  for (unsigned bits = 3; bits < kWordBits; bits *= 2) result *= 2 - odd * result;
  return result;
}

std::size_t lowest_one(std::size_t word) noexcept { return word & (~word + 1); }

}  // namespace

bool Arena::Congruence::constrain(const Constraint& constraint, std::size_t quantum) noexcept {
  const std::size_t align = constraint.align == 0 ? 1 : constraint.align;
  if (!is_power_of_two(align) || constraint.phase >= align) return false;
  if (constraint.nocross != 0 && (!is_power_of_two(constraint.nocross) || size > constraint.nocross)) return false;
  constrained = true;
  nocross = constraint.nocross;
  min = constraint.min;
  max = constraint.max == 0 ? UINTPTR_MAX : constraint.max;
  // quantum = common * odd; a start is quantum * k with odd * k = phase / common modulo align / common.
  const std::size_t power = lowest_one(quantum);
  const std::size_t common = power < align ? power : align;
  if (constraint.phase % common != 0) return false;
  const std::size_t k = (constraint.phase / common) * inverse(quantum / power) & (align / common - 1);
  // If align divides the quantum's power of two, k is 0.
  if (__builtin_mul_overflow(quantum, k, &residue)) return false;
  if (__builtin_mul_overflow(quantum, align / common, &step)) step = 0;
  if (nocross == 0 || step == 0) return true;
  // Starts modulo nocross: the residue modulo the step's power of two, plus any multiple of that.
  const std::size_t spread = lowest_one(step);
  const std::size_t lowest = residue & ((spread < nocross ? spread : nocross) - 1);
  return lowest <= nocross - size;
}

bool Arena::Congruence::start_from(std::uintptr_t address, std::uintptr_t& start) const noexcept {
  if (address <= residue) {
    start = residue;
    return true;
  }
  if (step == 0) return false;
  const std::uintptr_t distance = round_up(address - residue, step);
  return distance != 0 && !__builtin_add_overflow(residue, distance, &start);
}

bool Arena::Congruence::crosses(std::uintptr_t start) const noexcept {
  if (nocross == 0) return false;
  std::uintptr_t last = start + size - 1;
  if constexpr (kArenaDefect == ArenaDefect::kNocrossTooStrict) ++last;
  if constexpr (kArenaDefect == ArenaDefect::kNocrossTooLax) --last;
  if constexpr (kArenaDefect == ArenaDefect::kNocrossAtStart) --start;
  return ((start ^ last) & ~(nocross - 1)) != 0;
}

bool Arena::Congruence::try_range(std::uintptr_t low, std::uintptr_t high, std::uintptr_t& from,
                                  std::uintptr_t& start) const noexcept {
  const std::uintptr_t end = high;
  Grain::narrow(grains, low, high);
  std::uintptr_t limit = high < max ? high : max;
  if constexpr (kArenaDefect == ArenaDefect::kMaxIsInclusive) limit = high <= max ? high : max + 1;
  if (from < low) from = low;
  start = from > min ? from : min;
  from = end;
  if (low == 0 || !start_from(start, start) || start > limit || limit - start < size) return false;
  if (!crosses(start)) return true;
  const std::uintptr_t boundary = (start | (nocross - 1)) + 1;
  if (boundary != 0 && boundary < end) from = boundary;
  return false;
}

std::uintptr_t Arena::allocate_constrained(std::size_t size, const Constraint& constraint, Fit fit,
                                           const CallSite* site, WaitPolicy wait_policy) noexcept {
  Congruence request{{.size = round_up(size, quantum_), .site = site, .fit = fit}};
  if (request.size == 0 || !request.constrain(constraint, quantum_)) {
    count_failure();
    return 0;
  }
  auto attempt = [&]() noexcept {
    const std::uintptr_t start = allocate_congruent(request).start;
    if (start != 0 && traced()) observer()->taken(*this, start, size, site, WaitPolicy::kAuto);
    return start;
  };
  const std::uintptr_t start = attempt();
  return start != 0 ? start : reclaim_and_retry(size, wait_policy, exhaustion::attempt_of(attempt), &attempt);
}

Arena::SpanRange Arena::allocate_congruent(const Congruence& request) noexcept {
  return fault::may_acquire(fault::Resource::kSegment, this) ? find_congruent(request) : SpanRange{};
}

/// @returns the allocated range: the request's own segment or, for an importer's request, the whole quanta around it.
Arena::SpanRange Arena::find_congruent(const Congruence& request) noexcept {
  std::uintptr_t above = 0;  // where next fit continues
  SpanRange taken;
  if (request.fit == Fit::kNext) {
    const LockGuard guard(lock_);
    above = next_fit_;
  } else {
    taken = take_roomy(request);
    if (taken.size != 0) return taken;
  }
  index_addresses();
  if (above > request.min) taken = search(request, above);
  if (taken.size == 0) taken = search(request, request.min);
  if (taken.size != 0) return taken;
  return source_ != nullptr ? import_congruent(request) : taken;
}

/// Allocates from a segment that has room to spare, without a search and without the address index. @returns size 0 if
/// there is none.
Arena::SpanRange Arena::take_roomy(const Congruence& request) noexcept {
  const LockGuard guard(lock_);
  if (!reserve_tags_locked(kSplitTags)) return {};
  const Place place = find_roomy_locked(request);
  if (place.segment != nullptr) carve_locked(place, request);
  return {place.start, place.size};
}

/// Searches from address @p from upwards, and allocates. @returns size 0 if nothing fits, or no tags are available.
Arena::SpanRange Arena::search(const Congruence& request, std::uintptr_t from) noexcept {
  for (bool first = true, ended = false; !ended; first = false) {
    const LockGuard guard(lock_);
    if (!reserve_tags_locked(kSplitTags)) break;
    Place place;
    ended = scan_locked(request, from, place);
    if (!ended && first) place = find_roomy_locked(request);
    if (place.segment == nullptr) continue;
    if (request.fit == Fit::kNext) next_fit_ = place.start + place.size;
    carve_locked(place, request);
    return {place.start, place.size};
  }
  return {};
}

/// Tries kConstrainedSteps candidates from @p from on, and moves @p from up. @returns true when the search is over: @p
/// place is set, or there are no more candidates.
bool Arena::scan_locked(const Congruence& request, std::uintptr_t& from, Place& place) const noexcept {
  for (unsigned step = 0; step < kConstrainedSteps; ++step) {
    BoundaryTag* segment = free_.floor(from);
    if (segment == nullptr || segment->end() <= from || segment->size < request.size) {
      segment = free_.first_fit(from, request.size);
    }
    if (segment == nullptr || segment->start > request.max) return true;
    if (try_segment(request, segment, from, place)) return true;
  }
  return false;
}

/// Tries the lowest start in @p segment at or above @p from. If that fails, moves @p from to the next start to try.
bool Arena::try_segment(const Congruence& request, BoundaryTag* segment, std::uintptr_t& from,
                        Place& place) const noexcept {
  std::uintptr_t start = 0;
  if (!request.try_range(segment->start, segment->end(), from, start)) return false;
  place = {segment, start, request.size};
  around(request, place);
  return true;
}

/// Widens the place of the request itself to the quanta that have to be allocated for it.
void Arena::around(const Congruence& request, Place& place) const noexcept {
  std::uintptr_t end = place.start + place.size;
  Grain::widen(request.grains, place.start, end);
  place.start = round_down(place.start, quantum_);
  place.size = round_up(end, quantum_) - place.start;
}

/// A segment so large that the request fits wherever the segment begins. Only for requests with nothing but an
/// alignment.
Arena::Place Arena::find_roomy_locked(const Congruence& request) noexcept {
  std::size_t size = 0;
  if (request.bounded() || request.nocross != 0 || request.step == 0) return {};
  if (__builtin_add_overflow(request.size, request.step - 1, &size)) return {};
  if (__builtin_add_overflow(size, Grain::slack(request.grains), &size)) return {};
  Place place;
  if (BoundaryTag* segment = sizes_.find(size, Fit::kInstant); segment != nullptr) {
    std::uintptr_t from = segment->start;
    if (!try_segment(request, segment, from, place)) return {};
  }
  return place;
}

}  // namespace qm
