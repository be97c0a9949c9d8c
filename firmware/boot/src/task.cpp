/// The scheduler of a hart's tasks.
///
///     ring -> task -> task -> ... -> ring        in spawn order, round robin from the current one
///
/// Invariants
/// - S1 Only the hart itself accesses its ring, states and links, with interrupts masked. Other harts and interrupt
///      handlers put a task into `inbox` or set `recheck`.
/// - S2 Interrupts are masked from the change of `current` until the switch is complete, so a trap's stack check sees
/// both
///      or neither.
/// - S3 A wake-up between the check of the waiting tasks and `wfi` is not lost: interrupts are masked during both, and
/// an
///      interrupt that arrives stays pending and ends `wfi`.

#include <algorithm>
#include <cstring>

#include <qm/firmware/boot.hpp>
#include <qm/firmware/stacks.hpp>

#include "hart_state.hpp"
#include <qm/firmware/text.hpp>

namespace qm::firmware {
namespace {

// 8 harts with two background tasks and four workloads each, and main, need 49.
constexpr std::size_t kMaxTasks = 64, kPooledStacks = 56;

std::array<Task, kMaxTasks> tasks;
std::array<std::atomic<std::uint32_t>, kMaxTasks> task_taken;
std::atomic<std::size_t> tasks_used;  // no task has ever taken a slot from this one on
std::array<std::atomic<std::uint32_t>, kPooledStacks> stack_taken;
[[gnu::section(".noinit")]] alignas(64) std::byte stack_pool[kPooledStacks][QM_TASK_STACK_BYTES];

/// Takes a free slot. @returns its index, -1: none.
template <std::size_t N>
int take_slot(std::array<std::atomic<std::uint32_t>, N>& taken) noexcept {
  for (std::size_t i = 0; i < N; ++i) {
    // acquire: pairs with the release in release_task(): the slot's last use is over.
    if (taken[i].load(std::memory_order_relaxed) == 0 && taken[i].exchange(1, std::memory_order_acquire) == 0) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

/// Takes a free slot for a task. @returns as take_slot().
int take_task() noexcept {
  const int slot = take_slot(task_taken);
  const auto end = static_cast<std::size_t>(slot + 1);
  std::size_t used = tasks_used.load(std::memory_order_relaxed);
  while (used < end && !tasks_used.compare_exchange_weak(used, end, std::memory_order_relaxed)) {
  }
  return slot;
}

/// @returns a key that no task has. A key is not reused before 2^32 tasks have been made.
std::uint32_t new_key() noexcept {
  static constinit std::atomic<std::uint32_t> made{0};
  std::uint32_t key = 0;
  do {
    key = kFirstTaskKey + made.fetch_add(1, std::memory_order_relaxed);
  } while (key < kFirstTaskKey);
  return key;
}

void release_task(Task& task) noexcept {
  if (task.pool_slot >= 0) stack_taken[static_cast<std::size_t>(task.pool_slot)].store(0, std::memory_order_release);
  task.state = Task::State::kFree;
  task_taken[static_cast<std::size_t>(&task - tasks.data())].store(0, std::memory_order_release);
}

bool has(std::span<const std::byte> stack, std::uintptr_t address) noexcept {
  const auto low = reinterpret_cast<std::uintptr_t>(stack.data());
  return address >= low && address - low < stack.size();
}

void add_to_ring(HartState& hart, Task* task) noexcept {
  if (hart.ring == nullptr) {
    task->next = task;
  } else {  // after `ring`; the task becomes the new last one
    task->next = hart.ring->next;
    hart.ring->next = task;
  }
  hart.ring = task;
}

void remove_from_ring(HartState& hart, Task* task) noexcept {
  Task* before = task;
  while (before->next != task) before = before->next;
  before->next = task->next;
  if (hart.ring == task) hart.ring = before == task ? nullptr : before;
}

void take_inbox(HartState& hart) noexcept {
  // acquire: pairs with the release in spawn().
  Task* task = hart.inbox.exchange(nullptr, std::memory_order_acquire);
  Task* oldest = nullptr;
  while (task != nullptr) {
    Task* const newer = oldest;
    oldest = task;
    task = task->next;
    oldest->next = newer;
  }
  while (oldest != nullptr) {
    Task* const next = oldest->next;
    add_to_ring(hart, oldest);
    oldest = next;
  }
}

bool wait_is_over(Task& task, std::uint64_t now) noexcept {
  task.signalled = task.event != nullptr && task.event->signalled_since(task.seen);
  return task.signalled || now >= task.deadline;
}

/// Adds the tasks of the inbox to the ring, makes tasks ready whose wait is over, and sets the timer to the earliest
/// remaining deadline.
void look_around(HartState& hart) noexcept {
  hart.recheck.store(0, std::memory_order_relaxed);
  take_inbox(hart);
  if (hart.ring == nullptr) return;
  std::uint64_t now = 0, earliest = kForever;
  Task* task = hart.ring;
  do {
    if (task->state == Task::State::kWaiting) {
      if (task->deadline != kForever && now == 0) now = hal::Port::ticks();
      if (wait_is_over(*task, now)) task->state = Task::State::kReady;
      else earliest = std::min(earliest, task->deadline);
    }
    task = task->next;
  } while (task != hart.ring);
  if (earliest < hart.next_wake) {
    hart.next_wake = earliest;
    if (earliest < hart.next_tick) arm_timer(hart);
  }
}

/// @returns the next ready task after the current one; null if there is none.
Task* next_ready(const HartState& hart) noexcept {
  if (hart.ring == nullptr) return nullptr;
  Task* const start = hart.current == &hart.idle ? hart.ring->next : hart.current->next;
  Task* task = start;
  do {
    if (task->state == Task::State::kReady) return task;
    task = task->next;
  } while (task != start);
  return nullptr;
}

/// Switches to @p next; returns when this task runs again. Context: interrupts masked.
void switch_to(HartState& hart, Task& next) noexcept {
  Task& self = *hart.current;
  __atomic_store_n(&hart.current, &next, __ATOMIC_RELAXED);
  hal::port_context_key = next.key;
  qm_switch(&self.sp, next.sp);
}

/// Switches from the current task, which is not ready, to another task or the idle loop. Context: interrupts masked.
void leave(HartState& hart) noexcept {
  Task* const next = next_ready(hart);
  switch_to(hart, next != nullptr ? *next : hart.idle);
}

/// Frees tasks that have ended. Context: not on the stack of such a task.
void bury_ended(HartState& hart) noexcept {
  for (bool found = true; found && hart.ring != nullptr;) {
    found = false;
    Task* task = hart.ring;
    do {
      if (task->state == Task::State::kEnded && task != hart.current) {
        remove_from_ring(hart, task);
        release_task(*task);
        hart.tasks.fetch_sub(1, std::memory_order_relaxed);
        found = true;
        break;
      }
      task = task->next;
    } while (task != hart.ring);
  }
}

/// Waits for an event outside a task.
bool wait_in_place(const Event& event, std::uint32_t seen, std::uint64_t deadline) noexcept {
  for (;;) {
    const hal::InterruptGuard masked;
    if (event.sequence() != seen) return true;
    if (!masked.were_enabled() || hal::Port::ticks() >= deadline) return false;
    hal::Port::wait_for_interrupt();  // ends at the next tick at the latest
  }
}

}  // namespace

void Event::signal() noexcept {
  sequence_.fetch_add(1, std::memory_order_seq_cst);
  // seq_cst with signalled_since(): either this sees the waiter's bit, or the waiter sees the new sequence number.
  const hal::HartMask waiting = waiters_.exchange(0, std::memory_order_seq_cst);
  if (waiting == 0) return;
  const hal::InterruptGuard masked;
  const unsigned self = hal::Port::hart_index();
  for (unsigned hart = 0; hart < hal::Port::kMaxHarts; ++hart) {
    if ((waiting >> hart & 1) == 0) continue;
    if (hart == self) this_hart().recheck.store(1, std::memory_order_relaxed);
    else hal::Port::send_ipi(hart);
  }
}

/// Each call sets the hart's bit again: a signal() clears the bits of all harts, including a hart that has already read
/// the new sequence number and waits for the next signal.
bool Event::signalled_since(std::uint32_t seen) noexcept {
  const hal::HartMask self = hal::HartMask{1} << hal::Port::hart_index();
  if ((waiters_.load(std::memory_order_seq_cst) & self) == 0) waiters_.fetch_or(self, std::memory_order_seq_cst);
  return sequence() != seen;
}

bool in_task() noexcept {
  const HartState& hart = this_hart();
  return hart.innermost == nullptr && hart.current != &hart.idle;
}

bool spawn(unsigned index, std::string_view name, void (*entry)(void*), void* argument,
           std::span<std::byte> stack) noexcept {
  if (index >= hart_states.size() || (hal::online_harts() >> index & 1) == 0) return false;
  if (!stack.empty() && stack.size() < 2048) return false;
  const int slot = take_task();
  if (slot < 0) return false;
  Task& task = tasks[static_cast<std::size_t>(slot)];
  task = Task{};
  if (stack.empty()) {
    task.pool_slot = take_slot(stack_taken);
    if (task.pool_slot < 0) {
      release_task(task);
      return false;
    }
    stack = stack_pool[task.pool_slot];
  }
  const auto low = (reinterpret_cast<std::uintptr_t>(stack.data()) + 15) & ~std::uintptr_t{15};
  task.stack = {low, reinterpret_cast<std::uintptr_t>(stack.data() + stack.size()) & ~std::uintptr_t{15}};
  // A leak scan would take the values that an earlier task left on the stack for pointers of this task.
  std::memset(reinterpret_cast<void*>(low), 0, task.stack.high - low);
  paint_guard(task.stack);
  task.entry = entry;
  task.argument = argument;
  task.hart = index;
  task.key = new_key();
  task.state = Task::State::kReady;
  std::copy_n(name.data(), std::min(name.size(), kMaxTaskName), task.name.data());
  std::uintptr_t* const saved = prepare_switch(task.stack.high, qm_task_start);
  saved[11] = reinterpret_cast<std::uintptr_t>(entry);
  saved[10] = reinterpret_cast<std::uintptr_t>(argument);
  task.sp = reinterpret_cast<std::uintptr_t>(saved);

  HartState& hart = hart_states[index];
  hart.tasks.fetch_add(1, std::memory_order_relaxed);
  Task* first = hart.inbox.load(std::memory_order_relaxed);
  do {
    task.next = first;
    // release: pairs with the acquire in take_inbox().
  } while (!hart.inbox.compare_exchange_weak(first, &task, std::memory_order_release, std::memory_order_relaxed));
  const hal::InterruptGuard masked;
  if (index == hal::Port::hart_index()) hart.recheck.store(1, std::memory_order_relaxed);
  else hal::Port::send_ipi(index);
  return true;
}

/// Ends a task that has returned from its entry.
extern "C" [[noreturn]] void qm_task_end() {
  hal::Port::mask_interrupts();
  HartState& hart = this_hart();
  hart.current->state = Task::State::kEnded;
  hart.recheck.store(1, std::memory_order_relaxed);  // a later yield() or the idle loop frees the task
  leave(hart);
  __builtin_unreachable();
}

void yield() noexcept {
  if (!in_task()) return;
  const hal::InterruptGuard masked;
  HartState& hart = this_hart();
  check_stack(hart, reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)));
  if (hart.recheck.load(std::memory_order_relaxed) != 0) {
    look_around(hart);
    bury_ended(hart);
  }
  Task* const next = next_ready(hart);
  if (next != nullptr && next != hart.current) switch_to(hart, *next);
}

bool wait_event(Event& event, std::uint32_t seen, std::uint64_t deadline) noexcept {
  if (!in_task()) return wait_in_place(event, seen, deadline);
  const hal::InterruptGuard masked;
  HartState& hart = this_hart();
  Task& self = *hart.current;
  check_stack(hart, reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)));
  self.event = &event;
  self.seen = seen;
  self.deadline = deadline;
  self.state = Task::State::kWaiting;
  look_around(hart);
  if (self.state == Task::State::kWaiting) leave(hart);
  self.event = nullptr;
  return self.signalled;
}

