/// A stop that a hart has not answered: the console completes it by itself when the hart answers.

#include "console_fixture.hpp"

#include <support/system_fixture.hpp>

#include <atomic>

#include <qm/test/harts.hpp>
#include <qm/trace/live_trace.hpp>

namespace console_stopping_test {

using namespace qm;
using test::Bench;

class Stopping : public test::SystemTest {
 protected:
  void SetUp() override {
    start(test::kPoolBytes, 2);
    trace::Config config;
    config.object_base = reinterpret_cast<std::uintptr_t>(test::pool());
    ASSERT_EQ(trace::initialize(config), Status::kOk);
  }
  void TearDown() override {
    trace::shutdown();
    shutdown();
  }
};

TEST_F(Stopping, ends_in_an_idle_moment_of_the_console) {
  Bench bench;
  CacheConfig config;
  config.name = "packet";
  config.object_size = 64;
  Cache* cache = Cache::create(config);
  ASSERT_NE(cache, nullptr);
  std::atomic<int> phase{0};
  const auto wait_for = [&](int wanted) {
    while (phase.load() < wanted) hal::Port::relax();
  };
  test::on_each_hart(2, [&](unsigned hart) {
    attach_hart(hart);
    if (hart == 1) {
      cache->free(cache->allocate());
      phase = 1;
      wait_for(2);
      {
        const hal::InterruptGuard masked;
        phase = 3;
        wait_for(4);
      }
      wait_for(5);
      return;
    }
    cache->free(cache->allocate());
    wait_for(1);
    EXPECT_EQ(trace::start("packet").status, Status::kOk);
    phase = 2;
    wait_for(3);
    EXPECT_EQ(trace::stop("packet", nullptr, 30).status, Status::kTimedOut);
    EXPECT_EQ(trace::cache_trace(*cache).state, trace::State::kStopping);
    EXPECT_TRUE(bench.console.needs_poll());
    EXPECT_FALSE(bench.console.poll()) << "the hart is still deaf";
    EXPECT_EQ(trace::cache_trace(*cache).state, trace::State::kStopping);
    bench.terminal.now_ms += 10;
    phase = 4;
    // Between two tries nothing happens.
    EXPECT_FALSE(bench.console.poll());
    EXPECT_EQ(trace::cache_trace(*cache).state, trace::State::kStopping);
    bench.terminal.text.clear();
    for (int tries = 0; tries < 1000 && trace::cache_trace(*cache).state == trace::State::kStopping; ++tries) {
      bench.terminal.now_ms += 250;
      bench.console.poll();
    }
    EXPECT_EQ(trace::cache_trace(*cache).state, trace::State::kOff);
    EXPECT_FALSE(bench.console.needs_poll());
    EXPECT_NE(bench.terminal.text.find("slab_trace: the stop of 1 cache is done\r\nqm> "), std::string::npos)
        << bench.terminal.text;
    phase = 5;
  });
}

}  // namespace console_stopping_test
