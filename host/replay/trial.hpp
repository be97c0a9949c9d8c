#pragma once
/// Replays a workload on the allocator with other settings than it was recorded with, and says what that costs.
///
/// Everything happens on one thread, which stands for one hart after the other, in the recorded order: so all figures
/// but the time are the same each time. What harts would have waited for each other is not seen.

#include <cstddef>
#include <cstdint>

#include "workload.hpp"

namespace qm::replay {

struct Settings {
  /// Of magazines at first; 0: as suits the object. Busy caches take larger ones.
  std::uint32_t magazine_rounds = 0;
  std::size_t slab_bytes = 4096;      ///< least bytes of a slab: the quantum of the arena that slabs come from
  std::size_t quantum_caches = 8192;  ///< largest segment of that arena that a quantum cache serves; 0: none
};

struct Cost {
  std::size_t peak_bytes = 0;  ///< most taken from the memory at once, magazines and headers included
  std::uint64_t misses = 0;    ///< operations that found no round, or no room, in their hart's magazines
  /// Segments for slabs and larger blocks that no quantum cache had: a lock, and tags.
  std::uint64_t arena_trips = 0;
  double nanoseconds = 0;      ///< of processor time, an operation; of the shortest of several passes
  std::uint64_t failures = 0;  ///< allocations that found no memory
};

/// @throws host::Error kInput if the memory does not suffice for the caches.
[[nodiscard]] Cost try_out(const Workload& workload, const Settings& settings);

}  // namespace qm::replay
