/// Defects of Akaros's tracing and statistics: for each a test that fails if this allocator has it. docs/design.md has
/// the numbers.

#include "trace_fixture.hpp"

#include <array>
#include <cstring>

#include <qm/exhaustion.hpp>

namespace trace_akaros_test {

using namespace qm;

class Akaros : public test::TraceTest {};

std::array<void*, 12000> objects;

/// B1: the flag for "was traced at some time" overlapped the flag for the layout of slabs.
TEST_F(Akaros, B1_starting_a_trace_changes_the_state_word_and_nothing_else_of_a_cache) {
  Cache* cache = make("small", 32);
  for (unsigned i = 0; i < 200; ++i) objects[i] = cache->allocate();
  const std::uint32_t flags = cache->flags();
  const unsigned per_slab = cache->slabs().objects();
  ASSERT_EQ(trace::start("small").status, Status::kOk);
  EXPECT_EQ(cache->flags(), flags);
  EXPECT_EQ(cache->slabs().objects(), per_slab);
  // Objects from before and after belong to the slabs all the same.
  for (unsigned i = 0; i < 200; i += 2) cache->free(objects[i]);
  cache->reap();
  for (unsigned i = 0; i < 200; i += 2) {
    ASSERT_NE(objects[i] = cache->allocate(), nullptr);
    std::memset(objects[i], static_cast<int>(i), 32);
  }
  for (unsigned i = 0; i < 200; i += 2) {
    EXPECT_EQ(static_cast<unsigned char*>(objects[i])[31], i);
    for (unsigned j = 0; j < i; ++j) ASSERT_NE(objects[i], objects[j]);
  }
  EXPECT_TRUE(cache->validate());
  trace::stop("small");
  for (unsigned i = 0; i < 200; ++i) cache->free(objects[i]);
  EXPECT_EQ(cache->state().load(), 0U) << "with its last record gone it is as if it had never been traced";
  EXPECT_TRUE(cache->validate());
}

/// B1, the converse: a cache that was never traced looked like a traced one, and each of its frees went to the trace.
TEST_F(Akaros, B1_a_cache_that_was_never_traced_never_meets_the_trace) {
  Cache* traced = make("traced");
  for (const std::size_t size : {std::size_t{16}, std::size_t{600}, std::size_t{9000}}) {
    Cache* cache = make("other", size);
    ASSERT_EQ(trace::start("traced").status, Status::kOk);
    EXPECT_EQ(cache->state().load(), 0U);
    EXPECT_EQ(cache->traced_source.load(), nullptr);
    cache->free(cache->allocate());
    EXPECT_EQ(cache->traced_source.load(), nullptr);
    EXPECT_EQ(trace::cache_trace(*cache).figures.recorded, 0U);
    trace::stop("traced");
    EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  }
  EXPECT_EQ(Cache::destroy(traced), Status::kOk);
}

/// @returns the ticks for a thousand pairs of an allocation and a free, at best.
std::uint64_t best_of_five(Cache& cache) {
  std::uint64_t best = ~std::uint64_t{0};
  for (int round = 0; round < 5; ++round) {
    const std::uint64_t begun = hal::Port::ticks();
    for (int i = 0; i < 1000; ++i) cache.free(cache.allocate());
    const std::uint64_t taken = hal::Port::ticks() - begun;
    if (taken < best) best = taken;
  }
  return best;
}

/// B2: six of 64 chains were used, so a free walked over a sixth of all records.
TEST_F(Akaros, B2_a_free_finds_its_record_among_ten_thousand_as_fast_as_among_ten) {
  Cache* cache = make("packet", 16);
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  unsigned held = 0;
  while (held < 10) objects[held++] = cache->allocate();
  const std::uint64_t few = best_of_five(*cache);
  while (held < 10000) ASSERT_NE(objects[held++] = cache->allocate(), nullptr);
  ASSERT_EQ(trace::cache_trace(*cache).live, 10000U);
  const std::uint64_t many = best_of_five(*cache);
  // A chain of a sixth of them has 1666 records: a walk takes fifty times as long as the whole pair.
  EXPECT_LT(many, few * 8 + 10) << few << " ticks with ten records";
  while (held != 0) cache->free(objects[--held]);
}

/// B3: a failed allocation was recorded, as an object at 0 that can never be freed.
TEST_F(Akaros, B3_an_allocation_that_fails_has_no_record) {
  begin_again({}, 1, std::size_t{1} << 20);
  Cache* cache = make("packet", 4000);
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  std::size_t held = 0;
  while (held < objects.size() && (objects[held] = cache->allocate_at(nullptr, 0, WaitPolicy::kAtomic)) != nullptr)
    ++held;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(cache->allocate_at(nullptr, 0, WaitPolicy::kAtomic), nullptr);
  const trace::CacheTrace now = trace::cache_trace(*cache);
  EXPECT_EQ(now.figures.recorded + now.figures.all_dropped(), held) << "the failures are in none of the figures";
  EXPECT_EQ(now.live, now.figures.recorded);
  static trace::Dump dump;
  static trace::DumpEntry entry;
  dump.begin(*cache);
  std::size_t shown = 0;
  while (dump.next(entry)) {
    EXPECT_NE(entry.object, 0U);
    ++shown;
  }
  EXPECT_EQ(shown, now.live);
  while (held != 0) cache->free(objects[--held]);
  EXPECT_EQ(trace::cache_trace(*cache).live, 0U);
}

/// B13: some code took a lock of the trace with interrupts masked, other code without.
TEST_F(Akaros, B13_with_interrupts_masked_everything_is_recorded_and_no_lock_is_left_held) {
  Cache* cache = make("packet");
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  {
    const hal::InterruptGuard masked;
    for (unsigned i = 0; i < 500; ++i) {
      ASSERT_NE(objects[i] = cache->allocate(), nullptr);
      EXPECT_EQ(hal::hart_local().lock_depth, 0U);
    }
    for (unsigned i = 0; i < 500; i += 2) cache->free(objects[i]);
  }
  EXPECT_EQ(hal::hart_local().lock_depth, 0U);
  EXPECT_TRUE(hal::may_wait()) << "interrupts are as they were";
  const trace::CacheTrace now = trace::cache_trace(*cache);
  EXPECT_EQ(now.figures.recorded, 500U);
  EXPECT_EQ(now.live, 250U);
  for (unsigned i = 1; i < 500; i += 2) cache->free(objects[i]);
}

/// Silent loss: if no record was available, the allocation was left out, and the report looked complete.
TEST_F(Akaros, what_is_not_recorded_is_counted_and_the_report_says_incomplete) {
  trace::Config config;
  config.record_bytes = 100 * trace::kBytesPerRecord;
  begin_again(config);
  Cache* cache = make("packet");
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  for (unsigned i = 0; i < 300; ++i) objects[i] = cache->allocate();
  const trace::DumpSummary summary = dump_of(*cache);
  EXPECT_EQ(summary.figures.recorded + summary.figures.all_dropped(), 300U);
  EXPECT_GE(summary.figures.all_dropped(), 132U);  // all but 168, which is the number of records in a chunk
  EXPECT_FALSE(summary.complete());
  for (unsigned i = 0; i < 300; ++i) cache->free(objects[i]);
}

/// Objects in magazines counted as allocated.
TEST_F(Akaros, what_waits_in_magazines_is_idle_and_not_in_use) {
  Cache* cache = make("packet");
  for (unsigned i = 0; i < 100; ++i) objects[i] = cache->allocate();
  for (unsigned i = 0; i < 90; ++i) cache->free(objects[i]);
  const CacheStats stats = cache->stats();
  EXPECT_EQ(stats.in_use, 10U);
  EXPECT_EQ(stats.in_use + stats.in_magazines + stats.in_depot + stats.in_slabs, stats.objects);
  for (unsigned i = 90; i < 100; ++i) cache->free(objects[i]);
}

}  // namespace trace_akaros_test
