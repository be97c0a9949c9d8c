#pragma once
/// Deliberate failures, of the n-th from now, of every n-th, or of all from the n-th on: of the allocations of a cache,
/// of the segments or blocks of an arena, and of all that the allocator acquires on its slow paths.
///
/// A cache with a fault has trace_state::kFault in its state word: its per-hart caches are closed, so every allocation
/// takes the slow path and is counted. The fast path has no test for faults.
///
/// Invariants
/// - F1 A cache's word has kFault iff the table has a fault for it. The acquisition test is the table's while the table
///      has a fault of an arena or of all acquisitions.
/// - F2 set() returns after every hart has closed its per-hart cache: from then on each allocation of the cache on any
///      hart counts.

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include <qm/status.hpp>

namespace qm {

class Arena;
class Cache;
class Traceable;

namespace fault {

enum class Mode : std::uint8_t {
  kNth,    ///< the n-th from now fails, once; then the fault is gone
  kEvery,  ///< every n-th fails, until clear()
  kFrom,   ///< the n-th from now fails, and all after it, until clear()
};
/// The names of the modes in commands and reports, in the order of Mode.
inline constexpr std::array<std::string_view, 3> kModeNames = {"nth", "every", "from"};

/// Most faults at once.
inline constexpr unsigned kMaxFaults = 8;

/// Makes allocations of @p cache return nullptr, as if memory were exhausted. They are counted in the cache's failures,
/// but start no reclaim and are not reported. Replaces an earlier fault of the cache. Objects of the cache's reserve
/// are not used.
/// @param[in] n 1 or more, counted from now over all harts.
/// @returns kInvalid for n = 0; kNoMemory if there are kMaxFaults others; kUnsafe outside a context that may wait;
///          kTimedOut if a hart does not answer. Unless kOk, the cache has no fault.
/// Complexity: a broadcast to the harts that have magazines of the cache. Context: hal::may_ask_harts(); the cache must
///             not be destroyed meanwhile.
Status set(Cache& cache, Mode mode, std::uint32_t n) noexcept;

/// Makes @p arena find no memory: no free segment or block, and none from its source. An operation that reclaims memory
/// tries again, and counts again. Quantum caches and slabs still hand out what they have.
/// @returns kOk; kInvalid for n = 0; kNoMemory if there are kMaxFaults others. Context: any.
Status set(Arena& arena, Mode mode, std::uint32_t n) noexcept;

/// Makes acquisitions of every Resource fail, in any arena and cache. @returns, Context: as for an arena.
Status set_internal(Mode mode, std::uint32_t n) noexcept;

/// Ends all faults. @returns how many there were. Each hart opens its per-hart cache again on its next slow path.
/// Context: any.
unsigned clear() noexcept;

/// What a fault makes fail.
enum class Of : std::uint8_t { kNothing, kCache, kArena, kInternal };

/// The present state of a fault.
struct Fault {
  Of of = Of::kNothing;
  Traceable* owner = nullptr;  ///< the cache or the arena
  Mode mode = Mode::kNth;
  std::uint32_t n = 0;
  std::uint32_t counted = 0;  ///< allocations or acquisitions since set()
  std::uint32_t failed = 0;   ///< of these, made to fail
};
/// The fault with number @p index, 0 to kMaxFaults - 1; Of::kNothing if there is none.
[[nodiscard]] Fault at(unsigned index) noexcept;

// ---- for the allocator ---------------------------------------------------------------------------------------------

namespace internal {
/// Functions that caches call once a fault was set. An image that never calls set() does not link them.
struct Calls {
  bool (*strikes)(Cache& cache) noexcept;
  void (*forget)(Traceable& owner) noexcept;
};
extern constinit std::atomic<const Calls*> calls;
}  // namespace internal

/// Counts one allocation of a cache whose word has kFault. @returns whether to fail the allocation. Context: any.
[[nodiscard]] inline bool strikes(Cache& cache) noexcept {
  // acquire: pairs with the release in set().
  const internal::Calls* calls = internal::calls.load(std::memory_order_acquire);
  return calls != nullptr && calls->strikes(cache);
}
/// Removes the fault of a cache or an arena that is being destroyed. Context: of destroy().
inline void forget(Traceable& owner) noexcept {
  const internal::Calls* calls = internal::calls.load(std::memory_order_acquire);
  if (calls != nullptr) calls->forget(owner);
}

/// A resource that the allocator acquires for itself, or for a user on a slow path.
enum class Resource : std::uint8_t {
  kSegment,  ///< a segment of an arena: pages, spans, slabs, large blocks
  kTag,      ///< a boundary tag
  kObjects,  ///< objects of a slab layer: a batch for a user, a magazine, a cache's structure
};

/// Called before each acquisition; if it returns false, the acquisition fails as if there were no memory.
/// @param[in] arena kSegment: the arena. Context: any, an arena's lock may be held.
using AcquisitionTest = bool (*)(Resource resource, const Arena* arena) noexcept;
/// Replaces the test. nullptr: no acquisition fails. set() and set_internal() replace it too, and are replaced by it.
void set_acquisition_test(AcquisitionTest test) noexcept;

namespace internal {
extern constinit std::atomic<AcquisitionTest> acquisition_test;
}
/// Whether an acquisition test is set.
[[nodiscard]] inline bool tested() noexcept {
  return internal::acquisition_test.load(std::memory_order_relaxed) != nullptr;
}
/// Whether @p resource may be acquired.
[[nodiscard]] inline bool may_acquire(Resource resource, const Arena* arena = nullptr) noexcept {
  const AcquisitionTest test = internal::acquisition_test.load(std::memory_order_relaxed);
  return test == nullptr || test(resource, arena);
}

}  // namespace fault
}  // namespace qm
