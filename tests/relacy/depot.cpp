// The depot: no two harts have one magazine, what a hart wrote into a magazine is seen by the hart that takes it, and the
// depot's counts are those of its lists.
//
// layer: alloc
//
// Three harts give, take and exchange magazines, and read the depot's hints without the lock.
//
// rewrite: alloc/src/lock.cpp: kSpins = 200 => kSpins = 1
// rewrite: alloc/include/qm/detail/magazine.hpp: Magazine* next = nullptr; => qm_relacy::Plain<Magazine*> next = nullptr;
// rewrite: alloc/include/qm/detail/magazine.hpp: std::uint8_t rounds = 0; => qm_relacy::Plain<std::uint8_t> rounds = 0;
// rewrite: alloc/include/qm/detail/magazine.hpp: std::uint16_t now = 0; => qm_relacy::Plain<std::uint16_t> now = 0;
// rewrite: alloc/include/qm/detail/magazine.hpp: std::uint16_t least = 0; => qm_relacy::Plain<std::uint16_t> least = 0;
// rewrite: alloc/include/qm/detail/magazine.hpp: ? magazine->rounds : 0 => ? magazine->rounds + 0 : 0
//
// mutant TAKES_UNLOCKED: take() does not hold the lock
//   alloc/src/cache/depot.cpp: Magazine* Depot::take(Shelf shelf) noexcept {\n  const LockGuard hold(lock_); => Magazine* Depot::take(Shelf shelf) noexcept {
// mutant GIVES_UNLOCKED: give() does not hold the lock
//   alloc/src/cache/depot.cpp: const LockGuard hold(lock_);\n  push_locked(magazine); => push_locked(magazine);
// mutant KEEPS_THE_FIRST: a magazine that is taken stays in the list
//   alloc/src/cache/depot.cpp: store_relaxed(first_[shelf], magazine.next); =>
// mutant NO_ACQUIRE: the hart that takes a magazine does not see what is in it
//   alloc/include/qm/detail/lock.hpp: kHeld, std::memory_order_acquire => kHeld, std::memory_order_relaxed
// mutant NO_RELEASE: what a hart wrote into a magazine may come after it has given it away
//   alloc/include/qm/detail/lock.hpp: Lock::kUnlocked, std::memory_order_release => Lock::kUnlocked, std::memory_order_relaxed

#include "relacy_atomic.hpp"

#include <qm/detail/magazine.hpp>

#include "hart.hpp"

#include <alloc/src/cache/depot.cpp>
#include <alloc/src/cache/magazine.cpp>
#include <alloc/src/lock.cpp>

namespace {

constexpr unsigned kMagazines = 3;

/// A magazine with one slot.
struct Box {
  qm::Magazine magazine;
  void* slot = nullptr;
  qm_relacy::Plain<unsigned> contents = 0;  // stands for the objects; the hart that has the magazine writes it
};

struct DepotSuite : rl::test_suite<DepotSuite, 3> {
  qm::Depot* depot = nullptr;
  Box* boxes[kMagazines] = {};

  Box& box_of(qm::Magazine* magazine) {
    unsigned at = 0;
    while (at < kMagazines && &boxes[at]->magazine != magazine) ++at;
    RL_ASSERT(at < kMagazines);
    return *boxes[at];
  }
  static void change(Box& box) { ++box.contents; }

  void before() {
    qm_relacy::begin_harts();
    qm::sleepers.touch();
    depot = new qm::Depot;
    depot->initialize(4096, 1);
    for (Box*& box : boxes) {
      box = new Box;
      box->magazine.capacity = 1;
    }
    boxes[0]->magazine.rounds = 1;
    depot->give(&boxes[0]->magazine);
    depot->give(&boxes[1]->magazine);
  }
  void thread(unsigned hart) {
    if (hart == 0) {  // allocates: takes the full magazine, and gives it back empty
      if (!depot->has_full()) return;
      qm::Magazine* const full = depot->exchange_for_full(nullptr);
      if (full == nullptr) return;
      change(box_of(full));
      RL_ASSERT(full->rounds == 1);
      full->rounds = 0;
      depot->give(full);
    } else if (hart == 1) {  // frees: exchanges its full magazine for an empty one
      boxes[2]->magazine.rounds = 1;
      change(*boxes[2]);
      qm::Magazine* const empty = depot->exchange_for_empty(&boxes[2]->magazine);
      if (empty == nullptr) return depot->give(&boxes[2]->magazine);
      RL_ASSERT(empty->rounds == 0);
      change(box_of(empty));
      depot->give(empty);
    } else {  // drains: looks at each magazine that it can take
      while (qm::Magazine* const full = depot->take_full()) {
        change(box_of(full));
        full->rounds = 0;
        depot->give(full);
      }
      static_cast<void>(depot->stats());
    }
  }
  void after() {
    const qm::Depot::Stats stats = depot->stats();
    RL_ASSERT(stats.full + stats.empty == kMagazines);
    RL_ASSERT(stats.rounds == stats.full);
    unsigned taken = 0;
    while (depot->take_full() != nullptr || depot->take_empty() != nullptr) ++taken;
    RL_ASSERT(taken == kMagazines);
    for (Box* box : boxes) delete box;
    delete depot;
    qm_relacy::end();
  }
};

}  // namespace

int main() { qm_relacy::search<DepotSuite>(50000, 2); }