void sleep_until(std::uint64_t deadline) noexcept {
  static constinit Event never;
  while (hal::Port::ticks() < deadline) wait_event(never, never.sequence(), deadline);
}

void run_tasks() noexcept {
  HartState& hart = this_hart();
  hart.idle.key = kIdleKey;
  {
    const hal::InterruptGuard masked;
    hart.scheduling = true;
    hal::port_context_key = kIdleKey;
  }
  for (;;) {
    {
      const hal::InterruptGuard masked;
      look_around(hart);
      bury_ended(hart);
      Task* const next = next_ready(hart);
      if (next != nullptr) switch_to(hart, *next);
      else sleep_until_interrupt(hart);
    }
    // Interrupts are enabled here briefly: the interrupt that ended `wfi` is served.
  }
}

std::string_view task_name() noexcept {
  const HartState& hart = this_hart();
  return hart.scheduling ? std::string_view(hart.current->name.data()) : std::string_view("boot");
}

unsigned task_count(unsigned hart) noexcept {
  return hart < hart_states.size() ? hart_states[hart].tasks.load(std::memory_order_relaxed) : 0;
}

bool describe_task_stack(std::uintptr_t address, Text& out) noexcept {
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const Task& task = tasks[i];
    if (task_taken[i].load(std::memory_order_relaxed) == 0 || address < task.stack.low || address >= task.stack.high)
      continue;
    (out << "the stack of hart ").decimal(task.hart) << " task " << std::string_view(task.name.data());
    return true;
  }
  for (const auto& stack : stack_pool) {
    if (!has(stack, address)) continue;
    out << "a stack that no task has";
    return true;
  }
  return false;
}

