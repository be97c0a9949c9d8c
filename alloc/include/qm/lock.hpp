#pragma once
/// The allocator's only lock: test-and-test-and-set, taken with interrupts masked, held for constant work.
///
///     free (0) <-> held (1) -> held, somebody sleeps (2) -> free, and an IPI to those who sleep
///
/// No FIFO order: on an oversubscribed emulator the next in line is mostly not running (44 s with a ticket lock where
/// this took 1.4 s). Who does not get it spins for about as long as anybody holds it, then sleeps in `wfi`: a holder
/// that lost its processor is not helped by spinning, and under a deterministic emulator it does not run at all before
/// the others wait.
///
/// Lock order (a hart that holds one may take only those further right):
///     registry < arena < root arena;   registry < slab layer < depot;   trace pools, faults, reports are leaves.
/// The root's is taken with another arena's held for boundary tags only: an arena's lock is never held while its source
/// is asked for anything, nor the slab layer's while an arena's is taken.

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
  enum State : std::uint32_t { kFree, kHeld, kSleptOn };
  /// Compares and swaps, so that a lock that is slept on is not forgotten to be one.
  bool try_lock() noexcept {
    std::uint32_t expected = kFree;
    // acquire: pairs with the release in ~LockGuard().
    return state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire, std::memory_order_relaxed);
  }
  [[gnu::cold]] void lock_slow() noexcept;
  [[gnu::cold]] void wake_sleepers() noexcept;
  std::atomic<std::uint32_t> state_{kFree};
};

/// Holds a lock for a scope, with interrupts masked, which on a port for one hart is all there is to it. In a panic the
/// lock is passed by: no other hart runs.
class LockGuard {
 public:
  explicit LockGuard(Lock& lock) noexcept : lock_(lock), waited_(hal::kManyHarts && !lock.try_lock()) {
    if (waited_) lock_.lock_slow();
    // A round must not start where a lock is held; of one hart there is no round, and masked interrupts say it.
    if constexpr (hal::kManyHarts) hal::change_lock_depth<1>();
  }
  ~LockGuard() {
    if constexpr (hal::kManyHarts) {
      hal::change_lock_depth<-1>();
      if (lock_.state_.exchange(Lock::kFree, std::memory_order_release) == Lock::kSleptOn) lock_.wake_sleepers();
    }
  }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;
  /// Whether somebody else held the lock.
  [[nodiscard]] bool waited() const noexcept { return waited_; }

 private:
  hal::InterruptGuard masked_;  // first: interrupts stay masked until the lock is released
  Lock& lock_;
  bool waited_;
};

}  // namespace qm
