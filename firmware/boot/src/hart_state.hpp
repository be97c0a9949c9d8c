#pragma once
/// The firmware's state of each hart, and the trap frame.
///
///     __hart_stacks, per hart:  [guard | boot and idle stack][guard | trap stack]
///
/// Invariants
/// - H1 A hart writes its own state, with interrupts masked or in a trap handler. Members that other harts access are
///      atomic.
/// - H2 `current` is the task on whose stack the hart runs, or ran before the traps that `innermost` lists.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <qm/firmware/interrupt.hpp>
#include <qm/firmware/task.hpp>
#include <qm/hal/hart.hpp>

#include "layout.h"

namespace qm::hal {
struct Board;
}

namespace qm::firmware {

/// The registers of the interrupted code, on the trap stack. Its last two words are a frame record: (s0, pc).
struct TrapFrame {
  std::array<std::uintptr_t, 32> x;
  std::uintptr_t original_pc;  ///< the pc where the trap was taken: for reports
  std::uintptr_t pc;           ///< the pc where the code resumes: after the rewind of restartable sections
  std::uintptr_t cause, value, status;
  std::uintptr_t scratch;  ///< the value to restore to sscratch
  TrapFrame* outer;        ///< the trap that this one interrupted
  std::uintptr_t line;     ///< the interrupt line being served; 0: none
  std::array<std::uintptr_t, 2> padding;
  std::uintptr_t record_s0, record_pc;

  [[nodiscard]] bool is_interrupt() const noexcept { return static_cast<std::intptr_t>(cause) < 0; }
  [[nodiscard]] unsigned code() const noexcept { return static_cast<unsigned>(cause & 0xff); }
};
static_assert(sizeof(TrapFrame) == QM_FRAME_BYTES && sizeof(TrapFrame) % 16 == 0);
static_assert(offsetof(TrapFrame, original_pc) == QM_FRAME_ORIGINAL_PC && offsetof(TrapFrame, pc) == QM_FRAME_PC);
static_assert(offsetof(TrapFrame, cause) == QM_FRAME_CAUSE && offsetof(TrapFrame, value) == QM_FRAME_VALUE);
static_assert(offsetof(TrapFrame, status) == QM_FRAME_STATUS && offsetof(TrapFrame, scratch) == QM_FRAME_SCRATCH);
static_assert(offsetof(TrapFrame, record_s0) == QM_FRAME_RECORD_S0 &&
              offsetof(TrapFrame, record_pc) == QM_FRAME_RECORD_PC);

/// Keys of contexts. Each hart has a boot code and an idle task; every other task has a key from kFirstTaskKey on.
inline constexpr std::uint32_t kBootKey = 1, kIdleKey = 2, kFirstTaskKey = 3;

class Task {
 public:
  enum class State : std::uint8_t { kFree, kReady, kWaiting, kEnded };

  std::uintptr_t sp = 0;  // while not running
  Task* next = nullptr;   // in the hart's ring of tasks, or in an inbox
  State state = State::kFree;
  bool signalled = false;  // the wait ended by a signal
  Event* event = nullptr;
  std::uint32_t seen = 0;
  unsigned hart = 0;
  std::uint32_t key = 0;  // hal::Port::context_key()
  std::uint64_t deadline = kForever;
  hal::StackBounds stack;
  int pool_slot = -1;  // of the stack pool; -1: the caller of spawn() supplied the stack
  void (*entry)(void*) = nullptr;
  void* argument = nullptr;
  std::array<char, kMaxTaskName + 1> name{};
};

/// How a hart halted for a panic of another hart.
enum class Halted : std::uint32_t {
  kNot,
  kAtInterrupt,  ///< at an interrupt that it served: it holds no lock, and its trap stack has all registers
  kInPanic,      ///< in a panic of its own, anywhere
};

struct alignas(64) HartState {
  // Scheduler
  Task* current = nullptr;
  Task* ring = nullptr;                   // the last task of the ring of this hart's tasks, without the idle task
  Task idle;                              // the boot stack's context
  std::atomic<std::uint32_t> recheck{0};  // 1: the wait of a task may be over
  std::atomic<Task*> inbox{nullptr};      // tasks spawned for this hart, newest first
  std::atomic<std::uint32_t> tasks{0};
  bool scheduling = false;  // the boot code is done: the hart is in its idle loop or a task

  // Traps
  TrapFrame* innermost = nullptr;
  hal::StackBounds boot_stack, trap_stack;
  unsigned plic_context = ~0u;
  std::atomic<std::uint32_t> soft_lines{0};  // pending software lines
  std::atomic<Halted> halted{Halted::kNot};
  std::atomic<std::uint32_t> external_count{0}, ipi_count{0};

