// Tracing from the first allocation on: the trace is opened while the allocator sets itself up.

#include <gtest/gtest.h>

#include <support/system_fixture.hpp>

#include <qm/trace/dump.hpp>
#include <qm/trace/live_trace.hpp>

namespace trace_boot_test {

using namespace qm;

constexpr std::uint32_t kRecords = 500;

std::size_t stack_bytes = 0;
std::size_t record_bytes = 0;
Status opened = Status::kOk;

void open_trace() noexcept {
  trace::Config config;
  config.object_base = reinterpret_cast<std::uintptr_t>(qm::test::pool());
  config.stack_bytes = stack_bytes;
  config.record_bytes = record_bytes;
  config.at_once = true;
  opened = trace::initialize(config);
  if (opened == Status::kOk) trace::trace_from_creation("*");
}

class TraceBoot : public testing::Test {
 protected:
  void SetUp() override {
    stack_bytes = 65536;
    record_bytes = kRecords * trace::kBytesPerRecord;
  }
  void TearDown() override {
    trace::shutdown();
    shutdown();
  }
  static void boot() {
    const MemoryRange range{reinterpret_cast<std::uintptr_t>(qm::test::pool()), qm::test::kPoolBytes};
    ASSERT_EQ(initialize({&range, 1}, 1, open_trace), Status::kOk);
    ASSERT_STREQ(page_arena().name(), "kpages");  // linked because it is called
    attach_hart(0);
  }
  template <class T>
  static T& named(const char* name) {
    RegistryCursor<T> all;
    T* found = all.find(name);
    EXPECT_NE(found, nullptr) << name;
    return *found;
  }
};

TEST_F(TraceBoot, what_the_allocator_itself_draws_is_recorded_from_the_first_on) {
  boot();
  ASSERT_EQ(opened, Status::kOk);
  // The caches that kpages created; the first object of all is the cache of the trace's own records.
  const trace::CacheTrace caches = trace::cache_trace(named<Cache>("kmem_cache"));
  EXPECT_EQ(caches.state, trace::State::kOn);
  EXPECT_EQ(caches.from_before_start, 1U);
  EXPECT_GE(caches.live, 2U);
  EXPECT_EQ(caches.live + caches.from_before_start, named<Cache>("kmem_cache").stats().in_use);
  trace::DumpEntry entry;
  EXPECT_TRUE(trace::find(named<Cache>("kmem_cache"), &named<Cache>("kpages_4096"), entry));
  for (const char* arena : {"kpages", "kheap"}) {
    EXPECT_EQ(trace::cache_trace(named<Arena>(arena)).state, trace::State::kOn) << arena;
    EXPECT_EQ(trace::cache_trace(named<Arena>(arena)).from_before_start, 0U) << arena;
  }
  qm::test::make_class(40);
  void* small = heap::allocate(40);
  void* large = heap::allocate(100000);
  EXPECT_TRUE(trace::find(named<Arena>("kheap"), reinterpret_cast<std::uintptr_t>(large), entry));
  EXPECT_EQ(trace::cache_trace(named<Cache>("kmalloc_48")).live, 1U);
  EXPECT_EQ(trace::cache_trace(named<Cache>("kmalloc_48")).from_before_start, 0U);
  EXPECT_EQ(trace::cache_trace(named<Cache>("kpages_4096")).from_before_start, 0U);
  heap::free(large);
  heap::free(small);
  EXPECT_TRUE(trace::validate());
}

TEST_F(TraceBoot, the_pool_is_bounded_and_taken_before_the_first_record) {
  boot();
  ASSERT_EQ(opened, Status::kOk);
  const trace::Totals before = trace::totals();
  EXPECT_GE(before.records_reserved, kRecords * (trace::kBytesPerRecord - 4));
  CacheConfig config;
  config.name = "many";
  config.object_size = 64;
  Cache* many = Cache::create(config);
  static void* objects[2 * kRecords];
  for (void*& object : objects) object = many->allocate();
  const trace::Totals after = trace::totals();
  EXPECT_EQ(after.records_reserved, before.records_reserved);
  EXPECT_GT(after.dropped, 0U);
  const trace::CacheTrace trace = trace::cache_trace(*many);
  EXPECT_EQ(trace.figures.recorded + trace.figures.all_dropped(), 2U * kRecords);
  for (void* object : objects) many->free(object);
  EXPECT_EQ(trace::cache_trace(*many).live, 0U);
  EXPECT_TRUE(trace::validate());
}

TEST_F(TraceBoot, a_trace_larger_than_half_of_the_memory_is_refused_and_nothing_is_taken) {
  record_bytes = qm::test::kPoolBytes / 2;
  boot();
  EXPECT_EQ(opened, Status::kNoMemory);
  EXPECT_EQ(trace::start("*").status, Status::kUnsafe);
  void* object = heap::allocate(40);
  EXPECT_NE(object, nullptr);
  heap::free(object);
}

}  // namespace trace_boot_test
