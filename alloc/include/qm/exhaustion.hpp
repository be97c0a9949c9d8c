#pragma once
/// Exhaustion: what an allocation does when its cache or arena, and what they draw from, have nothing left.
///
///     pursue()               the outermost level of a slow path, nothing held
///       drain                  idle memory of all harts and caches back into the arenas; then the allocation again
///       Reclaimer              what the firmware can spare, one after the other, each followed by drain and allocation
///       wait                   Effort::kWait: the allocation again when somebody frees, a drain now and then
///       ExhaustionReport       to the firmware, not more often than it wants
///
///     atomic failure         hal::post(): each hart gives its magazines to the depots;
///                            the firmware's background task, told by drain_wanted, calls finish_drain() for the rest
///
/// Invariants
/// - X1 pursue() holds nothing: no lock, no cell, and interrupts enabled unless no other hart is online. The harts it
///      asks can answer whatever they are doing, and two harts that ask at once serve each other.
/// - X2 While scarce(), no magazine is filled: a free goes to the slabs, a refill takes one object. What a drain has
///      found does not hide again before its finder has tried, and whoever waits hears of every free that is not a fast
///      path; a drained cell is closed, so fast paths end with the drain.
/// - X3 A drain that began after a hart asked serves that hart, whoever did it: a storm of failures shares its drains.
/// - X4 On a hart that drains or asks a reclaimer, what a destructor or the reclaimer allocates fails quietly: no
///      recursion.
/// - X5 A hart that has missed a deadline is named, and not waited for again before it has answered a post.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <qm/effort.hpp>
#include <qm/hal/hart.hpp>
#include <qm/hal/round.hpp>
#include <qm/list.hpp>
#include <qm/registry.hpp>

namespace qm {

class Arena;

// ---- what the firmware can spare -----------------------------------------------------------------------------------

/// Something that holds memory it could do without: a cache of files, of decoded pictures. Asked when no idle memory is
/// left.
struct Reclaimer : ListNode {
  /// Frees what it can, about @p wanted bytes or more, by the ordinary functions. Runs on the hart that lacks memory,
  /// in the midst of an allocation: it must not wait for a lock that may be held while allocating (try it and return
  /// 0), nor yield. What it allocates itself fails quietly. @returns the bytes it has freed; 0: nothing to spare.
  using Function = std::size_t (*)(std::size_t wanted, void* context) noexcept;
  constexpr explicit Reclaimer(Function what, void* whose = nullptr) noexcept : function(what), context(whose) {}

  Function function;
  void* context;
  std::uint32_t running = 0;  ///< harts in the function: the allocator's
};

/// Adds @p reclaimer, the last to be asked. It stays the caller's and lives until it is removed.
/// @returns kInvalid without a function; kBusy if it is added already. Context: any.
Status add_reclaimer(Reclaimer& reclaimer) noexcept;

/// Takes @p reclaimer out, once no hart is in its function.
/// @returns kNotFound if it was not added; kBusy, and it stays, if a hart is in its function and the caller may not
///          wait.
Status remove_reclaimer(Reclaimer& reclaimer) noexcept;

// ---- what the firmware hears ---------------------------------------------------------------------------------------

/// One allocation that failed, and where the memory is.
struct ExhaustionReport {
  struct Holder {
    char name[kNameBytes] = {};
    std::size_t bytes = 0;
  };
  static constexpr unsigned kHolders = 10;

  char name[kNameBytes] = {};  ///< the cache or arena
  bool is_arena = false;
  bool at_limit = false;          ///< the cache's own limit was in the way, not want of memory
  Effort effort = Effort::kAuto;  ///< what was done for it: kAtomic, kReclaim or kWait
  std::size_t size = 0;           ///< bytes (or units) asked for

  // Idle in what draws from the same root as the cache or arena.
  std::size_t in_magazines[hal::Port::kMaxHarts] = {};  ///< by hart, bytes
  std::size_t in_previous[hal::Port::kMaxHarts] = {};   ///< of these, in the magazines that are not loaded
  std::size_t in_depots = 0;
  std::size_t in_slabs = 0;  ///< empty slabs, and pages of extents that no slab has
  std::size_t in_spans = 0;  ///< empty spans
  /// Free objects of slabs in use, which only their own cache can have.
  std::size_t in_fragments = 0;
  std::size_t recoverable = 0;  ///< what a drain could free at most: all but the fragments

