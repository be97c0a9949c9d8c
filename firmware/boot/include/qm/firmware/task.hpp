#pragma once
/// Stackful cooperative tasks. A task stays on its hart. A hart runs its tasks in turn, each until it yields, waits or
/// ends. A hart without a runnable task sleeps in `wfi`; ticks do not wake it. Interrupts may occur at any time and
/// never switch tasks.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <qm/hal/port.hpp>

namespace qm::firmware {

class Task;

/// No deadline.
inline constexpr std::uint64_t kForever = ~std::uint64_t{0};

/// Longest task name; a longer one is cut.
inline constexpr std::size_t kMaxTaskName = 31;

/// An event that tasks wait for, and that can happen any number of times. This use misses no signal:
///
///     const std::uint32_t seen = event.sequence();
///     if (!there_is_work()) wait_event(event, seen);
class Event {
 public:
  constexpr Event() noexcept = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// The number of calls of signal(); wraps.
  [[nodiscard]] std::uint32_t sequence() const noexcept { return sequence_.load(std::memory_order_seq_cst); }

  /// Wakes every waiting task. Sends one IPI to each other hart that has a waiting task.
  /// Context: any hart, any interrupt level, no lock.
  void signal() noexcept;

  /// For the scheduler: registers this hart as one with a waiter, then reads the sequence number. @returns whether
  /// signal() was called after sequence() was @p seen.
  /// Context: a hart's scheduler, interrupts masked.
  [[nodiscard]] bool signalled_since(std::uint32_t seen) noexcept;

 private:
  std::atomic<std::uint32_t> sequence_{0};
  std::atomic<hal::HartMask> waiters_{0};
};

/// Starts a task on hart @p hart.
/// @param[in] name  copied.
/// @param[in] stack the task's stack, 16-byte aligned, at least 2 KiB, not to be touched until the task has ended;
///                  empty: a stack of the pool is used.
/// @returns false if the hart is not online, no task slot or no stack of the pool is free, or the given stack is too
///          small.
/// Context: any hart, in a task, during early_main() or hart_main(); not in a trap handler.
bool spawn(unsigned hart, std::string_view name, void (*entry)(void*), void* argument,
           std::span<std::byte> stack = {}) noexcept;

/// Runs @p function at the same time on harts @p first to @p last, as a task called @p name, and returns when every
/// call has returned. If the calling hart is one of them, it calls the function directly. Panics if a task cannot be
/// started on a hart.
/// Context: a task, one call at a time.
void on_harts(unsigned first, unsigned last, std::string_view name, void (*function)(unsigned hart, void* argument),
              void* argument) noexcept;

/// Lets this hart's other runnable tasks run. Returns at once if there is none. Outside a task: does nothing.
void yield() noexcept;

/// Waits until hal::Port::ticks() has reached @p deadline. The hart's timer is set to the deadline, so the wait does
/// not depend on the tick period.
void sleep_until(std::uint64_t deadline) noexcept;

/// Waits until @p event was signalled since it had sequence number @p seen, or @p deadline has passed.
/// Outside a task it waits in `wfi` if interrupts are enabled; else it returns at once.
/// @returns whether the event was signalled.
bool wait_event(Event& event, std::uint32_t seen, std::uint64_t deadline = kForever) noexcept;

/// The running task's name, or "boot"; in a trap handler, that of the interrupted context.
[[nodiscard]] std::string_view task_name() noexcept;

/// Whether the caller is a task, so that it may wait.
[[nodiscard]] bool in_task() noexcept;

/// The number of tasks on hart @p hart that are running, waiting or ready.
[[nodiscard]] unsigned task_count(unsigned hart) noexcept;

/// The size of the guard words at the low end of every stack. An overwritten guard word is fatal at the next task
/// switch or trap.
inline constexpr std::size_t kStackGuardBytes = 64;

}  // namespace qm::firmware
