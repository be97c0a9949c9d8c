#pragma once

extern "C" {
[[noreturn]] void board_stop(const char* reason);
extern char __stack_start[], __stack[];
std::uint64_t board_ticks();
}

namespace qm::hal {

/// One hart in M-mode; interrupts are masked in mstatus.MIE.
struct Port : PortDefaults {
  static constexpr unsigned kMaxHarts = 1;
  static unsigned hart_index() noexcept { return 0; }
  enum class InterruptState : std::uintptr_t { kMasked = 0, kEnabled = 8 };
  static InterruptState mask_interrupts() noexcept {
    std::uintptr_t before;
    asm volatile("csrrci %0, mstatus, 8" : "=r"(before) : : "memory");
    return static_cast<InterruptState>(before & 8);
  }
  static void restore_interrupts(InterruptState state) noexcept {
    asm volatile("csrs mstatus, %0" : : "r"(state) : "memory");
  }
  static std::uint64_t ticks() noexcept { return board_ticks(); }
  static std::uint64_t tick_rate() noexcept { return 10'000'000; }
  static void send_ipi(unsigned) noexcept {}
  /// The bounds of the only stack, so that the trace records a whole call stack and reads nothing beyond it.
  static StackBounds stack_bounds(std::uintptr_t) noexcept {
    return {reinterpret_cast<std::uintptr_t>(__stack_start), reinterpret_cast<std::uintptr_t>(__stack)};
  }
  [[noreturn]] static void fatal(const char* reason) noexcept { board_stop(reason); }
};

}  // namespace qm::hal
