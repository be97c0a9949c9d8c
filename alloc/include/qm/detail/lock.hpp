#pragma once
/// The allocator's only lock: test-and-test-and-set, taken with interrupts masked, held for constant work
/// (except by reports and checks of the console).
///
///     free (0) <-> held (1) -> held, a hart sleeps (2) -> free, and an IPI to the sleeping harts
///
/// The lock has no FIFO order: on an oversubscribed emulator the next hart in line is usually not running (a test took
/// 44 s with a ticket lock and 1.4 s with this one). A hart that does not get the lock spins for about the time of one
/// hold, then sleeps in `wfi`: spinning does not help a holder that lost its processor, and under a deterministic
/// emulator the holder does not run at all before the other harts wait.
///
/// Lock order (a hart that holds one may take only those further right):
///     registry < arena < root arena;   registry < slab layer < depot.
/// Leaves, under which no other lock is taken: reserve, quarantine, guards, page map, faults, reclaimers, exhaustion reports,
/// roots of the leak scan; the trace's free records, directory of sources, contexts and stream; the console's notices
/// and logs.
/// The root arena's lock is taken under another arena's lock for boundary tags only: an arena's lock is never held
/// while its source is asked for memory, nor the slab layer's while an arena's is taken.

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
  enum State : std::uint32_t { kUnlocked, kHeld, kSleptOn };
  /// Compares and swaps, so that the state kSleptOn is not overwritten.
  bool try_lock() noexcept {
    std::uint32_t expected = kUnlocked;
    // acquire: pairs with the release in ~LockGuard().
    return state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire, std::memory_order_relaxed);
  }
  [[gnu::cold]] void lock_slow() noexcept;
  [[gnu::cold]] void wake_sleepers() noexcept;
  std::atomic<std::uint32_t> state_{kUnlocked};
};

/// Holds a lock for a scope, with interrupts masked. On a port for one hart, masking is all it does. In a panic it does
/// not take the lock: no other hart runs.
class LockGuard {
 public:
  explicit LockGuard(Lock& lock) noexcept : lock_(lock), waited_(hal::kManyHarts && !lock.try_lock()) {
    if (waited_) lock_.lock_slow();
    // A broadcast must not start while a lock is held. With one hart there is no broadcast, and masked interrupts are
    // enough.
    if constexpr (hal::kManyHarts) hal::change_lock_depth<1>();
  }
  ~LockGuard() {
    if constexpr (hal::kManyHarts) {
      hal::change_lock_depth<-1>();
      if (lock_.state_.exchange(Lock::kUnlocked, std::memory_order_release) == Lock::kSleptOn) lock_.wake_sleepers();
    }
  }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;
  /// Whether another hart held the lock.
  [[nodiscard]] bool waited() const noexcept { return waited_; }

 private:
  hal::InterruptGuard masked_;  // first: interrupts stay masked until the lock is released
  Lock& lock_;
  bool waited_;
};

}  // namespace qm
