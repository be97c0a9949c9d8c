/// The shell after a panic: its stack, its restart after a fault, and its serial line.

#include <qm/firmware/boot.hpp>
#include <qm/firmware/console_io.hpp>

#include "hart_state.hpp"

namespace qm::firmware {
namespace {

alignas(16) constinit std::byte stack[kPanicStackBytes]{};
constinit PanicShell shell = nullptr;

// The trap state of the hart that panicked, before the shell first ran. A fault of the shell is a nested trap; starting
// the shell anew restores this state.
constinit TrapFrame* innermost = nullptr;
constinit std::uint32_t trap_depth = 0;
constinit bool has_read = false;
constinit std::uintptr_t sp_of_panic = 0;  // not 0: the shell has run

}  // namespace

void set_panic_shell(PanicShell wanted) noexcept { shell = wanted; }

hal::StackBounds panic_stack() noexcept {
  const auto low = reinterpret_cast<std::uintptr_t>(stack);
  return {low, low + sizeof stack};
}

std::uintptr_t panicked_sp() noexcept { return sp_of_panic; }

bool panic_shell_wanted() noexcept { return shell != nullptr && (sp_of_panic == 0 || has_read); }

/// Runs the shell. Context: on the panic stack, without a caller.
extern "C" [[noreturn, gnu::used]] void qm_panic_shell() {
  shell();
  console_put_raw("*** system halted\r\n");
  end_board(kPanicStatus);
  for (;;) hal::Port::wait_for_interrupt();
}

void run_panic_shell() noexcept {
  HartState& hart = this_hart();
  const bool is_first = sp_of_panic == 0;
  if (is_first) {
    innermost = hart.innermost;
    trap_depth = hal::hart_local().trap_depth;
    std::array<char, 64> bytes;
    do console_receive_raw();
    while (console_read(bytes) != 0);
  }
  has_read = false;
  hart.innermost = innermost;
  hal::hart_local().trap_depth = trap_depth;
  std::uintptr_t unused = 0;
  const std::uintptr_t* const loaded = prepare_switch(panic_stack().high, qm_panic_start);
  qm_switch(is_first ? &sp_of_panic : &unused, reinterpret_cast<std::uintptr_t>(loaded));
  __builtin_unreachable();
}

std::size_t panic_read(std::span<char> bytes) noexcept {
  console_receive_raw();
  const std::size_t count = console_read(bytes);
  has_read = has_read || count != 0;
  return count;
}

void panic_write(std::string_view bytes) noexcept {
  constexpr std::size_t kPiece = 8;  // fewer bytes than the chip can receive meanwhile
  while (!bytes.empty()) {
    console_put_raw(bytes.substr(0, kPiece));
    bytes.remove_prefix(bytes.size() < kPiece ? bytes.size() : kPiece);
    console_receive_raw();
  }
}

void panic_pause() noexcept {
  // The timer ends the `wfi`. Interrupts are masked, so neither the timer nor the serial line is served.
  QM_CSR_SET(QM_XIE, 1u << QM_TIMER_INTERRUPT);
  hal::Port::set_timer(hal::Port::ticks() + hal::ticks_of(1));
  hal::Port::wait_for_interrupt();
}

}  // namespace qm::firmware
