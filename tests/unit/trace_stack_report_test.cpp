// The report on stacks: each stack once, the largest first, with sums that agree with the records.

#include "trace_fixture.hpp"

#include <qm/heap.hpp>
#include <qm/trace/stack_report.hpp>

namespace trace_stack_report_test {

using namespace qm;
using test::allocate_by;
using trace::StackReport;
using trace::StackRow;

/// Hides the value from the compiler, which would unroll a loop and so make several call sites of one.
volatile unsigned three = 3;
volatile unsigned two = 2;

class StackReports : public qm::test::TraceTest {
 protected:
  static constexpr unsigned kMost = 16;

  /// Counts the live objects of @p cache, or of all caches, and stores the rows.
  void count(Cache* cache, std::uint32_t threshold = 1) {
    StackReport report;
    ASSERT_EQ(report.begin(), Status::kOk);
    if (cache != nullptr) {
      report.select(*cache);
    } else {
      report.select_all();
    }
    report.count_live(threshold);
    totals = report.totals();
    for (found = 0; found < kMost && report.next(rows[found]); ++found) {
    }
  }
  void expect_row(unsigned at, std::uint32_t objects, std::uint32_t bytes) {
    ASSERT_LT(at, found);
    EXPECT_EQ(rows[at].objects, objects) << at;
    EXPECT_EQ(rows[at].bytes, bytes) << at;
  }

