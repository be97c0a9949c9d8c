#pragma once
// The port under Relacy: a thread stands for a hart. No interrupt interrupts one, but an IPI ends its sleep.

#include <qm/hal/port_contract.hpp>

namespace qm::hal {

struct Port : PortDefaults {
  enum class InterruptState : bool { kMasked, kEnabled };

  static unsigned hart_index() noexcept { return rl::thread_index(); }
  static InterruptState mask_interrupts() noexcept { return InterruptState::kEnabled; }
  static void restore_interrupts(InterruptState) noexcept {}
  static std::uint64_t ticks() noexcept { return 0; }  // no deadline passes
  static void send_ipi(unsigned hart) noexcept { pending[hart].fetch_or(1, std::memory_order_relaxed); }
  [[noreturn]] static void fatal(const char*) noexcept { std::abort(); }
  /// Returns if an IPI is pending, and takes it. A hart to which nobody sends one waits without end: Relacy reports that.
  static void wait_for_interrupt() noexcept {
    while (pending[hart_index()].exchange(0, std::memory_order_relaxed) == 0) relax();
  }
  static void relax() noexcept { rl::yield(1, $); }

  static inline std::atomic<unsigned> pending[kMaxHarts];
};

}  // namespace qm::hal
