#pragma once
/// Failures on purpose: an allocation of a cache, exactly the n-th or every n-th from now; and, for tests, any single
/// thing that the allocator acquires for itself.
///
/// A cache with a fault has trace_state::kFault in its state word: its cells are closed, so every allocation is a slow
/// path and is counted. Without one there is nothing to test on the fast path.
///
/// Invariants
/// - F1 A cache's word has kFault iff the table has a fault for it.
/// - F2 set() answers after every hart has closed its cell: from then on each allocation of the cache counts, on
///      whichever hart.

#include <atomic>
#include <cstdint>

#include <qm/status.hpp>

namespace qm {

class Cache;

namespace fault {

enum class Mode : std::uint8_t {
  kNth,    ///< the n-th from now fails, once; then the fault is gone
  kEvery,  ///< every n-th fails, until clear()
};

/// Caches that may have a fault at a time.
inline constexpr unsigned kMaxFaults = 8;

/// Makes allocations of @p cache return nullptr, as if memory were exhausted: counted in the cache's failures, but
/// nothing is reclaimed and nothing is reported. Replaces an earlier fault of the cache. What a reserve promised is not
/// touched.
/// @param[in] n 1 or more, counted from now over all harts.
/// @returns kInvalid for n = 0; kNoMemory if kMaxFaults other caches have one; kUnsafe outside a context that may wait;
///          kTimedOut if a hart does not answer. Unless kOk, the cache has no fault.
/// Complexity: a round over the harts that have magazines of it. Context: hal::may_ask_harts(); the cache
/// is not destroyed meanwhile.
Status set(Cache& cache, Mode mode, std::uint32_t n) noexcept;

/// Ends all faults. @returns how many there were. Cells open again at each hart's next slow path. Context: any.
unsigned clear() noexcept;

/// A fault as it stands.
struct Fault {
  Cache* cache = nullptr;
  Mode mode = Mode::kNth;
  std::uint32_t n = 0;
  std::uint32_t counted = 0;  ///< allocations since set()
  std::uint32_t failed = 0;   ///< of these, made to fail
};
/// The fault in place @p index, 0 to kMaxFaults - 1; its cache is nullptr if there is none.
[[nodiscard]] Fault at(unsigned index) noexcept;

// ---- for the allocator ---------------------------------------------------------------------------------------------

namespace internal {
/// What caches call once there has been a fault. An image that never calls set() does not link it.
struct Calls {
  bool (*strikes)(Cache& cache) noexcept;
  void (*forget)(Cache& cache) noexcept;
};
extern constinit std::atomic<const Calls*> calls;
}  // namespace internal

/// Counts one allocation of a cache whose word has kFault. @returns whether it is to fail. Context: any.
[[nodiscard]] inline bool strikes(Cache& cache) noexcept {
  // acquire: pairs with the release in set().
  const internal::Calls* calls = internal::calls.load(std::memory_order_acquire);
  return calls != nullptr && calls->strikes(cache);
}
/// The cache goes. Context: of Cache::destroy().
inline void forget(Cache& cache) noexcept {
  const internal::Calls* calls = internal::calls.load(std::memory_order_acquire);
  if (calls != nullptr) calls->forget(cache);
}

/// What the allocator acquires for itself, or for a user on a slow path.
enum class Resource : std::uint8_t {
  kSegment,  ///< a segment of an arena: pages, spans, slabs, large blocks
  kTag,      ///< a boundary tag
  kObjects,  ///< objects of a slab layer: a batch for a user, a magazine, a cache's structure
};

/// Asked before each acquisition; false makes it fail as if there were no memory. For tests that fail each one in turn.
/// Context: any, an arena's lock may be held.
using AcquisitionTest = bool (*)(Resource resource) noexcept;
/// nullptr: no acquisition fails. Context: nobody else is in the allocator.
void set_acquisition_test(AcquisitionTest test) noexcept;

namespace internal {
extern constinit std::atomic<AcquisitionTest> acquisition_test;
}
/// Whether each acquisition is asked about.
[[nodiscard]] inline bool tested() noexcept {
  return internal::acquisition_test.load(std::memory_order_relaxed) != nullptr;
}
/// Whether @p resource may be acquired.
[[nodiscard]] inline bool may_acquire(Resource resource) noexcept {
  const AcquisitionTest test = internal::acquisition_test.load(std::memory_order_relaxed);
  return test == nullptr || test(resource);
}

}  // namespace fault
}  // namespace qm
