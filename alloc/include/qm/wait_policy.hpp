#pragma once
/// The wait policy of an allocation: what it may do before it fails. One word, the same in C (`QM_ATOMIC`,
/// `QM_RECLAIM`, `QM_WAIT_MS(n)`).
///
///     | 31 ........ bound of a wait in milliseconds ........ 3 | 2 .. kind .. 0 |

#include <cstdint>

namespace qm {

enum class WaitPolicy : std::uint32_t {
  kAuto = 0,     ///< as kReclaim if the context allows that (hal::may_ask_harts()), else as kAtomic
  kAtomic = 1,   ///< any context: uses memory of the own hart, the depot, the slabs and the source. A failure starts a
                 ///< drain in the background, so that the next allocation finds memory that was idle elsewhere
  kReclaim = 2,  ///< also drains the idle memory of all harts, calls the reclaimers, and retries. As kAtomic if the
                 ///< context does not allow that: in a handler, with a lock held, and with interrupts masked while
                 ///< another hart is online
  kWait = 3,     ///< as kReclaim, then waits for frees: for kDefaultWaitMs, or as long as wait_at_most() says; not with
                 ///< interrupts masked
  kQuiet = 4,    ///< as kAtomic, but a failure is not reported and starts nothing: for a part of another allocation, as
                 ///< in import functions
  kMoving = 5,   ///< as kAuto, but puts no event into the stream: for the heap's reallocation, which is one event
};

/// How long WaitPolicy::kWait waits if it has no bound.
inline constexpr std::uint32_t kDefaultWaitMs = 1000;
/// The longest bound of a wait: about six days.
inline constexpr std::uint32_t kMaxWaitMs = (std::uint32_t{1} << 29) - 1;

/// WaitPolicy::kWait with a bound of @p ms milliseconds, 1 to kMaxWaitMs; 0 stands for kDefaultWaitMs.
[[nodiscard]] constexpr WaitPolicy wait_at_most(std::uint32_t ms) noexcept {
  return WaitPolicy{static_cast<std::uint32_t>(WaitPolicy::kWait) | (ms > kMaxWaitMs ? kMaxWaitMs : ms) << 3};
}

/// The wait policy without its bound.
[[nodiscard]] constexpr WaitPolicy kind_of(WaitPolicy wait_policy) noexcept {
  return WaitPolicy{static_cast<std::uint32_t>(wait_policy) & 7};
}

/// The bound of a wait, in milliseconds; 0 for every other kind.
[[nodiscard]] constexpr std::uint32_t wait_bound_ms(WaitPolicy wait_policy) noexcept {
  if (kind_of(wait_policy) != WaitPolicy::kWait) return 0;
  const std::uint32_t ms = static_cast<std::uint32_t>(wait_policy) >> 3;
  return ms != 0 ? ms : kDefaultWaitMs;
}
static_assert(wait_bound_ms(wait_at_most(5)) == 5 && wait_bound_ms(wait_at_most(~std::uint32_t{0})) == kMaxWaitMs &&
              wait_bound_ms(WaitPolicy::kWait) == kDefaultWaitMs && kind_of(wait_at_most(5)) == WaitPolicy::kWait);

}  // namespace qm
