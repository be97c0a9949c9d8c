#pragma once
/// Guarded samples: some allocations get a place of their own, in memory that traps around it. An access outside such
/// an object, or after its free, is reported at the access, with the stacks that allocated and freed the object. A free
/// of an address inside it, and a second free, are reported at the free.
///
///     | edge | .......object | edge | object....... | edge | (freed) | edge |
///        ^ traps                ^ traps                      ^ traps, until the place is used again
///
/// The pool of places is allocated at the start. Selected caches have trace_state::kGuard in their state word. The fast
/// path does not test it: only the slow path samples. A hart takes the slow path when a magazine runs empty, and once
/// after each on_tick(). A guarded object lies in no slab, so the heap's free takes the slow path for it. For a
/// selected cache that is not the heap's, every free takes the slow path.
///
/// What traps is the port's trap unit (PortDefaults::TrapUnit): Sv39 or Sv32 page tables in S-mode, PMP in M-mode,
/// mprotect() on the host. Where whole pages trap, an object lies at the left or right end of its page, at random; the
/// rest of the page (dots) does not trap. Up to 64 bytes on each side that do not trap have a pattern, which the free
/// and verify() check. Without a trap unit nothing traps: a freed object is filled too, and checked by verify() and
/// when its place is used again.
///
/// A cache is not sampled while it has a trace (with stacks or counts only), an event stream or a fault: a trace is
/// exact. A guarded object is in no slab: CacheStats and the totals of call sites do not count it, and a leak scan
/// reads it but never reports it. There are no samples in a checking build, which checks every object.
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
  unsigned slots = 0;  ///< places for live and freed objects; 0, or more than the trap unit has: as many as it has
  /// At most about one in this many allocations of all selected caches together is sampled; 0: by time. The count grows
  /// by half a magazine when a magazine runs empty, and at the first allocation after an on_tick().
  std::uint32_t every = 0;
  std::uint32_t ms = 0;  ///< with every == 0: at most one sample in this many milliseconds
};

/// Allocates the pool and makes it trap on all online harts; nothing is selected yet. If there is a pool already, it
/// sets the rate only. After a stop() that returned kBusy or kTimedOut it also resumes: select the caches again.
/// @returns kInvalid if both rates are 0, or one is too large for half of a 32-bit count of allocations or of timer
///          ticks; kNoMemory if not even one place fits (it makes half as many places until they fit); kRefused in a
///          checking build, or before initialize(); kUnsafe unless hal::may_ask_harts(): nothing has changed; kTimedOut
///          if a hart does not answer: the pool may stay until a later stop().
/// Complexity: a broadcast; O(slots). Context: hal::may_ask_harts(); one call of start(), select(), stop() and
///             Cache::set_quarantine() at a time.
Status start(const Config& config) noexcept;
/// Selects a cache.
/// @returns kNotFound if there is no pool; kRefused for a no-trace, no-touch or quantum cache, one with a constructor
///          or a destructor, and one with a larger alignment than a place; kRefused for a cache that is not the heap's
///          if it has no magazines, if its objects are larger than a place, and in any build with call sites; kTimedOut
///          if a hart does not answer: not selected; kUnsafe as start().
/// Complexity: a broadcast to the harts that have magazines. Context: hal::may_ask_harts(); the cache must not be
///             destroyed meanwhile.
Status select(Cache& cache) noexcept;
/// Selects the heap: the cache of every size class, present or later, and, in an image with a trace, the heap's blocks.
/// @returns kNotFound if there is no pool. Complexity: O(caches). Context: as start().
Status select_heap() noexcept;
/// Ends the sampling. If no guarded object is in use, disarms the harts and frees the pool.
/// @returns kOk, also without a pool; kUnsafe unless hal::may_ask_harts(): nothing has changed; kBusy while users hold
///          guarded objects, and kTimedOut if a hart does not answer: the sampling has ended, the pool stays, and a
///          later stop() frees it.
/// Complexity: a broadcast; O(caches). Context: as start().
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

/// Called by the firmware's handler for page faults and access faults. Reports an access to the pool as
/// Misuse::kOutside or Misuse::kUseAfterFree, and makes the memory accessible. Reports one access a place until the
/// place is used again, and none in a panic.
/// @param[in] address the address accessed; @p is_write whether the access was a write.
/// @param[in] pc address of the instruction; @p frame the frame pointer (s0) of the interrupted code.
/// @returns true: return to the instruction, whose access now succeeds; false: the fault has another cause.
/// Complexity: O(1), and a stack walk for a report. Context: a trap handler, interrupts masked.
[[nodiscard]] bool on_fault(std::uintptr_t address, bool is_write, std::uintptr_t pc, std::uintptr_t frame) noexcept;

/// Whether @p address is in the pool. Memory of the pool may be read only where find() has a live object. Context: any.
[[nodiscard]] bool covers(std::uintptr_t address) noexcept;
/// Called on each hart by a periodic interrupt, 10 to 1000 times a second. The hart's next operation on each of up to
/// 48 selected caches then takes the slow path. An allocation there counts (Config::every), and is sampled if a sample
/// is due. With Config::ms, calls do nothing until one is due. Without on_tick(), allocations from magazines that never
/// run empty are never sampled. Complexity: about 10 instructions a selected cache. Context: interrupts masked.
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
/// Checks the pattern beside each live object and, without a trap unit, the freed objects. @returns how many are
/// damaged; each was reported. Complexity: O(slots), a lock hold for each. Context: any.
std::size_t verify() noexcept;

// ---- for the allocator ----------------------------------------------------------------------------------------------

namespace internal {
/// Functions that the allocator calls once guards were started. An image that never calls start() does not link them.
struct Calls {
  /// Called after may_pass() returned false: makes a sample of @p bytes at @p alignment for the selected @p cache, or a
  /// block if that is nullptr. Its stack begins at @p frame. @returns nullptr if there is no sample after all.
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
  /// Changes the observer's functions for frees so that they first look for a guarded object.
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
/// Allocations until the next sample. If samples are by time (Config::ms), it is never above 0, and allocate() decides.
extern constinit std::atomic<std::int32_t> left;
/// Counts @p allocations unless a sample is due. If two harts call it at once, it may count the allocations of only one
/// of them. @returns false if a sample is due.
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
