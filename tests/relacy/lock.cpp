// The allocator's lock: one hart at a time holds it, it orders what its holders write, and no hart sleeps on.
//
// layer: alloc
//
// A hart reads the lock once before it sleeps, so that the search reaches the sleep.
//
// rewrite: alloc/src/lock.cpp: kSpins = 200 => kSpins = 1
//
// mutant NO_ACQUIRE: a hart that takes the lock does not see what the last holder wrote
//   alloc/include/qm/detail/lock.hpp: kHeld, std::memory_order_acquire => kHeld, std::memory_order_relaxed
// mutant NO_RELEASE: the holder's writes may come after it has freed the lock
//   alloc/include/qm/detail/lock.hpp: Lock::kUnlocked, std::memory_order_release => Lock::kUnlocked, std::memory_order_relaxed
// mutant FORGETS_OTHERS: a hart that slept takes the lock as if no other hart slept
//   alloc/src/lock.cpp: state_.exchange(kSleptOn, std::memory_order_seq_cst) != kUnlocked => state_.exchange(kHeld, std::memory_order_seq_cst) != kUnlocked
// mutant WAKES_NOBODY: the holder does not look whether a hart sleeps
//   alloc/include/qm/detail/lock.hpp: == Lock::kSleptOn) lock_.wake_sleepers() => == Lock::kSleptOn) {}
// mutant SLEEPS_UNANNOUNCED: a hart sleeps without its bit in the set
//   alloc/src/lock.cpp: sleepers.fetch_or(self => sleepers.fetch_or(0

#include "relacy_atomic.hpp"

#include <qm/detail/lock.hpp>

#include "hart.hpp"

#include <alloc/src/lock.cpp>

namespace {

struct LockSuite : rl::test_suite<LockSuite, 3> {
  std::unique_ptr<qm::Lock> lock;
  std::unique_ptr<qm_relacy::Plain<unsigned>> count;

  void before() {
    qm_relacy::begin_harts();
    qm::sleepers.touch();
    lock = std::make_unique<qm::Lock>();
    count = std::make_unique<qm_relacy::Plain<unsigned>>(0);
  }
  void thread(unsigned) {
    const qm::LockGuard hold(*lock);
    ++*count;
  }
  void after() {
    RL_ASSERT(*count == 3);
    lock.reset();
    count.reset();
    qm_relacy::end();
  }
};

}  // namespace

int main() { qm_relacy::search<LockSuite>(100000, 3); }
