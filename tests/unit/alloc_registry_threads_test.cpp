// All harts add, remove and search names at once, in lists longer than one hold of the lock passes.

#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include <qm/registry.hpp>
#include <qm/test/harts.hpp>

namespace qm {
namespace alloc_registry_threads_test {

/// An entry that is only a name.
template <RegistryKind kKind>
class Named : public Registered {
 public:
  static constexpr RegistryKind kRegistryKind = kKind;
  Status add(const char* name) noexcept {
    const Status status = set_name(*this, name);
    return status == Status::kOk ? registry_add(kKind, *this) : status;
  }
  Status remove() noexcept {
    const Status status = registry_hide(*this);
    if (status == Status::kOk) registry_remove(kKind, *this);
    return status;
  }
};
using NamedArena = Named<RegistryKind::kArena>;
using NamedCache = Named<RegistryKind::kCache>;

constexpr unsigned kMaxHarts = 8;
constexpr unsigned kObjectState = 4 * kRegistryHold;  ///< entries of each kind that remain

class RegistryHarts : public testing::Test {
 protected:
  void SetUp() override {
    registry_reset();
    for (unsigned i = 0; i < kObjectState; ++i) stand(i);
  }
  void TearDown() override { registry_reset(); }

  void stand(unsigned i) {
    names_[i] = {'s', static_cast<char>('a' + i / 16), static_cast<char>('a' + i % 16), 0};
    const char* const name = names_[i].data();
    const Status status = i % 2 == 0 ? arenas_[i / 2].add(name) : caches_[i / 2].add(name);
    ASSERT_EQ(status, Status::kOk);
  }

  std::array<std::array<char, 4>, kObjectState> names_;
  std::array<NamedArena, kObjectState / 2> arenas_;
  std::array<NamedCache, kObjectState / 2> caches_;
};

TEST_F(RegistryHarts, of_those_that_are_added_with_one_name_at_a_time_one_is_entered) {
  const unsigned harts = test::harts();
  test::Barrier barrier(harts);
  std::atomic<unsigned> entered{0};
  test::on_each_hart(harts, [&](unsigned hart) {
    NamedArena arena;
    NamedCache cache;
    for (unsigned round = 0; round < 200; ++round) {
      // Arenas against caches, and in other rounds names of one kind.
      const bool as_arena = (hart + round) % 2 == 0 || round % 4 == 3;
      barrier.arrive();
      const Status status = as_arena ? arena.add("contested") : cache.add("contested");
      EXPECT_TRUE(status == Status::kOk || status == Status::kDuplicate);
      if (status == Status::kOk) entered.fetch_add(1);
      barrier.arrive();
      if (hart == 0) {
        EXPECT_EQ(entered.exchange(0), 1U) << "round " << round;
      }
      if (status == Status::kOk) {
        EXPECT_EQ(as_arena ? arena.remove() : cache.remove(), Status::kOk);
      }
    }
    barrier.arrive();
  });
}

TEST_F(RegistryHarts, a_walk_shows_each_that_stays_once_and_in_order_while_others_come_and_go_around_it) {
  const unsigned harts = test::harts();
  std::atomic<unsigned> working{harts - 1};
  static constexpr const char* kNames[kMaxHarts] = {"h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7"};
  test::on_each_hart(harts, [&](unsigned hart) {
    if (hart != 0) {
      for (unsigned round = 0; round < 200; ++round) {
        NamedArena own;
        NamedArena twin;
        EXPECT_EQ(own.add(kNames[hart]), Status::kOk);
        EXPECT_EQ(twin.add(kNames[hart]), Status::kDuplicate);
        EXPECT_EQ(own.remove(), Status::kOk);
        // Moves an entry from the middle of the list to its end. A search on another hart may stand on it.
        NamedCache& object_state = caches_[hart * (kObjectState / 2 / kMaxHarts)];
        const char* const name = object_state.name();
        EXPECT_EQ(object_state.remove(), Status::kOk);
        EXPECT_EQ(object_state.add(name), Status::kOk);
      }
      working.fetch_sub(1);
      return;
    }
    do {
      RegistryCursor<NamedArena> walk;
      unsigned next = 0;
      while (NamedArena* arena = walk.next()) {
        if (next < arenas_.size() && arena == &arenas_[next]) ++next;
      }
      EXPECT_EQ(next, arenas_.size());
      RegistryCursor<NamedCache> look;
      EXPECT_EQ(look.find("sab"), &caches_[0]);
    } while (working.load() != 0);
  });
  unsigned left = 0;
  RegistryCursor<NamedCache> caches;
  while (caches.next() != nullptr) ++left;
  EXPECT_EQ(left, caches_.size());
}

}  // namespace alloc_registry_threads_test
}  // namespace qm
