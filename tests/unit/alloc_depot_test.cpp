/// What stands between the cells and the slabs: magazines that grow and shrink, working sets, bulk, the reserve, the
/// limit.

#include <support/system_fixture.hpp>

#include <array>

#include <qm/boundary_tag.hpp>
#include <qm/test/harts.hpp>

namespace {

using namespace qm;

class DepotTest : public qm::test::SystemTest {
 protected:
  static Cache* make(std::size_t size, std::size_t limit = 0, LimitCallback callback = nullptr) {
    CacheConfig config;
    config.name = "depots";
    config.object_size = size;
    config.limit = limit;
    config.limit_callback = callback;
    return Cache::create(config);
  }
  /// Takes @p count objects, one by one. @returns how many there were.
  static std::size_t take(Cache& cache, std::size_t count, Effort effort = Effort::kAuto) {
    std::size_t had = 0;
    while (had < count && (objects[had] = cache.allocate_at(nullptr, 0, effort)) != nullptr) ++had;
    return had;
  }
  static void give(Cache& cache, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) cache.free(objects[i]);
  }
  /// Uses up all memory with another cache. @returns it, its objects in `hoard`.
  static Cache* hoard_memory() {
    CacheConfig config;
    config.name = "hoard";
    config.object_size = 2048;
    Cache* cache = Cache::create(config);
    hoarded = 0;
    while (cache != nullptr && hoarded < hoard.size() && (hoard[hoarded] = cache->allocate()) != nullptr) ++hoarded;
    return cache;
  }
  static void give_hoard(Cache* cache) {
    for (std::size_t i = 0; i < hoarded; ++i) cache->free(hoard[i]);
    EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  }

  /// Pages that have become boundary tags stay with the pool.
  static std::size_t tag_bytes() { return boundary_tags_stats().pages * 4096; }

  static inline std::array<void*, 8192> objects;
  static inline std::array<void*, 4096> hoard;
  static inline std::size_t hoarded = 0;
};

// ---- magazines ------------------------------------------------------------------------------------------------------

TEST_F(DepotTest, magazines_begin_with_4_KiB_of_objects_at_most) {
  struct Case {
    std::size_t size;
    std::uint32_t rounds;
  };
  for (const Case& one : {Case{8, 13}, Case{256, 13}, Case{320, 7}, Case{1024, 3}, Case{1366, 1}, Case{65536, 1}}) {
    Cache* cache = make(one.size);
    ASSERT_NE(cache, nullptr);
    EXPECT_EQ(cache->stats().magazine_rounds, one.rounds) << one.size;
    ASSERT_EQ(Cache::destroy(cache), Status::kOk);
  }
}

TEST_F(DepotTest, an_operation_makes_a_slab_or_a_magazine_or_fills_what_there_is) {
  Cache* cache = make(64);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(take(*cache, 1), 1U);  // makes a slab
  EXPECT_EQ(cache->stats().slabs, 1U);
  EXPECT_EQ(cache->magazine_harts(), 0U);
  ASSERT_EQ(take(*cache, 1), 1U);  // makes a magazine
  EXPECT_NE(cache->magazine_harts(), 0U);
  EXPECT_EQ(cache->stats().in_magazines, 0U);
  ASSERT_EQ(take(*cache, 1), 1U);  // fills it
  EXPECT_EQ(cache->stats().in_magazines, 12U);
  EXPECT_EQ(cache->stats().misses, 3U);
  ASSERT_EQ(take(*cache, 12), 12U);
  EXPECT_EQ(cache->stats().misses, 3U);
}

