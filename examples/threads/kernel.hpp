#pragma once
/// A small preemptive kernel: one ready queue of threads for all harts, slices of random length, semaphores. A waiting
/// thread is only in its semaphore's queue. A hart without a thread waits in `wfi`.

#include <atomic>
#include <cstdint>

#include <qm/hal/hart.hpp>

namespace kernel {

class Thread;

/// A first-in, first-out queue. Context: with the kernel's lock.
class Queue {
 public:
  void push(Thread& thread) noexcept;
  Thread* pop() noexcept;

 private:
  Thread* first_ = nullptr;
  Thread* last_ = nullptr;
};

/// A counting semaphore, whose initial count is @p count.
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
  std::atomic<qm::hal::HartMask> harts{0};  // harts that it has run on
  unsigned last_hart = 0;
  Thread* next = nullptr;  // in a queue
  bool idles = false;      // the idle thread of a hart
  Semaphore ended;
};

/// Starts a thread, with its stack from the allocator. @returns nullptr if there is no memory.
/// @param[in] label "thread NAME", not copied: it is the context in the records of the thread's allocations.
Thread* start(const char* label, void (*entry)(void*), void* argument) noexcept;

/// Frees the memory of a thread that has ended.
void release(Thread* thread) noexcept;

/// Counts over all harts.
struct Counts {
  std::uint32_t switches = 0;
  std::uint32_t moves = 0;    ///< a thread continued on another hart
  std::uint32_t rewinds = 0;  ///< a restartable section was interrupted and started again
};
[[nodiscard]] Counts counts() noexcept;

/// open_hart() sets this hart up for threads, with interrupts masked. When the allocator is attached, run_threads()
/// starts them.
void open_hart(std::uint32_t seed) noexcept;
[[noreturn]] void run_threads() noexcept;

void print(const char* text) noexcept;
/// Ends the emulator. @param[in] status 0: success.
[[noreturn]] void finish(unsigned status) noexcept;

}  // namespace kernel
