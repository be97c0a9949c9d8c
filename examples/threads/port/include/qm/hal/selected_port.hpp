#pragma once
/// A port whose scheduler moves threads from hart to hart: QEMU's virt board in M-mode, without SBI firmware.
///
/// mscratch points to the running context: the thread's or, while the hart handles a trap, the hart's trap context. One
/// instruction reads it, so a thread always reads its own context, even if it moves right after. `tp` belongs to the
/// hart.

#include <array>

#include <qm/hal/port_contract.hpp>

namespace qm::hal {

/// A context: its saved registers while it does not run, and the data that the port reports. The kernel's Thread is
/// one.
struct Context {
  std::array<std::uintptr_t, 32> x{};  ///< x0 to x31. tp and gp are kept and not restored
  std::uintptr_t pc = 0;
  std::uintptr_t status = 0;  ///< mstatus
  StackBounds stack;
  const char* label = "";  ///< "thread radio"
  std::uint32_t key = 0;   ///< unique to this context; 0: a trap context
  ThreadState allocator;
};

/// Defined by the kernel.
[[noreturn]] void kernel_fatal(const char* reason) noexcept;

struct Port : PortDefaults {
  static constexpr unsigned kMaxHarts = 4;

  /// The board numbers its harts from 0. The result is exact while interrupts are masked, and else a hint.
  static unsigned hart_index() noexcept {
    std::uintptr_t hart;
    asm volatile("csrr %0, mhartid" : "=r"(hart));
    return static_cast<unsigned>(hart);
  }

  enum class InterruptState : std::uintptr_t { kMasked = 0, kEnabled = 8 };  // mstatus.MIE, in place
  static InterruptState mask_interrupts() noexcept {
    std::uintptr_t before;
    asm volatile("csrrci %0, mstatus, 8" : "=r"(before) : : "memory");
    return static_cast<InterruptState>(before & 8);
  }
  static void restore_interrupts(InterruptState state) noexcept {
    asm volatile("csrs mstatus, %0" : : "r"(state) : "memory");
  }

  static std::uint64_t ticks() noexcept { return *reinterpret_cast<volatile std::uint64_t*>(0x200bff8); }  // mtime
  static void send_ipi(unsigned hart) noexcept {
    asm volatile("fence rw, o" : : : "memory");
    reinterpret_cast<volatile std::uint32_t*>(0x2000000)[hart] = 1;  // msip
  }
  [[noreturn]] static void fatal(const char* reason) noexcept { kernel_fatal(reason); }

  // Functions with defaults in PortDefaults:

  static Context& running() noexcept {
    Context* context;
    asm volatile("csrr %0, mscratch" : "=r"(context));
    return *context;
  }
  static ThreadState& thread_state() noexcept { return running().allocator; }
  static std::uint32_t context_key() noexcept { return running().key; }
  static std::size_t context_label(std::span<char> label) noexcept {
    std::size_t length = 0;
    for (const char* at = running().label; *at != 0 && length < label.size(); ++at) label[length++] = *at;
    return length;
  }
  static StackBounds stack_bounds(std::uintptr_t frame) noexcept {
    const StackBounds& stack = running().stack;
    return frame > stack.low && frame <= stack.high ? stack : StackBounds{};
  }

  static void wait_for_interrupt() noexcept { asm volatile("wfi" : : : "memory"); }
  static void relax() noexcept { asm volatile(".4byte 0x0100000f" : : : "memory"); }  // pause
};

}  // namespace qm::hal
