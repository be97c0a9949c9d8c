#pragma once
/// A port whose scheduler moves threads from hart to hart: QEMU's virt board in M-mode, nothing below it.
///
/// mscratch names what runs: the thread's context, or while a trap is handled the hart's own for that. One instruction
/// reads it, so what a thread finds there is its own, wherever it is a moment later. `tp` belongs to the hart.

#include <array>

#include <qm/hal/port_contract.hpp>

namespace qm::hal {

/// The registers of what does not run, and what the allocator asks about what does. The kernel's Thread is one.
struct Context {
  std::array<std::uintptr_t, 32> x{};  ///< x0 to x31. tp and gp are kept and not restored
  std::uintptr_t pc = 0;
  std::uintptr_t status = 0;  ///< mstatus
  StackBounds stack;
  const char* label = "";  ///< "thread radio"
  std::uint32_t key = 0;   ///< of this context alone; 0: of traps
  ThreadState allocator;
};

/// Defined by the kernel.
[[noreturn]] void kernel_fatal(const char* reason) noexcept;

struct Port : PortDefaults {
  static constexpr unsigned kMaxHarts = 4;

  /// The board numbers its harts from 0. The running one while interrupts are masked, or a hint.
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

  // What has defaults:

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
