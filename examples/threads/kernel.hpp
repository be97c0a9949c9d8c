#pragma once
/// A small preemptive kernel: threads in one ready queue for all harts, slices of random length, semaphores. Who waits
/// is in no queue but the semaphore's; a hart without a thread is in `wfi`.

#include <atomic>
#include <cstdint>

#include <qm/hal/hart.hpp>

namespace kernel {

class Thread;

/// First in, first out. Under the kernel's lock.
class Queue {
 public:
  void push(Thread& thread) noexcept;
  Thread* pop() noexcept;

 private:
  Thread* first_ = nullptr;
  Thread* last_ = nullptr;
};

/// As many waits go on as there are signals, and @p count more.
class Semaphore {
 public:
  constexpr explicit Semaphore(unsigned count = 0) noexcept : count_(count) {}
  void wait() noexcept;    // in a thread
  void signal() noexcept;  // anywhere
  bool try_wait_locked() noexcept { return count_ != 0 && count_-- != 0; }
  Queue& waiting_locked() noexcept { return waiting_; }

 private:
  unsigned count_;
  Queue waiting_;
};

class Thread : public qm::hal::Context {
 public:
  std::atomic<qm::hal::HartMask> harts{0};  // that it has run on
  unsigned last_hart = 0;
  Thread* next = nullptr;  // in a queue
  bool idles = false;      // a hart's, for want of others
  Semaphore ended;
};

/// Starts a thread, with its stack from the allocator. @returns nullptr if there is no memory.
/// @param[in] label "thread NAME", kept and not copied: it is the context of what the thread allocates.
Thread* start(const char* label, void (*entry)(void*), void* argument) noexcept;

/// Gives the memory of a thread that has ended back.
void release(Thread* thread) noexcept;

/// What all harts have done.
struct Counts {
  std::uint32_t switches = 0;
  std::uint32_t moves = 0;    ///< a thread went on on another hart
  std::uint32_t rewinds = 0;  ///< a section was interrupted and began again
};
[[nodiscard]] Counts counts() noexcept;

/// Sets this hart up for threads, interrupts masked; then, with the allocator attached, lets them run.
void open_hart(std::uint32_t seed) noexcept;
[[noreturn]] void run_threads() noexcept;

void print(const char* text) noexcept;
/// Ends the emulator. 0: all is well.
[[noreturn]] void finish(unsigned status) noexcept;

}  // namespace kernel