TEST_F(DepotTest, magazines_grow_up_to_4_KiB_of_objects_while_a_cache_is_busy_and_shrink_when_it_is_quiet) {
  Cache* cache = make(64);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(take(*cache, 300), 300U);
  EXPECT_EQ(cache->stats().magazine_rounds, 29U);
  give(*cache, 300);
  ASSERT_EQ(take(*cache, 2000), 2000U);
  EXPECT_EQ(cache->stats().magazine_rounds, 61U);
  EXPECT_EQ(cache->stats().slabs, (2000 - 1) / cache->slabs().objects() + 1);  // no slab is made to fill a magazine
  give(*cache, 2000);
  cache->trim();
  EXPECT_EQ(cache->stats().magazine_rounds, 61U);
  for (int i = 0; i < 2; ++i) cache->trim();
  EXPECT_EQ(cache->stats().magazine_rounds, 13U);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
  Cache* large = make(1024);
  ASSERT_NE(large, nullptr);
  ASSERT_EQ(take(*large, 1000), 1000U);
  EXPECT_EQ(large->stats().magazine_rounds, 3U);
  give(*large, 1000);
  ASSERT_EQ(Cache::destroy(large), Status::kOk);
}

TEST_F(DepotTest, waiting_for_the_depot_makes_magazines_larger_and_quiet_makes_them_small_again) {
  Depot depot;
  depot.initialize(64, 0);
  ASSERT_EQ(depot.rounds(), 13U);
  if (test::harts() < 2) return;
  restart(test::kPoolBytes / 2, 2);
  // One hart holds the depot, the other comes to it meanwhile, in lockstep: almost every exchange has to wait.
  constexpr unsigned kRounds = 2000;
  std::atomic<unsigned> held{0};
  std::atomic<unsigned> exchanged{0};
  test::on_each_hart(2, [&](unsigned hart) {
    for (unsigned round = 1; round <= kRounds; ++round) {
      if (hart == 0) {
        const Depot::Hold hold(depot);
        held.store(round);
        const std::uint64_t begun = hal::Port::ticks();
        while (hal::Port::ticks() - begun < hal::Port::tick_rate() / 20000) hal::Port::relax();
      } else {
        while (held.load() < round) hal::Port::relax();
        static_cast<void>(depot.exchange_for_full(nullptr));
        exchanged.store(round);
      }
      while (exchanged.load() < round && hart == 0) hal::Port::relax();
      if (depot.stats().changes == 2) break;
    }
    held.store(kRounds);
    exchanged.store(kRounds);
  });
  EXPECT_EQ(depot.rounds(), 61U);  // 16 KiB hold 61 objects of 64 bytes
  EXPECT_EQ(depot.stats().changes, 2U);
  bool quiet = true;
  static_cast<void>(depot.end_interval(quiet));
  for (unsigned i = 0; i < Depot::kQuietExchanges; ++i) static_cast<void>(depot.exchange_for_full(nullptr));
  static_cast<void>(depot.end_interval(quiet));
  EXPECT_FALSE(quiet);
  const std::uint32_t busy = depot.rounds();  // without contention they stay as they are
  static_cast<void>(depot.end_interval(quiet));
  EXPECT_TRUE(quiet);
  EXPECT_LT(depot.rounds(), busy);
  static_cast<void>(depot.end_interval(quiet));
  EXPECT_EQ(depot.rounds(), 13U);  // what the cache began with
}

TEST_F(DepotTest, magazines_are_bounded_by_the_bytes_of_their_rounds) {
  Depot depot;
  depot.initialize(1024, 0);
  EXPECT_EQ(depot.rounds(), 3U);
  Depot wished;
  wished.initialize(1024, 20);
  EXPECT_EQ(wished.rounds(), 29U);
}

TEST_F(DepotTest, a_magazine_of_another_size_is_replaced_once_it_comes_to_the_depot_empty) {
  CacheConfig config;
  config.name = "resized";
  config.object_size = 64;
  config.magazine_rounds = 61;
  Cache* large = Cache::create(config);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(large->stats().magazine_rounds, 61U);
  ASSERT_EQ(take(*large, 400), 400U);
  give(*large, 400);
  EXPECT_EQ(large->stats().in_magazines + large->stats().in_depot, large->stats().objects - large->stats().in_slabs);
  EXPECT_GE(large->stats().depot_full, Depot::kLeastKept);
  ASSERT_EQ(Cache::destroy(large), Status::kOk);
}

