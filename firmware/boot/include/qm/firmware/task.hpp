#pragma once
/// Stackful cooperative tasks. A task stays on its hart; a hart runs its tasks in turn, each until it yields, waits or
/// ends. A hart without a runnable task sleeps in `wfi`, where its ticks do not wake it. Interrupts come at any time and never switch tasks.

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

/// Something that happens again and again, for tasks to wait for. No event is missed by this use:
///
///     const std::uint32_t seen = event.sequence();
///     if (!there_is_work()) wait_event(event, seen);
class Event {
 public:
  constexpr Event() noexcept = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// How often signal() was called; wraps.
  [[nodiscard]] std::uint32_t sequence() const noexcept { return sequence_.load(std::memory_order_seq_cst); }

  /// Wakes every task that waits. Costs one IPI for each other hart that has one.
  /// Context: any hart, any interrupt level, no lock.
  void signal() noexcept;

 private:
  friend bool wait_event(Event& event, std::uint32_t seen, std::uint64_t deadline) noexcept;
  std::atomic<std::uint32_t> sequence_{0};
  std::atomic<hal::HartMask> waiters_{0};
};

/// Starts a task on hart @p hart.
/// @param[in] name  copied.
/// @param[in] stack the task's stack, 16-byte aligned, at least 2 KiB, not to be touched until the task has ended;
///                  empty: one of the pool.
/// @returns false if the hart is not online, no task slot or no stack of the pool is free, or the given stack is too
///          small.
/// Context: any hart, in a task, during early_main() or hart_main(); not in a trap handler.
bool spawn(unsigned hart, std::string_view name, void (*entry)(void*), void* argument,
           std::span<std::byte> stack = {}) noexcept;

/// Runs @p function at the same time on harts @p first to @p last, as a task called @p name, and returns when every
/// call has returned. On the calling hart, if it is one of them, it is called in place. A hart that takes no task is a
/// panic.
/// Context: a task, one call at a time.
void on_harts(unsigned first, unsigned last, std::string_view name, void (*function)(unsigned hart, void* argument),
              void* argument) noexcept;

/// Lets this hart's other runnable tasks run. Returns at once if there is none. Outside a task: does nothing.
void yield() noexcept;

/// Waits until hal::Port::ticks() has reached @p deadline. The hart's timer is set to it: no tick granularity.
void sleep_until(std::uint64_t deadline) noexcept;

/// Waits until @p event was signalled since it had sequence number @p seen, or @p deadline has passed.
/// @returns whether it was signalled. Outside a task it waits in place, in `wfi`, if interrupts are enabled; else it
///          returns.
bool wait_event(Event& event, std::uint32_t seen, std::uint64_t deadline = kForever) noexcept;

/// The running task's name, or "boot", also inside a trap handler that interrupted it.
[[nodiscard]] std::string_view task_name() noexcept;

/// Whether the caller is a task, so that it may wait.
[[nodiscard]] bool in_task() noexcept;

/// Tasks that are running, waiting or ready on hart @p hart.
[[nodiscard]] unsigned task_count(unsigned hart) noexcept;

/// Guard words at the low end of every stack. An overwritten one is fatal at the next switch or trap.
inline constexpr std::size_t kStackGuardBytes = 64;

}  // namespace qm::firmware
