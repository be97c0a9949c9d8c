#pragma once
/// The port for NuttX's flat builds on RISC-V, in M-mode or S-mode (QM_NUTTX_S_MODE). It includes no header of NuttX:
/// the code that calls NuttX is in mm_qm.c, which is compiled with NuttX's flags.
///
/// tp belongs to NuttX's threads, so the build has QM_HART_LOCALS=table. A thread may continue on another hart after
/// any instruction at which interrupts are enabled: the port has threads (docs/porting.md).

#include <cstddef>
#include <cstdint>

#include <qm/hal/port_contract.hpp>

extern "C" {
/// Defined by mm_qm.c.
unsigned qm_nuttx_hart(void) noexcept;
bool* qm_nuttx_thread_flag(void) noexcept;
std::uint32_t qm_nuttx_context_key(void) noexcept;
std::size_t qm_nuttx_context_label(char* label, std::size_t most) noexcept;
std::uintptr_t qm_nuttx_stack_bounds(std::uintptr_t frame, std::uintptr_t* low) noexcept;
std::uint64_t qm_nuttx_microseconds(void) noexcept;
void qm_nuttx_wait(void) noexcept;
void qm_nuttx_send_ipi(unsigned hart) noexcept;
[[gnu::noreturn]] void qm_nuttx_fatal(const char* reason) noexcept;
}

namespace qm::hal {

struct Port : PortDefaults {
  static unsigned hart_index() noexcept {
    if constexpr (kMaxHarts == 1) return 0;
#if defined(QM_NUTTX_S_MODE)
    return qm_nuttx_hart();
#else
    unsigned hart;
    asm volatile("csrr %0, mhartid" : "=r"(hart));  // equals NuttX's processor number
    return hart;
#endif
  }

#if defined(QM_NUTTX_S_MODE)
  enum class InterruptState : std::uintptr_t{kMasked = 0, kEnabled = 2};  // sstatus.SIE
  static InterruptState mask_interrupts() noexcept {
    std::uintptr_t before;
    asm volatile("csrrci %0, sstatus, 2" : "=r"(before) : : "memory");
    return static_cast<InterruptState>(before & 2);
  }
  static void restore_interrupts(InterruptState state) noexcept {
    asm volatile("csrs sstatus, %0" : : "r"(state) : "memory");
  }
#else
  enum class InterruptState : std::uintptr_t { kMasked = 0, kEnabled = 8 };  // mstatus.MIE
  static InterruptState mask_interrupts() noexcept {
    std::uintptr_t before;
    asm volatile("csrrci %0, mstatus, 8" : "=r"(before) : : "memory");
    return static_cast<InterruptState>(before & 8);
  }
  static void restore_interrupts(InterruptState state) noexcept {
    asm volatile("csrs mstatus, %0" : : "r"(state) : "memory");
  }
#endif

  static std::uint64_t ticks() noexcept { return qm_nuttx_microseconds(); }
  static std::uint64_t tick_rate() noexcept { return 1'000'000; }
  static void send_ipi(unsigned hart) noexcept { qm_nuttx_send_ipi(hart); }
  [[noreturn]] static void fatal(const char* reason) noexcept { qm_nuttx_fatal(reason); }

  // Functions with defaults in PortDefaults:

  static ThreadState& thread_state() noexcept { return *reinterpret_cast<ThreadState*>(qm_nuttx_thread_flag()); }
  static std::uint32_t context_key() noexcept { return qm_nuttx_context_key(); }
  static std::size_t context_label(std::span<char> label) noexcept {
    return qm_nuttx_context_label(label.data(), label.size());
  }
  static StackBounds stack_bounds(std::uintptr_t frame) noexcept {
    StackBounds bounds;
    bounds.high = qm_nuttx_stack_bounds(frame, &bounds.low);
    return bounds;
  }
  static void wait_for_interrupt() noexcept { qm_nuttx_wait(); }
};
static_assert(sizeof(ThreadState) == sizeof(bool));

}  // namespace qm::hal
