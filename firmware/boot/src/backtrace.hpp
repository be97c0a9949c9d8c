#pragma once
/// The panic's walk over frame records, which crosses traps (an allocation's walk stops at them).
///
///     fp - 1 word    return address        in a leaf function: the caller's frame pointer, and nothing at fp - 2
///     fp - 2 words   the caller's frame pointer
///
/// Whether an interrupted function is a leaf is seen from the word at fp - 1: a stack address is no return address. Its
/// own return address is then in the trap frame's ra. A trap in a function's first or last instructions may hide its
/// caller, and so does one in a function that was compiled without a frame (SizeIndex::insert(), remove(), move()):
/// the panic's registers have its ra.

#include <cstdint>

#include "hart_state.hpp"

namespace qm::firmware {

/// One step: a code address, or (trap != null) the mark that what follows was interrupted by this trap.
struct BacktraceFrame {
  std::uintptr_t pc = 0;
  bool exact = false;  ///< pc is an instruction that was interrupted, not a return address
  const TrapFrame* trap = nullptr;
};

/// The stack that has @p frame. Just below the running task's stack counts as that stack: it has overflowed.
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
/// @param[in] frame the frame pointer there.
/// @param[in] trap  the trap in whose frame @p pc and @p frame are; null for a call.
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
    if (trap != nullptr && ra > stack.low && ra <= stack.high) {  // an interrupted leaf
      next = ra;
      ra = trap->x[1];
    }
    trap = nullptr;
    if (ra == address(__trap_return)) {
      if (next % 16 != 0 || stack_of(next).high == 0) return;
      trap = reinterpret_cast<const TrapFrame*>(next) - 1;
      visit(BacktraceFrame{0, false, trap});
      visit(BacktraceFrame{trap->original_pc, true, nullptr});
      frame = trap->x[8];  // on the same stack or an outer one
      continue;
    }
    if (!in_text(ra) || ra == address(__task_return)) return;
    visit(BacktraceFrame{ra, false, nullptr});
    if (next <= frame) return;
    frame = next;
  }
}

}  // namespace qm::firmware
