// The dump on one hart: order, completeness, and records that are added and removed during it.

#include "trace_fixture.hpp"

#include <qm/detail/observer.hpp>

namespace trace_dump_test {

using namespace qm;

void* objects[3000];
trace::Dump dump;
trace::DumpEntry entry;

std::uintptr_t address(const void* object) { return reinterpret_cast<std::uintptr_t>(object); }

class Dump : public qm::test::TraceTest {
 protected:
  Cache* cache = nullptr;

  void SetUp() override {
    TraceTest::SetUp();
    cache = make("packet");
    trace::start("packet");
  }
  void take(unsigned from, unsigned to) {
    for (unsigned i = from; i < to; ++i) objects[i] = cache->allocate();
  }
  void give(unsigned from, unsigned to) {
    for (unsigned i = from; i < to; ++i) cache->free(objects[i]);
  }
};

TEST_F(Dump, shows_all_records_oldest_first_whatever_their_number) {
  for (const unsigned count : {0U, 1U, 255U, 256U, 257U, 512U, 513U, 3000U}) {
    take(0, count);
    dump.begin(*cache);
    for (unsigned i = 0; i < count; ++i) {
      ASSERT_TRUE(dump.next(entry)) << i << " of " << count;
      ASSERT_EQ(entry.object, address(objects[i]));
      ASSERT_EQ(entry.requested, 64U);
    }
    EXPECT_FALSE(dump.next(entry));
    EXPECT_FALSE(dump.next(entry));
    const trace::DumpSummary summary = dump.finish();
    EXPECT_EQ(summary.outstanding, count);
    EXPECT_TRUE(summary.ended);
    EXPECT_EQ(summary.freed_meanwhile, 0U);
    give(0, count);
  }
}

TEST_F(Dump, keeps_the_order_where_slots_are_used_again) {
  take(0, 1000);
  for (unsigned i = 0; i < 1000; i += 2) cache->free(objects[i]);
  unsigned order[1000];
  unsigned count = 0;
  for (unsigned i = 1; i < 1000; i += 2) order[count++] = i;
  for (unsigned i = 1000; i-- > 0;) {
    if (i % 2 != 0) continue;
    objects[i] = cache->allocate();
    order[count++] = i;
  }
  dump.begin(*cache);
  for (unsigned i = 0; i < count; ++i) {
    ASSERT_TRUE(dump.next(entry));
    ASSERT_EQ(entry.object, address(objects[order[i]]));
  }
  EXPECT_FALSE(dump.next(entry));
  give(0, 1000);
}

TEST_F(Dump, leaves_out_what_was_freed_and_what_is_younger_and_counts_both) {
  take(0, 1000);
  dump.begin(*cache);
  for (unsigned i = 0; i < 10; ++i) ASSERT_TRUE(dump.next(entry));
  give(500, 600);
  take(500, 540);  // newer objects, some of them at the same addresses
  unsigned shown = 10;
  std::uint64_t last = entry.sequence;
  while (dump.next(entry)) {
    EXPECT_GT(entry.sequence, last);
    last = entry.sequence;
    EXPECT_EQ(entry.object, address(objects[shown < 500 ? shown : shown + 100]));
    ++shown;
  }
  const trace::DumpSummary summary = dump.finish();
  EXPECT_EQ(shown, 900U);
  EXPECT_EQ(summary.outstanding, 900U);
  EXPECT_EQ(summary.freed_meanwhile, 100U);
  EXPECT_EQ(summary.allocated_meanwhile, 40U);
  EXPECT_EQ(summary.figures.recorded, 1040U);
  give(0, 540);
  give(600, 1000);
}

TEST_F(Dump, cut_short_it_is_not_complete) {
  take(0, 5);
  dump.begin(*cache);
  ASSERT_TRUE(dump.next(entry));
  const trace::DumpSummary summary = dump.finish();
  EXPECT_FALSE(summary.ended);
  EXPECT_FALSE(summary.complete());
  EXPECT_EQ(summary.shown, 1U);
  EXPECT_EQ(summary.outstanding, 5U);
  EXPECT_EQ(summary.freed_meanwhile, 0U);
  give(0, 5);
}

TEST_F(Dump, names_a_reset_that_falls_into_it) {
  take(0, 600);
  dump.begin(*cache);
  ASSERT_TRUE(dump.next(entry));
  trace::reset("packet");
  EXPECT_FALSE(dump.next(entry));
  trace::DumpSummary summary = dump.finish();
  EXPECT_TRUE(summary.reset);
  EXPECT_FALSE(summary.complete());
  EXPECT_EQ(summary.outstanding, 1U);
  EXPECT_FALSE(dump_of(*cache).reset);
  give(0, 600);
}

TEST_F(Dump, of_a_cache_that_was_never_traced_says_so) {
  Cache* other = make("other");
  other->free(other->allocate());
  const trace::DumpSummary summary = dump_of(*other);
  EXPECT_FALSE(summary.known);
  EXPECT_EQ(summary.state, trace::State::kOff);
  EXPECT_EQ(summary.outstanding, 0U);
}

TEST_F(Dump, of_all_caches_shows_them_in_one_order) {
  Cache* other = make("other", 128);
  trace::start("other");
  for (unsigned i = 0; i < 100; ++i) objects[i] = (i % 3 == 0 ? other : cache)->allocate();
  dump.begin_all();
  for (unsigned i = 0; i < 100; ++i) {
    ASSERT_TRUE(dump.next(entry));
    EXPECT_EQ(entry.object, address(objects[i]));
  }
  EXPECT_FALSE(dump.next(entry));
  EXPECT_EQ(dump.finish().figures.recorded, 100U);
  for (unsigned i = 0; i < 100; ++i) (i % 3 == 0 ? other : cache)->free(objects[i]);
}

TEST_F(Dump, since_a_number_leaves_out_the_older) {
  take(0, 400);
  dump.begin(*cache);
  for (unsigned i = 0; i <= 150; ++i) ASSERT_TRUE(dump.next(entry));
  const std::uint64_t from = entry.sequence;
  dump.begin(*cache);
  dump.since(from);
  for (unsigned i = 150; i < 400; ++i) {
    ASSERT_TRUE(dump.next(entry));
    EXPECT_EQ(entry.object, address(objects[i]));
  }
  EXPECT_FALSE(dump.next(entry));
  give(0, 400);
}

TEST_F(Dump, finds_the_record_of_one_object) {
  take(0, 3);
  EXPECT_TRUE(trace::find(*cache, objects[1], entry));
  EXPECT_EQ(entry.object, address(objects[1]));
  cache->free(objects[1]);
  EXPECT_FALSE(trace::find(*cache, objects[1], entry));
  trace::reset("packet");
  EXPECT_FALSE(trace::find(*cache, objects[0], entry));
  cache->free(objects[0]);
  cache->free(objects[2]);
}

// A query about an object that is not live may read a handle whose memory has been freed.
TEST_F(Dump, finds_nothing_by_a_handle_that_is_none) {
  take(0, 1);
  std::uint32_t* handle = cache->handle(objects[0]);
  ASSERT_NE(handle, nullptr);
  const std::uint32_t held = *handle;
  for (const std::uint32_t wild : {1U, held + 1, held + 0x1000'0000, 0x3fff'ffffU}) {
    *handle = wild;
    EXPECT_FALSE(trace::find(*cache, objects[0], entry));
    EXPECT_EQ(observer()->allocating_stack(*cache, objects[0]), 0U);
  }
  for (const std::uint32_t wild : {0x8000'0007U, 0x803f'ffffU, 0x4000'0007U, 0x403f'ffffU}) {
    *handle = wild;
    EXPECT_EQ(observer()->allocating_stack(*cache, objects[0]), 0U);
  }
  *handle = held;
  EXPECT_TRUE(trace::find(*cache, objects[0], entry));
  give(0, 1);
}

}  // namespace trace_dump_test
