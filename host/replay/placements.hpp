#pragma once
/// What a program would need if other objects lay beside each other: its operations are replayed, with some objects in
/// arenas and caches of their own, and the peak of memory is measured.

#include <cstddef>
#include <vector>

#include <qm/host/objects.hpp>

#include "workload.hpp"

namespace qm::replay {

/// Most sites that get memory of their own: those with the highest peaks of bytes.
inline constexpr std::size_t kSitesApart = 8;

/// @returns the trials: `as it is`; `long-lived apart`, see host::lives_long(); `by site`, if sites are recorded.
/// @throws host::Error kInput if the memory does not suffice for the caches.
/// Complexity: a replay for each.
[[nodiscard]] std::vector<host::Placement> try_placements(const Workload& workload);

}  // namespace qm::replay
