#pragma once
/// The ports for QEMU's virt board, S-mode over OpenSBI (QM_PORT=qemu_virt) and bare M-mode (qemu_virt_machine), RV64
/// and RV32: hart-locals through `tp`, interrupts masked in sstatus.SIE or mstatus.MIE. <qm/hal/privilege.hpp> has the
/// functions that differ.
///
/// Functions that depend on stacks and tasks are declared here and defined by the image's composition root
/// (firmware/boot).

#include <qm/hal/csr.hpp>
#include <qm/hal/port_contract.hpp>
#include <qm/hal/privilege.hpp>
#include <qm/hal/trap_unit.hpp>

namespace qm::hal {

/// Values that the boot code gives the port before the first hart goes online.
struct PortState {
  std::uint64_t tick_rate = 10'000'000;                   ///< Hz, from the device tree
  std::uintptr_t hart_ids[PortDefaults::kMaxHarts] = {};  ///< hart id of each hart index
};
extern constinit PortState port_state;

/// The running hart's index; written once by each hart's start code.
extern constinit thread_local unsigned port_hart_index;

/// The running context's key; the composition root changes it together with the context, with interrupts masked.
extern constinit thread_local std::uint32_t port_context_key;

/// Defined by the composition root.
[[noreturn]] void platform_fatal(const char* reason) noexcept;
StackBounds platform_stack_bounds(std::uintptr_t frame) noexcept;
std::size_t platform_context_label(std::span<char> label) noexcept;

struct Port : PortDefaults {
  using TrapUnit = SelectedTrapUnit;
  /// ticks() at the board's reset. With 64 bits it is above all addresses of memory, so a leak scan does not take a time
  /// in a register or on a stack for a pointer.
  static constexpr std::uint64_t kFirstTick = sizeof(void*) == 8 ? std::uint64_t{1} << 40 : 0;
  /// The interrupt-enable bit of the status register, at its position.
  enum class InterruptState : std::uintptr_t { kMasked = 0, kEnabled = QM_XSTATUS_IE };

  /// 1 instruction.
  static unsigned hart_index() noexcept { return port_hart_index; }

  static InterruptState mask_interrupts() noexcept {
    std::uintptr_t before;
    asm volatile("csrrci %0, " QM_CSR_TEXT(QM_XSTATUS) ", %1" : "=r"(before) : "K"(QM_XSTATUS_IE) : "memory");
    return static_cast<InterruptState>(before & QM_XSTATUS_IE);
  }
  static void restore_interrupts(InterruptState state) noexcept { QM_CSR_SET(QM_XSTATUS, state); }

  static std::uint64_t ticks() noexcept { return privilege::ticks() + kFirstTick; }
  static std::uint64_t tick_rate() noexcept { return port_state.tick_rate; }
  /// Sets this hart's next timer interrupt, and clears a pending one. All ones: never.
  static void set_timer(std::uint64_t deadline) noexcept { privilege::set_timer(deadline - kFirstTick); }

  static void send_ipi(unsigned hart) noexcept { privilege::send_ipi(port_state.hart_ids[hart]); }
  [[noreturn]] static void fatal(const char* reason) noexcept { platform_fatal(reason); }
  static StackBounds stack_bounds(std::uintptr_t frame) noexcept { return platform_stack_bounds(frame); }
  static std::size_t context_label(std::span<char> label) noexcept { return platform_context_label(label); }

  /// 1 instruction.
  static std::uint32_t context_key() noexcept { return port_context_key; }

  static void wait_for_interrupt() noexcept { asm volatile("wfi" : : : "memory"); }
  static void relax() noexcept { asm volatile(".4byte 0x0100000f" : : : "memory"); }  // pause
};

}  // namespace qm::hal
