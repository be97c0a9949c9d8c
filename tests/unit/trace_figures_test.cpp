/// The trace's information about itself: names, statistics before anything is recorded, and damage.

#include "trace_fixture.hpp"

#include <qm/detail/observer.hpp>

namespace trace_figures_test {

using namespace qm;

class TraceFigures : public qm::test::TraceTest {};

TEST_F(TraceFigures, every_state_and_every_reason_has_a_name_of_its_own) {
  const trace::State states[] = {trace::State::kOff, trace::State::kOn, trace::State::kDraining,
                                 trace::State::kStopping};
  const char* const state_names[] = {"off", "on", "draining", "stopping"};
  for (unsigned i = 0; i < 4; ++i) EXPECT_STREQ(trace::name(states[i]), state_names[i]);
  const char* reasons[trace::kDropReasons];
  for (unsigned i = 0; i < trace::kDropReasons; ++i) {
    reasons[i] = trace::name(static_cast<trace::Drop>(i));
    EXPECT_STRNE(reasons[i], "?");
    for (unsigned j = 0; j < i; ++j) EXPECT_STRNE(reasons[i], reasons[j]);
  }
}

TEST_F(TraceFigures, before_initialize_there_are_none_and_every_command_says_so) {
  trace::shutdown();
  shutdown();
  start(qm::test::kPoolBytes);
  Cache* cache = make("packet");
  ASSERT_NE(cache, nullptr);
  const trace::Totals totals = trace::totals();
  EXPECT_GT(totals.caches, 1U);
  EXPECT_EQ(totals.traced, 0U);
  EXPECT_EQ(totals.record_capacity, 0U);
  EXPECT_EQ(totals.stack_capacity, 0U);
  EXPECT_FALSE(trace::cache_trace(*cache).known);
  EXPECT_TRUE(trace::validate());
  EXPECT_EQ(trace::start("packet").status, Status::kUnsafe);
  EXPECT_EQ(trace::stop("packet").status, Status::kUnsafe);
  EXPECT_EQ(trace::reset("packet").status, Status::kUnsafe);
  EXPECT_EQ(trace::finish_stopping(0).status, Status::kUnsafe);
  EXPECT_EQ(trace::trace_from_creation("packet").status, Status::kUnsafe);
  EXPECT_FALSE(dump_of(*cache).known);
}

TEST_F(TraceFigures, refuse_each_number_of_a_configuration_that_is_out_of_range) {
  trace::shutdown();
  shutdown();
  start(qm::test::kPoolBytes);
  const auto expect_refused = [](auto change) {
    trace::Config config;
    config.object_base = reinterpret_cast<std::uintptr_t>(qm::test::pool());
    change(config);
    EXPECT_EQ(trace::initialize(config), Status::kInvalid);
  };
  expect_refused([](trace::Config& config) { config.contexts = 0; });
  expect_refused([](trace::Config& config) { config.contexts = 1; });
  expect_refused([](trace::Config& config) { config.contexts = 1024; });
  expect_refused([](trace::Config& config) { config.contexts = 3; });
  expect_refused([](trace::Config& config) { config.stack_bytes = 255; });
  expect_refused([](trace::Config& config) { config.stack_bytes = (std::size_t{32} << 20) + 1; });
  expect_refused([](trace::Config& config) { config.record_bytes = trace::kBytesPerRecord - 1; });
  expect_refused([](trace::Config& config) { config.record_bytes = trace::kBytesPerRecord * 168 * std::size_t{8192}; });
  expect_refused([](trace::Config& config) { config.caches = 0; });
  expect_refused([](trace::Config& config) { config.caches = 65536; });
  trace::Config config;
  config.object_base = reinterpret_cast<std::uintptr_t>(qm::test::pool());
  EXPECT_EQ(trace::initialize(config), Status::kOk);
}

TEST_F(TraceFigures, refuse_patterns_that_cannot_be_and_the_ninth) {
  EXPECT_EQ(trace::trace_from_creation("").status, Status::kInvalid);
  EXPECT_EQ(trace::trace_from_creation("a_pattern_of_thirty-two_letters_").status, Status::kInvalid);
  char pattern[] = "none_0*";
  for (pattern[5] = '0'; pattern[5] < '8'; ++pattern[5])
    EXPECT_EQ(trace::trace_from_creation(pattern).status, Status::kOk);
  EXPECT_EQ(trace::trace_from_creation(pattern).status, Status::kNoMemory);
}

TEST_F(TraceFigures, validate_sees_counts_and_words_that_contradict_each_other) {
  Cache* cache = make("packet");
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  void* object = cache->allocate();
  ASSERT_TRUE(trace::validate());
  cache->live_records.fetch_add(1);
  EXPECT_FALSE(trace::validate()) << "a record too many";
  cache->live_records.fetch_sub(1);
  const std::uint32_t word = cache->state().load();
  for (const std::uint32_t lost : {trace_state::kWatch, trace_state::kHold}) {
    cache->state().store(word & ~lost);
    EXPECT_FALSE(trace::validate()) << "without " << lost;
  }
  cache->state().store(word);
  EXPECT_TRUE(trace::validate());
  cache->free(object);
  // Without records, a recording cache must still be watched and held.
  for (const std::uint32_t lost : {trace_state::kWatch, trace_state::kHold}) {
    cache->state().store(word & ~lost);
    EXPECT_FALSE(trace::validate()) << "without " << lost;
  }
  cache->state().store(word);
  EXPECT_TRUE(trace::validate());
}

}  // namespace trace_figures_test
