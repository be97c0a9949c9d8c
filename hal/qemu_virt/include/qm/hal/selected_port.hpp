#pragma once
/// The port for QEMU's virt board: S-mode over OpenSBI, hart-locals through `tp`, interrupts masked in sstatus.SIE.
///
/// What needs to know of stacks and tasks is declared here and defined by the image's composition root (firmware/boot).

#include <qm/hal/csr.hpp>
#include <qm/hal/port_contract.hpp>
#include <qm/hal/sbi.hpp>

namespace qm::hal {

/// What the boot code tells the port before the first hart goes online.
struct PortState {
  std::uint64_t tick_rate = 10'000'000;                     ///< Hz, from the device tree
  std::uintptr_t hart_ids[PortDefaults::kMaxHarts] = {};  ///< the SBI's hart id of each hart index
};
extern constinit PortState port_state;

/// The running hart's index; written once by each hart's start code.
extern constinit thread_local unsigned port_hart_index;

/// The running context's key; the composition root changes it with the context, masked.
extern constinit thread_local std::uint32_t port_context_key;

/// Defined by the composition root.
[[noreturn]] void platform_fatal(const char* reason) noexcept;
StackBounds platform_stack_bounds(std::uintptr_t frame) noexcept;
std::size_t platform_context_label(std::span<char> label) noexcept;

struct Port : PortDefaults {
  /// sstatus.SIE as it was, in place.
  enum class InterruptState : std::uintptr_t { kMasked = 0, kEnabled = kSstatusSie };

  /// 1 instruction.
  static unsigned hart_index() noexcept { return port_hart_index; }

  static InterruptState mask_interrupts() noexcept {
    std::uintptr_t before;
    asm volatile("csrrci %0, sstatus, 2" : "=r"(before) : : "memory");  // clears SIE
    return static_cast<InterruptState>(before & kSstatusSie);
  }
  static void restore_interrupts(InterruptState state) noexcept {
    asm volatile("csrs sstatus, %0" : : "r"(static_cast<std::uintptr_t>(state)) : "memory");
  }
  static constexpr bool were_enabled(InterruptState state) noexcept { return state == InterruptState::kEnabled; }

#if __riscv_xlen == 64
  static std::uint64_t ticks() noexcept {
    std::uint64_t now;
    asm volatile("rdtime %0" : "=r"(now));
    return now;
  }
#else
  static std::uint64_t ticks() noexcept {
    std::uint32_t low, high, again;
    do {  // RV32: the halves belong together if the upper one has not moved
      asm volatile("rdtimeh %0\n\trdtime %1\n\trdtimeh %2" : "=&r"(high), "=&r"(low), "=r"(again));
    } while (high != again);
    return static_cast<std::uint64_t>(high) << 32 | low;
  }
#endif
  static std::uint64_t tick_rate() noexcept { return port_state.tick_rate; }

  static void send_ipi(unsigned hart) noexcept { sbi::send_ipi(port_state.hart_ids[hart]); }
  [[noreturn]] static void fatal(const char* reason) noexcept { platform_fatal(reason); }
  static StackBounds stack_bounds(std::uintptr_t frame) noexcept { return platform_stack_bounds(frame); }
  static std::size_t context_label(std::span<char> label) noexcept { return platform_context_label(label); }

  /// 1 instruction.
  static std::uint32_t context_key() noexcept { return port_context_key; }

  static void wait_for_interrupt() noexcept { asm volatile("wfi" : : : "memory"); }
  static void relax() noexcept { asm volatile(".4byte 0x0100000f" : : : "memory"); }  // pause
};

}  // namespace qm::hal
