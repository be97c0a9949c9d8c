// The live trace when a resource is exhausted: operations that are not recorded are counted, and the counts add up.

#include "trace_fixture.hpp"

#include <iterator>

namespace trace_exhaustion_test {

using namespace qm;

void* objects[20000];

class TraceExhaustion : public qm::test::TraceTest {};

TEST_F(TraceExhaustion, with_the_records_full_recorded_and_dropped_add_up) {
  trace::Config config;
  constexpr unsigned kRecords = 2 * trace::kChunkRecords - 7;
  config.record_bytes = kRecords * trace::kBytesPerRecord;
  begin_again(config);
  Cache* cache = make("packet");
  trace::start("packet");
  constexpr unsigned kObjects = 1000;
  for (unsigned i = 0; i < kObjects; ++i) objects[i] = cache->allocate();
  trace::CacheTrace now = trace::cache_trace(*cache);
  EXPECT_EQ(now.figures.recorded, kRecords);
  EXPECT_EQ(now.figures.recorded + now.figures.all_dropped(), kObjects);
  EXPECT_EQ(now.figures.dropped[static_cast<unsigned>(trace::Drop::kRecordsFull)], kObjects - kRecords);
  EXPECT_FALSE(dump_of(*cache).complete());
  for (unsigned i = 0; i < kObjects; ++i) cache->free(objects[i]);
  now = trace::cache_trace(*cache);
  EXPECT_EQ(now.live, 0U);
  objects[0] = cache->allocate();
  EXPECT_EQ(recorded(*cache), kRecords + 1);
  cache->free(objects[0]);
  EXPECT_TRUE(trace::validate());
}

TEST_F(TraceExhaustion, with_the_memory_exhausted_recorded_and_dropped_add_up) {
  if (kChecked) GTEST_SKIP() << "a checking build has other sizes and more stacks";
  std::uint64_t dropped = 0;
  // The resource that is exhausted first depends on the last pages.
  for (std::size_t pages = 0; pages < 24; ++pages) {
    begin_again({}, 1, (std::size_t{1} << 20) - pages * PageMap::kPageBytes);
    Cache* cache = make("packet", 256);
    trace::start("packet");
    std::size_t count = 0;
    while (count < std::size(objects) && (objects[count] = cache->allocate()) != nullptr) ++count;
    ASSERT_LT(count, std::size(objects));
    trace::CacheTrace now = trace::cache_trace(*cache);
    EXPECT_EQ(now.figures.recorded + now.figures.all_dropped(), count);
    EXPECT_EQ(now.live, now.figures.recorded);
    EXPECT_TRUE(trace::validate());
    dropped += now.figures.all_dropped();
    for (std::size_t i = 0; i < count; ++i) cache->free(objects[i]);
    EXPECT_EQ(trace::cache_trace(*cache).live, 0U);
    EXPECT_TRUE(trace::validate());
    EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  }
  if (!kCallSites) {  // with call sites, none of these sizes leaves an object without a record
    EXPECT_NE(dropped, 0U);
  }
}

/// Allocates from a depth of @p depth calls, so that each depth is another stack.
[[gnu::noinline]] void* allocate_deep(Cache& cache, unsigned depth) {
  void* object = depth == 0 ? cache.allocate() : allocate_deep(cache, depth - 1);
  asm volatile("" : : : "memory");
  return object;
}

TEST_F(TraceExhaustion, with_the_stacks_full_objects_are_recorded_without_and_counted) {
  trace::Config config;
  config.stack_bytes = 1024;
  begin_again(config);
  Cache* cache = make("packet");
  trace::start("packet");
  for (unsigned i = 0; i < 20; ++i) objects[i] = allocate_deep(*cache, i);
  trace::CacheTrace now = trace::cache_trace(*cache);
  EXPECT_EQ(now.figures.recorded + now.figures.all_dropped(), 20U);
  EXPECT_EQ(now.figures.recorded, 20U);
  EXPECT_GT(now.figures.lost_stacks, 0U);
  EXPECT_LT(now.figures.lost_stacks, 20U);
  static trace::Dump dump;
  trace::DumpEntry entry;
  dump.begin(*cache);
  unsigned without = 0;
  while (dump.next(entry)) {
    if (entry.stack_id == trace::kStackNoMemory) {
      ++without;
      EXPECT_EQ(entry.depth, 0U);
      EXPECT_TRUE(entry.truncated);
    }
  }
  EXPECT_EQ(without, now.figures.lost_stacks);
  EXPECT_FALSE(dump.finish().complete());
  for (unsigned i = 0; i < 20; ++i) cache->free(objects[i]);
  EXPECT_EQ(trace::cache_trace(*cache).live, 0U);
  EXPECT_TRUE(trace::validate());
}

TEST_F(TraceExhaustion, deep_stacks_are_truncated_and_counted) {
  Cache* cache = make("packet");
  trace::start("packet");
  objects[0] = allocate_deep(*cache, 40);
  EXPECT_EQ(trace::cache_trace(*cache).figures.truncated_stacks, 1U);
  static trace::Dump dump;
  trace::DumpEntry entry;
  dump.begin(*cache);
  ASSERT_TRUE(dump.next(entry));
  EXPECT_EQ(entry.depth, trace::kStackDepth);
  EXPECT_TRUE(entry.truncated);
  EXPECT_FALSE(dump.next(entry));
  EXPECT_EQ(dump.finish().truncated_shown, 1U);
  cache->free(objects[0]);
}

TEST_F(TraceExhaustion, what_lies_outside_the_range_of_records_is_dropped_and_counted) {
  trace::shutdown();
  shutdown();
  start(qm::test::kPoolBytes);
  trace::Config config;
  config.object_base = reinterpret_cast<std::uintptr_t>(qm::test::pool()) + qm::test::kPoolBytes;
  ASSERT_EQ(trace::initialize(config), Status::kOk);
  Cache* cache = make("packet");
  trace::start("packet");
  void* object = cache->allocate();
  if constexpr (sizeof(void*) == 8) {
    EXPECT_EQ(trace::cache_trace(*cache).figures.dropped[static_cast<unsigned>(trace::Drop::kOutOfRange)], 1U);
    EXPECT_EQ(recorded(*cache), 0U);
  }
  cache->free(object);
}

}  // namespace trace_exhaustion_test
