#pragma once
/// A port to copy into a folder of your own. Build with -DQM_PORT= and its absolute path.
///
/// As it stands it is right for one hart whose interrupt handlers never allocate: it masks nothing, and a variable
/// stores the interrupt state. Go through the six functions below in order; the comment of each says what to write for
/// other boards. PortDefaults (<qm/hal/port_contract.hpp>) lists what else a port may supply: stack bounds, so that
/// call stacks are recorded whole; labels of contexts; a wait for interrupts.
///
/// A port with interrupts or several harts must also make three calls into the common code:
/// - qm::attach_hart(h) on each hart before it first allocates; qm_init() does this for its own hart;
/// - qm::hal::on_ipi(h) on hart h for each IPI, with interrupts masked, after its pending bit was cleared;
/// - ++ and -- of qm::hal::hart_local().trap_depth around every interrupt handler; and with QM_FAST_PATH=sections, pc =
///   qm_rewind(pc, registers) at the entry of every interrupt (<qm/rewind.hpp>). A port that cannot change its trap
///   entry selects QM_FAST_PATH=masked.
/// A port whose scheduler may preempt a thread after any instruction also supplies thread_state(): see "Threads that
/// migrate" in docs/porting.md. Hart-locals are `thread_local`: tp points at a block for each hart, a copy of the
/// image's TLS segment.

#include <qm/hal/port_contract.hpp>

namespace qm::hal {

/// Defined in src/port.cpp.
[[noreturn]] void template_fatal(const char* reason) noexcept;
std::uint64_t template_ticks() noexcept;

struct Port : PortDefaults {
  /// Most harts that this image can use. Arrays have this size, so do not reserve room for harts that do not exist.
  static constexpr unsigned kMaxHarts = 1;

  /// 1. The running hart's index, 0 to kMaxHarts - 1: from a hart-local, or from mhartid if the ids are dense.
  static unsigned hart_index() noexcept { return 0; }

  /// 2. Mask interrupts and return the previous state. RISC-V: csrrci of sstatus or mstatus; keep the SIE or MIE bit.
  enum class InterruptState : std::uintptr_t { kMasked = 0, kEnabled = 1 };
  static inline constinit InterruptState template_state = InterruptState::kEnabled;
  static InterruptState mask_interrupts() noexcept {
    const InterruptState before = template_state;
    template_state = InterruptState::kMasked;
    asm volatile("" : : : "memory");  // the compiler moves no access across, even if there is nothing to mask
    return before;
  }

  /// 3. Restore that state: csrs with the bit that was kept.
  static void restore_interrupts(InterruptState state) noexcept {
    asm volatile("" : : : "memory");
    template_state = state;
  }

  /// 4. A monotonic time, the same on all harts, at tick_rate(): rdtime, mtime, or a counter of the board.
  static std::uint64_t ticks() noexcept { return template_ticks(); }
  static std::uint64_t tick_rate() noexcept { return 1'000'000; }

  /// 5. Make another hart call qm::hal::on_ipi(hart): CLINT msip, SBI send_ipi. With one hart it is never called.
  static void send_ipi(unsigned hart) noexcept { static_cast<void>(hart); }

  /// 6. Stop the system, because the allocator found its own state corrupt. Must not return, allocate or take a lock.
  [[noreturn]] static void fatal(const char* reason) noexcept { template_fatal(reason); }
};

}  // namespace qm::hal
