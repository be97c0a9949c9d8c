#pragma once
/// Guarded samples: some allocations get a place of their own, in memory that traps around it. An access outside such an
/// object, or after its free, is reported at the access, with the stacks that allocated and freed the object. A free of
/// an address inside it, and a second free, are reported at the free.
///
///     | edge | .......object | edge | object....... | edge | (freed) | edge |
///        ^ traps                ^ traps                      ^ traps, until the place is used again
///
/// The pool of places is allocated at the start. Selected caches have trace_state::kGuard in their state word. The fast
/// path has no test for it: an allocation is sampled when it takes the slow path, as each hart's allocations do now and
/// then, and after each on_tick(). A freed object of the heap lies in no slab, so it takes the slow path by itself; a selected cache that is not the
/// heap's takes the slow path for each free.
///
/// What traps is the port's trap unit (PortDefaults::TrapUnit): Sv39 or Sv32 page tables in S-mode, PMP in M-mode,
/// mprotect() on the host. Pages trap on one side of an object; it lies at the left or the right end of its page at
/// random. Up to 64 bytes on each side that do not trap have a pattern, which the free and verify() check. Without a trap
/// unit that is all, and a freed object is filled and checked when its place is used again.
///
/// A cache that is traced, counted or streamed is not sampled meanwhile, so its trace is exact. A guarded object is in
/// no slab: CacheStats and the totals of call sites do not count it, and a leak scan reads it but never reports it.
/// There are no samples in a checking build, which checks every object.
///
/// Source: the Linux kernel's KFENCE; GWP-ASan.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/detail/bits.hpp>
#include <qm/hal/port.hpp>
#include <qm/status.hpp>

