#pragma once
/// The allocator's only lock: test-and-test-and-set, taken with interrupts masked, held for constant work.
///
/// No FIFO order: on an oversubscribed emulator the next in line is mostly not running (44 s with a ticket lock where this
/// took 1.4 s). A wait here is a spin and not a `wfi`: the lock is held for a few dozen instructions and its release sends
/// nothing that would end a `wfi`.
///
/// Lock order (a hart that holds one may take only those further right):
///     registry < arena < boundary tags;   registry < slab layer < depot;   trace pools are leaves.
/// The arena's lock is never held while its source's is taken, nor the slab layer's while an arena's is.

#include <atomic>
#include <cstdint>

#include <qm/hal/hart.hpp>

namespace qm {

class Lock {
 public:
  constexpr Lock() noexcept = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  friend class LockGuard;
  std::atomic<std::uint32_t> held_{0};
};

/// Holds a lock for a scope, with interrupts masked. In a panic the lock is passed by: no other hart runs.
class LockGuard {
 public:
  explicit LockGuard(Lock& lock) noexcept : lock_(lock) {
    // acquire: pairs with the release in the destructor.
    while (lock_.held_.exchange(1, std::memory_order_acquire) != 0) {
      while (lock_.held_.load(std::memory_order_relaxed) != 0 && !hal::in_panic()) hal::Port::relax();
      if (hal::in_panic()) break;
    }
    ++hal::hart_local().lock_depth;
  }
  ~LockGuard() {
    --hal::hart_local().lock_depth;
    lock_.held_.store(0, std::memory_order_release);
  }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  hal::InterruptGuard masked_;  // first: interrupts stay masked until the lock is released
  Lock& lock_;
};

}  // namespace qm
