// The live trace of the core form on several harts.

#include <support/system_fixture.hpp>

#include <array>
#include <atomic>

#include <qm/test/harts.hpp>
#include <qm/test/seed.hpp>
#include <qm/trace/dump.hpp>
#include <qm/trace/live_trace.hpp>

namespace {

using namespace qm;

class CoreTraceThreads : public qm::test::SystemTest {
 protected:
  void SetUp() override {
    start(qm::test::kPoolBytes, qm::test::harts());
    ASSERT_EQ(trace::initialize({.record_bytes = 200 * trace::kBytesPerRecord}), Status::kOk);
  }
  void TearDown() override {
    EXPECT_TRUE(trace::validate());
    trace::shutdown();
    SystemTest::TearDown();
  }
};

TEST_F(CoreTraceThreads, records_come_and_go_with_their_objects_while_commands_and_dumps_run) {
  static std::array<std::atomic<void*>, 60> objects;
  Cache* cache = Cache::create({.name = "shared", .object_size = 72});
  ASSERT_NE(cache, nullptr);
  const std::uint64_t steps = qm::test::steps(200000);
  qm::test::on_each_hart(qm::test::harts(), [&](unsigned hart) {
    qm::test::Random random(qm::test::seed() * 100 + hart);
    for (std::uint64_t step = 0; step < steps; ++step) {
      // Half of them are blocks of the heap.
      const auto number = static_cast<std::size_t>(random.below(objects.size()));
      const bool is_object = number % 2 == 0;
      void* fresh = is_object ? cache->allocate() : heap::allocate(random.below(3000));
      void* old = objects[number].exchange(fresh, std::memory_order_acq_rel);
      if (old != nullptr) is_object ? cache->free(old) : heap::free(old);
      if (random.below(500) != 0) continue;
      const char* const name = random.chance(50) ? "shared" : "kmalloc";
      switch (random.below(4)) {
        case 0: EXPECT_EQ(trace::start(name).status, Status::kOk); break;
        case 1: EXPECT_EQ(trace::stop(name).status, Status::kOk); break;
        case 2: EXPECT_EQ(trace::reset(name).status, Status::kOk); break;
        default: {
          trace::Dump dump;
          trace::DumpEntry entry;
          std::uint64_t last = 0;
          for (dump.begin_all(); dump.next(entry); last = entry.sequence) EXPECT_GT(entry.sequence, last);
        }
      }
    }
  });
  EXPECT_EQ(trace::stop("*").status, Status::kOk);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    void* left = objects[i].exchange(nullptr);
    if (left != nullptr) i % 2 == 0 ? cache->free(left) : heap::free(left);
  }
  EXPECT_EQ(cache->stats().misuses + heap::misuses(), 0U);
  EXPECT_EQ(trace::totals().traced, 0U);
  EXPECT_EQ(trace::totals().record_bytes, 0U);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

// After start() on one hart, whatever another allocates has a record; after stop() nothing has.
TEST_F(CoreTraceThreads, start_stop_and_reset_are_exact_between_harts) {
  Cache* cache = Cache::create({.name = "exact", .object_size = 40});
  ASSERT_NE(cache, nullptr);
  static std::atomic<unsigned> epoch;
  epoch.store(0);
  const std::uint64_t rounds = qm::test::steps(6000);
  std::atomic<bool> done{false};
  qm::test::on_each_hart(qm::test::harts(), [&](unsigned hart) {
    if (hart == 0) {
      for (std::uint64_t round = 0; round < rounds; ++round) {
        EXPECT_EQ(trace::start(*cache), Status::kOk);
        epoch.fetch_add(1, std::memory_order_release);
        for (unsigned i = 0; i < 20; ++i) cache->free(cache->allocate());
        epoch.fetch_add(1, std::memory_order_release);
        EXPECT_EQ(trace::stop(*cache), Status::kOk);
        epoch.fetch_add(2, std::memory_order_release);
        for (unsigned i = 0; i < 20; ++i) cache->free(cache->allocate());
        epoch.fetch_add(2, std::memory_order_release);
      }
      done.store(true, std::memory_order_release);
      return;
    }
    trace::DumpEntry entry;
    while (!done.load(std::memory_order_acquire)) {
      // Per round: 1 while it is on, 2 while it is being stopped, 4 while it is off, 0 while it is being started.
      const unsigned before = epoch.load(std::memory_order_acquire);
      void* object = cache->allocate();
      const bool recorded = trace::find(cache->traceable(), reinterpret_cast<std::uintptr_t>(object), entry);
      const bool is_steady = epoch.load(std::memory_order_acquire) == before;
      EXPECT_TRUE(!is_steady || before % 6 != 1 || recorded);
      EXPECT_TRUE(!is_steady || before % 6 != 4 || !recorded);
      cache->free(object);
    }
  });
  EXPECT_EQ(trace::cache_trace(*cache).live, 0U);
  EXPECT_EQ(trace::cache_trace(*cache).figures.dropped, 0U);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

}  // namespace
