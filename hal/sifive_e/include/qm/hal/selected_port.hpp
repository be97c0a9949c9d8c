#pragma once
/// The port for QEMU's board sifive_e (SiFive's E31: RV32, M-mode, 16 KB of RAM, code in flash) and similar boards: one
/// hart, whose handlers may allocate.

#include <qm/hal/port_contract.hpp>

extern "C" {
[[noreturn]] void board_stop(const char* reason);
extern const char __stack_start[], __stack_end[];
}

namespace qm::hal {

struct Port : PortDefaults {
  static constexpr unsigned kMaxHarts = 1;
  static unsigned hart_index() noexcept { return 0; }

  enum class InterruptState : std::uintptr_t { kMasked = 0, kEnabled = 8 };  // mstatus.MIE, at its position
  static InterruptState mask_interrupts() noexcept {
    std::uintptr_t before;
    asm volatile("csrrci %0, mstatus, 8" : "=r"(before) : : "memory");
    return static_cast<InterruptState>(before & 8);
  }
  static void restore_interrupts(InterruptState state) noexcept {
    asm volatile("csrs mstatus, %0" : : "r"(state) : "memory");
  }

  /// The CLINT's mtime, which counts at 32768 Hz.
  static std::uint64_t ticks() noexcept {
    volatile std::uint32_t* const time = reinterpret_cast<volatile std::uint32_t*>(0x200bff8);
    for (;;) {  // both halves are consistent if the upper one has not changed
      const std::uint32_t high = time[1], low = time[0];
      if (time[1] == high) return static_cast<std::uint64_t>(high) << 32 | low;
    }
  }
  static std::uint64_t tick_rate() noexcept { return 32'768; }
  static void send_ipi(unsigned) noexcept {}  // there is no other hart
  static StackBounds stack_bounds(std::uintptr_t) noexcept {
    return {reinterpret_cast<std::uintptr_t>(__stack_start), reinterpret_cast<std::uintptr_t>(__stack_end)};
  }
  [[noreturn]] static void fatal(const char* reason) noexcept { board_stop(reason); }
};

}  // namespace qm::hal
