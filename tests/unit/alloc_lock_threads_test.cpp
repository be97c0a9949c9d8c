/// The lock used by all harts at once: mutual exclusion, and a hart that sleeps for it is woken.

#include <gtest/gtest.h>

#include <qm/detail/lock.hpp>
#include <qm/test/harts.hpp>
#include <qm/test/seed.hpp>

namespace alloc_lock_threads_test {

using namespace qm;

TEST(LockThreads, lets_one_hart_in_at_a_time) {
  static constinit Lock lock;
  static std::uint32_t counter;
  counter = 0;
  constexpr std::uint32_t kRounds = 5000;
  test::on_each_hart(test::harts(), [](unsigned) {
    for (std::uint32_t i = 0; i < kRounds; ++i) {
      const LockGuard hold(lock);
      counter = counter + 1;
    }
  });
  EXPECT_EQ(counter, kRounds * test::harts());
}

TEST(LockThreads, wakes_those_who_sleep_for_it) {
  // Each holder holds the lock so long that the others stop spinning and sleep.
  static constinit Lock lock;
  static std::uint32_t counter;
  counter = 0;
  constexpr std::uint32_t kRounds = 20;
  test::on_each_hart(test::harts(), [](unsigned hart) {
    test::Random random(test::seed() + hart);
    for (std::uint32_t i = 0; i < kRounds; ++i) {
      const LockGuard hold(lock);
      counter = counter + 1;
      const std::uint64_t until = hal::Port::ticks() + random.below(hal::Port::tick_rate() / 1000);
      while (hal::Port::ticks() < until) {
      }
    }
  });
  EXPECT_EQ(counter, kRounds * test::harts());
}

TEST(LockThreads, counts_its_depth_and_masks_interrupts) {
  static constinit Lock outer;
  static constinit Lock inner;
  EXPECT_EQ(hal::hart_local().lock_depth, 0U);
  {
    const LockGuard first(outer);
    const LockGuard second(inner);
    EXPECT_EQ(hal::hart_local().lock_depth, hal::kManyHarts ? 2U : 0U);
    EXPECT_FALSE(hal::may_wait());
    const hal::InterruptGuard masked;
    EXPECT_FALSE(masked.were_enabled());
  }
  EXPECT_EQ(hal::hart_local().lock_depth, 0U);
}

}  // namespace alloc_lock_threads_test