  // Timer
  std::uint64_t next_tick = kForever;
  std::uint64_t next_wake = kForever;  // earliest deadline of a waiting task
  std::uint64_t next_cut = kForever;   // end of a slice, see slices.cpp
  std::uint32_t cut_random = 0;
  bool asleep = false;           // in the idle loop's `wfi`: the timer ignores ticks
  bool slept_over_tick = false;  // next_tick fell due while it slept, so it is not late
  std::atomic<std::uint32_t> period{0}, requested_period{0};
  std::atomic<std::uint32_t> ticks{0}, missed{0}, worst_lateness{0};
};

extern std::array<HartState, hal::Port::kMaxHarts> hart_states;
static_assert(hal::Port::kMaxHarts == QM_MAX_HARTS);

inline HartState& this_hart() noexcept { return hart_states[hal::Port::hart_index()]; }

/// Adds one to a counter that only this hart writes.
inline void count(std::atomic<std::uint32_t>& counter) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// boot.cpp

// stack_guard.cpp
void paint_guard(const hal::StackBounds& stack) noexcept;
[[nodiscard]] bool guard_intact(const hal::StackBounds& stack) noexcept;
void check_stack(const HartState& hart, std::uintptr_t sp) noexcept;  // panics if the current stack has overflowed

// timer.cpp
void start_ticks() noexcept;
void serve_timer(HartState& hart) noexcept;
void serve_period_request(HartState& hart) noexcept;
void arm_timer(HartState& hart) noexcept;              // masked: sets the SBI timer to the next tick, wake-up or cut
void sleep_until_interrupt(HartState& hart) noexcept;  // masked: the interrupt that ends it stays pending

// slices.cpp
void read_slices(std::string_view bootargs) noexcept;         // on hart 0, before any hart's ticks
void cut_slice(HartState& hart, std::uint64_t now) noexcept;  // masked: sets the hart's next cut at random

// interrupt.cpp
void serve_software_lines(HartState& hart, TrapFrame& frame) noexcept;
void serve_external(HartState& hart, TrapFrame& frame) noexcept;
void open_plic(std::uintptr_t base, unsigned context) noexcept;

// task.cpp
class Text;
/// Writes the task whose stack contains @p address. @returns false if no stack of a task or of the pool contains it.
[[nodiscard]] bool describe_task_stack(std::uintptr_t address, Text& out) noexcept;
[[noreturn]] void run_tasks() noexcept;  // the idle loop

// console_io.cpp
void start_console(const hal::Board& board) noexcept;
void console_put_raw(std::string_view text) noexcept;  // polled, no lock: for panics
void console_receive_raw() noexcept;                   // polled: fills the ring of console_read(), without a signal
void console_flush() noexcept;

// panic.cpp
[[noreturn]] void fatal_exception(TrapFrame& frame) noexcept;
[[noreturn]] void halt_hart(Halted how) noexcept;
[[nodiscard]] bool halt_requested() noexcept;

// panic_shell.cpp
[[nodiscard]] std::uintptr_t panicked_sp() noexcept;  // of the context that panicked, with its registers above; 0: none
[[nodiscard]] bool panic_shell_wanted() noexcept;     // there is one, and it did not fault before reading a byte
[[noreturn]] void run_panic_shell() noexcept;         // starts it from its beginning

// boot.cpp
void end_board(unsigned status) noexcept;  // finisher, HTIF, semihosting, then SBI; returns if none works

}  // namespace qm::firmware

extern "C" {
extern char __hart_stacks[], __text_start[], __text_end[], __trap_text_start[], __trap_text_end[], __trap_return[],
    __task_return[];
extern char __image_start[];
extern const std::uintptr_t __qm_symbols_start[];
extern const std::uint32_t __build_id_note_start[], __build_id_note_end[];
void qm_trap_entry();
void _start();
extern std::uintptr_t qm_start_ids[QM_MAX_HARTS];
extern std::uint32_t qm_start_ids_ready;
void qm_task_start();
void qm_panic_start();
void qm_switch(std::uintptr_t* saved_sp, std::uintptr_t next_sp);
}

namespace qm::firmware {

/// Prepares the top of a stack for the first qm_switch to it, which goes to @p start. s0 = 0 ends frame walks.
/// @returns the words that qm_switch loads: s2 is word 10 and s1 word 11. Their address is the sp to switch to.
inline std::uintptr_t* prepare_switch(std::uintptr_t stack_high, void (*start)()) noexcept {
  auto* const words = reinterpret_cast<std::uintptr_t*>(stack_high - QM_SWITCH_BYTES);
  for (std::size_t i = 0; i < QM_SWITCH_BYTES / sizeof *words; ++i) words[i] = 0;
  words[13] = reinterpret_cast<std::uintptr_t>(start);  // ra
  return words;
}

}  // namespace qm::firmware
