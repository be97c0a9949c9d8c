#pragma once
/// The selected port, checked against the contract; and the two classes that keep interrupts away: the guard that masks
/// them, and the section of a fast path that is written in C++.

#include <cstddef>
#include <cstdint>

#include <qm/config.h>
#include <qm/hal/port_contract.hpp>
#include <qm/hal/selected_port.hpp>

namespace qm::hal {

static_assert(PortContract<Port>,
              "the selected port does not meet qm::hal::PortContract, as the lines below say: see docs/porting.md");

/// Whether the image may run on more than one hart. An image for one hart leaves out the code that handles other harts.
inline constexpr bool kManyHarts = Port::kMaxHarts > 1;

namespace internal {
template <class P>
concept HasThreads = requires {
  { P::thread_state() }
  noexcept->std::same_as<ThreadState&>;
};
template <class P>
concept NamesThreads = requires {
  P::thread_state;
};
}  // namespace internal

/// Whether a thread may continue on another hart after any instruction at which interrupts are enabled: the port has
/// threads.
inline constexpr bool kThreads = internal::HasThreads<Port>;
static_assert(kThreads || !internal::NamesThreads<Port>,
              "thread_state() of the selected port is to be: static ThreadState& thread_state() noexcept");

/// The number of ticks in @p milliseconds; a millisecond counts as a whole number of ticks, rounded down. It needs no
/// 64-bit division, for which RV32 would call libgcc.
[[nodiscard]] inline std::uint64_t ticks_of(std::uint32_t milliseconds) noexcept {
  return std::uint64_t{static_cast<std::uint32_t>(Port::tick_rate()) / 1000} * milliseconds;
}

/// Masks interrupts for a scope.
class InterruptGuard {
 public:
  InterruptGuard() noexcept : state_(Port::mask_interrupts()) {}
  ~InterruptGuard() { Port::restore_interrupts(state_); }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  /// Whether interrupts were enabled before this guard.
  [[nodiscard]] bool were_enabled() const noexcept { return state_ == Port::InterruptState::kEnabled; }

 private:
  Port::InterruptState state_;
};

/// Encloses the two accesses of a fast path in C++, so that nothing else changes the hart's per-hart caches between
/// them. This class masks interrupts.
class MaskedSection {
 public:
  /// Whether place() may return -kStep, with which the section must find the hart's per-hart caches closed.
  static constexpr bool kShuts = false;
  static constexpr std::ptrdiff_t kStep = 1;
  /// The hart's index times kStep.
  [[nodiscard]] std::ptrdiff_t place() const noexcept { return static_cast<std::ptrdiff_t>(Port::hart_index()); }

 private:
  InterruptGuard masked_;
};

namespace internal {
template <class P>
struct SectionOf {
  using Type = MaskedSection;
};
template <class P>
requires requires { typename P::Section; }
struct SectionOf<P> {
  using Type = typename P::Section;
};
}  // namespace internal

/// The port's own section class if it has a cheaper one, else MaskedSection.
using Section = internal::SectionOf<Port>::Type;

}  // namespace qm::hal
