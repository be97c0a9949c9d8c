/// Exhaustion: an atomic allocation starts a drain that others finish, a waiting allocation is woken, and neither
/// storms nor silent harts block anyone.

#include "exhaustion_fixture.hpp"

namespace alloc_exhaustion_waits_test {

using namespace qm;
using namespace qm::test;

class ExhaustionWaits : public ExhaustionTest {};

std::uint64_t milliseconds_since(std::uint64_t then) {
  return (hal::Port::ticks() - then) * 1000 / hal::Port::tick_rate();
}

// ---- may not wait --------------------------------------------------------------------------------------------------

TEST_F(ExhaustionWaits, an_atomic_failure_starts_a_drain_so_that_the_next_one_succeeds) {
  Cache* hoard = make("hoard");
  Cache* urgent = make("urgent", 1024);
  ASSERT_TRUE(hoard != nullptr && urgent != nullptr);
  const unsigned harts = test::harts();
  test::Barrier barrier(harts);
  void* object = nullptr;
  const std::uint64_t then = hal::Port::ticks();
  on_each_attached_hart(harts, [&](unsigned hart) {
    // Half of them: as many as fit into the magazines without new memory, so that no page is freed by the frees alone.
    if (hart == harts - 1) give_all(*hoard, take_all(*hoard) / 2);
    barrier.arrive();
    if (hart == 0) {
      {
        const InHandler handler;
        EXPECT_EQ(urgent->allocate(), nullptr);
      }
      EXPECT_EQ(urgent->allocate_at(nullptr, 0, WaitPolicy::kAtomic), nullptr);
      EXPECT_GE(drains_wanted.load(), 1U);
      EXPECT_EQ(reports.load(), 0U);  // not from a caller that may not wait
      EXPECT_TRUE(finish_drain());
      EXPECT_FALSE(finish_drain());
      EXPECT_EQ(reports.load(), 1U);
      const InHandler handler;
      object = urgent->allocate();
    }
    barrier.arrive();
  });
  EXPECT_NE(object, nullptr);
  EXPECT_EQ(name(last_report.name), "urgent");
  EXPECT_EQ(last_report.wait_policy, WaitPolicy::kAtomic);
  EXPECT_GT(last_report.recoverable, 1024U);
  EXPECT_EQ(exhaustion_stats().atomic_failures, 2U);
  EXPECT_GE(exhaustion_stats().posts, 1U);
  EXPECT_LE(exhaustion_stats().posts,
            milliseconds_since(then) / 10 + 1);  // the second failure may come 10 ms after the first
  urgent->free(object);
}

TEST_F(ExhaustionWaits, an_atomic_failure_of_numbers_is_reported_later_and_drains_nothing) {
  Arena numbers;
  ASSERT_EQ(numbers.initialize({.name = "numbers", .start = 1, .size = 1, .quantum = 1}), Status::kOk);
  EXPECT_EQ(numbers.allocate(1), 1U);
  EXPECT_EQ(numbers.allocate(1, Fit::kInstant, nullptr, WaitPolicy::kAtomic), 0U);
  EXPECT_EQ(drains_wanted.load(), 1U);
  EXPECT_EQ(reports.load(), 0U);
  EXPECT_TRUE(finish_drain());
  EXPECT_EQ(reports.load(), 1U);
  EXPECT_EQ(exhaustion_stats().drains + exhaustion_stats().posts, 0U);
  EXPECT_EQ(numbers.free(1, 1), Status::kOk);
  EXPECT_EQ(numbers.destroy(), Status::kOk);
}

TEST_F(ExhaustionWaits, what_other_harts_have_of_the_same_cache_comes_back_without_any_task) {
  const unsigned harts = test::harts();
  if (harts < 2) return;
  Cache* cache = make("urgent", 256);
  ASSERT_NE(cache, nullptr);
  test::Barrier barrier(harts);
  on_each_attached_hart(harts, [&](unsigned hart) {
    std::size_t held = 0;
    if (hart == 0) held = take_all(*cache);
    barrier.arrive();
    if (hart == 1) {
      cache->free(table()[0]);
      cache->free(table()[1]);
    }
    barrier.arrive();
    if (hart == 0) {
      EXPECT_EQ(cache->stats().in_magazines, 2U);
      EXPECT_EQ(cache->allocate_at(nullptr, 0, WaitPolicy::kAtomic), nullptr);
      while ((cache->magazine_harts() & 2) != 0) hal::Port::relax();  // it answers when it can
      table()[0] = cache->allocate_at(nullptr, 0, WaitPolicy::kAtomic);
      EXPECT_NE(table()[0], nullptr);
      table()[1] = cache->allocate_at(nullptr, 0, WaitPolicy::kAtomic);
      EXPECT_NE(table()[1], nullptr);
      give_all(*cache, held);
    }
    barrier.arrive();
  });
}

// ---- waits ---------------------------------------------------------------------------------------------------------

TEST_F(ExhaustionWaits, a_wait_that_nobody_ends_ends_at_its_bound) {
  Cache* cache = make("awaited");
  ASSERT_NE(cache, nullptr);
  const std::size_t count = take_all(*cache);
  const std::uint64_t then = hal::Port::ticks();
  EXPECT_EQ(cache->allocate_at(nullptr, 0, wait_at_most(30)), nullptr);
  EXPECT_GE(milliseconds_since(then), 30U);
  EXPECT_EQ(exhaustion_stats().waits, 1U);
  EXPECT_EQ(last_report.wait_policy, WaitPolicy::kWait);
  give_all(*cache, count);
}

TEST_F(ExhaustionWaits, whoever_waits_gets_what_another_hart_frees) {
  const unsigned harts = test::harts();
  if (harts < 2) return;
  Cache* cache = make("awaited");
  ASSERT_NE(cache, nullptr);
  std::atomic<bool> waiting{false};
  on_each_attached_hart(2, [&](unsigned hart) {
    if (hart == 0) {
      std::size_t count = take_all(*cache);
      waiting = true;
      void* object = cache->allocate_at(nullptr, 0, wait_at_most(20000));
      EXPECT_NE(object, nullptr);
      EXPECT_EQ(cache->stats().in_use, count);  // exactly the object that the other hart has freed
      table()[0] = object;
      give_all(*cache, count);
    } else {
      while (!waiting || exhaustion_stats().waits == 0) hal::Port::relax();
      cache->free(table()[0]);
    }
  });
  EXPECT_EQ(cache->stats().in_use, 0U);
}

TEST_F(ExhaustionWaits, the_hook_runs_other_tasks_of_the_hart_and_what_they_free_ends_the_wait) {
  Cache* cache = make("awaited");
  ASSERT_NE(cache, nullptr);
  static Cache* freed_by_the_hook;
  static unsigned pauses;
  freed_by_the_hook = cache;
  pauses = 0;
  configure_exhaustion({.report = keep_report, .pause = [](std::uint64_t) noexcept {
                          EXPECT_FALSE(hal::thread_state().reclaiming);
                          if (++pauses == 3) freed_by_the_hook->free(table()[0]);
                        }});
  const std::size_t count = take_all(*cache);
  void* object = cache->allocate_at(nullptr, 0, wait_at_most(20000));
  EXPECT_NE(object, nullptr);
  EXPECT_EQ(pauses, 3U);
  table()[0] = object;
  give_all(*cache, count);
}

// ---- storms, and harts that do not answer --------------------------------------------------------------------------

TEST_F(ExhaustionWaits, a_storm_of_failures_is_no_storm_of_broadcasts) {
  Cache* cache = make("stormy");
  ASSERT_NE(cache, nullptr);
  const unsigned harts = test::harts();
  test::Barrier barrier(harts);
  std::size_t held = 0;
  constexpr unsigned kEach = 100;
  const std::uint64_t then = hal::Port::ticks();
  on_each_attached_hart(harts, [&](unsigned hart) {
    cache->free(cache->allocate());  // every hart has an open per-hart cache
    barrier.arrive();
    if (hart == 0) held = take_all(*cache, WaitPolicy::kReclaim);
    barrier.arrive();
    for (unsigned i = 0; i < kEach; ++i) {
      EXPECT_EQ(cache->allocate_at(nullptr, 0, i % 2 == 0 ? WaitPolicy::kReclaim : WaitPolicy::kAtomic), nullptr);
    }
    barrier.arrive();
  });
  const ExhaustionStats stats = exhaustion_stats();
  EXPECT_EQ(stats.failures, harts * kEach + 1);
  EXPECT_LE(stats.broadcasts, 8U);  // those of the first failure, which found idle memory
  // Posts that no hart finishes are repeated each 10 ms; harts that fail at the same moment may each post.
  EXPECT_LE(stats.posts, (milliseconds_since(then) / 10 + 1) * harts);
  EXPECT_LE(reports.load(), milliseconds_since(then) / 1000 + 2);
  give_all(*cache, held);
}

TEST_F(ExhaustionWaits, a_hart_that_does_not_answer_is_named_and_waited_for_once) {
  const unsigned harts = test::harts();
  if (harts < 2) return;
  Cache* cache = make("withheld");
  ASSERT_NE(cache, nullptr);
  configure_exhaustion({.report = keep_report, .deadline_ms = 50});
  test::Barrier barrier(2);
  std::atomic<unsigned> step{0};
  on_each_attached_hart(2, [&](unsigned hart) {
    std::size_t count = 0;
    if (hart == 0) count = take_all(*cache);
    barrier.arrive();
    if (hart == 1) {
      cache->free(table()[0]);
      const hal::InterruptGuard masked;
      step = 1;
      while (step != 2) hal::Port::relax();
    } else {
      while (step != 1) hal::Port::relax();
      EXPECT_EQ(cache->allocate(), nullptr);
      EXPECT_EQ(last_report.silent, 2U);
      EXPECT_EQ(last_report.in_magazines[1], 256U);
      EXPECT_EQ(exhaustion_stats().missed, 1U);
      EXPECT_EQ(cache->allocate(), nullptr);
      EXPECT_EQ(exhaustion_stats().missed, 1U);  // no second wait for this hart
      step = 2;
      while ((cache->magazine_harts() & 2) != 0) hal::Port::relax();  // it answers the post
      table()[0] = cache->allocate();
      EXPECT_NE(table()[0], nullptr);
      give_all(*cache, count);
    }
    barrier.arrive();
  });
}

/// Another broadcast takes all the time: the drain must not blame that hart, and must find its idle memory.
TEST_F(ExhaustionWaits, a_hart_whose_broadcast_is_under_way_is_not_taken_for_one_that_does_not_answer) {
  const unsigned harts = test::harts();
  if (harts < 3) return;
  Cache* cache = make("withheld");
  ASSERT_NE(cache, nullptr);
  configure_exhaustion({.report = keep_report, .deadline_ms = 50});
  test::Barrier barrier(3);
  std::atomic<unsigned> step{0};
  on_each_attached_hart(3, [&](unsigned hart) {
    std::size_t count = 0;
    if (hart == 0) count = take_all(*cache);
    barrier.arrive();
    if (hart == 1) cache->free(table()[0]);
    barrier.arrive();
    if (hart == 2) {
      const hal::InterruptGuard masked;
      step = 1;
      while (step != 3) hal::Port::relax();
    }
    if (hart == 1) {
      while (step != 1) hal::Port::relax();
      const auto begin = [](unsigned on, void* argument) noexcept {
        if (on == 1) static_cast<std::atomic<unsigned>*>(argument)->store(2);
      };
      EXPECT_TRUE(hal::run_on_harts(6, begin, &step, 60'000).ok());  // hart 2 finally answers
    }
    if (hart == 0) {
      while (step != 2) hal::Port::relax();
      // Releases hart 2, which ends the broadcast, if the drain does not find the object before.
      const auto let_go = [](std::size_t, void* at) noexcept -> std::size_t {
        return static_cast<std::atomic<unsigned>*>(at)->exchange(3) != 3 ? 1 : 0;
      };
      Reclaimer end(let_go, &step);
      EXPECT_EQ(add_reclaimer(end), Status::kOk);
      table()[0] = cache->allocate();
      EXPECT_NE(table()[0], nullptr);
      EXPECT_EQ(exhaustion_stats().missed, 0U);
      step = 3;
      EXPECT_EQ(remove_reclaimer(end), Status::kOk);
      give_all(*cache, count);
    }
    barrier.arrive();
  });
  EXPECT_EQ(reports.load(), 0U);
}

TEST_F(ExhaustionWaits, two_harts_that_reclaim_at_once_serve_each_other) {
  restart(kSmallRam, test::harts());
  const unsigned harts = test::harts();
  Cache* cache = make("contended", 1024);
  ASSERT_NE(cache, nullptr);
  std::atomic<std::size_t> got{0};
  std::atomic<unsigned> corrupt{0};
  on_each_attached_hart(harts, [&](unsigned hart) {
    std::array<void*, 24> mine{};
    for (unsigned turn = 0; turn < 200; ++turn) {
      for (void*& object : mine) {
        if ((object = cache->allocate()) == nullptr) break;
        *static_cast<unsigned*>(object) = hart;
      }
      for (void*& object : mine) {
        if (object == nullptr) break;
        got.fetch_add(1);
        if (*static_cast<unsigned*>(object) != hart) corrupt.fetch_add(1);
        cache->free(object);
        object = nullptr;
      }
    }
  });
  EXPECT_GT(got.load(), 0U);
  EXPECT_EQ(corrupt.load(), 0U);
  EXPECT_EQ(cache->stats().in_use, 0U);
  EXPECT_TRUE(cache->validate());
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

}  // namespace alloc_exhaustion_waits_test
