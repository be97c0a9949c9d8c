/// The guarantee and the bound of a cache: the reserve, the limit.

#include "depot_fixture.hpp"

namespace alloc_reserve_test {

using namespace qm;

class ReserveTest : public qm::test::DepotTest {};

// ---- the reserve ----------------------------------------------------------------------------------------------------

TEST_F(ReserveTest, reserved_objects_are_had_when_memory_is_exhausted_and_only_by_who_may_not_wait) {
  restart(512 * 1024);
  Cache* cache = make(96);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(cache->reserve(100), Status::kOk);
  EXPECT_EQ(cache->stats().reserved, 100U);
  EXPECT_EQ(cache->stats().reserve, 100U);
  EXPECT_EQ(cache->stats().in_use, 0U);  // the user does not hold them
  EXPECT_TRUE(cache->validate());
  Cache* other = hoard_memory();
  const std::size_t before = take(*cache, objects.size());  // the free objects of its slabs, and no more
  EXPECT_LT(before, 400U);
  EXPECT_EQ(cache->stats().reserved, 100U);
  {
    const hal::InterruptGuard masked;  // as in an interrupt handler: allocations may not wait
    for (unsigned i = 0; i < 100; ++i) ASSERT_NE(objects[before + i] = cache->allocate(), nullptr) << i;
    EXPECT_EQ(cache->allocate(), nullptr);
  }
  EXPECT_EQ(cache->stats().reserved, 0U);
  EXPECT_EQ(cache->stats().in_use, before + 100);
  EXPECT_TRUE(cache->validate());
  give(*cache, 100);  // frees refill the reserve first, from the hart that has used it
  EXPECT_EQ(cache->stats().reserved, 100U);
  EXPECT_TRUE(cache->validate());
  for (std::size_t i = 100; i < before + 100; ++i) cache->free(objects[i]);
  EXPECT_EQ(cache->stats().in_use, 0U);
  give_hoard(other);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(ReserveTest, an_explicitly_atomic_allocation_draws_on_the_reserve_too) {
  restart(256 * 1024);
  Cache* cache = make(96);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(cache->reserve(5), Status::kOk);
  Cache* other = hoard_memory();
  const std::size_t before = take(*cache, objects.size());
  EXPECT_EQ(take(*cache, objects.size(), WaitPolicy::kAtomic), 5U);
  EXPECT_EQ(cache->stats().in_use, before + 5);
  EXPECT_EQ(cache->stats().reserved, 0U);
  shutdown();  // with live objects
  start(256 * 1024);
  static_cast<void>(other);
}

TEST_F(ReserveTest, a_bulk_free_refills_the_reserve_before_the_magazines) {
  restart(512 * 1024);
  Cache* cache = make(96);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(cache->reserve(20), Status::kOk);
  Cache* other = hoard_memory();
  const std::size_t count = take(*cache, objects.size(), WaitPolicy::kAtomic);
  EXPECT_EQ(cache->stats().reserved, 0U);
  cache->free_bulk(objects.data(), 20);
  EXPECT_EQ(cache->stats().reserved, 20U);
  EXPECT_EQ(cache->stats().in_use, count - 20);
  cache->free_bulk(objects.data() + 20, count - 20);
  EXPECT_EQ(cache->stats().in_use, 0U);
  EXPECT_TRUE(cache->validate());
  give_hoard(other);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(ReserveTest, a_reserve_that_cannot_be_had_is_refused_and_changes_nothing) {
  restart(256 * 1024);
  Cache* cache = make(96);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(cache->reserve(10), Status::kOk);
  const std::size_t free = free_bytes() + tag_bytes();
  EXPECT_EQ(cache->reserve(100000), Status::kNoMemory);
  EXPECT_EQ(cache->stats().reserve, 10U);
  EXPECT_EQ(cache->stats().reserved, 10U);
  EXPECT_EQ(free_bytes() + tag_bytes(), free);
  ASSERT_EQ(cache->reserve(0), Status::kOk);
  EXPECT_EQ(cache->stats().reserved, 0U);
  EXPECT_EQ(cache->stats().objects - cache->stats().in_slabs, 0U);
  ASSERT_EQ(cache->reserve(200), Status::kOk);
  EXPECT_EQ(cache->stats().reserved, 200U);
  ASSERT_EQ(cache->reserve(50), Status::kOk);
  EXPECT_EQ(cache->stats().reserved, 50U);
  EXPECT_TRUE(cache->validate());
  RegistryCursor<Cache> caches;
  EXPECT_EQ(caches.find("kmem_magazine")->reserve(1), Status::kRefused);
  caches.find("depots");
  while (caches.next() != nullptr) {
  }
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);  // returns the reserve
}

TEST_F(ReserveTest, trim_fills_a_reserve_that_frees_on_the_fast_path_have_not) {
  restart(256 * 1024);
  Cache* cache = make(96);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(cache->reserve(30), Status::kOk);
  Cache* other = hoard_memory();
  std::size_t had = take(*cache, objects.size(), WaitPolicy::kAtomic);
  EXPECT_EQ(cache->stats().reserved, 0U);
  give_hoard(other);
  cache->trim();
  EXPECT_EQ(cache->stats().reserved, 30U);
  give(*cache, had);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(ReserveTest, the_next_refill_fills_the_reserve) {
  restart(256 * 1024);
  Cache* cache = make(96);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(cache->reserve(5), Status::kOk);
  Cache* other = hoard_memory();
  std::size_t had = take(*cache, objects.size(), WaitPolicy::kAtomic);
  EXPECT_EQ(cache->stats().reserved, 0U);
  give_hoard(other);
  ASSERT_NE(objects[had++] = cache->allocate(), nullptr);
  EXPECT_EQ(cache->stats().reserved, 5U);
  give(*cache, had);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(ReserveTest, reserved_objects_are_constructed) {
  CacheConfig config;
  config.name = "made";
  config.object_size = 64;
  config.constructor = [](void* object, void*) noexcept {
    *static_cast<unsigned*>(object) = 0xc0de;
    return true;
  };
  Cache* cache = Cache::create(config);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(cache->reserve(20), Status::kOk);
  cache->set_limit(20);  // only the reserve is left
  const std::size_t had = take(*cache, 20, WaitPolicy::kAtomic);
  EXPECT_EQ(had, 20U);
  for (std::size_t i = 0; i < had; ++i) EXPECT_EQ(*static_cast<unsigned*>(objects[i]), 0xc0deU);
  give(*cache, had);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

// ---- the limit ------------------------------------------------------------------------------------------------------

TEST_F(ReserveTest, a_limit_is_exact_and_costs_no_other_allocation_its_memory) {
  Cache* cache = make(64, 50);
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(cache->stats().limit, 50U);
  EXPECT_EQ(take(*cache, 100), 50U);
  EXPECT_EQ(cache->stats().failures, 1U);
  EXPECT_EQ(cache->stats().in_use, 50U);
  cache->free(objects[49]);
  EXPECT_NE(objects[49] = cache->allocate(), nullptr);
  cache->set_limit(60);
  EXPECT_EQ(cache->stats().limit, 60U);
  for (unsigned i = 50; i < 60; ++i) ASSERT_NE(objects[i] = cache->allocate(), nullptr);
  EXPECT_EQ(cache->allocate(), nullptr);
  cache->set_limit(10);  // less than the live objects, which stay
  EXPECT_EQ(cache->allocate(), nullptr);
  give(*cache, 60);
  cache->set_limit(10);  // idle objects beyond the limit are freed
  EXPECT_EQ(take(*cache, 100), 10U);
  cache->set_limit(0);
  EXPECT_EQ(cache->stats().limit, 0U);
  for (unsigned i = 10; i < 200; ++i) ASSERT_NE(objects[i] = cache->allocate(), nullptr);
  give(*cache, 200);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

struct Hook {
  static inline unsigned calls = 0;
  static inline void* victim = nullptr;
  static bool call(Cache& cache, void*) noexcept {
    ++calls;
    if (victim == nullptr) return false;
    cache.free(victim);
    victim = nullptr;
    return true;
  }
};

TEST_F(ReserveTest, the_limits_callback_may_free_an_object_for_the_allocation) {
  Hook::calls = 0;
  Hook::victim = nullptr;
  Cache* cache = make(64, 20, Hook::call);
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(take(*cache, 21), 20U);
  EXPECT_EQ(Hook::calls, 1U);
  Hook::victim = objects[7];
  EXPECT_EQ(objects[7] = cache->allocate(), objects[7]);
  EXPECT_NE(objects[7], nullptr);
  EXPECT_EQ(Hook::calls, 2U);
  EXPECT_EQ(cache->stats().failures, 1U);
  give(*cache, 20);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(ReserveTest, a_limited_cache_fails_without_reclaiming_everybody_elses_idle_memory) {
  Cache* idle = make(256);
  ASSERT_NE(idle, nullptr);
  ASSERT_EQ(take(*idle, 500), 500U);
  give(*idle, 500);
  const std::size_t in_depot = idle->stats().in_depot;
  CacheConfig config;
  config.name = "limited";
  config.object_size = 64;
  config.limit = 5;
  Cache* cache = Cache::create(config);
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(take(*cache, 6), 5U);
  EXPECT_EQ(idle->stats().in_depot, in_depot);
  give(*cache, 5);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
  ASSERT_EQ(Cache::destroy(idle), Status::kOk);
}

}  // namespace alloc_reserve_test
