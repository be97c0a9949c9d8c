#pragma once
/// The port for FreeRTOS on one RISC-V hart in M-mode. It includes no header of the kernel: the code that calls the
/// kernel is in heap_qm.c, which is compiled with the kernel.
///
/// Masking clears mstatus.MIE, as the critical sections of the kernel's RISC-V port do, so the two nest in any order.
/// For a kernel whose critical sections mask interrupts only up to a level (a CLIC, an interrupt controller with a
/// threshold), the firmware has a header <qm_freertos_mask.hpp> in the include path of this header, with
///
///     namespace qm::freertos {
///     inline constexpr std::uintptr_t kUnmasked = ...;    // the level in tasks, outside of critical sections
///     std::uintptr_t mask_level() noexcept;               // raises the level to the kernel's; returns the level
///     void restore_level(std::uintptr_t before) noexcept;  // sets that level again
///     }
///
/// An interrupt above that level may occur at any instruction. heap_qm.c refuses its calls of the heap during a masked
/// section of the allocator, which qm_freertos_in_section shows.

#include <cstddef>
#include <cstdint>

#include <qm/hal/port_contract.hpp>
#if __has_include(<qm_freertos_mask.hpp>)
#include <qm_freertos_mask.hpp>
#else
namespace qm::freertos {
inline constexpr std::uintptr_t kUnmasked = 8;  // mstatus.MIE, in place
inline std::uintptr_t mask_level() noexcept {
  std::uintptr_t before;
  asm volatile("csrrci %0, mstatus, 8" : "=r"(before) : : "memory");
  return before & 8;
}
inline void restore_level(std::uintptr_t before) noexcept {
  asm volatile("csrs mstatus, %0" : : "r"(before) : "memory");
}
}  // namespace qm::freertos
#endif

extern "C" {
/// Defined by heap_qm.c.
std::uint32_t qm_freertos_context_key(void) noexcept;
std::size_t qm_freertos_context_label(char* label, std::size_t most) noexcept;
std::uintptr_t qm_freertos_stack_bounds(std::uintptr_t frame, std::uintptr_t* low) noexcept;
std::uint64_t qm_freertos_ticks(void) noexcept;
std::uint64_t qm_freertos_tick_rate(void) noexcept;
void qm_freertos_wait(void) noexcept;
[[gnu::noreturn]] void qm_freertos_fatal(const char* reason) noexcept;
/// 1 while the allocator has masked interrupts.
extern volatile std::uint8_t qm_freertos_in_section;
}

namespace qm::hal {

struct Port : PortDefaults {
  static constexpr unsigned kMaxHarts = 1;
  static unsigned hart_index() noexcept { return 0; }

  /// The previous level, and in the lowest bit the previous qm_freertos_in_section.
  enum class InterruptState : std::uintptr_t { kEnabled = freertos::kUnmasked << 1 };
  static InterruptState mask_interrupts() noexcept {
    const std::uintptr_t level = freertos::mask_level();
    const std::uintptr_t inside = qm_freertos_in_section;
    qm_freertos_in_section = 1;
    return static_cast<InterruptState>(level << 1 | inside);
  }
  static void restore_interrupts(InterruptState state) noexcept {
    const auto before = static_cast<std::uintptr_t>(state);
    qm_freertos_in_section = static_cast<std::uint8_t>(before & 1);
    freertos::restore_level(before >> 1);
  }

  static std::uint64_t ticks() noexcept { return qm_freertos_ticks(); }
  static std::uint64_t tick_rate() noexcept { return qm_freertos_tick_rate(); }
  static void send_ipi(unsigned) noexcept {}  // there is no other hart
  [[noreturn]] static void fatal(const char* reason) noexcept { qm_freertos_fatal(reason); }

  // Functions with defaults in PortDefaults:

  static std::uint32_t context_key() noexcept { return qm_freertos_context_key(); }
  static std::size_t context_label(std::span<char> label) noexcept {
    return qm_freertos_context_label(label.data(), label.size());
  }
  static StackBounds stack_bounds(std::uintptr_t frame) noexcept {
    StackBounds bounds;
    bounds.high = qm_freertos_stack_bounds(frame, &bounds.low);
    return bounds;
  }
  static void wait_for_interrupt() noexcept { qm_freertos_wait(); }
};

}  // namespace qm::hal