namespace qm {

class Cache;
struct TracedPath;

namespace guards {

struct Config {
  unsigned slots = 0;  ///< places, for objects in use and freed ones; 0: as many as the trap unit has
  /// At most about one in this many allocations of all selected caches together is sampled; 0: by time. Allocations are
  /// counted as they use up magazines, so an allocation and a free in turn, which use up none, count at each on_tick()
  /// only.
  std::uint32_t every = 0;
  std::uint32_t ms = 0;  ///< with every == 0: at most one in so many milliseconds
};

/// Allocates the pool and makes it trap on all online harts; nothing is selected yet. Later calls change the rate only.
/// @returns kInvalid without a rate, or with one that is too large; kNoMemory for a single place (it makes half as many
///          places until they fit); kRefused in a checking build, or before initialize(); kTimedOut if a
///          hart does not answer, and kUnsafe in another context than below: there are no guards.
/// Complexity: a broadcast; O(slots). Context: hal::may_ask_harts(); one call of this, of stop() and of
///             Cache::set_quarantine() at a time.
Status start(const Config& config) noexcept;
/// Selects a cache.
/// @returns kNotFound without start(); kRefused for a no-trace, no-touch or quantum cache, one without magazines, one
///          with a constructor or a destructor, one whose objects are larger than a place, and, in a build with call
///          sites, one that is not the heap's; kTimedOut if a hart does not answer: not selected; kUnsafe as start().
/// Complexity: a broadcast to the harts that have magazines. Context: hal::may_ask_harts(); the cache must not be
///             destroyed meanwhile.
Status select(Cache& cache) noexcept;
/// Selects the heap: every size class, also those that get a cache later, and, in an image with a trace, blocks.
Status select_heap() noexcept;
/// Ends the sampling. If no guarded object is in use, disarms the harts and frees the pool.
/// @returns kBusy while users hold guarded objects: these stay guarded, and a later stop() frees the pool; kTimedOut and
///          kUnsafe as start(): the pool stays.
Status stop() noexcept;

struct Stats {
  unsigned slots = 0;  ///< 0: not started, or stopped
  unsigned live = 0;   ///< guarded objects that users hold
  unsigned freed = 0;  ///< freed objects that are still guarded
  bool heap = false;   ///< whether the heap is selected
  bool traps = false;  ///< whether there is a trap unit; if not, damage is found at the free or later
  std::uint32_t every = 0;
  std::uint32_t ms = 0;
  std::uint64_t sampled = 0;  ///< objects guarded since the start
  std::uint64_t missed = 0;   ///< samples that found no free place
};
/// Context: any.
[[nodiscard]] Stats stats() noexcept;

/// Called by the firmware's handler for page faults and access faults, with interrupts masked. Reports the access as
/// Misuse::kOutside or Misuse::kUseAfterFree and makes the memory accessible, so that the access, made again, succeeds;
/// a place is reported once until it is used again.
/// @param[in] pc, frame of the interrupted code.
/// @returns true: the handler returns to the access, which then succeeds (reported, or needing no report); false: the
///          fault is another's.
[[nodiscard]] bool on_fault(std::uintptr_t address, bool is_write, std::uintptr_t pc, std::uintptr_t frame) noexcept;

/// Whether the address is in the pool: it may be read only if find() says that a guarded object in use is there. Context:
/// any.
[[nodiscard]] bool covers(std::uintptr_t address) noexcept;
/// Called on each hart by a periodic interrupt, 10 to 1000 times a second: the hart's next operation on each of the first
/// 48 selected caches takes the slow path, and is sampled if it is an allocation; by time, only when a sample is due.
/// Without it, magazines that never run empty are never sampled. Complexity: about 10 instructions a selected cache. Context: interrupts masked.
void on_tick() noexcept;

/// The guarded object around an address.
struct Guarded {
  std::uintptr_t start = 0;
  std::size_t bytes = 0;
  Cache* cache = nullptr;  ///< nullptr: a block of the heap
  bool is_live = false;
  std::uint32_t allocated_by = 0;  ///< stacks; 0: not known
  std::uint32_t freed_by = 0;
};
/// @returns false if no guarded object, in use or freed, has the place that contains @p address. Context: any.
[[nodiscard]] bool find(std::uintptr_t address, Guarded& guarded) noexcept;
/// Checks the pattern beside each live object and, without a trap unit, the freed objects. @returns how many are damaged;
/// each was reported. Context: any.
std::size_t verify() noexcept;

// ---- for the allocator ----------------------------------------------------------------------------------------------

namespace internal {
/// Functions that the allocator calls once guards were started. An image that never calls start() does not link them.
struct Calls {
  /// Once !may_pass(): a sample of a selected cache, nullptr: a block; of @p bytes at @p alignment. Its stack begins at @p
  /// frame. @returns nullptr if there is none after all.
  void* (*allocate)(Cache* cache, std::size_t bytes, std::size_t alignment, std::uintptr_t frame) noexcept;
  /// @returns whether the address is in the pool; then the object was freed, or the misuse reported.
  bool (*free)(void* object, std::uintptr_t frame) noexcept;
  /// Bytes of the live object at this address, 0: none.
  std::size_t (*size_of)(const void* object) noexcept;
  bool (*on_fault)(std::uintptr_t address, bool is_write, std::uintptr_t pc, std::uintptr_t frame) noexcept;
  void (*tick)() noexcept;
  Stats (*stats)() noexcept;
  bool (*covers)(std::uintptr_t address) noexcept;
  bool (*find)(std::uintptr_t address, Guarded& guarded) noexcept;
  std::size_t (*verify)() noexcept;
  /// Makes the observer's functions for a free look for a guarded object first.
  void (*wrap)(TracedPath& path) noexcept;
  void (*created)(Cache& cache) noexcept;
  /// Whether users hold guarded objects of the cache; if not, its freed ones are forgotten.
  bool (*holds)(Cache& cache) noexcept;
  void (*attach)() noexcept;
  void (*detach)() noexcept;
  /// Opens and closes the pool for the running hart, for a scan that reads all memory. Interrupts masked.
  void (*set_armed)(bool armed) noexcept;
  void (*end)() noexcept;
};
extern constinit std::atomic<const Calls*> calls;
/// Whether the heap is selected.
extern constinit std::atomic<bool> samples_heap;
/// Allocations until the next sample. By time it is not above 0: allocate() decides.
extern constinit std::atomic<std::int32_t> left;
/// Counts @p allocations, unless a sample is due. Two harts at once may count only one of them. @returns false if one is.
[[nodiscard, gnu::always_inline]] inline bool may_pass(int allocations) noexcept {
  const std::int32_t now = left.load(std::memory_order_relaxed);
  if (now <= 0) return false;
  store_relaxed(left, now - allocations);
  return true;
}
/// nullptr until the first start(). acquire: pairs with the release in start().
[[nodiscard]] inline const Calls* linked() noexcept { return calls.load(std::memory_order_acquire); }
/// Of the function that this is inlined into.
[[nodiscard, gnu::always_inline]] inline std::uintptr_t current_frame() noexcept {
  return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
}
}  // namespace internal

inline bool on_fault(std::uintptr_t address, bool is_write, std::uintptr_t pc, std::uintptr_t frame) noexcept {
  const internal::Calls* const calls = internal::linked();
  return calls != nullptr && calls->on_fault(address, is_write, pc, frame);
}

inline Stats stats() noexcept {
  const internal::Calls* const calls = internal::linked();
  return calls != nullptr ? calls->stats() : Stats{};
}
inline bool covers(std::uintptr_t address) noexcept {
  const internal::Calls* const calls = internal::linked();
  return calls != nullptr && calls->covers(address);
}
inline bool find(std::uintptr_t address, Guarded& guarded) noexcept {
  const internal::Calls* const calls = internal::linked();
  return calls != nullptr && calls->find(address, guarded);
}
inline std::size_t verify() noexcept {
  const internal::Calls* const calls = internal::linked();
  return calls != nullptr ? calls->verify() : 0;
}
inline void on_tick() noexcept {
  if (const internal::Calls* calls = internal::linked(); calls != nullptr) calls->tick();
}

}  // namespace guards
}  // namespace qm
