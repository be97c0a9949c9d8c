#pragma once
/// The selected port, checked against the contract, and what keeps interrupts away through it: the guard that masks
/// them, and the section of a fast path that is written in C++.

#include <cstddef>
#include <cstdint>

#include <qm/config.h>
#include <qm/hal/port_contract.hpp>
#include <qm/hal/selected_port.hpp>

namespace qm::hal {

static_assert(PortContract<Port>,
              "the selected port does not meet qm::hal::PortContract, as the lines below say: see docs/porting.md");

/// Whether there is another hart to look out for: what is only for that is not in an image for one.
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

/// Whether code may go on on another hart after any instruction, unless it masks interrupts: the port has threads.
inline constexpr bool kThreads = internal::HasThreads<Port>;
static_assert(kThreads || !internal::NamesThreads<Port>,
              "thread_state() of the selected port is to be: static ThreadState& thread_state() noexcept");

/// Ticks in @p milliseconds, by the whole ones in one of them. Without a 64-bit division, which RV32 has to call libgcc
/// for.
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

/// Surrounds the two accesses of a fast path in C++: nobody else changes the hart's cells meanwhile. This one masks
/// interrupts.
class MaskedSection {
 public:
  /// Whether place() may be -kStep: the section must find the hart's cells closed.
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

/// The port's own, where it has a cheaper one.
using Section = internal::SectionOf<Port>::Type;

}  // namespace qm::hal
