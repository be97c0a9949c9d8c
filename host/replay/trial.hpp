#pragma once
/// Replays a workload on the allocator with other settings than those of the recording, and measures the cost.
///
/// One thread does all operations in the recorded order, and stands for one hart after another. So all figures except
/// the time are the same in each run. The time that harts would wait for one another is not measured.

#include <cstddef>
#include <cstdint>

#include "workload.hpp"

namespace qm::replay {

struct Settings {
  /// First capacity of magazines in objects; 0: the default for the object size. Busy caches get larger magazines.
  std::uint32_t magazine_rounds = 0;
  std::size_t slab_bytes = 4096;  ///< smallest slab in bytes: the quantum of the arena that slabs come from
  /// largest segment of that arena that a quantum cache serves; 0: no quantum caches
  std::size_t quantum_caches = 8192;
};

struct Cost {
  std::size_t peak_bytes = 0;  ///< most bytes allocated from the memory at once, including magazines and headers
  std::uint64_t misses = 0;    ///< operations that found no object, or no room, in their hart's magazines
  /// Segments for slabs and larger blocks that no quantum cache supplied: each costs a lock and boundary tags.
  std::uint64_t arena_trips = 0;
  double nanoseconds = 0;      ///< processor time for each operation, in the shortest of several passes
  std::uint64_t failures = 0;  ///< allocations that failed
};

/// @throws host::Error kInput if the memory does not suffice for the caches.
[[nodiscard]] Cost try_out(const Workload& workload, const Settings& settings);

/// The same in one pass, without the time.
[[nodiscard]] Cost measure(const Workload& workload, const Settings& settings = {});

}  // namespace qm::replay