  StackRow rows[kMost];
  unsigned found = 0;
  trace::StackTotals totals;
};

TEST_F(StackReports, show_each_stack_once_largest_first) {
  Cache* cache = make("packet");
  trace::start("packet");
  void* held[6];
  unsigned count_held = 0;
  held[count_held++] = allocate_by<1>(*cache);
  for (unsigned i = 0; i < three; ++i) held[count_held++] = allocate_by<2>(*cache);
  for (unsigned i = 0; i < two; ++i) held[count_held++] = allocate_by<3>(*cache);
  count(cache);
  EXPECT_EQ(found, 3U);
  expect_row(0, 3, 192);
  expect_row(1, 2, 128);
  expect_row(2, 1, 64);
  EXPECT_EQ(totals.stacks, 3U);
  EXPECT_EQ(totals.objects, 6U);
  EXPECT_EQ(totals.bytes, 384U);
  EXPECT_NE(rows[0].id, rows[1].id);
  trace::DumpEntry entry;
  ASSERT_TRUE(trace::find(*cache, held[0], entry));
  EXPECT_EQ(rows[2].id, entry.stack_id);
  EXPECT_EQ(rows[2].stack.depth, entry.depth);
  for (unsigned i = 0; i < entry.depth; ++i) EXPECT_EQ(rows[2].stack.pcs[i], entry.pcs[i]);
  for (void* object : held) cache->free(object);
}

TEST_F(StackReports, tell_closely_who_allocated_what_is_out_and_how_long_ago) {
  Cache* cache = make("packet", 64);
  trace::start("packet");
  const auto take = [&](unsigned size) { return cache->allocate_at(nullptr, size); };
  void* held[3];
  for (unsigned i = 0; i < 3; ++i) {
    held[i] = take(20 + i);
    const std::uint64_t begin = hal::Port::ticks();
    while (hal::Port::ticks() - begin < hal::Port::tick_rate() / 200)
      hal::Port::relax();  // 5 ms, which coarse ticks resolve
  }
  void* other = allocate_by<1>(*cache);
  trace::StackReport report;
  ASSERT_EQ(report.begin(), Status::kOk);
  report.select(*cache);
  report.count_live(1);
  trace::StackRow row;
  unsigned shown = 0;
  while (report.next(row)) {
    const trace::StackDetails details = report.details(row);
    EXPECT_EQ(details.records, row.objects);
    EXPECT_EQ(details.held_bytes, 64U * row.objects);
    EXPECT_EQ(details.harts, 1U);
    EXPECT_LE(details.mean_ticks, details.oldest_ticks);
    unsigned contexts = 0;
    for (std::uint32_t id = 0; id < 1U << trace::kContextIdBits; ++id) contexts += details.has_context(id) ? 1 : 0;
    EXPECT_EQ(contexts, 1U);
    ++shown;
    if (row.objects != 3) continue;
    EXPECT_GE(details.oldest_ticks, hal::Port::tick_rate() / 100);
    EXPECT_LT(details.mean_ticks, details.oldest_ticks);
  }
  EXPECT_EQ(shown, 2U);
  for (void* object : held) cache->free(object);
  cache->free(other);
}

TEST_F(StackReports, keep_a_stack_whose_objects_came_back_and_that_of_a_destroyed_cache) {
  Cache* cache = make("packet");
  trace::start("packet");
  cache->free(allocate_by<1>(*cache));
  count(cache);
  EXPECT_EQ(found, 0U);
  EXPECT_EQ(totals.hidden, 1U);
  count(cache, 0);
  ASSERT_EQ(found, 1U);
  expect_row(0, 0, 0);
  const std::uint32_t id = rows[0].id;
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
  count(nullptr, 0);
  ASSERT_EQ(found, 1U);
  EXPECT_EQ(rows[0].id, id);
}

TEST_F(StackReports, tell_the_stack_of_several_caches_once_and_of_one_its_part) {
  Cache* small = make("small", 64);
  Cache* large = make("large", 256);
  Cache* untold = make("untold", 32);
  trace::start("*");
  Cache* const caches[] = {large, small, untold};
  void* held[3];
  for (unsigned i = 0; i < three; ++i) held[i] = allocate_by<1>(*caches[i]);  // one call, so one stack
  count(large);
  ASSERT_EQ(found, 1U);
  expect_row(0, 1, 256);
  StackReport report;
  ASSERT_EQ(report.begin(), Status::kOk);
  report.select(*small);
  report.select(*large);
  report.select(*large);  // does not count it twice
  report.count_live(1);
  ASSERT_TRUE(report.next(rows[0]));
  EXPECT_EQ(rows[0].objects, 2U);
  EXPECT_EQ(rows[0].bytes, 320U);
  EXPECT_FALSE(report.next(rows[1]));
  EXPECT_EQ(report.totals().known, 2U);
  for (unsigned i = 0; i < 3; ++i) caches[i]->free(held[i]);
}

TEST_F(StackReports, hide_what_is_below_the_threshold) {
  Cache* cache = make("packet");
  trace::start("packet");
  void* held[] = {allocate_by<1>(*cache), allocate_by<2>(*cache)};
  cache->free(allocate_by<3>(*cache));
  count(cache, 1);
  EXPECT_EQ(totals.stacks, 2U);
  EXPECT_EQ(totals.hidden, 1U);
  count(cache, 2);
  EXPECT_EQ(found, 0U);
  EXPECT_EQ(totals.hidden, 3U);
  EXPECT_EQ(totals.hidden_objects, 2U);
  EXPECT_EQ(totals.hidden_bytes, 128U);
  EXPECT_EQ(totals.objects, 2U);
  cache->free(held[0]);
  cache->free(held[1]);
}

TEST_F(StackReports, follow_a_block_that_is_resized) {
  qm::test::make_class(30);
  trace::start("*");
  void* small = heap::allocate(26);
  void* large = heap::allocate(100000);
  RegistryCursor<Cache> caches;
  Cache* cache = caches.find("kmalloc_32");
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(heap::reallocate(small, 30), small);
  count(cache);
  EXPECT_EQ(totals.bytes, 30U);
  ASSERT_EQ(heap::reallocate(small, 25), small);
  count(cache);
  EXPECT_EQ(totals.bytes, 25U);
  ASSERT_EQ(heap::reallocate(large, 90000), large);
  count(nullptr);
  std::uint64_t recorded = 0;
  static trace::Dump dump;
  trace::DumpEntry entry;
  dump.begin_all();
  while (dump.next(entry)) recorded += entry.requested;
  EXPECT_EQ(totals.bytes, recorded);
  heap::free(small);
  heap::free(large);
  count(cache, 0);
  EXPECT_EQ(totals.bytes, 0U);
}

TEST_F(StackReports, count_what_has_no_stack_since_the_depot_is_full) {
  begin_again({.stack_bytes = 256});
  Cache* cache = make("packet");
  trace::start("packet");
  void* held[] = {allocate_by<1>(*cache), allocate_by<2>(*cache), allocate_by<3>(*cache), allocate_by<4>(*cache),
                  allocate_by<5>(*cache), allocate_by<6>(*cache), allocate_by<7>(*cache), allocate_by<8>(*cache)};
  count(cache);
  EXPECT_LT(found, 8U);
  EXPECT_EQ(totals.lost_objects, 8U - found);
  EXPECT_EQ(totals.lost_bytes, 64U * (8 - found));
  EXPECT_EQ(totals.objects, 8U);
  EXPECT_EQ(totals.bytes, 512U);
  EXPECT_FALSE(totals.complete());
  for (void* object : held) cache->free(object);
}

TEST_F(StackReports, come_one_at_a_time) {
  StackReport first;
  ASSERT_EQ(first.begin(), Status::kOk);
  ASSERT_EQ(first.begin(), Status::kOk) << "anew";
  {
    StackReport second;
    EXPECT_EQ(second.begin(), Status::kBusy);
  }
  StackReport third;
  EXPECT_EQ(third.begin(), Status::kBusy) << "who has not begun ends nothing";
}

TEST_F(StackReports, are_empty_where_nothing_was_ever_traced) {
  Cache* cache = make("packet");
  count(cache);
  EXPECT_EQ(found, 0U);
  EXPECT_FALSE(totals.complete());
  count(nullptr);
  EXPECT_EQ(found, 0U);
}

}  // namespace trace_stack_report_test
