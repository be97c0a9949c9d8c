#pragma once
/// Which events are about objects in memory, which objects live long, and what another placement of them needs: the
/// same for a report and for a replay.

#include <cstdint>
#include <string>

#include <qm/host/events.hpp>

namespace qm::host {

/// @returns whether @p of supplies memory for objects: a size class, the heap's arena, or a cache, except quantum
///          caches, the allocator's own caches, and caches of numbers. The memory of the others has events of its own.
[[nodiscard]] inline bool holds_objects(const Definitions& definitions, const Traceable& of) {
  if (of.arena) return of.kind == EventKind::kHeap;
  const auto parent = definitions.traceables.find(of.parent);
  const bool serves_arena =
      parent != definitions.traceables.end() && of.name == parent->second.name + "_" + std::to_string(of.object_bytes);
  return !serves_arena && !of.name.starts_with("kmem_") && of.object_bytes >= definitions.header.pointer_bytes;
}

/// @returns whether an object that was live for @p lived of @p all operations on objects lives long: for more than a
///          tenth of them.
[[nodiscard]] constexpr bool lives_long(std::uint64_t lived, std::uint64_t all) noexcept { return lived > all / 10; }

/// What the program would need with its objects placed otherwise, as measured by a replay.
struct Placement {
  std::string name;
  std::uint64_t peak_bytes = 0;  ///< most bytes taken from the base arena at once, with all bookkeeping
  std::int64_t more = 0;         ///< bytes more than the first placement's peak
  std::uint64_t failures = 0;    ///< allocations that failed
};

}  // namespace qm::host
