// The alternatives to a record for each object of a traced cache: only counts, or a sample.

#include "trace_fixture.hpp"

#include <iterator>

#include <qm/arena.hpp>
#include <qm/heap.hpp>
#include <qm/system.hpp>
#include <qm/trace/marks.hpp>
#include <qm/trace/stack_report.hpp>

namespace trace_keeping_test {

using namespace qm;
using namespace qm::test;
using trace::Keeping;
using trace::State;

constexpr Keeping kCounts{.every = 1, .counts = true};
constexpr Keeping sampled(std::uint32_t every) { return {.every = every, .counts = false}; }

trace::CommandResult trace_as(std::string_view pattern, const Keeping& keeping) {
  return trace::start(pattern, nullptr, hal::kBroadcastDeadlineMs, keeping);
}

class KeepingTest : public TraceTest {
 protected:
  void SetUp() override {
    TraceTest::SetUp();
    cache = make("packet");
  }

  /// The contents of a report on the stacks of a cache.
  struct Told {
    trace::StackTotals totals;
    std::uint32_t first_objects = 0, first_bytes = 0;  ///< of the largest stack
    unsigned rows = 0;
  };
  static Told told_of(Cache& of) {
    Told told;
    trace::StackReport report;
    EXPECT_EQ(report.begin(), Status::kOk);
    report.select(of);
    report.count_live(1);
    told.totals = report.totals();
    trace::StackRow row;
    while (report.next(row)) {
      if (told.rows++ == 0) {
        told.first_objects = row.objects;
        told.first_bytes = row.bytes;
      }
    }
    return told;
  }
  [[nodiscard]] trace::CacheTrace now() const { return trace::cache_trace(*cache); }

  Cache* cache = nullptr;
  void* objects[4000] = {};
  std::size_t held = 0;

