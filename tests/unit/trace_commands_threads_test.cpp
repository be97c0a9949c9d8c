// The commands when a hart does not answer, when two harts give commands at once, and while caches come and go.

#include "trace_fixture.hpp"

#include <atomic>

#include <qm/test/harts.hpp>
#include <qm/test/seed.hpp>
#include <qm/trace/event_stream.hpp>
#include <qm/trace/stack_report.hpp>

namespace trace_commands_threads_test {

using namespace qm;
using trace::State;

constexpr std::uint32_t kShort = 30;  // ms: a deadline that expires

class Commands : public qm::test::TraceTest {
 protected:
  static State state(Cache& cache) { return trace::cache_trace(cache).state; }
};

/// Runs @p before on hart 0 after hart 1 has used @p cache, @p body while hart 1 masks its interrupts, and @p after
/// when hart 1 answers again.
template <class Before, class Body, class After>
void with_a_deaf_hart(Cache& cache, Before&& before, Body&& body, After&& after) {
  std::atomic<std::uint32_t> used{0};
  std::atomic<std::uint32_t> prepared{0};
  std::atomic<std::uint32_t> deaf{0};
  std::atomic<std::uint32_t> done{0};
  qm::test::on_each_hart(2, [&](unsigned hart) {
    attach_hart(hart);
    if (hart == 1) {
      cache.free(cache.allocate());
      used = 1;
      while (prepared.load() == 0) hal::Port::relax();
      {
        const hal::InterruptGuard masked;
        deaf = 1;
        while (done.load() == 0) hal::Port::relax();
      }
      while (done.load() == 1) hal::Port::relax();
      return;
    }
    cache.free(cache.allocate());
    while (used.load() == 0) hal::Port::relax();
    before();
    prepared = 1;
    while (deaf.load() == 0) hal::Port::relax();
    body();
    done = 1;
    after();
    done = 2;
  });
}

TEST_F(Commands, a_start_that_a_hart_does_not_answer_names_it_and_changes_nothing) {
  if (qm::test::harts() < 2) GTEST_SKIP() << "needs two harts";
  begin_again({}, 2);
  Cache* cache = make("packet");
  with_a_deaf_hart(
      *cache, [] {},
      [&] {
        const trace::CommandResult result = trace::start("packet", nullptr, kShort);
        EXPECT_EQ(result.status, Status::kTimedOut);
        EXPECT_EQ(result.hart, 1U);
        EXPECT_EQ(state(*cache), State::kOff);
        EXPECT_EQ(cache->state().load(), 0U);
        cache->free(cache->allocate());
        EXPECT_EQ(trace::cache_trace(*cache).figures.recorded, 0U);
      },
      [&] {
        EXPECT_EQ(trace::start("packet").status, Status::kOk);
        cache->free(cache->allocate());
        EXPECT_EQ(trace::cache_trace(*cache).figures.recorded, 1U);
        EXPECT_EQ(trace::stop("packet").status, Status::kOk);
      });
}

TEST_F(Commands, a_start_that_fails_leaves_a_draining_cache_draining) {
  if (qm::test::harts() < 2) GTEST_SKIP() << "needs two harts";
  begin_again({}, 2);
  Cache* cache = make("packet");
  trace::start("packet");
  void* held = cache->allocate();
  trace::stop("packet");
  with_a_deaf_hart(
      *cache, [] {},
      [&] {
        EXPECT_EQ(trace::start("packet", nullptr, kShort).status, Status::kTimedOut);
        EXPECT_EQ(state(*cache), State::kDraining);
        EXPECT_EQ(trace::cache_trace(*cache).live, 1U);
        cache->free(held);
        EXPECT_EQ(state(*cache), State::kOff);
      },
      [] {});
}

TEST_F(Commands, a_stop_that_a_hart_does_not_answer_records_no_more_and_is_finished_later) {
  if (qm::test::harts() < 2) GTEST_SKIP() << "needs two harts";
  begin_again({}, 2);
  Cache* cache = make("packet");
  void* held = nullptr;
  with_a_deaf_hart(
      *cache,
      [&] {
        EXPECT_EQ(trace::start("packet").status, Status::kOk);
        held = cache->allocate();
      },
      [&] {
        const trace::CommandResult result = trace::stop("packet", nullptr, kShort);
        EXPECT_EQ(result.status, Status::kTimedOut);
        EXPECT_EQ(result.hart, 1U);
        EXPECT_EQ(state(*cache), State::kStopping);
        cache->free(cache->allocate());
        trace::CacheTrace now = trace::cache_trace(*cache);
        EXPECT_EQ(now.figures.recorded, 1U);
        EXPECT_EQ(now.live, 1U);
        // The other commands fail too, and change nothing.
        EXPECT_EQ(trace::reset("packet", nullptr, kShort).status, Status::kTimedOut);
        EXPECT_EQ(trace::start("packet", nullptr, kShort).status, Status::kTimedOut);
        EXPECT_EQ(trace::finish_stopping(kShort).status, Status::kTimedOut);
        now = trace::cache_trace(*cache);
        EXPECT_EQ(now.state, State::kStopping);
        EXPECT_EQ(now.figures.recorded, 1U);
        EXPECT_EQ(now.live, 1U);
      },
      [&] {
        const trace::CommandResult result = trace::finish_stopping(hal::kBroadcastDeadlineMs);
        EXPECT_EQ(result.status, Status::kOk);
        EXPECT_EQ(result.caches, 1U);
        EXPECT_EQ(state(*cache), State::kDraining);
        EXPECT_EQ(trace::finish_stopping(hal::kBroadcastDeadlineMs).caches, 0U);
        cache->free(held);
        EXPECT_EQ(state(*cache), State::kOff);
      });
}

TEST_F(Commands, a_start_of_a_stream_that_fails_leaves_frees_of_a_traced_cache_the_short_way) {
  if (qm::test::harts() < 2) GTEST_SKIP() << "needs two harts";
  begin_again({}, 2);
  Cache* cache = make("packet");
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  const std::uint32_t before = cache->state().load();
  EXPECT_NE(before & trace_state::kOwned, 0U);
  with_a_deaf_hart(
      *cache, [] {},
      [&] {
        EXPECT_EQ(trace::start_stream({.pattern = "packet"}, nullptr, kShort).status, Status::kTimedOut);
        EXPECT_EQ(cache->state().load(), before);
      },
      [] {});
}

TEST_F(Commands, the_callers_abort_test_ends_a_wait) {
  if (qm::test::harts() < 2) GTEST_SKIP() << "needs two harts";
  begin_again({}, 2);
  Cache* cache = make("packet");
  with_a_deaf_hart(
      *cache, [] {},
      [&] {
        const trace::CommandResult result = trace::start("packet", []() noexcept { return true; });
        EXPECT_EQ(result.status, Status::kAborted);
        EXPECT_EQ(state(*cache), State::kOff);
      },
      [] {});
}

TEST_F(Commands, a_change_of_the_streams_mode_passes_a_hart_by_that_is_online_and_has_no_ring) {
  if (qm::test::harts() < 2) GTEST_SKIP() << "needs two harts";
  begin_again({}, 1);
  ASSERT_EQ(trace::start_stream({}).status, Status::kOk);
  qm::test::Barrier online(2);
  std::atomic<bool> over{false};
  qm::test::on_each_hart(2, [&](unsigned hart) {
    online.arrive();
    while (hart == 1 && !over.load()) hal::Port::relax();
    if (hart == 1) return;
    EXPECT_EQ(trace::change_stream_mode(wire::StreamMode::kSampled).status, Status::kOk);
    over = true;
  });
  EXPECT_TRUE(trace::stream_figures().mode == wire::StreamMode::kSampled);
  EXPECT_EQ(trace::stop_stream().status, Status::kOk);
}

TEST_F(Commands, where_the_caller_may_not_wait_they_are_refused) {
  if (qm::test::harts() < 2) GTEST_SKIP() << "needs two harts";
  begin_again({}, 2);
  Cache* cache = make("packet");
  with_a_deaf_hart(
      *cache, [] {},
      [&] {
        Lock lock;
        const LockGuard hold(lock);
        EXPECT_EQ(trace::start("packet").status, Status::kUnsafe);
        EXPECT_EQ(state(*cache), State::kOff);
      },
      [] {});
}

TEST_F(Commands, all_harts_may_give_them_at_once) {
  const unsigned harts = qm::test::harts();
  begin_again({}, harts);
  const char* names[] = {"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"};
  Cache* caches[8];
  for (unsigned i = 0; i < harts; ++i) caches[i] = make(names[i]);
  qm::test::on_each_hart(harts, [&](unsigned hart) {
    attach_hart(hart);
    Cache& own = *caches[hart];
    for (unsigned i = 0; i < 20; ++i) {
      EXPECT_EQ(trace::start(names[hart]).status, Status::kOk);
      void* object = own.allocate();
      EXPECT_EQ(trace::cache_trace(own).live, 1U);
      EXPECT_EQ(trace::reset(names[hart]).status, Status::kOk);
      EXPECT_EQ(trace::cache_trace(own).live, 0U);
      EXPECT_EQ(trace::stop(names[hart]).status, Status::kOk);
      own.free(object);
      EXPECT_EQ(trace::cache_trace(own).state, State::kOff);
    }
  });
  EXPECT_TRUE(trace::validate());
  EXPECT_EQ(trace::totals().traced, 0U);
}

TEST_F(Commands, each_way_of_keeping_adds_up_while_all_harts_allocate) {
  const unsigned harts = qm::test::harts();
  begin_again({}, harts);
  Cache* cache = make("packet");
  constexpr trace::Keeping kWays[] = {{.every = 1, .counts = true}, {.every = 3, .counts = false}, {}};
  std::atomic<std::uint32_t> done{0};
  std::atomic<void*> shared{nullptr};
  qm::test::on_each_hart(harts, [&](unsigned hart) {
    attach_hart(hart);
    if (hart == 0) {
      for (unsigned i = 0; i < 30; ++i) {
        EXPECT_EQ(trace::start("packet", nullptr, hal::kBroadcastDeadlineMs, kWays[i % 3]).status, Status::kOk);
        EXPECT_TRUE(trace::cache_trace(*cache).keeping == kWays[i % 3]);
        EXPECT_EQ(trace::reset("packet").status, Status::kOk);
        void* object = cache->allocate();
        EXPECT_EQ(trace::stop("packet").status, Status::kOk);
        cache->free(object);
        EXPECT_EQ(trace::reset("packet").status, Status::kOk);
        EXPECT_EQ(trace::cache_trace(*cache).live, 0U);
        EXPECT_EQ(state(*cache), State::kOff);
      }
      done = 1;
      return;
    }
    while (done.load() == 0) {
      void* objects[20];
      for (void*& object : objects) object = cache->allocate();
      objects[0] = shared.exchange(objects[0]);  // another hart frees some of them
      for (void* object : objects) {
        if (object != nullptr) cache->free(object);
      }
    }
  });
  if (void* object = shared.load(); object != nullptr) cache->free(object);
  EXPECT_TRUE(trace::validate());
  trace::StackReport report;
  ASSERT_EQ(report.begin(), Status::kOk);
  report.select_all();
  report.count_live(1);
  EXPECT_EQ(report.totals().objects, 0U);
}

TEST_F(Commands, caches_may_come_and_go_meanwhile) {
  const unsigned harts = qm::test::harts();
  if (harts < 2) GTEST_SKIP() << "needs two harts";
  begin_again({}, harts);
  const char* names[] = {"", "t1", "t2", "t3", "t4", "t5", "t6", "t7"};
  std::atomic<std::uint32_t> running{harts - 1};
  std::atomic<std::uint32_t> gone{0};
  qm::test::on_each_hart(harts, [&](unsigned hart) {
    attach_hart(hart);
    if (hart == 0) {
      static trace::Dump dump;
      trace::DumpEntry entry;
      while (running.load() != 0) {
        EXPECT_EQ(trace::start("*").status, Status::kOk);
        dump.begin_all();
        while (dump.next(entry)) {
        }
        EXPECT_EQ(trace::reset("t?").status == Status::kTimedOut, false);
        EXPECT_EQ(trace::stop("*").status, Status::kOk);
        // Broadcasts are not served in order: this lets others proceed.
        const std::uint32_t before = gone.load();
        while (gone.load() == before && running.load() != 0) hal::Port::relax();
      }
      return;
    }
    for (unsigned i = 0; i < 20; ++i) {
      Cache* cache = make(names[hart]);
      EXPECT_NE(cache, nullptr);
      if (cache == nullptr) break;
      void* objects[20];
      for (void*& object : objects) object = cache->allocate();
      EXPECT_EQ(Cache::destroy(cache) == Status::kBusy, true);
      for (void* object : objects) cache->free(object);
      Status status = Status::kBusy;
      while ((status = Cache::destroy(cache)) == Status::kBusy) hal::Port::relax();  // a command's cursor stands on it
      EXPECT_EQ(status, Status::kOk);
      gone.fetch_add(1);
    }
    running.fetch_sub(1);
  });
  EXPECT_EQ(trace::stop("*").status, Status::kOk);
  EXPECT_TRUE(trace::validate());
}

}  // namespace trace_commands_threads_test