/// Rounds of the first magazines of a cache for 64 bytes.
constexpr std::size_t kFirst = 13;

TEST_F(DepotTest, what_is_freed_in_bulk_and_not_missed_goes_back_to_the_slabs) {
  Cache* cache = make(64);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(take(*cache, 2000), 2000U);
  give(*cache, 2000);
  const CacheStats stats = cache->stats();
  EXPECT_LT(stats.in_depot, Depot::kLeastKept * kFirst + stats.magazine_rounds);
  EXPECT_LE(stats.in_magazines, 2 * stats.magazine_rounds);
  EXPECT_LE(stats.slabs, 6U);
  EXPECT_TRUE(cache->validate());
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(DepotTest, what_is_missed_again_and_again_is_kept_up_to_a_bound) {
  Cache* cache = make(64);
  ASSERT_NE(cache, nullptr);
  for (unsigned i = 0; i < 8; ++i) {
    ASSERT_EQ(take(*cache, 256), 256U);
    give(*cache, 256);
  }
  EXPECT_GE(cache->stats().in_depot + cache->stats().in_magazines, 256U);
  const std::size_t misses = cache->slabs().stats().taken_ever;
  ASSERT_EQ(take(*cache, 256), 256U);
  give(*cache, 256);
  EXPECT_EQ(cache->slabs().stats().taken_ever, misses);  // with QM_COUNT: no object goes to the slabs any more
  for (unsigned i = 0; i < 40; ++i) {
    ASSERT_EQ(take(*cache, 2000), 2000U);
    give(*cache, 2000);
  }
  EXPECT_GE(cache->stats().in_depot, Depot::kMostKept * kFirst);
  EXPECT_LT(cache->stats().in_depot, Depot::kMostKept * kFirst + cache->stats().magazine_rounds);
  EXPECT_TRUE(cache->validate());
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(DepotTest, trim_gives_back_what_an_interval_did_not_use_and_nothing_else) {
  Cache* cache = make(64);
  ASSERT_NE(cache, nullptr);
  for (unsigned i = 0; i < 40; ++i) {
    ASSERT_EQ(take(*cache, 2000), 2000U);
    give(*cache, 2000);
  }
  const CacheStats peak = cache->stats();
  EXPECT_GE(peak.in_depot, Depot::kMostKept * kFirst);
  cache->trim();  // the interval of the peak: at its beginning there was nothing
  EXPECT_EQ(cache->stats().in_depot, peak.in_depot);
  for (unsigned i = 0; i < 4; ++i) {  // an interval that uses 300 objects
    ASSERT_EQ(take(*cache, 300), 300U);
    give(*cache, 300);
  }
  EXPECT_GT(cache->trim(), 0U);
  const CacheStats after = cache->stats();
  EXPECT_LE(after.in_depot + after.in_magazines, 300U + 2 * 61);
  EXPECT_GE(after.in_depot + after.in_magazines,
            300U - 61);  // its working set is still there, but for what one refill takes
  EXPECT_TRUE(cache->validate());
  for (unsigned i = 0; i < 3; ++i) cache->trim();
  EXPECT_EQ(cache->stats().depot_full, 0U);
  EXPECT_EQ(cache->stats().depot_empty, 0U);
  EXPECT_LE(cache->stats().slabs, 4U);  // under what lies in this hart's magazines
  ASSERT_EQ(take(*cache, 2000), 2000U);
  give(*cache, 2000);
  EXPECT_LT(cache->stats().in_depot,
            Depot::kLeastKept * kFirst + cache->stats().magazine_rounds);  // what it had learned is forgotten
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(DepotTest, trim_of_everything_brings_an_idle_system_back_to_its_size) {
  Cache* cache = make(200);
  ASSERT_NE(cache, nullptr);
  const std::size_t before = base_arena().stats().free;
  for (unsigned i = 0; i < 40; ++i) {
    ASSERT_EQ(take(*cache, 3000), 3000U);
    give(*cache, 3000);
  }
  const std::size_t busy = base_arena().stats().free;
  EXPECT_LT(busy, before - 100000);
  for (unsigned i = 0; i < 6; ++i) trim();
  EXPECT_GT(base_arena().stats().free, busy + 50000);
  EXPECT_GT(base_arena().stats().free, before - 6 * 32768);  // each page still in use may keep its slab of eight
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

// ---- bulk -----------------------------------------------------------------------------------------------------------

TEST_F(DepotTest, bulk_takes_and_gives_what_single_calls_would) {
  Cache* cache = make(48);
  ASSERT_NE(cache, nullptr);
  for (const std::size_t count : {0U, 1U, 15U, 16U, 17U, 100U, 1000U}) {
    ASSERT_EQ(cache->allocate_bulk(objects.data(), count), count);
    EXPECT_EQ(cache->stats().in_use, count);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_NE(objects[i], nullptr);
      *static_cast<std::size_t*>(objects[i]) = i;
    }
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(*static_cast<std::size_t*>(objects[i]), i);  // none twice
    cache->free_bulk(objects.data(), count);
    EXPECT_EQ(cache->stats().in_use, 0U);
    EXPECT_TRUE(cache->validate());
  }
  if (kCounted) {
    EXPECT_EQ(cache->stats().allocations, 1149U);
  }
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(DepotTest, bulk_stops_where_memory_ends_and_counts_one_failure) {
  restart(256 * 1024);
  Cache* cache = make(1000);
  ASSERT_NE(cache, nullptr);
  const std::size_t had = cache->allocate_bulk(objects.data(), objects.size());
  EXPECT_GT(had, 100U);
  EXPECT_LT(had, 256U);
  EXPECT_EQ(cache->stats().in_use, had);
  EXPECT_EQ(cache->stats().failures, 1U);
  cache->free_bulk(objects.data(), had);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(DepotTest, bulk_free_leaves_out_what_is_no_object) {
  Cache* cache = make(48);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(cache->allocate_bulk(objects.data(), 40), 40U);
  void* const spoiled = objects[20];
  objects[20] = nullptr;
  cache->free_bulk(objects.data(), 40);
  EXPECT_EQ(cache->stats().misuses, 1U);
  EXPECT_EQ(cache->stats().in_use, 1U);
  cache->free(spoiled);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

// ---- the reserve ----------------------------------------------------------------------------------------------------

TEST_F(DepotTest, reserved_objects_are_had_when_memory_is_exhausted_and_only_by_who_may_not_wait) {
  restart(512 * 1024);
  Cache* cache = make(96);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(cache->reserve(100), Status::kOk);
  EXPECT_EQ(cache->stats().reserved, 100U);
  EXPECT_EQ(cache->stats().reserve, 100U);
  EXPECT_EQ(cache->stats().in_use, 0U);  // they are not the user's
  EXPECT_TRUE(cache->validate());
  Cache* other = hoard_memory();
  const std::size_t before = take(*cache, objects.size());  // what its slabs still had, and no more
  EXPECT_LT(before, 400U);
  EXPECT_EQ(cache->stats().reserved, 100U);
  {
    const hal::InterruptGuard masked;  // as in an interrupt handler: it may not wait
    for (unsigned i = 0; i < 100; ++i) ASSERT_NE(objects[before + i] = cache->allocate(), nullptr) << i;
    EXPECT_EQ(cache->allocate(), nullptr);
  }
  EXPECT_EQ(cache->stats().reserved, 0U);
  EXPECT_EQ(cache->stats().in_use, before + 100);
  EXPECT_TRUE(cache->validate());
  give(*cache, 100);  // frees go to the reserve first, from the hart that has drawn upon it
  EXPECT_EQ(cache->stats().reserved, 100U);
  EXPECT_TRUE(cache->validate());
  for (std::size_t i = 100; i < before + 100; ++i) cache->free(objects[i]);
  EXPECT_EQ(cache->stats().in_use, 0U);
  give_hoard(other);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(DepotTest, an_explicitly_atomic_allocation_draws_on_the_reserve_too) {
  restart(256 * 1024);
  Cache* cache = make(96);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(cache->reserve(5), Status::kOk);
  Cache* other = hoard_memory();
  const std::size_t before = take(*cache, objects.size());
  EXPECT_EQ(take(*cache, objects.size(), Effort::kAtomic), 5U);
  EXPECT_EQ(cache->stats().in_use, before + 5);
  EXPECT_EQ(cache->stats().reserved, 0U);
  shutdown();  // with objects out
  start(256 * 1024);
  static_cast<void>(other);
}

TEST_F(DepotTest, a_reserve_that_cannot_be_had_is_refused_and_changes_nothing) {
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
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);  // gives the reserve back
}

TEST_F(DepotTest, trim_fills_a_reserve_that_frees_on_the_fast_path_have_not) {
  restart(256 * 1024);
  Cache* cache = make(96);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(cache->reserve(30), Status::kOk);
  Cache* other = hoard_memory();
  std::size_t had = take(*cache, objects.size(), Effort::kAtomic);
  EXPECT_EQ(cache->stats().reserved, 0U);
  give_hoard(other);
  cache->trim();
  EXPECT_EQ(cache->stats().reserved, 30U);
  give(*cache, had);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(DepotTest, the_next_refill_fills_the_reserve) {
  restart(256 * 1024);
  Cache* cache = make(96);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(cache->reserve(5), Status::kOk);
  Cache* other = hoard_memory();
  std::size_t had = take(*cache, objects.size(), Effort::kAtomic);
  EXPECT_EQ(cache->stats().reserved, 0U);
  give_hoard(other);
  ASSERT_NE(objects[had++] = cache->allocate(), nullptr);
  EXPECT_EQ(cache->stats().reserved, 5U);
  give(*cache, had);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(DepotTest, reserved_objects_are_constructed) {
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
  cache->set_limit(20);  // nothing but the reserve is left
  const std::size_t had = take(*cache, 20, Effort::kAtomic);
  EXPECT_EQ(had, 20U);
  for (std::size_t i = 0; i < had; ++i) EXPECT_EQ(*static_cast<unsigned*>(objects[i]), 0xc0deU);
  give(*cache, had);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

// ---- the limit ------------------------------------------------------------------------------------------------------

TEST_F(DepotTest, a_limit_is_exact_and_costs_no_other_allocation_its_memory) {
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
  cache->set_limit(10);  // less than are out: they stay
  EXPECT_EQ(cache->allocate(), nullptr);
  give(*cache, 60);
  cache->set_limit(10);  // idle objects beyond it go
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

TEST_F(DepotTest, the_limits_callback_may_free_an_object_for_the_allocation) {
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

TEST_F(DepotTest, a_limited_cache_fails_without_reclaiming_everybody_elses_idle_memory) {
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

// ---- counts ---------------------------------------------------------------------------------------------------------

TEST_F(DepotTest, caches_without_magazines_count_what_their_slabs_have_handed_out) {
  Cache* cache = make(64);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(take(*cache, 500), 500U);
  give(*cache, 500);
  const std::uintptr_t page = page_arena().allocate(SlabLayer::kPageBytes);  // a header of a no-touch slab
  ASSERT_EQ(page_arena().free(page, SlabLayer::kPageBytes), Status::kOk);
  RegistryCursor<Cache> caches;
  for (const char* name : {"kmem_slab", "kmem_magazine", "kmem_cache"}) {
    const CacheStats stats = caches.find(name)->stats();
    EXPECT_EQ(stats.counted, kCounted);
    if (!kCounted) continue;
    EXPECT_GE(stats.allocations, stats.in_use) << name;
    EXPECT_GT(stats.allocations, 0U) << name;
  }
  while (caches.next() != nullptr) {
  }
  EXPECT_EQ(cache->stats().counted, kCounted);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

}  // namespace
