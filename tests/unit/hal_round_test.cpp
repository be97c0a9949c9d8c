#include <gtest/gtest.h>

#include <qm/hal/round.hpp>
#include <qm/test/harts.hpp>

namespace {

using qm::hal::run_on_harts;

constexpr qm::hal::HartMask kAll = ~qm::hal::HartMask{0};

TEST(Round, visits_every_online_hart_once_and_returns_after_the_last) {
  const unsigned count = qm::test::harts();
  static std::atomic<std::uint32_t> visits[qm::hal::Port::kMaxHarts];
  for (auto& visit : visits) visit = 0;
  qm::test::Barrier barrier(count);
  qm::test::on_each_hart(count, [&](unsigned hart) {
    barrier.arrive();
    if (hart == 0) {
      const auto result = run_on_harts(kAll, [](unsigned target, void*) noexcept { visits[target].fetch_add(1); }, nullptr);
      EXPECT_TRUE(result.ok());
      for (unsigned target = 0; target < count; ++target) EXPECT_EQ(visits[target].load(), 1u) << "hart " << target;
    }
    barrier.arrive();
  });
}

}  // namespace
