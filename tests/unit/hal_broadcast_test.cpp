#include <gtest/gtest.h>

#include <array>

#include <qm/config.h>
#include <qm/hal/broadcast.hpp>
#include <qm/hal/turn.hpp>
#include <qm/test/harts.hpp>

namespace hal_broadcast_test {

using qm::hal::BroadcastResult;
using qm::hal::BroadcastStatus;
using qm::hal::HartMask;
using qm::hal::InterruptGuard;
using qm::hal::Port;
using qm::hal::run_on_harts;

constexpr HartMask kAll = ~HartMask{0};
constexpr std::uint32_t kShortMs = 30;

/// Counts the visits of a broadcast for each hart.
struct Visits {
  std::array<std::atomic<std::uint32_t>, Port::kMaxHarts> count{};
  std::atomic<std::uint32_t> unmasked{0};  ///< visits with interrupts enabled
  std::atomic<std::uint32_t> strange{0};   ///< visits that ran on the wrong hart

  static void visit(unsigned hart, void* argument) noexcept {
    auto& visits = *static_cast<Visits*>(argument);
    const InterruptGuard guard;
    if (guard.were_enabled()) visits.unmasked.fetch_add(1);
    if (Port::hart_index() != hart) visits.strange.fetch_add(1);
    visits.count[hart].fetch_add(1);
  }
  [[nodiscard]] std::uint32_t total() const {
    std::uint32_t sum = 0;
    for (const auto& hart : count) sum += hart.load();
    return sum;
  }
};

/// Holds a hart with its interrupts masked until it is released.
class MaskedHart {
 public:
  void hold() noexcept {
    const InterruptGuard masked;
    holding_.store(1);
    while (holding_.load() != 2) Port::relax();
  }
  void wait_until_held() const noexcept {
    while (holding_.load() != 1) Port::relax();
  }
  void let_go() noexcept { holding_.store(2); }

 private:
  std::atomic<std::uint32_t> holding_{0};
};

TEST(Broadcast, visits_every_online_hart_once_and_returns_after_the_last) {
  const unsigned count = qm::test::harts();
  Visits visits;
  qm::test::Barrier barrier(count);
  qm::test::on_each_hart(count, [&](unsigned hart) {
    barrier.arrive();
    if (hart == 0) {
      EXPECT_TRUE(run_on_harts(kAll, &Visits::visit, &visits).ok());
      for (unsigned target = 0; target < count; ++target)
        EXPECT_EQ(visits.count[target].load(), 1u) << "hart " << target;
    }
    barrier.arrive();
  });
  EXPECT_EQ(visits.total(), count);
  EXPECT_EQ(visits.unmasked.load(), 0u);
  EXPECT_EQ(visits.strange.load(), 0u);
}

TEST(Broadcast, visits_only_the_harts_of_its_mask) {
  const unsigned count = qm::test::harts();
  for (HartMask mask = 0; mask < HartMask{1} << count; ++mask) {
    Visits visits;
    qm::test::Barrier barrier(count);
    qm::test::on_each_hart(count, [&](unsigned hart) {
      barrier.arrive();
      if (hart == 0) {
        EXPECT_TRUE(run_on_harts(mask, &Visits::visit, &visits).ok());
      }
      barrier.arrive();
    });
    for (unsigned hart = 0; hart < count; ++hart)
      EXPECT_EQ(visits.count[hart].load(), mask >> hart & 1u) << "mask " << mask;
    if (mask >= 16) mask += 32;  // a sample of the many masks of eight harts
  }
}

TEST(Broadcast, leaves_out_a_hart_that_is_offline) {
  const unsigned count = qm::test::harts();
  Visits visits;
  qm::test::Barrier barrier(count);
  qm::test::on_each_hart(count, [&](unsigned hart) {
    if (hart + 1 == count) qm::hal::hart_offline(hart);
    barrier.arrive();
    if (hart == 0) {
      EXPECT_TRUE(run_on_harts(kAll, &Visits::visit, &visits).ok());
    }
    barrier.arrive();
    if (hart + 1 == count) qm::hal::hart_online(hart);
  });
  EXPECT_EQ(visits.count[count - 1].load(), 0u);
  EXPECT_EQ(visits.total(), count - 1);
}

/// The work of the harts that another hart stops: each counts its steps, with interrupts masked.
struct Steps {
  std::array<std::atomic<std::uint32_t>, Port::kMaxHarts> done{};
  std::atomic<bool> over{false};
  std::atomic<std::uint32_t> asked{0};  ///< harts on which on_each ran
  std::uint32_t moved = 0;              ///< steps that were done while all should stand still
  std::uint32_t works = 0;

