#pragma once
/// Exhaustion: what an allocation does when its cache or arena, and their sources, have no memory left.
///
///     reclaim_and_retry()               called at the outermost level of a slow path; holds nothing
///       drain                  moves the idle memory of all harts and caches into the arenas; then a retry
///       Reclaimer              called one after the other, each followed by a drain and a retry
///       wait                   WaitPolicy::kWait: a retry after each free, and a drain from time to time
///       ExhaustionReport       to the firmware, at most once an interval that the firmware chooses
///
///     atomic failure         hal::post(): each hart gives its magazines to the depots;
///                            drain_wanted wakes the firmware's background task, which calls finish_drain() for the
///                            rest
///
/// Invariants
/// - X1 reclaim_and_retry() holds no lock and no per-hart cache, and interrupts are enabled unless no other hart is
///      online. The harts in its broadcast can answer whatever they are doing, and two harts that reclaim at once
///      answer each other.
/// - X2 While under_pressure(), no magazine is filled and no object waits in quarantine: a freed object goes to its
///      slab, and a refill takes one object. So reclaimed memory is not cached again before the requester retries. A
///      waiting allocation is notified of every free on a slow path; a drain closes per-hart caches, so after it every
///      free is on a slow path. One exception: a free that began before the pressure may still fill a magazine; the
///      next look of a waiting allocation, after at most 16 ms, finds it.
/// - X3 A drain that began after a hart's request serves that hart, whichever hart ran it: concurrent failures share
///      drains.
/// - X4 On a hart that drains or calls a reclaimer, an allocation by a destructor or by the reclaimer fails quietly: no
///      recursion.
/// - X5 A hart that misses a deadline is named in the report, and no drain waits for it again until it has answered a
///      post.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <qm/wait_policy.hpp>
#include <qm/hal/hart.hpp>
#include <qm/hal/broadcast.hpp>
#include <qm/detail/list.hpp>
#include <qm/registry.hpp>

namespace qm {

class Arena;

// ---- reclaimers: memory that the firmware can spare -----------------------------------------------------------------

/// A part of the firmware that holds memory it can spare, such as a cache of files or of decoded pictures. Called when
/// no idle memory is left.
struct Reclaimer : ListNode {
  /// Frees about @p wanted bytes or more, if it can, by the ordinary functions. Runs on the hart that lacks memory, in
  /// the middle of an allocation: it must not yield, nor wait for a lock that may be held while allocating (it should
  /// try the lock and return 0). Its own allocations fail quietly. @returns the bytes it has freed; 0: nothing to
  /// spare.
  using Function = std::size_t (*)(std::size_t wanted, void* context) noexcept;
  constexpr explicit Reclaimer(Function what, void* whose = nullptr) noexcept : function(what), context(whose) {}

  Function function;
  void* context;
  std::uint32_t running = 0;  ///< harts that run the function; for the allocator only
};

/// Adds @p reclaimer as the last to be called. The caller owns it and keeps it until it is removed.
/// @returns kInvalid without a function; kBusy if it is already added. Context: any.
Status add_reclaimer(Reclaimer& reclaimer) noexcept;

/// Removes @p reclaimer, once no hart runs its function.
/// @returns kNotFound if it was not added; kBusy, and it stays, if a hart runs its function and the caller may not
///          wait.
Status remove_reclaimer(Reclaimer& reclaimer) noexcept;

// ---- reports to the firmware ----------------------------------------------------------------------------------------

/// A failed allocation, and where the memory is.
struct ExhaustionReport {
  struct Holder {
    char name[kNameBytes] = {};
    std::size_t bytes = 0;
  };
  static constexpr unsigned kHolders = 10;

  char name[kNameBytes] = {};  ///< the cache or arena
  bool is_arena = false;
  bool at_limit = false;                       ///< the cache was at its limit; memory was not the reason
  WaitPolicy wait_policy = WaitPolicy::kAuto;  ///< what the allocation did before it failed: kAtomic, kReclaim or kWait
  std::size_t size = 0;                        ///< bytes (or units) requested

  // Idle bytes of all caches and arenas with the same root as the failed cache or arena.
  std::size_t in_magazines[hal::Port::kMaxHarts] = {};  ///< by hart, bytes
  std::size_t in_previous[hal::Port::kMaxHarts] = {};   ///< part of these in the previous magazines
  std::size_t in_depots = 0;
  std::size_t in_slabs = 0;  ///< empty slabs, and pages of extents that no slab uses
  std::size_t in_spans = 0;  ///< empty spans
  /// Free objects of slabs in use: only their own cache can allocate them.
  std::size_t in_fragments = 0;
  std::size_t recoverable = 0;  ///< upper bound of what a drain can free: all but the fragments