  Holder holders[kHolders] = {};  ///< who holds the most: caches, and arenas that nobody imports from
  hal::HartMask silent = 0;       ///< harts that did not answer: what they have idle is not had
  std::uint32_t failures = 0;     ///< allocations that failed since boot, this one included
  std::uint32_t unreported = 0;   ///< of these, since the last report: too soon after one to get their own
};

struct ExhaustionConfig {
  /// Told of a failure. No lock is held; must not allocate with more than Effort::kQuiet. Context: of the allocation
  /// that failed, or of finish_drain() for an atomic one; of the atomic one itself if there is no `drain_wanted`.
  void (*report)(const ExhaustionReport& report) noexcept = nullptr;
  /// An atomic allocation has failed: wake whoever calls finish_drain(). Context: any, interrupt handlers included.
  void (*drain_wanted)() noexcept = nullptr;
  /// Lets a waiting allocation's hart do something else until hal::Port::ticks() is @p until, or less long. Default:
  /// `wfi`, which a free ends, and the hart's timer tick; without a tick, a wait is as long as the next interrupt makes
  /// it.
  void (*pause)(std::uint64_t until) noexcept = nullptr;
  /// With a `pause` of one's own: somebody has freed while an allocation is in it, so it may end. Context: any.
  void (*wake)() noexcept = nullptr;
  /// How long a drain waits for a hart to give its magazines. It is in every reclaiming allocation's worst case.
  std::uint32_t deadline_ms = hal::kRoundDeadlineMs;
  /// Least time between two reports.
  std::uint32_t interval_ms = 1000;
};

/// Sets all of it. Context: after qm::initialize(), which forgets it; no allocation is failing meanwhile.
void configure_exhaustion(const ExhaustionConfig& config) noexcept;

struct ExhaustionStats {
  std::uint32_t failures = 0;         ///< allocations that returned nullptr, those within others and faults not counted
  std::uint32_t atomic_failures = 0;  ///< of these, by callers that could not wait
  std::uint32_t rescued = 0;          ///< allocations that succeeded after a drain, a reclaimer or a wait
  std::uint32_t drains = 0;
  std::uint32_t shared = 0;  ///< requests that another hart's drain served
  std::uint32_t rounds = 0;  ///< rounds asked of other harts by drains
  std::uint32_t posts = 0;   ///< drains started by atomic failures
  std::uint32_t missed = 0;  ///< deadlines that a hart missed
  std::uint32_t waits = 0;   ///< allocations that waited for frees
  std::uint32_t reports = 0;
};
[[nodiscard]] ExhaustionStats exhaustion_stats() noexcept;

/// Finishes the drain that an atomic failure has started, and reports that failure.
/// @returns whether there was one. Complexity: as reclaim(). Context: hal::may_ask_harts(): a background task, or the idle
///          loop.
bool finish_drain() noexcept;

// ---- for the allocator ---------------------------------------------------------------------------------------------

namespace exhaustion {

/// An allocation that has found nothing.
struct Want {
  const Registered& who;  ///< the cache or arena
  const Arena& from;      ///< the arena, or the cache's source
  bool is_arena;
  bool at_limit;  ///< the cache's own limit is in the way
  bool drains;    ///< whether a drain may give it anything
  std::size_t size;
  Effort effort;
};

/// The allocation again. @returns what it got; 0: nothing.
using Attempt = std::uintptr_t (*)(void* argument) noexcept;

/// Does what @p want's effort allows, with @p attempt now and then.
/// @returns what an attempt got; 0 if none got anything: the failure is counted and reported then, unless it is quiet.
/// Context: any; where not hal::may_ask_harts() it is an atomic failure.
[[nodiscard]] std::uintptr_t pursue(const Want& want, Attempt attempt, void* argument) noexcept;

/// What calls a callable `std::uintptr_t()`, with that as its argument.
template <class Callable>
[[nodiscard]] constexpr Attempt attempt_of(Callable&) noexcept {
  return [](void* callable) noexcept { return (*static_cast<Callable*>(callable))(); };
}

/// pursue() with a callable.
template <class Callable>
[[nodiscard]] std::uintptr_t pursue(const Want& want, Callable&& attempt) noexcept {
  return pursue(want, attempt_of(attempt), &attempt);
}

/// Starts a drain as an atomic failure does, without one: memory was short, and something else has helped. Context:
/// any.
void start_drain() noexcept;

namespace internal {
extern constinit std::atomic<std::uint32_t> shortages;
}
/// Whether an allocation is in pursuit of memory somewhere (X2).
[[nodiscard]] inline bool scarce() noexcept { return internal::shortages.load(std::memory_order_relaxed) != 0; }
/// Something was given back to the slabs while scarce(): whoever waits looks again. Context: any, no lock.
void note_free() noexcept;

/// Forgets hooks, reclaimers and counts. Context: of qm::shutdown().
void reset() noexcept;

}  // namespace exhaustion
}  // namespace qm