  void step(unsigned hart) {
    const qm::hal::InterruptGuard masked;
    done[hart].store(done[hart].load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  static void note(unsigned hart, void* argument) noexcept {
    static_cast<Steps*>(argument)->asked.fetch_or(1U << hart, std::memory_order_relaxed);
  }
  static void work(void* argument) noexcept {
    auto& self = *static_cast<Steps*>(argument);
    ++self.works;
    std::array<std::uint32_t, Port::kMaxHarts> before{};
    for (unsigned hart = 0; hart < before.size(); ++hart)
      before[hart] = self.done[hart].load(std::memory_order_relaxed);
    for (unsigned spin = 0; spin < 2000; ++spin) {
      for (unsigned hart = 0; hart < before.size(); ++hart)
        self.moved += self.done[hart].load(std::memory_order_relaxed) != before[hart] ? 1 : 0;
    }
  }
};

TEST(Broadcast, makes_the_other_harts_stand_still_for_a_while) {
  const unsigned count = qm::test::harts();
  static Steps steps;
  qm::test::Barrier barrier(count);
  qm::test::on_each_hart(count, [&](unsigned hart) {
    barrier.arrive();
    if (hart == 0) {
      for (unsigned round = 0; round < 6; ++round) {
        const BroadcastResult result = qm::hal::run_while_still(&Steps::note, &Steps::work, &steps, 60'000);
        EXPECT_TRUE(result.ok()) << "hart " << result.hart;
      }
      steps.over.store(true);
    }
    while (!steps.over.load()) steps.step(hart);
  });
  EXPECT_EQ(steps.works, 6u);
  EXPECT_EQ(steps.moved, 0u);
  EXPECT_NE(steps.asked.load() & 1, 0u);
#if defined(QM_TARGET)
  EXPECT_EQ(steps.asked.load(), (2U << (count - 1)) - 1);
#endif
  Visits visits;  // afterwards broadcasts work as before
  EXPECT_TRUE(run_on_harts(kAll, &Visits::visit, &visits).ok());
}

TEST(Broadcast, stops_nobody_where_it_may_not_wait) {
  static Steps steps;
  const qm::hal::InterruptGuard masked;
  ++qm::hal::hart_local().lock_depth;
  EXPECT_EQ(qm::hal::run_while_still(nullptr, &Steps::work, &steps).status, BroadcastStatus::kUnsafe);
  --qm::hal::hart_local().lock_depth;
  EXPECT_EQ(steps.works, 0u);
}

TEST(Broadcast, lets_every_hart_initiate_at_the_same_time) {
  constexpr std::uint32_t kRounds = 50;
  const unsigned count = qm::test::harts();
  Visits visits;
  qm::test::Barrier barrier(count);
  qm::test::on_each_hart(count, [&](unsigned) {
    barrier.arrive();
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      const BroadcastResult result = run_on_harts(kAll, &Visits::visit, &visits, 60'000);
      EXPECT_TRUE(result.ok()) << "round " << round << " hart " << result.hart;
    }
    barrier.arrive();
  });
  EXPECT_EQ(visits.total(), kRounds * count * count);
  EXPECT_EQ(visits.unmasked.load(), 0u);
}

TEST(Broadcast, makes_what_the_function_wrote_visible_to_the_initiator) {
  const unsigned count = qm::test::harts();
  std::array<std::uint32_t, Port::kMaxHarts> plain{};  // no atomics: the broadcast itself must order the accesses
  qm::test::Barrier barrier(count);
  qm::test::on_each_hart(count, [&](unsigned hart) {
    barrier.arrive();
    for (std::uint32_t round = 1; hart == 0 && round <= 20; ++round) {
      const auto add = [](unsigned target, void* argument) noexcept {
        ++(*static_cast<decltype(plain)*>(argument))[target];
      };
      ASSERT_TRUE(run_on_harts(kAll, add, &plain, 60'000).ok());
      for (unsigned target = 0; target < count; ++target) ASSERT_EQ(plain[target], round) << "hart " << target;
    }
    barrier.arrive();
  });
}

TEST(Broadcast, names_the_hart_that_does_not_answer_and_withdraws_the_request) {
  const unsigned count = qm::test::harts();
  if (count < 2) GTEST_SKIP() << "needs two harts";
  const unsigned deaf = count - 1;
  Visits visits;
  MaskedHart masked;
  qm::test::Barrier barrier(count);
  qm::test::on_each_hart(count, [&](unsigned hart) {
    if (hart == deaf) masked.hold();
    if (hart == 0) {
      masked.wait_until_held();
      const BroadcastResult result = run_on_harts(kAll, &Visits::visit, &visits, kShortMs);
      EXPECT_EQ(result.status, BroadcastStatus::kTimedOut);
      EXPECT_EQ(result.hart, deaf);
      masked.let_go();
    }
    barrier.arrive();
    // The withdrawn request must not run later, and the next broadcast works.
    if (hart == 0) {
      EXPECT_EQ(visits.count[deaf].load(), 0u);
      EXPECT_EQ(visits.count[0].load(), 1u);
      EXPECT_TRUE(run_on_harts(kAll, &Visits::visit, &visits).ok());
      EXPECT_EQ(visits.count[deaf].load(), 1u);
    }
    barrier.arrive();
  });
}

TEST(Broadcast, gives_up_when_the_abort_test_says_so) {
  const unsigned count = qm::test::harts();
  if (count < 2) GTEST_SKIP() << "needs two harts";
  const unsigned deaf = count - 1;
  Visits visits;
  MaskedHart masked;
  qm::test::Barrier barrier(count);
  qm::test::on_each_hart(count, [&](unsigned hart) {
    if (hart == deaf) masked.hold();
    if (hart == 0) {
      masked.wait_until_held();
      static std::atomic<std::uint32_t> asked;
      asked = 0;
      const BroadcastResult result =
          run_on_harts(kAll, &Visits::visit, &visits, 60'000, []() noexcept { return asked.fetch_add(1) == 10; });
      EXPECT_EQ(result.status, BroadcastStatus::kAborted);
      EXPECT_EQ(result.hart, deaf);
      EXPECT_EQ(asked.load(), 11u);
      masked.let_go();
    }
    barrier.arrive();
    EXPECT_EQ(visits.count[deaf].load(), 0u);
    barrier.arrive();
  });
}

TEST(Broadcast, counts_the_wait_for_another_broadcast_towards_the_deadline_and_blames_no_hart_for_it) {
  const unsigned count = qm::test::harts();
  if (count < 3) GTEST_SKIP() << "needs three harts";
  Visits first;
  Visits second;
  MaskedHart masked;
  std::atomic<std::uint32_t> waited{0};
  qm::test::Barrier all_online(3);
  qm::test::on_each_hart(3, [&](unsigned hart) {
    all_online.arrive();
    if (hart == 2) masked.hold();
    if (hart == 0) {
      masked.wait_until_held();
      EXPECT_TRUE(run_on_harts(kAll, &Visits::visit, &first, 60'000).ok());
      EXPECT_EQ(waited.load(), 1u);
    }
    if (hart == 1) {
      while (first.count[1].load() == 0) Port::relax();  // hart 0's broadcast is in progress, this hart has answered
      const BroadcastResult result = run_on_harts(kAll, &Visits::visit, &second, kShortMs);
      EXPECT_EQ(result.status, BroadcastStatus::kTimedOut);
      EXPECT_EQ(result.hart, BroadcastResult::kNobody);
      waited.store(1);
      masked.let_go();
    }
  });
  EXPECT_EQ(second.total(), 0u);
}

TEST(Broadcast, refuses_a_caller_that_may_not_ask_and_does_nothing) {
  const unsigned count = qm::test::harts();
  qm::test::Barrier barrier(count);
  qm::test::on_each_hart(count, [&](unsigned hart) {
    barrier.arrive();
    if (hart == 0) {
      Visits visits;
      const auto refuses = [&] {
        return run_on_harts(kAll, &Visits::visit, &visits).status == BroadcastStatus::kUnsafe;
      };
      EXPECT_TRUE(qm::hal::may_wait() && qm::hal::may_ask_harts());
      if (count > 1) {
        const InterruptGuard masked;
        EXPECT_FALSE(qm::hal::may_wait() || qm::hal::may_ask_harts());
        EXPECT_TRUE(refuses());
      }
      for (std::uint32_t* depth : {&qm::hal::hart_local().lock_depth, &qm::hal::hart_local().trap_depth}) {
        ++*depth;
        EXPECT_FALSE(qm::hal::may_wait() || qm::hal::may_ask_harts());
        EXPECT_TRUE(refuses());
        --*depth;
      }
      EXPECT_EQ(visits.total(), 0u);
      EXPECT_TRUE(qm::hal::may_wait() && qm::hal::may_ask_harts());
      EXPECT_TRUE(run_on_harts(kAll, &Visits::visit, &visits).ok());
    }
    barrier.arrive();
  });
}

TEST(Broadcast, visits_the_only_hart_with_its_interrupts_masked_too) {
  if (qm::test::harts() != 1) GTEST_SKIP() << "the others of a machine stay online";
  qm::test::on_each_hart(1, [](unsigned) {
    Visits visits;
    const InterruptGuard masked;
    EXPECT_FALSE(qm::hal::may_wait());
    EXPECT_TRUE(qm::hal::may_ask_harts());
    EXPECT_TRUE(run_on_harts(kAll, &Visits::visit, &visits).ok());
    EXPECT_EQ(visits.count[0].load(), 1u);
    ++qm::hal::hart_local().trap_depth;
    EXPECT_EQ(run_on_harts(kAll, &Visits::visit, &visits).status, BroadcastStatus::kUnsafe);
    --qm::hal::hart_local().trap_depth;
    EXPECT_EQ(visits.total(), 1u);
  });
}

/// A hart that goes offline with its interrupts masked never takes the interrupt of a pending request.
TEST(Broadcast, is_answered_by_a_hart_that_goes_offline_meanwhile) {
  const unsigned count = qm::test::harts();
  if (count < 2) GTEST_SKIP() << "needs two harts";
  constexpr unsigned kTimes = 4;
  const unsigned leaving = count - 1;
  std::array<std::atomic<std::uint32_t>, kTimes> asked{};
  std::atomic<std::uint32_t> answered{0};
  qm::test::Barrier barrier(count);
  qm::test::on_each_hart(count, [&](unsigned hart) {
    for (unsigned time = 0; time < kTimes; ++time) {
      barrier.arrive();
      if (hart == leaving) {
        const InterruptGuard masked;
        // The first times the request is mostly pending already; then both happen at once.
        if (time < 2) {
          asked[time].store(1);
          const std::uint64_t until = Port::ticks() + qm::hal::ticks_of(2);
          while (Port::ticks() < until) Port::relax();
        }
        qm::hal::hart_offline(hart);
        while (answered.load() != time + 1) Port::relax();
      }
      if (hart == 0) {
        while (time < 2 && asked[time].load() == 0) Port::relax();
        Visits visits;
        const BroadcastResult result = run_on_harts(kAll, &Visits::visit, &visits, 5'000);
        EXPECT_TRUE(result.ok()) << "time " << time << " hart " << result.hart;
        answered.store(time + 1);
      }
      barrier.arrive();
      if (hart == leaving) qm::hal::hart_online(hart);
    }
  });
}

TEST(Broadcast, takes_an_interrupt_without_a_request) {
  qm::test::on_each_hart(1, [](unsigned hart) {
    const InterruptGuard masked;
    qm::hal::on_ipi(hart);
  });
}

TEST(Interrupts, nest_and_come_back_to_what_they_were) {
  qm::test::on_each_hart(1, [](unsigned) {
    const InterruptGuard outer;
    EXPECT_TRUE(outer.were_enabled());
    {
      const InterruptGuard inner;
      EXPECT_FALSE(inner.were_enabled());
    }
    const InterruptGuard again;
    EXPECT_FALSE(again.were_enabled());
  });
  qm::test::on_each_hart(1, [](unsigned) {
    const InterruptGuard after;
    EXPECT_TRUE(after.were_enabled());
  });
}

Visits posted;

TEST(Post, reaches_each_other_hart_while_nobody_waits_from_any_context) {
  const unsigned count = qm::test::harts();
  for (auto& hart : posted.count) hart.store(0);
  qm::hal::set_post_function([](unsigned hart) noexcept { Visits::visit(hart, &posted); });
  qm::test::Barrier barrier(count);
  qm::test::on_each_hart(count, [&](unsigned hart) {
    barrier.arrive();
    if (hart == 0) {
      const InterruptGuard masked;  // as in an interrupt handler
      qm::hal::post(kAll);
    }
    if (hart == 0) {
      while (posted.total() + 1 < count) Port::relax();
    }
    barrier.arrive();
  });
  qm::hal::set_post_function(nullptr);
  for (unsigned hart = 0; hart < count; ++hart)
    EXPECT_EQ(posted.count[hart].load(), hart == 0 ? 0u : 1u) << "hart " << hart;
  EXPECT_EQ(posted.unmasked.load(), 0u);
  EXPECT_EQ(posted.strange.load(), 0u);
}

TEST(Post, waits_in_the_hart_s_box_and_is_served_once_however_often_it_was_made) {
  if (qm::test::harts() < 2) return;
  for (auto& hart : posted.count) hart.store(0);
  qm::hal::set_post_function([](unsigned hart) noexcept { Visits::visit(hart, &posted); });
  MaskedHart held;
  qm::test::on_each_hart(2, [&](unsigned hart) {
    if (hart == 1) {
      held.hold();
      while (posted.count[1].load() == 0) Port::relax();
      EXPECT_TRUE(run_on_harts(
                      kAll, [](unsigned, void*) noexcept {}, nullptr)
                      .ok());
    } else {
      held.wait_until_held();
      for (int i = 0; i < 100; ++i) qm::hal::post(2);
      EXPECT_EQ(posted.count[1].load(), 0u);
      held.let_go();
    }
  });
  qm::hal::set_post_function(nullptr);
  EXPECT_EQ(posted.count[1].load(), 1u);
}

TEST(Turn, is_one_hart_s_at_a_time_and_whoever_waits_for_it_answers_broadcasts) {
  const unsigned count = qm::test::harts();
  qm::hal::Turn turn;
  unsigned inside = 0;  // plain: the turn guards it
  Visits visits;
  qm::test::on_each_hart(count, [&](unsigned) {
    for (unsigned i = 0; i < 10; ++i) {
      while (!turn.take_or_wait()) {
      }
      const unsigned seen = ++inside;
      EXPECT_TRUE(run_on_harts(kAll, &Visits::visit, &visits).ok());
      EXPECT_EQ(inside, seen);
      turn.give_back();
    }
  });
  EXPECT_EQ(inside, count * 10);
}

TEST(Port, gives_each_hart_its_index_and_its_own_block) {
  const unsigned count = qm::test::harts();
  std::array<std::atomic<std::uint32_t>, Port::kMaxHarts> seen{};
  std::array<qm::hal::HartLocal*, Port::kMaxHarts> blocks{};
  qm::test::Barrier barrier(count);
  qm::test::on_each_hart(count, [&](unsigned hart) {
    EXPECT_EQ(Port::hart_index(), hart);
    seen[Port::hart_index()].fetch_add(1);
    blocks[hart] = &qm::hal::hart_local();
    barrier.arrive();  // the blocks of ended threads may be reused
  });
  for (unsigned hart = 0; hart < count; ++hart) {
    EXPECT_EQ(seen[hart].load(), 1u) << "hart " << hart;
    for (unsigned other = 0; other < hart; ++other) EXPECT_NE(blocks[hart], blocks[other]);
  }
}

TEST(Port, has_a_time_that_never_goes_back) {
  std::uint64_t last = Port::ticks();
  for (unsigned look = 0; look < 1000; ++look) {
    const std::uint64_t now = Port::ticks();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(Port, bounds_the_running_stack) {
  qm::test::on_each_hart(1, [](unsigned) {
    const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    const qm::hal::StackBounds bounds = Port::stack_bounds(frame);
    EXPECT_LE(bounds.low, frame);
    EXPECT_GT(bounds.high, frame);
    // high itself may be the frame of the outermost function.
    const qm::hal::StackBounds none = Port::stack_bounds(bounds.high + 16);
    EXPECT_TRUE(none.high == 0 || none.low >= bounds.high) << "an address outside belongs to another stack or to none";
  });
}

}  // namespace hal_broadcast_test
