#pragma once
/// What an allocation may do before it fails: one word, the same in C (`QM_ATOMIC`, `QM_RECLAIM`, `QM_WAIT_MS(n)`).
///
///     | 31 ........ bound of a wait in milliseconds ........ 3 | 2 .. kind .. 0 |

#include <cstdint>

namespace qm {

enum class Effort : std::uint32_t {
  kAuto = 0,     ///< as kReclaim where the context allows that (hal::may_ask_harts()), else as kAtomic
  kAtomic = 1,   ///< any context: what the own hart, the depot, the slabs and the source have. A failure starts a drain
                 ///< behind the caller's back, so that the next one finds what lay idle elsewhere
  kReclaim = 2,  ///< also drains the idle memory of all harts, asks the reclaimers, tries again. As kAtomic where the
                 ///< context does not allow that: in a handler, with a lock held, and with interrupts masked while
                 ///< another hart is online
  kWait = 3,     ///< as kReclaim, then waits for frees: kDefaultWaitMs, or as long as wait_at_most() says; not with
                 ///< interrupts masked
  kQuiet = 4,    ///< as kAtomic, and nobody hears of a failure: for a part of another allocation, as import functions
  kMoving = 5,   ///< as kAuto, and told as no event: the heap's own, which tells a reallocation as one
};

/// How long Effort::kWait waits if it does not say.
inline constexpr std::uint32_t kDefaultWaitMs = 1000;
/// The longest bound of a wait: six days.
inline constexpr std::uint32_t kMaxWaitMs = (std::uint32_t{1} << 29) - 1;

/// Effort::kWait with a bound of @p ms milliseconds, 1 to kMaxWaitMs; 0 stands for kDefaultWaitMs.
[[nodiscard]] constexpr Effort wait_at_most(std::uint32_t ms) noexcept {
  return Effort{static_cast<std::uint32_t>(Effort::kWait) | (ms > kMaxWaitMs ? kMaxWaitMs : ms) << 3};
}

/// The effort without its bound.
[[nodiscard]] constexpr Effort kind_of(Effort effort) noexcept {
  return Effort{static_cast<std::uint32_t>(effort) & 7};
}

/// The bound of a wait, in milliseconds; 0 for every other kind.
[[nodiscard]] constexpr std::uint32_t wait_bound_ms(Effort effort) noexcept {
  if (kind_of(effort) != Effort::kWait) return 0;
  const std::uint32_t ms = static_cast<std::uint32_t>(effort) >> 3;
  return ms != 0 ? ms : kDefaultWaitMs;
}
static_assert(wait_bound_ms(wait_at_most(5)) == 5 && wait_bound_ms(wait_at_most(~std::uint32_t{0})) == kMaxWaitMs &&
              wait_bound_ms(Effort::kWait) == kDefaultWaitMs && kind_of(wait_at_most(5)) == Effort::kWait);

}  // namespace qm
