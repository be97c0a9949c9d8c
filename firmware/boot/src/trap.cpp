/// Traps: the work of every trap before and after its handler.

#include <qm/hal/broadcast.hpp>
#include <qm/rewind.hpp>

#include <qm/firmware/boot.hpp>

#include "hart_state.hpp"

// Of <qm/guards.h>, which is not included, since an image need not have the allocator. Null without guards.
extern "C" [[gnu::weak]] int qm_guard_fault(std::uintptr_t, int, std::uintptr_t, std::uintptr_t) noexcept;

namespace qm::firmware {
namespace {

void serve_ipi(HartState& hart, TrapFrame& frame) noexcept {
  // Clear the bit before reading requests: a request that is posted after the read raises it again.
  hal::privilege::clear_ipi();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  count(hart.ipi_count);
  if (halt_requested()) halt_hart(Halted::kAtInterrupt);
  hal::on_ipi(hal::Port::hart_index());
  serve_period_request(hart);
  serve_software_lines(hart, frame);
}

void serve_interrupt(HartState& hart, TrapFrame& frame) noexcept {
  switch (frame.code()) {
    case QM_SOFTWARE_INTERRUPT: return serve_ipi(hart, frame);
    case QM_TIMER_INTERRUPT: return serve_timer(hart);
    case QM_EXTERNAL_INTERRUPT: return serve_external(hart, frame);
    default: panic("interrupt of unknown cause");
  }
}

/// Whether the exception is an access that a trap unit denied. It has been reported, and the code makes it again.
bool serve_guards(const TrapFrame& frame) noexcept {
  constexpr unsigned kLoadFault = 5, kStoreFault = 7, kLoadPageFault = 13, kStorePageFault = 15;
  const unsigned code = frame.code();
  const bool is_write = code == kStoreFault || code == kStorePageFault;
  if (!is_write && code != kLoadFault && code != kLoadPageFault) return false;
  return qm_guard_fault != nullptr && qm_guard_fault(frame.value, is_write, frame.original_pc, frame.x[8]) != 0;
}

/// Checks the interrupted stack: the current task's stack or, for a nested trap, the trap stack.
void check_interrupted_stack(const HartState& hart, const TrapFrame& frame) noexcept {
  if (frame.scratch != 0) {
    check_stack(hart, frame.x[2]);
  } else if (frame.x[2] < hart.trap_stack.low + kStackGuardBytes || !guard_intact(hart.trap_stack)) {
    panic("trap stack overflow");
  }
}

}  // namespace

/// Called by qm_trap_entry with interrupts masked.
extern "C" void qm_trap(TrapFrame* frame) {
  HartState& hart = this_hart();
  // Send an interrupted restartable section back to its start, before this trap allocates, enables interrupts or
  // switches context.
  if (frame->is_interrupt()) frame->pc = qm_rewind(frame->original_pc, frame->x.data());
  frame->outer = hart.innermost;
  frame->line = 0;
  hart.innermost = frame;
  const std::uint32_t interrupted = hal::port_context_key;
  hal::port_context_key = 0;  // 0: a handler's label and stack are queried each time
  ++hal::hart_local().trap_depth;
  if (frame->is_interrupt()) {
    check_interrupted_stack(hart, *frame);
    serve_interrupt(hart, *frame);
  } else if (!serve_guards(*frame)) {
    fatal_exception(*frame);
  }
  hal::Port::mask_interrupts();
  hart.recheck.store(1, std::memory_order_relaxed);  // read by this hart only, after the trap
  --hal::hart_local().trap_depth;
  hart.innermost = frame->outer;
  hal::port_context_key = interrupted;
}

}  // namespace qm::firmware
