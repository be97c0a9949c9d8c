// A panic cannot be undone, so this test has a program of its own, and the order of its cases matters.

#include <gtest/gtest.h>

#include <qm/hal/broadcast.hpp>
#include <qm/test/harts.hpp>

namespace hal_panic_test {

using qm::hal::BroadcastStatus;
using qm::hal::run_on_harts;

constexpr qm::hal::HartMask kAll = ~qm::hal::HartMask{0};
std::atomic<std::uint32_t> visits{0};
void visit(unsigned, void*) noexcept { visits.fetch_add(1); }

TEST(Panic, ends_a_broadcast_that_waits) {
  const unsigned count = qm::test::harts();
  if (count < 2) GTEST_SKIP() << "needs two harts";
  EXPECT_FALSE(qm::hal::in_panic());
  std::atomic<std::uint32_t> held{0};
  std::atomic<std::uint32_t> ended{0};
  qm::test::on_each_hart(2, [&](unsigned hart) {
    if (hart == 1) {
      const qm::hal::InterruptGuard masked;
      held.store(1);
      for (unsigned spin = 0; spin < 1000; ++spin) qm::hal::Port::relax();  // lets hart 0 start its broadcast
      qm::hal::enter_panic();
      while (ended.load() == 0) qm::hal::Port::relax();
    } else {
      while (held.load() == 0) qm::hal::Port::relax();
      EXPECT_EQ(run_on_harts(kAll, &visit, nullptr, 60'000).status, BroadcastStatus::kUnsafe);
      ended.store(1);
    }
  });
}

TEST(Panic, refuses_every_broadcast_from_then_on) {
  qm::hal::enter_panic();
  EXPECT_TRUE(qm::hal::in_panic());
  visits.store(0);
  qm::test::on_each_hart(1, [](unsigned) {
    EXPECT_FALSE(qm::hal::may_wait());
    EXPECT_EQ(run_on_harts(kAll, &visit, nullptr).status, BroadcastStatus::kUnsafe);
  });
  EXPECT_EQ(visits.load(), 0u);
}

}  // namespace hal_panic_test