  Holder holders[kHolders] = {};  ///< the largest holders: caches, and arenas from which none imports
  hal::HartMask silent = 0;       ///< harts that did not answer: their idle memory was not reclaimed
  std::uint32_t failures = 0;     ///< allocations that failed since boot, this one included
  std::uint32_t unreported = 0;   ///< of these, without a report of their own, since the last report
};

struct ExhaustionConfig {
  /// Called after a failure. No lock is held. It may allocate only with WaitPolicy::kQuiet. Context: that of the
  /// failed allocation; for an atomic allocation that of finish_drain(), or of the allocation itself if there is no
  /// `drain_wanted`.
  void (*report)(const ExhaustionReport& report) noexcept = nullptr;
  /// Called after an atomic allocation has failed: wakes the task that calls finish_drain(). Context: any, interrupt
  /// handlers included.
  void (*drain_wanted)() noexcept = nullptr;
  /// Called while an allocation waits: may run other work on its hart until hal::Port::ticks() is @p until, and may
  /// return earlier. Default: `wfi`, which ends at a free or at the hart's timer tick; without a tick, the wait lasts
  /// until the next interrupt.
  void (*pause)(std::uint64_t until) noexcept = nullptr;
  /// With a `pause` of the firmware's own: called after a free while an allocation is in `pause`, which may then
  /// return. Context: any.
  void (*wake)() noexcept = nullptr;
  /// Time that a drain waits for a hart to give its magazines. It is part of the worst case of every reclaiming
  /// allocation.
  std::uint32_t deadline_ms = hal::kBroadcastDeadlineMs;
  /// Least time between two reports.
  std::uint32_t interval_ms = 1000;
};

/// Sets all hooks and times. They hold until qm::shutdown(). Context: no allocation may fail meanwhile.
void configure_exhaustion(const ExhaustionConfig& config) noexcept;

struct ExhaustionStats {
  std::uint32_t failures = 0;         ///< failed allocations, except those within others and by a fault
  std::uint32_t atomic_failures = 0;  ///< of these, by callers that could not wait
  std::uint32_t rescued = 0;          ///< allocations that succeeded after a drain, a reclaimer or a wait
  std::uint32_t drains = 0;
  std::uint32_t shared = 0;      ///< requests that another hart's drain served
  std::uint32_t broadcasts = 0;  ///< broadcasts by drains
  std::uint32_t posts = 0;       ///< drains started by atomic failures
  std::uint32_t missed = 0;      ///< deadlines that harts missed
  std::uint32_t waits = 0;       ///< allocations that waited for frees
  std::uint32_t reports = 0;
};
[[nodiscard]] ExhaustionStats exhaustion_stats() noexcept;

/// Finishes the drain that an atomic failure has started, and reports that failure.
/// @returns whether there was one. Complexity: as reclaim(). Context: hal::may_ask_harts(): a background task, or the
///          idle loop.
bool finish_drain() noexcept;

// ---- for the allocator ---------------------------------------------------------------------------------------------

namespace exhaustion {

/// A request that found no memory.
struct Request {
  const Registered& who;  ///< the cache or arena with the request
  const Arena& from;      ///< the arena, or the cache's source
  bool is_arena;
  bool at_limit;  ///< the cache is at its limit
  bool drains;    ///< whether a drain can help
  std::size_t size;
  WaitPolicy wait_policy;
};

/// Retries the allocation. @returns its result; 0: no memory.
using Attempt = std::uintptr_t (*)(void* argument) noexcept;

/// Reclaims as @p request's wait policy allows, and retries with @p attempt after each step.
/// @returns the result of an attempt; 0 if all failed: then the failure is counted and reported, unless it is quiet.
/// Context: any; where not hal::may_ask_harts() it is an atomic failure.
[[nodiscard]] std::uintptr_t reclaim_and_retry(const Request& request, Attempt attempt, void* argument) noexcept;

/// Returns a function that takes a callable `std::uintptr_t()` as its argument and calls it.
template <class Callable>
[[nodiscard]] constexpr Attempt attempt_of(Callable&) noexcept {
  return [](void* callable) noexcept { return (*static_cast<Callable*>(callable))(); };
}

/// As reclaim_and_retry() above, but @p attempt is a callable.
template <class Callable>
[[nodiscard]] std::uintptr_t reclaim_and_retry(const Request& request, Callable&& attempt) noexcept {
  return reclaim_and_retry(request, attempt_of(attempt), &attempt);
}

/// Starts a drain as an atomic failure does, although none failed: memory was short, and something other than a drain
/// has supplied it. Context: any.
void start_drain() noexcept;

namespace internal {
extern constinit std::atomic<std::uint32_t> shortages;
/// The first reclaimer, for the leak scan, since the list refers to it; nullptr: there is none.
[[nodiscard]] const Reclaimer* first_in_line() noexcept;
}  // namespace internal
/// Whether any allocation reclaims (X2).
[[nodiscard]] inline bool under_pressure() noexcept { return internal::shortages.load(std::memory_order_relaxed) != 0; }
/// Notifies waiting allocations that objects were returned to the slabs while under_pressure(); they retry. Context:
/// any, no lock.
void note_free() noexcept;

/// Resets hooks, reclaimers and counts. Context: of qm::shutdown().
void reset() noexcept;

}  // namespace exhaustion
}  // namespace qm
