/// Interrupt handlers in C: qm_on_ipi() serves what other harts request.

#include <gtest/gtest.h>

#include <atomic>

#include <qm/hal/broadcast.hpp>
#include <qm/hal/hart.hpp>
#include <qm/hal/port.hpp>
#include <qm/qm.h>
#include <qm/test/harts.hpp>

namespace alloc_c_harts_test {

struct Visit {
  std::atomic<unsigned> count{0};
  std::atomic<unsigned> strange{0};  ///< on another hart, or with interrupts enabled
};

TEST(CHarts, a_handler_serves_the_request_of_another_hart) {
  Visit visit;
  std::atomic<bool> is_masked{false};
  std::atomic<bool> over{false};
  qm::test::on_each_hart(2, [&](unsigned hart) {
    if (hart == 1) {
      // As in a handler: the interrupt itself cannot be taken, so only the call can serve the request.
      const qm::hal::InterruptGuard masked;
      is_masked = true;
      while (!over.load()) qm_on_ipi();
      return;
    }
    while (!is_masked.load()) qm::hal::Port::relax();
    const qm::hal::BroadcastResult result = qm::hal::run_on_harts(
        qm::hal::HartMask{1} << 1,
        [](unsigned on, void* argument) noexcept {
          auto& of = *static_cast<Visit*>(argument);
          const qm::hal::InterruptGuard guard;
          if (on != 1 || qm::hal::Port::hart_index() != 1 || guard.were_enabled()) of.strange.fetch_add(1);
          of.count.fetch_add(1);
        },
        &visit, 5'000);
    EXPECT_TRUE(result.ok()) << "hart " << result.hart;
    over = true;
  });
  EXPECT_EQ(visit.count.load(), 1U);
  EXPECT_EQ(visit.strange.load(), 0U);
}

}  // namespace alloc_c_harts_test
