#pragma once
/// The selected port, checked against the contract, and the guard that masks interrupts through it.

#include <qm/hal/port_contract.hpp>
#include <qm/hal/selected_port.hpp>

namespace qm::hal {
static_assert(PortContract<Port>, "the selected port does not meet qm::hal::PortContract: see hal/template");

/// Masks interrupts for a scope.
class InterruptGuard {
 public:
  InterruptGuard() noexcept : state_(Port::mask_interrupts()) {}
  ~InterruptGuard() { Port::restore_interrupts(state_); }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  /// Whether interrupts were enabled before this guard.
  [[nodiscard]] bool were_enabled() const noexcept { return Port::were_enabled(state_); }

 private:
  Port::InterruptState state_;
};

}  // namespace qm::hal
