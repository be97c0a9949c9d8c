/// Injected failures: exactly the named allocation fails, on whichever hart it occurs, and afterwards nothing of the
/// fault remains.

#include <support/system_fixture.hpp>

#include <array>
#include <atomic>

#include <qm/fault.hpp>
#include <qm/test/harts.hpp>

namespace alloc_fault_test {

using namespace qm;
using fault::Mode;

class Faults : public qm::test::SystemTest {
 protected:
  void SetUp() override { start(qm::test::kPoolBytes, test::harts()); }
  void TearDown() override {
    fault::clear();
    SystemTest::TearDown();
  }
  static Cache* make(const char* name) {
    CacheConfig config;
    config.name = name;
    config.object_size = 64;
    return Cache::create(config);
  }
  /// Whether the running hart's pop is open.
  static bool is_open(Cache& cache) { return cache.hart_cache(0).top.load() != closed_address(); }
  /// Allocates and frees @p count times. @returns the number of the first failure, from 1; 0: none.
  static unsigned first_failure(Cache& cache, unsigned count) {
    for (unsigned i = 1; i <= count; ++i) {
      void* object = cache.allocate();
      if (object == nullptr) return i;
      cache.free(object);
    }
    return 0;
  }
};

TEST_F(Faults, exactly_the_nth_allocation_fails_once_though_each_would_be_a_fast_path) {
  if (kChecked) GTEST_SKIP() << "a checking build's per-hart caches stay closed";
  Cache* cache = make("victim");
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(first_failure(*cache, 3), 0U);
  ASSERT_TRUE(is_open(*cache));
  for (const unsigned n : {1U, 2U, 7U, 100U}) {
    EXPECT_EQ(fault::set(*cache, Mode::kNth, n), Status::kOk);
    EXPECT_EQ(first_failure(*cache, n + 5), n);
    EXPECT_EQ(first_failure(*cache, 2 * n + 5), 0U);
    EXPECT_EQ(fault::at(0).of, fault::Of::kNothing);
    EXPECT_TRUE(is_open(*cache));  // the fast path is unchanged
  }
  EXPECT_EQ(cache->stats().failures, 4U);
  EXPECT_EQ(cache->stats().in_use, 0U);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(Faults, all_allocations_from_the_nth_on_fail_until_the_faults_are_cleared) {
  if (kChecked) GTEST_SKIP() << "a checking build's per-hart caches stay closed";
  Cache* cache = make("victim");
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(fault::set(*cache, Mode::kFrom, 4), Status::kOk);
  for (unsigned i = 1; i <= 10; ++i) {
    void* object = cache->allocate();
    EXPECT_EQ(object == nullptr, i >= 4) << "allocation " << i;
    if (object != nullptr) cache->free(object);
  }
  EXPECT_EQ(fault::at(0).failed, 7U);
  EXPECT_EQ(fault::clear(), 1U);
  EXPECT_EQ(first_failure(*cache, 30), 0U);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(Faults, every_nth_allocation_fails_until_the_faults_are_cleared) {
  if (kChecked) GTEST_SKIP() << "a checking build's per-hart caches stay closed";
  Cache* cache = make("victim");
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(fault::set(*cache, Mode::kEvery, 3), Status::kOk);
  for (unsigned i = 1; i <= 30; ++i) {
    void* object = cache->allocate();
    EXPECT_EQ(object == nullptr, i % 3 == 0) << "allocation " << i;
    if (object != nullptr) cache->free(object);
  }
  EXPECT_EQ(fault::at(0).counted, 30U);
  EXPECT_EQ(fault::at(0).failed, 10U);
  EXPECT_EQ(fault::clear(), 1U);
  EXPECT_EQ(fault::clear(), 0U);
  EXPECT_EQ(first_failure(*cache, 30), 0U);
  EXPECT_TRUE(is_open(*cache));
  EXPECT_EQ(cache->state().load(), 0U);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(Faults, a_bulk_allocation_ends_at_the_failure) {
  Cache* cache = make("victim");
  ASSERT_NE(cache, nullptr);
  std::array<void*, 20> objects{};
  ASSERT_EQ(cache->allocate_bulk(objects.data(), objects.size()), objects.size());
  cache->free_bulk(objects.data(), objects.size());
  EXPECT_EQ(fault::set(*cache, Mode::kNth, 6), Status::kOk);
  EXPECT_EQ(cache->allocate_bulk(objects.data(), objects.size()), 5U);
  cache->free_bulk(objects.data(), 5);
  EXPECT_EQ(cache->stats().in_use, 0U);
}

TEST_F(Faults, a_second_fault_of_a_cache_replaces_the_first_and_other_caches_are_untouched) {
  Cache* cache = make("victim");
  Cache* other = make("other");
  ASSERT_TRUE(cache != nullptr && other != nullptr);
  EXPECT_EQ(fault::set(*cache, Mode::kNth, 2), Status::kOk);
  EXPECT_EQ(fault::set(*cache, Mode::kNth, 5), Status::kOk);
  EXPECT_EQ(first_failure(*other, 20), 0U);
  EXPECT_EQ(first_failure(*cache, 20), 5U);
}

TEST_F(Faults, refusals_leave_the_cache_without_a_fault) {
  std::array<Cache*, fault::kMaxFaults + 1> caches{};
  static constexpr const char* kNames[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
  for (unsigned i = 0; i < caches.size(); ++i) {
    caches[i] = make(kNames[i]);
    ASSERT_NE(caches[i], nullptr);
  }
  EXPECT_EQ(fault::set(*caches[0], Mode::kNth, 0), Status::kInvalid);
  for (unsigned i = 0; i < fault::kMaxFaults; ++i) EXPECT_EQ(fault::set(*caches[i], Mode::kEvery, 1), Status::kOk);
  Cache& last = *caches[fault::kMaxFaults];
  EXPECT_EQ(fault::set(last, Mode::kEvery, 1), Status::kNoMemory);
  EXPECT_EQ(last.state().load(), 0U);
  EXPECT_EQ(Cache::destroy(caches[3]), Status::kOk);  // destroys its fault, too
  EXPECT_EQ(fault::set(last, Mode::kEvery, 1), Status::kOk);
  EXPECT_EQ(fault::clear(), fault::kMaxFaults);
}

TEST_F(Faults, a_context_that_may_not_wait_for_other_harts_is_refused) {
  if (test::harts() < 2) return;
  Cache* cache = make("victim");
  ASSERT_NE(cache, nullptr);
  test::Barrier barrier(2);
  test::on_each_hart(2, [&](unsigned hart) {
    attach_hart(hart);
    barrier.arrive();
    if (hart == 0) {
      const hal::InterruptGuard masked;
      EXPECT_EQ(fault::set(*cache, Mode::kNth, 1), Status::kUnsafe);
    }
    barrier.arrive();
    if (hart != 0) detach_hart(hart);
  });
  EXPECT_EQ(cache->state().load(), 0U);
  EXPECT_EQ(first_failure(*cache, 5), 0U);
}

TEST_F(Faults, tracing_and_a_fault_do_not_end_each_other) {
  Cache* cache = make("victim");
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(first_failure(*cache, 1), 0U);
  EXPECT_EQ(fault::set(*cache, Mode::kNth, 3), Status::kOk);
  cache->state().fetch_or(trace_state::kHold | trace_state::kWatch);  // as a start of a trace does
  cache->state().fetch_and(~(trace_state::kHold | trace_state::kWatch));
  EXPECT_EQ(first_failure(*cache, 10), 3U);
  EXPECT_EQ(fault::set(*cache, Mode::kNth, 3), Status::kOk);
  cache->state().fetch_or(trace_state::kHold);
  EXPECT_EQ(fault::clear(), 1U);
  EXPECT_EQ(first_failure(*cache, 10), 0U);
  EXPECT_FALSE(is_open(*cache));
  cache->state().fetch_and(~trace_state::kHold);
}

TEST_F(Faults, on_all_harts_together_exactly_every_nth_allocation_fails) {
  Cache* cache = make("shared");
  ASSERT_NE(cache, nullptr);
  const unsigned harts = test::harts();
  constexpr unsigned kEach = 3000;
  constexpr unsigned kEvery = 7;
  std::atomic<unsigned> failed{0};
  test::Barrier barrier(harts);
  test::on_each_hart(harts, [&](unsigned hart) {
    attach_hart(hart);
    EXPECT_EQ(first_failure(*cache, 10), 0U);  // every hart has an open per-hart cache
    barrier.arrive();
    if (hart == 0) {
      EXPECT_EQ(fault::set(*cache, Mode::kEvery, kEvery), Status::kOk);
    }
    barrier.arrive();
    for (unsigned i = 0; i < kEach; ++i) {
      void* object = cache->allocate();
      if (object == nullptr) {
        failed.fetch_add(1);
      } else {
        cache->free(object);
      }
    }
    barrier.arrive();
    if (hart != 0) detach_hart(hart);
  });
  EXPECT_EQ(failed.load(), harts * kEach / kEvery);
  EXPECT_EQ(fault::at(0).counted, harts * kEach);
  EXPECT_EQ(fault::clear(), 1U);
  EXPECT_TRUE(cache->validate());
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(Faults, of_an_arena_fail_its_segments_and_those_of_no_other) {
  Arena first, second;
  ASSERT_EQ(first.initialize({.name = "first", .start = 16, .size = 1600, .quantum = 16}), Status::kOk);
  ASSERT_EQ(second.initialize({.name = "second", .start = 16, .size = 1600, .quantum = 16}), Status::kOk);
  const std::size_t before = first.stats().free;
  EXPECT_EQ(fault::set(first, Mode::kNth, 0), Status::kInvalid);
  ASSERT_EQ(fault::set(first, Mode::kNth, 3), Status::kOk);
  EXPECT_EQ(fault::at(0).of, fault::Of::kArena);
  EXPECT_EQ(fault::at(0).owner, &first);
  std::array<std::uintptr_t, 6> starts{};
  unsigned failed = 0;
  for (std::uintptr_t& start : starts) {
    start = first.allocate(32, Fit::kInstant, nullptr, WaitPolicy::kQuiet);
    failed += start == 0 ? 1 : 0;
    const std::uintptr_t other = second.allocate(32, Fit::kInstant, nullptr, WaitPolicy::kQuiet);
    EXPECT_NE(other, 0U);
    EXPECT_EQ(second.free(other, 32), Status::kOk);
  }
  EXPECT_LE(failed, 1U);  // an arena that tries again after a reclaim succeeds
  EXPECT_EQ(fault::at(0).of, fault::Of::kNothing);
  EXPECT_FALSE(fault::tested());
  for (const std::uintptr_t start : starts) {
    if (start != 0) EXPECT_EQ(first.free(start, 32), Status::kOk);
  }
  ASSERT_EQ(fault::set(first, Mode::kFrom, 1), Status::kOk);
  EXPECT_EQ(first.allocate(32, Fit::kInstant, nullptr, WaitPolicy::kQuiet), 0U);
  EXPECT_EQ(first.allocate(32, Fit::kBest, nullptr, WaitPolicy::kQuiet), 0U);
  EXPECT_EQ(first.stats().free, before);
  EXPECT_TRUE(fault::tested());
  EXPECT_EQ(first.destroy(), Status::kOk);  // and its fault is gone with it
  EXPECT_EQ(fault::at(0).of, fault::Of::kNothing);
  EXPECT_FALSE(fault::tested());
  EXPECT_EQ(second.destroy(), Status::kOk);
}

// Each acquisition in turn: an operation fails or not, and nothing is lost.
TEST_F(Faults, of_all_acquisitions_reach_each_one_until_a_run_sees_none) {
  bool struck = false;
  const auto use = [&struck]() {
    Cache* const cache = make("victim");
    std::array<void*, 100> objects{};
    for (void*& object : objects) {
      if (cache != nullptr) object = cache->allocate(0, WaitPolicy::kQuiet);
    }
    void* const block = heap::allocate_at(nullptr, 20'000, WaitPolicy::kQuiet);
    struck = fault::at(0).of == fault::Of::kNothing || fault::at(0).failed != 0;
    fault::clear();
    heap::free(block);
    for (void* object : objects) {
      if (object != nullptr) cache->free(object);
    }
    if (cache != nullptr) EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  };
  use();  // gives the allocator's own caches their memory
  const std::size_t before = free_bytes();
  for (const Mode mode : {Mode::kNth, Mode::kFrom}) {
    std::uint32_t n = 0;
    do {
      ASSERT_LT(++n, 500U);
      ASSERT_EQ(fault::set_internal(mode, n), Status::kOk);
      use();
      EXPECT_EQ(free_bytes(), before) << n;
    } while (struck);
    EXPECT_GT(n, 4U);
  }
}

}  // namespace alloc_fault_test
