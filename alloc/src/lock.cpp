#include <qm/detail/lock.hpp>

namespace qm {
namespace {

/// Reads of a held lock before a hart goes to sleep: together a few times the longest hold.
constexpr unsigned kSpins = 200;

/// Harts that sleep for any lock. There is one set for all locks: sleeping is rare, and a hart that is woken for
/// another lock reads its own and sleeps on.
constinit std::atomic<hal::HartMask> sleepers{0};

}  // namespace

void Lock::lock_slow() noexcept {
  if constexpr (!hal::kManyHarts) return;
  const hal::HartMask self = hal::HartMask{1} << hal::Port::hart_index();
  for (unsigned spins = 0; spins < kSpins; ++spins) {
    if (state_.load(std::memory_order_relaxed) == kUnlocked && try_lock()) return;
    hal::Port::relax();
  }
  sleepers.fetch_or(self, std::memory_order_seq_cst);
  // Set the bit before the state. The holder whose release finds kSleptOn then finds the bit, and its IPI ends the
  // wait. A hart that takes the lock from here on leaves kSleptOn behind, so other sleeping harts are not forgotten.
  while (state_.exchange(kSleptOn, std::memory_order_seq_cst) != kUnlocked && !hal::in_panic())
    hal::Port::wait_for_interrupt();
  sleepers.fetch_and(~self, std::memory_order_relaxed);
}

void Lock::wake_sleepers() noexcept {
  if constexpr (!hal::kManyHarts) return;
  const hal::HartMask asleep = sleepers.load(std::memory_order_seq_cst);
  for (unsigned hart = 0; hart < hal::Port::kMaxHarts; ++hart) {
    if ((asleep >> hart & 1) != 0 && hart != hal::Port::hart_index()) hal::Port::send_ipi(hart);
  }
}

}  // namespace qm
