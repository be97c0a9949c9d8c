#pragma once
/// The stacks in use, for a leak scan.

#include <cstdint>

#include <qm/hal/port_contract.hpp>

namespace qm::firmware {

/// A stack, whose part from `sp` up is in use. That part also has the saved registers of its context.
struct LiveStack {
  hal::StackBounds whole;
  std::uintptr_t sp = 0;
};

/// Calls @p visit for each stack in use: the stacks of all tasks that have not ended, of boot code and idle loops, and
/// of traps. If a hart was interrupted, its registers are in the frame on its trap stack.
/// @param[in] sp the running context's stack pointer; its registers are saved on its stack above that address. In the
///            panic shell, whose own stack is not visited, it is replaced by that of the context that panicked.
/// Complexity: O(tasks + harts).
/// Context:    not a trap handler, or the panic shell; every other hart is stopped in a trap handler
///             (hal::run_while_still()), or halted at an interrupt (busy_hart()).
void visit_stacks(std::uintptr_t sp, void (*visit)(const LiveStack& stack, void* argument) noexcept,
                  void* argument) noexcept;

/// The memory of the stack pool, from which spawn() gives stacks to tasks.
[[nodiscard]] hal::StackBounds stack_pool_bounds() noexcept;

}  // namespace qm::firmware