  template <int kPath>
  void take(std::size_t count) {
    for (; count != 0; --count) ASSERT_NE(objects[held++] = allocate_by<kPath>(*cache), nullptr);
  }
  void give(std::size_t count) {
    for (; count != 0; --count) cache->free(objects[--held]);
  }
};

// ---- counts ---------------------------------------------------------------------------------------------------------

TEST_F(KeepingTest, counts_tell_what_each_stack_has_out_and_keep_no_record) {
  ASSERT_EQ(trace_as("packet", kCounts).status, Status::kOk);
  take<1>(200);
  take<2>(300);
  Told told = told_of(*cache);
  EXPECT_EQ(told.rows, 2U);
  EXPECT_EQ(told.first_objects, 300U);
  EXPECT_EQ(told.first_bytes, 300U * 64);
  EXPECT_EQ(told.totals.objects, 500U);
  EXPECT_EQ(told.totals.bytes, 500U * 64);
  EXPECT_EQ(told.totals.counting, 1U);
  EXPECT_EQ(told.totals.lost_objects, 0U);
  EXPECT_EQ(now().live, 500U);
  EXPECT_EQ(now().figures.recorded, 500U);
  EXPECT_EQ(trace::totals().record_bytes, 0U);
  EXPECT_EQ(trace::totals().records_reserved, 0U);
  EXPECT_TRUE(trace::validate());
  const trace::DumpSummary summary = dump_of(*cache);
  EXPECT_EQ(summary.outstanding, 0U);
  EXPECT_EQ(summary.counted, 500U);
  EXPECT_FALSE(summary.complete());
  trace::DumpEntry entry;
  EXPECT_FALSE(trace::find(*cache, objects[0], entry));
  give(400);
  told = told_of(*cache);
  EXPECT_EQ(told.rows, 1U);
  EXPECT_EQ(told.first_objects, 100U);
  give(100);
  EXPECT_EQ(told_of(*cache).totals.hidden, 2U) << "none is forgotten";
  EXPECT_TRUE(trace::validate());
}

TEST_F(KeepingTest, stopped_counts_drain_and_are_off_with_the_last_object) {
  trace_as("packet", kCounts);
  take<1>(3);
  ASSERT_EQ(trace::stop("packet").status, Status::kOk);
  EXPECT_EQ(now().state, State::kDraining);
  take<1>(2);
  EXPECT_EQ(now().live, 3U);
  EXPECT_EQ(told_of(*cache).totals.objects, 3U);
  give(4);
  EXPECT_EQ(now().state, State::kDraining);
  give(1);
  EXPECT_EQ(now().state, State::kOff);
  EXPECT_EQ(cache->state().load(), 0U);
}

TEST_F(KeepingTest, a_reset_drops_what_was_counted_and_goes_on) {
  trace_as("packet", kCounts);
  take<1>(300);
  give(20);
  ASSERT_EQ(trace::reset("packet").status, Status::kOk);
  EXPECT_EQ(now().state, State::kOn);
  EXPECT_EQ(now().live, 0U);
  EXPECT_EQ(now().figures.recorded, 0U);
  EXPECT_EQ(now().from_before_start, 280U);
  EXPECT_EQ(told_of(*cache).totals.objects, 0U);
  take<2>(5);
  EXPECT_EQ(told_of(*cache).totals.objects, 5U);
  give(285);
  EXPECT_EQ(told_of(*cache).totals.objects, 0U);
  EXPECT_EQ(now().live, 0U);
  EXPECT_TRUE(trace::validate());
}

TEST_F(KeepingTest, a_reset_of_draining_counts_ends_the_watch) {
  trace_as("packet", kCounts);
  take<1>(100);
  trace::stop("packet");
  ASSERT_EQ(trace::reset("packet").status, Status::kOk);
  EXPECT_EQ(now().state, State::kOff);
  give(100);
  EXPECT_TRUE(trace::validate());
}

TEST_F(KeepingTest, does_not_change_while_something_is_out_that_was_kept_in_another_way) {
  const Keeping ways[] = {{}, kCounts, sampled(3)};
  for (const Keeping& first : ways) {
    for (const Keeping& second : ways) {
      ASSERT_EQ(trace_as("packet", first).status, Status::kOk);
      take<1>(40);
      const Status expected = first == second ? Status::kOk : Status::kMismatch;
      EXPECT_EQ(trace_as("packet", second).status, expected);
      EXPECT_EQ(now().keeping, first);
      trace::stop("packet");
      EXPECT_EQ(trace_as("packet", second).status, now().live != 0 ? expected : Status::kOk);
      trace::stop("packet");
      EXPECT_EQ(trace::reset("packet").status, Status::kOk);
      ASSERT_EQ(trace_as("packet", second).status, Status::kOk);
      EXPECT_EQ(now().keeping, second);
      take<1>(40);
      give(80);
      EXPECT_EQ(now().live, 0U);
      EXPECT_TRUE(trace::validate());
      trace::stop("packet");
      EXPECT_EQ(now().state, State::kOff);
    }
  }
}

TEST_F(KeepingTest, counts_need_no_pool_of_records) {
  begin_again({.record_bytes = 28});
  cache = make("packet");
  trace_as("packet", kCounts);
  take<1>(1000);
  EXPECT_EQ(now().figures.recorded, 1000U);
  EXPECT_EQ(now().figures.all_dropped(), 0U);
  give(1000);
  EXPECT_TRUE(trace::validate());
}

[[gnu::noinline]] void* allocate_deep(Cache& cache, unsigned depth) {
  void* object = depth == 0 ? cache.allocate() : allocate_deep(cache, depth - 1);
  asm volatile("" : : : "memory");
  return object;
}

TEST_F(KeepingTest, counts_without_room_for_a_stack_are_told_apart) {
  begin_again({.stack_bytes = 1024});
  cache = make("packet");
  trace_as("packet", kCounts);
  for (unsigned i = 0; i < 20; ++i) objects[held++] = allocate_deep(*cache, i);
  const std::uint64_t lost = now().figures.lost_stacks;
  EXPECT_GT(lost, 0U);
  Told told = told_of(*cache);
  EXPECT_EQ(told.totals.lost_objects, lost);
  EXPECT_EQ(told.totals.objects, 20U);
  EXPECT_FALSE(told.totals.complete());
  give(20);
  EXPECT_EQ(told_of(*cache).totals.objects, 0U);
  EXPECT_EQ(now().live, 0U);
}

TEST_F(KeepingTest, counts_without_memory_for_handles_are_dropped_and_add_up) {
  if (kChecked) GTEST_SKIP() << "a checking build has other sizes and more stacks";
  std::uint64_t dropped = 0;
  for (std::size_t pages = 0; pages < 12 || (dropped == 0 && pages < 100); ++pages) {
    begin_again({}, 1, (std::size_t{1} << 20) - pages * 4096);
    cache = make("packet", 256);
    trace_as("packet", kCounts);
    held = 0;
    while (held < std::size(objects) && (objects[held] = cache->allocate()) != nullptr) ++held;
    ASSERT_LT(held, std::size(objects));
    EXPECT_EQ(now().figures.recorded + now().figures.all_dropped(), held);
    EXPECT_EQ(told_of(*cache).totals.objects, now().figures.recorded);
    dropped += now().figures.all_dropped();
    give(held);
    EXPECT_EQ(now().live, 0U);
    EXPECT_TRUE(trace::validate());
    EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  }
  EXPECT_NE(dropped, 0U);
}

TEST_F(KeepingTest, counts_are_of_caches_only) {
  EXPECT_EQ(trace_as("kheap", kCounts).status, Status::kRefused);
  const trace::CommandResult result = trace_as("*", kCounts);
  EXPECT_EQ(result.status, Status::kOk);
  EXPECT_GT(result.skipped, 0U);
  RegistryCursor<Arena> arenas;
  while (Arena* arena = arenas.next()) EXPECT_EQ(trace::cache_trace(*arena).state, State::kOff) << arena->name();
  EXPECT_EQ(now().state, State::kOn);
}

TEST_F(KeepingTest, counts_follow_blocks_of_the_heap_that_are_reallocated) {
  qm::test::make_class(40);
  void* first = heap::allocate(40);
  ASSERT_EQ(trace_as("kmalloc_*", kCounts).status, Status::kOk);
  RegistryCursor<Cache> caches;
  Cache* small = caches.find("kmalloc_48");
  ASSERT_NE(small, nullptr);
  void* block = heap::allocate(40);
  EXPECT_EQ(trace::cache_trace(*small).live, 1U);
  block = heap::reallocate(block, 44);
  EXPECT_EQ(trace::cache_trace(*small).live, 1U);
  block = heap::reallocate(block, 400);
  EXPECT_EQ(trace::cache_trace(*small).live, 0U);
  heap::free(block);
  heap::free(first);
  EXPECT_TRUE(trace::validate());
}

TEST_F(KeepingTest, stacks_of_counts_outlast_their_cache) {
  trace_as("packet", kCounts);
  take<1>(2);
  give(2);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
  trace::StackReport report;
  ASSERT_EQ(report.begin(), Status::kOk);
  report.select_all();
  report.count_live(0);
  EXPECT_EQ(report.totals().objects, 0U);
  EXPECT_GE(report.totals().stacks, 1U);
}

TEST_F(KeepingTest, marks_say_that_there_is_no_record_of_each_object) {
  for (const Keeping& way : {kCounts, sampled(4)}) {
    trace_as("packet", way);
    trace::StackReport report;
    ASSERT_EQ(report.begin(), Status::kOk);
    ASSERT_EQ(trace::set_mark(report, "before"), Status::kOk);
    const trace::Coverage coverage = trace::coverage_since(trace::find_mark(report, "before"));
    EXPECT_EQ(coverage.thin, 1U);
    EXPECT_EQ(coverage.whole, 0U);
    EXPECT_FALSE(coverage.complete());
    trace::stop("packet");
  }
}

// ---- samples --------------------------------------------------------------------------------------------------------

TEST_F(KeepingTest, one_of_so_many_has_a_record_and_all_add_up) {
  ASSERT_EQ(trace_as("packet", sampled(8)).status, Status::kOk);
  take<1>(4000);
  const trace::CacheTrace after = now();
  EXPECT_EQ(after.figures.recorded + after.figures.left_out, 4000U);
  EXPECT_EQ(after.live, after.figures.recorded);
  EXPECT_GT(after.figures.recorded, 430U);
  EXPECT_LT(after.figures.recorded, 570U);
  const Told told = told_of(*cache);
  EXPECT_EQ(told.totals.objects, after.figures.recorded * 8);
  EXPECT_EQ(told.totals.bytes, after.figures.recorded * 8 * 64);
  EXPECT_EQ(told.totals.sampled, 1U);
  EXPECT_FALSE(told.totals.complete());
  const trace::DumpSummary summary = dump_of(*cache);
  EXPECT_EQ(summary.outstanding, after.figures.recorded);
  EXPECT_FALSE(summary.complete());
  give(4000);
  EXPECT_EQ(now().live, 0U);
  EXPECT_TRUE(trace::validate());
}

TEST_F(KeepingTest, a_sample_is_fair_to_what_comes_in_turns_and_to_what_comes_first) {
  // Two stacks in turn, in many short samples: the mean of the estimates is the true number.
  constexpr unsigned kRounds = 400;
  std::uint64_t first = 0, odd = 0, even = 0;
  for (unsigned round = 0; round < kRounds; ++round) {
    ASSERT_EQ(trace_as("packet", sampled(4)).status, Status::kOk);
    for (unsigned i = 0; i < 10; ++i) {
      const std::uint64_t before = now().figures.recorded;
      take<1>(1);
      const std::uint64_t recorded = now().figures.recorded - before;
      (i % 2 == 0 ? even : odd) += recorded;
      if (i == 0) first += recorded;
    }
    give(10);
    trace::stop("packet");
    trace::reset("packet");
  }
  // Each of the 10 is recorded once in four times: 100 times of 400 for the first, 500 of 2000 for those at odd and at
  // even places.
  EXPECT_GT(first, 55U);
  EXPECT_LT(first, 145U);
  EXPECT_GT(odd, 400U);
  EXPECT_LT(odd, 600U);
  EXPECT_GT(even, 400U);
  EXPECT_LT(even, 600U);
}

TEST_F(KeepingTest, a_sample_leaves_out_the_first_of_a_new_cache_as_often_as_any_other) {
  Cache* caches[32];
  char name[] = "many_00";
  for (unsigned i = 0; i < std::size(caches); ++i) {
    name[5] = static_cast<char>('0' + i / 10);
    name[6] = static_cast<char>('0' + i % 10);
    ASSERT_NE(caches[i] = make(name), nullptr);
  }
  ASSERT_EQ(trace_as("many_*", sampled(64)).status, Status::kOk);
  std::uint64_t first = 0;
  for (Cache* one : caches) {
    void* object = one->allocate();
    first += recorded(*one);
    one->free(object);
  }
  EXPECT_LT(first, 8U);  // one in 64
}

TEST_F(KeepingTest, a_sample_of_each_is_a_record_of_each_and_others_are_refused) {
  ASSERT_EQ(trace_as("packet", sampled(1)).status, Status::kOk);
  take<1>(10);
  EXPECT_EQ(now().figures.recorded, 10U);
  EXPECT_EQ(now().figures.left_out, 0U);
  give(10);
  EXPECT_EQ(trace_as("packet", sampled(0)).status, Status::kInvalid);
  EXPECT_EQ(trace_as("packet", sampled(Keeping::kMostEvery + 1)).status, Status::kInvalid);
  EXPECT_EQ(trace_as("packet", {.every = 2, .counts = true}).status, Status::kInvalid);
}

TEST_F(KeepingTest, a_sample_stops_drains_and_is_reset_as_records_are) {
  trace_as("packet", sampled(3));
  take<1>(100);
  ASSERT_NE(now().live, 0U);
  trace::stop("packet");
  EXPECT_EQ(now().state, State::kDraining);
  give(100);
  EXPECT_EQ(now().state, State::kOff);
  EXPECT_EQ(cache->state().load(), 0U);
  trace_as("packet", sampled(3));
  take<1>(100);
  EXPECT_EQ(trace::reset("packet").status, Status::kOk);
  EXPECT_EQ(now().figures.left_out, 0U);
  EXPECT_EQ(now().live, 0U);
  EXPECT_EQ(now().state, State::kOn);
  give(100);
  EXPECT_TRUE(trace::validate());
}

TEST_F(KeepingTest, segments_of_an_arena_are_sampled_as_well) {
  ASSERT_EQ(trace_as("kheap", sampled(4)).status, Status::kOk);
  RegistryCursor<Arena> arenas;
  Arena* arena = arenas.find("kheap");
  ASSERT_NE(arena, nullptr);
  for (unsigned i = 0; i < 40; ++i) objects[held++] = heap::allocate(20000);
  const trace::CacheTrace after = trace::cache_trace(*arena);
  EXPECT_EQ(after.figures.recorded + after.figures.left_out, 40U);
  EXPECT_GT(after.figures.left_out, 15U);
  while (held != 0) heap::free(objects[--held]);
  EXPECT_EQ(trace::cache_trace(*arena).live, 0U);
  EXPECT_TRUE(trace::validate());
}

}  // namespace trace_keeping_test
