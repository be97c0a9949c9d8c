/// Panics and exceptions: prints the report and halts the other harts.

#include <qm/firmware/boot.hpp>
#include <qm/firmware/symbols.hpp>
#include <qm/hal/broadcast.hpp>

#include "backtrace.hpp"
#include "hart_state.hpp"
#include <qm/firmware/text.hpp>

namespace qm::firmware {
namespace {

std::atomic<std::uint32_t> panic_hart{0};  // 1 + the hart that reports
constinit bool reporting = false;          // that hart has begun a report and not ended it
constexpr unsigned kHaltMs = 200;
constexpr unsigned kDigits = 2 * sizeof(std::uintptr_t);

class Line {
 public:
  ~Line() {
    console_put_raw(text.view());
    console_put_raw("\r\n");
  }

 private:
  char buffer_[160];

 public:
  Text text{buffer_};
};

// clang-format off
constexpr std::string_view kExceptions[] = {
    "instruction address misaligned", "instruction access fault", "illegal instruction", "breakpoint",
    "load address misaligned", "load access fault", "store address misaligned", "store access fault",
    "environment call from U-mode", "environment call from S-mode", "exception 10", "environment call from M-mode",
    "instruction page fault", "load page fault", "exception 14", "store page fault"};
// clang-format on

constexpr std::string_view kRegisters[] = {"zero", "ra", "sp", "gp", "tp",  "t0",  "t1", "t2", "s0", "s1", "a0",
                                           "a1",   "a2", "a3", "a4", "a5",  "a6",  "a7", "s2", "s3", "s4", "s5",
                                           "s6",   "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6"};

std::string_view exception_name(unsigned code) noexcept {
  return code < std::size(kExceptions) ? kExceptions[code] : std::string_view("unknown exception");
}

void print_registers(const TrapFrame& frame) noexcept {
  {
    Line line;
    (line.text << "pc   ").hex(frame.original_pc, kDigits);
    (line.text << "  " QM_CSR_TEXT(QM_XTVAL) " ").hex(frame.value, kDigits);
    (line.text << "  " QM_CSR_TEXT(QM_XSTATUS) " ").hex(frame.status, kDigits);
  }
  for (unsigned i = 0; i < 32; i += 4) {
    Line line;
    for (unsigned n = i; n < i + 4; ++n) {
      line.text << kRegisters[n] << std::string_view("     ", 5 - kRegisters[n].size());
      line.text.hex(frame.x[n], kDigits) << "  ";
    }
  }
}

void print_frame(unsigned number, const BacktraceFrame& frame) noexcept {
  Line line;
  if (frame.trap != nullptr) {
    line.text << "--- ";
    if (frame.trap->is_interrupt()) (line.text << "interrupt ").decimal(frame.trap->code());
    else line.text << exception_name(frame.trap->code());
    line.text << " taken here";
    return;
  }
  line.text << "#" << (number < 10 ? "0" : "");
  line.text.decimal(number) << " [<";
  line.text.hex(frame.pc, kDigits) << ">] in ";
  SymbolName name;
  if (symbol(frame.exact ? frame.pc : frame.pc - 1, name)) line.text << name.name();
  else line.text << "(null)";
}

void print_backtrace(std::uintptr_t pc, std::uintptr_t frame, const TrapFrame* trap) noexcept {
  console_put_raw("backtrace:\r\n");
  unsigned number = 0;
  walk_stack(pc, frame, trap, [&number](const BacktraceFrame& step) {
    if (step.trap == nullptr) ++number;
    print_frame(number, step);
  });
}

hal::HartMask other_harts() noexcept { return hal::online_harts() & ~(hal::HartMask{1} << hal::Port::hart_index()); }

/// Halts the other harts, and waits until they have halted, for at most kHaltMs. The timer ends each `wfi`.
void halt_others() noexcept {
  const hal::HartMask others = other_harts();
  for (unsigned hart = 0; hart < hart_states.size(); ++hart) {
    if ((others >> hart & 1) != 0) hal::Port::send_ipi(hart);
  }
  const std::uint64_t ms = hal::Port::tick_rate() / 1000, end = hal::Port::ticks() + kHaltMs * ms;
  for (unsigned hart = 0; hart < hart_states.size(); ++hart) {
    // acquire: pairs with the release in halt_hart().
    while ((others >> hart & 1) != 0 && hart_states[hart].halted.load(std::memory_order_acquire) == Halted::kNot &&
           hal::Port::ticks() < end) {
      hal::privilege::clear_ipi();
      hal::Port::set_timer(hal::Port::ticks() + ms);
      hal::Port::wait_for_interrupt();
    }
  }
}

/// Makes this hart the one that reports. Returns only on that hart, and not for a panic inside a report. A panic in the
/// panic shell is reported as well.
void enter() noexcept {
  hal::Port::mask_interrupts();
  std::uint32_t expected = 0;
  const std::uint32_t self = 1 + hal::Port::hart_index();
  if (panic_hart.compare_exchange_strong(expected, self, std::memory_order_seq_cst)) {
    hal::enter_panic();
    halt_others();
    reporting = true;
    return;
  }
  if (expected != self) halt_hart(Halted::kInPanic);
  if (!reporting) {
    reporting = true;
    return;
  }
  console_put_raw("\r\n*** panic while reporting a panic\r\n");
  console_flush();
  end_board(kPanicStatus);
  for (;;) hal::Port::wait_for_interrupt();
}

[[noreturn]] void end() noexcept {
  const hal::HartMask others = other_harts();
  for (unsigned hart = 0; hart < hart_states.size(); ++hart) {
    if ((others >> hart & 1) == 0 || hart_states[hart].halted.load(std::memory_order_acquire) != Halted::kNot) continue;
    Line line;
    (line.text << "hart ").decimal(hart) << " did not halt";
  }
  reporting = false;
  if (panic_shell_wanted()) run_panic_shell();
  console_put_raw("*** system halted\r\n");
  console_flush();
  end_board(kPanicStatus);
  for (;;) hal::Port::wait_for_interrupt();
}

/// "*** WHAT on hart H, CONTEXT"
void print_head(std::string_view kind, std::string_view what, const TrapFrame* trap) noexcept {
  console_put_raw("\r\n");
  Line line;
  line.text << "*** " << kind << what;
  if (trap != nullptr) (line.text << " (cause ").decimal(trap->code()) << ")";
  (line.text << " on hart ").decimal(hal::Port::hart_index());
  (line.text << " (id ").decimal(hal::port_state.hart_ids[hal::Port::hart_index()]) << "), ";
  char label[60];
  line.text << std::string_view(label, hal::Port::context_label(label));
}

}  // namespace

bool halt_requested() noexcept { return panic_hart.load(std::memory_order_seq_cst) != 0; }

void halt_hart(Halted how) noexcept {
  hal::Port::mask_interrupts();
  QM_CSR_WRITE(QM_XIE, 0);                                   // no interrupt ends the wait
  this_hart().halted.store(how, std::memory_order_release);  // pairs with the acquire in halt_others()
  const std::uint32_t reporter = panic_hart.load(std::memory_order_relaxed);
  if (reporter != 0) hal::Port::send_ipi(reporter - 1);
  for (;;) hal::Port::wait_for_interrupt();
}

unsigned busy_hart() noexcept {
  const hal::HartMask others = other_harts();
  for (unsigned hart = 0; hart < hart_states.size(); ++hart) {
    // acquire: pairs with the release in halt_hart().
    const Halted how = hart_states[hart].halted.load(std::memory_order_acquire);
    if ((others >> hart & 1) != 0 && how != Halted::kAtInterrupt) return hart;
  }
  return hal::BroadcastResult::kNobody;
}

void fatal_exception(TrapFrame& frame) noexcept {
  enter();
  print_head("exception: ", exception_name(frame.code()), &frame);
  print_registers(frame);
  print_backtrace(frame.original_pc, frame.x[8], &frame);
  end();
}

void panic(const char* reason) noexcept {
  enter();
  print_head("panic: ", reason, nullptr);
  const auto* const frame = static_cast<const std::uintptr_t*>(__builtin_frame_address(0));
  print_backtrace(frame[-1], frame[-2], nullptr);  // starts at the caller
  end();
}

}  // namespace qm::firmware

namespace qm::hal {
void platform_fatal(const char* reason) noexcept { firmware::panic(reason); }
}  // namespace qm::hal
