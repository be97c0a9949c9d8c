#pragma once
/// The panic's walk over frame records, which crosses traps (an allocation's walk stops at them).
///
///     fp - 1 word    return address        in a leaf function: the caller's frame pointer, and nothing at fp - 2
///     fp - 2 words   the caller's frame pointer
///
/// The word at fp - 1 shows whether an interrupted function is a leaf function: a stack address is not a return
/// address. The return address of a leaf function is in the trap frame's ra. The backtrace may lack the caller of a
/// function that was trapped in its first or last instructions, or that has no frame (SizeIndex::insert(), remove(),
/// move()): then the registers in the panic's report have the return address in ra.

#include <cstdint>

#include <qm/firmware/boot.hpp>

#include "hart_state.hpp"

namespace qm::firmware {

/// One step: a code address, or, if `trap` is not null, the mark that this trap interrupted the code in the next steps.
struct BacktraceFrame {
  std::uintptr_t pc = 0;
  bool exact = false;  ///< pc is an instruction that was interrupted, not a return address
  const TrapFrame* trap = nullptr;
};

/// @returns the stack that contains @p frame. An address just below the running task's stack counts as part of it: that
///          stack has overflowed.
inline hal::StackBounds stack_of(std::uintptr_t frame) noexcept {
  constexpr std::uintptr_t kOverflow = 4096;
  const hal::StackBounds& running = this_hart().current->stack;
  if (frame <= running.low && running.low - frame < kOverflow) return {running.low - kOverflow - 16, running.high};
  const hal::StackBounds shell = panic_stack();
  if (frame > shell.low && frame <= shell.high) return shell;
  return hal::Port::stack_bounds(frame);
}

/// Calls @p visit (`void(const BacktraceFrame&)`) for each step, innermost first, at most 64 times.
/// @param[in] pc    the innermost code address; exact if @p trap is not null.
/// @param[in] frame the frame pointer at @p pc.
/// @param[in] trap  the trap frame that @p pc and @p frame come from; null if they come from a call.
template <class Visit>
void walk_stack(std::uintptr_t pc, std::uintptr_t frame, const TrapFrame* trap, Visit visit) noexcept {
  const auto address = [](const char* symbol) { return reinterpret_cast<std::uintptr_t>(symbol); };
  const auto in_text = [&](std::uintptr_t a) { return a >= address(__text_start) && a < address(__text_end); };
  visit(BacktraceFrame{pc, trap != nullptr, nullptr});
  for (unsigned step = 0; step < 64; ++step) {
    const hal::StackBounds stack = stack_of(frame);
    if (stack.high == 0 || frame % 16 != 0 || frame < stack.low + 16) return;
    const auto* const record = reinterpret_cast<const std::uintptr_t*>(frame) - 2;
    std::uintptr_t ra = record[1], next = record[0];
    if (trap != nullptr && ra > stack.low && ra <= stack.high) {  // an interrupted leaf function
      next = ra;
      ra = trap->x[1];
    }
    trap = nullptr;
    if (ra == address(__trap_return)) {
      if (next % 16 != 0 || stack_of(next).high == 0) return;
      trap = reinterpret_cast<const TrapFrame*>(next) - 1;
      visit(BacktraceFrame{0, false, trap});
      visit(BacktraceFrame{trap->original_pc, true, nullptr});
      frame = trap->x[8];  // on the same stack, or on the stack of an outer context
      continue;
    }
    if (!in_text(ra) || ra == address(__task_return)) return;
    visit(BacktraceFrame{ra, false, nullptr});
    if (next <= frame) return;
    frame = next;
  }
}

}  // namespace qm::firmware
