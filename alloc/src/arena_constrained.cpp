// Arena: allocation with constraints.
//
// Starts must be multiples of the quantum and congruent to the phase; both together are one congruence, by the Chinese
// remainder theorem. The free segments that are large enough are tried in address order, by holds of the lock of
// kConstrainedSteps candidates; between holds only an address is kept, so nothing that others do can invalidate it.

#include <qm/arena.hpp>

#include "arena_request.hpp"

namespace qm {
namespace {

/// The inverse of an odd number modulo 2^kWordBits: each step doubles the number of right bits, three to begin with.
std::size_t inverse(std::size_t odd) noexcept {
  std::size_t result = odd;
  for (unsigned bits = 3; bits < kWordBits; bits *= 2) result *= 2 - odd * result;
  return result;
}

std::size_t lowest_one(std::size_t word) noexcept { return word & (~word + 1); }

}  // namespace

bool Arena::Request::constrain(const Constraint& constraint, std::size_t quantum) noexcept {
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
  // With align a divisor of the quantum's power of two, k is 0.
  if (__builtin_mul_overflow(quantum, k, &residue)) return false;
  if (__builtin_mul_overflow(quantum, align / common, &step)) step = 0;
  if (nocross == 0 || step == 0) return true;
  // Starts modulo nocross: the residue modulo the step's power of two, plus any multiple of that.
  const std::size_t spread = lowest_one(step);
  const std::size_t lowest = residue & ((spread < nocross ? spread : nocross) - 1);
  return lowest <= nocross - size;
}

bool Arena::Request::start_from(std::uintptr_t address, std::uintptr_t& start) const noexcept {
  if (address <= residue) {
    start = residue;
    return true;
  }
  if (step == 0) return false;
  const std::uintptr_t distance = round_up(address - residue, step);
  return distance != 0 && !__builtin_add_overflow(residue, distance, &start);
}

std::uintptr_t Arena::allocate_constrained(std::size_t size, const Constraint& constraint, Fit fit,
                                           const CallSite* site) noexcept {
  Request request;
  request.size = round_up(size, quantum_);
  request.fit = fit;
  request.site = site;
  if (request.size == 0 || !request.constrain(constraint, quantum_)) {
    count_failure();
    return 0;
  }
  const std::uintptr_t start = allocate_congruent(request);
  if (start != 0 && trace_state_.load(std::memory_order_relaxed) != 0) record(start, size, site);
  return start;
}

std::uintptr_t Arena::allocate_slab(std::size_t size, const Constraint& constraint) noexcept {
  Request request;
  request.size = round_up(size, quantum_);
  request.owner = SegmentOwner::kQuantumCache;
  if (request.size == 0 || !request.constrain(constraint, quantum_)) {
    count_failure();
    return 0;
  }
  return allocate_congruent(request);
}

Status Arena::free_constrained(std::uintptr_t start, std::size_t size) noexcept {
  return free_segment(start, round_up(size, quantum_), SegmentOwner::kUser);
}

std::uintptr_t Arena::allocate_congruent(const Request& request) noexcept {
  std::uintptr_t above = 0;  // where next fit goes on
  if (request.fit == Fit::kNext) {
    const LockGuard guard(lock_);
    above = next_fit_;
  }
  std::uintptr_t start = 0;
  if (above > request.min && search(request, above, start)) return start;
  if (search(request, request.min, start)) return start;
  if (source_ != nullptr) return import_and_carve(request);
  count_failure();
  return 0;
}

/// Searches from address @p from upwards, and carves. @returns false if nothing fits, or no tags are to be had.
bool Arena::search(const Request& request, std::uintptr_t from, std::uintptr_t& start) noexcept {
  bool first = true;
  for (unsigned lacking = 0; lacking < kTagAttempts;) {
    {
      const LockGuard guard(lock_);
      if (reserve_tags_locked(request.tags())) {
        Place place;
        bool ended = scan_locked(request, from, place);
        if (!ended && first) place = find_roomy_locked(request);
        first = false;
        if (place.segment != nullptr) {
          start = carve_locked(place, request);
          return true;
        }
        if (ended) return false;
        continue;
      }
    }
    if (!boundary_tags_refill()) return false;
    ++lacking;
  }
  return false;
}

/// Looks at kConstrainedSteps candidates from @p from on, which moves up. @returns true when the search is over: @p place is
/// set, or there is nothing more.
bool Arena::scan_locked(const Request& request, std::uintptr_t& from, Place& place) noexcept {
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

/// Tries the lowest start in @p segment at or above @p from; if it will not do, moves @p from to where the next may be.
bool Arena::try_segment(const Request& request, BoundaryTag* segment, std::uintptr_t& from, Place& place) noexcept {
  const std::uintptr_t limit = segment->end() < request.max ? segment->end() : request.max;
  std::uintptr_t start = from > segment->start ? from : segment->start;
  if (start < request.min) start = request.min;
  from = segment->end();
  if (!request.start_from(start, start) || start > limit || limit - start < request.size) return false;
  if (request.crosses(start)) {
    const std::uintptr_t boundary = (start | (request.nocross - 1)) + 1;
    if (boundary != 0 && boundary < from) from = boundary;
    return false;
  }
  place = {segment, start};
  return true;
}

/// The place for the request in a segment that nothing else may be taken from. Bounded; gives up early in a segment in which
/// the boundaries leave no room near the beginning.
Arena::Place Arena::place_in_segment(const Request& request, BoundaryTag* segment) noexcept {
  Place place;
  std::uintptr_t from = segment->start;
  for (unsigned step = 0; step < kConstrainedSteps && from < segment->end(); ++step) {
    if (try_segment(request, segment, from, place)) break;
  }
  return place;
}

/// A segment so large that the request fits wherever it begins. Nothing but alignment may be asked for.
Arena::Place Arena::find_roomy_locked(const Request& request) noexcept {
  std::size_t size = 0;
  if (request.bounded() || request.nocross != 0 || request.step == 0) return {};
  if (__builtin_add_overflow(request.size, request.step - quantum_, &size)) return {};
  BoundaryTag* segment = sizes_.best(size);
  return segment == nullptr ? Place{} : place_in_segment(request, segment);
}

}  // namespace qm
