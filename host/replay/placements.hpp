#pragma once
/// What a program would need if other objects lay beside each other: its operations are replayed, with some objects in
/// arenas and caches of their own, and the peak of memory is measured.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "workload.hpp"

namespace qm::replay {

struct Placement {
  std::string name;
  std::size_t peak_bytes = 0;  ///< most bytes taken from the base arena at once, with all bookkeeping
  std::int64_t more = 0;       ///< bytes more than the first placement's peak
  std::uint64_t failures = 0;  ///< allocations that failed
};

/// Most sites that get memory of their own: those with the highest peaks of bytes.
inline constexpr std::size_t kSitesApart = 8;

/// @returns the trials: `as it is`; `long-lived apart`, see host::lives_long(); `by site`, if sites are recorded.
/// @throws host::Error kInput if the memory does not suffice for the caches.
/// Complexity: a replay for each.
[[nodiscard]] std::vector<Placement> try_placements(const Workload& workload);

}  // namespace qm::replay