namespace {

/// @returns the sp of the code that a stopped hart was running: the one in its outermost trap frame.
std::uintptr_t interrupted_sp(const TrapFrame& innermost) noexcept {
  const TrapFrame* frame = &innermost;
  while (frame->outer != nullptr) frame = frame->outer;
  return frame->x[2];
}

bool is_current(const Task& task) noexcept { return hart_states[task.hart].current == &task; }

}  // namespace

void visit_stacks(std::uintptr_t sp, void (*visit)(const LiveStack& stack, void* argument) noexcept,
                  void* argument) noexcept {
  if (panicked_sp() != 0) sp = panicked_sp();
  for (const HartState& hart : hart_states) {
    if (hart.current == nullptr) continue;  // never started
    if (hart.innermost != nullptr) {
      // A handler that panicked has its own variables below the frame of its trap.
      const bool in_handler = &hart == &this_hart() && sp >= hart.trap_stack.low && sp < hart.trap_stack.high;
      visit({hart.trap_stack, in_handler ? sp : reinterpret_cast<std::uintptr_t>(hart.innermost)}, argument);
      visit({hart.current->stack, interrupted_sp(*hart.innermost)}, argument);
    } else if (&hart == &this_hart()) {
      visit({hart.current->stack, sp}, argument);
    }
    if (hart.current != &hart.idle) visit({hart.boot_stack, hart.idle.sp}, argument);
  }
  for (std::size_t i = 0; i < tasks_used.load(std::memory_order_relaxed); ++i) {
    const Task& task = tasks[i];
    const bool is_there = task_taken[i].load(std::memory_order_relaxed) != 0 && task.state != Task::State::kFree;
    if (!is_there || task.state == Task::State::kEnded || task.sp == 0 || is_current(task)) continue;
    visit({task.stack, task.sp}, argument);
  }
}

hal::StackBounds stack_pool_bounds() noexcept {
  const auto low = reinterpret_cast<std::uintptr_t>(stack_pool);
  return {low, low + sizeof stack_pool};
}

}  // namespace qm::firmware
