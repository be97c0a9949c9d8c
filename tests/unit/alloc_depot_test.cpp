/// The level between the per-hart caches and the slabs: magazines that grow and shrink, working sets, bulk moves.

#include "depot_fixture.hpp"

#include <qm/test/harts.hpp>

namespace alloc_depot_test {

using namespace qm;
using qm::test::DepotTest;

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
  ASSERT_EQ(take(*cache, 1), 1U);  // creates a slab
  EXPECT_EQ(cache->stats().slabs, 1U);
  EXPECT_EQ(cache->magazine_harts(), 0U);
  ASSERT_EQ(take(*cache, 1), 1U);  // creates a magazine
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
  EXPECT_EQ(cache->stats().slabs, (2000 - 1) / cache->slabs().objects() + 1);  // no slab is created to fill a magazine
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
  // One hart holds the depot's lock when the other comes to the depot, in lockstep: almost every exchange waits.
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
  const std::uint32_t busy = depot.rounds();  // without contention the capacity stays the same
  static_cast<void>(depot.end_interval(quiet));
  EXPECT_TRUE(quiet);
  EXPECT_LT(depot.rounds(), busy);
  static_cast<void>(depot.end_interval(quiet));
  EXPECT_EQ(depot.rounds(), 13U);  // the first capacity of the cache
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
  EXPECT_GE(large->stats().depot_full, Depot::kLeastWorkingSet);
  ASSERT_EQ(Cache::destroy(large), Status::kOk);
}

/// Capacity in objects of the first magazines of a cache for 64 bytes.
constexpr std::size_t kFirst = 13;

TEST_F(DepotTest, what_is_freed_in_bulk_and_not_missed_goes_back_to_the_slabs) {
  Cache* cache = make(64);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(take(*cache, 2000), 2000U);
  give(*cache, 2000);
  const CacheStats stats = cache->stats();
  EXPECT_LT(stats.in_depot, Depot::kLeastWorkingSet * kFirst + stats.magazine_rounds);
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
  EXPECT_GE(cache->stats().in_depot, Depot::kMostWorkingSet * kFirst);
  EXPECT_LT(cache->stats().in_depot, Depot::kMostWorkingSet * kFirst + cache->stats().magazine_rounds);
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
  EXPECT_GE(peak.in_depot, Depot::kMostWorkingSet * kFirst);
  cache->trim();  // the interval of the peak: at its beginning the depot was empty
  EXPECT_EQ(cache->stats().in_depot, peak.in_depot);
  for (unsigned i = 0; i < 4; ++i) {  // an interval that uses 300 objects
    ASSERT_EQ(take(*cache, 300), 300U);
    give(*cache, 300);
  }
  EXPECT_GT(cache->trim(), 0U);
  const CacheStats after = cache->stats();
  EXPECT_LE(after.in_depot + after.in_magazines, 300U + 2 * 61);
  EXPECT_GE(after.in_depot + after.in_magazines,
            300U - 61);  // its working set remains, except the objects that one refill allocates
  EXPECT_TRUE(cache->validate());
  for (unsigned i = 0; i < 3; ++i) cache->trim();
  EXPECT_EQ(cache->stats().depot_full, 0U);
  EXPECT_EQ(cache->stats().depot_empty, 0U);
  EXPECT_LE(cache->stats().slabs, 8U);  // of 33: those with objects in this hart's magazines
  ASSERT_EQ(take(*cache, 2000), 2000U);
  give(*cache, 2000);
  EXPECT_LT(cache->stats().in_depot,
            Depot::kLeastWorkingSet * kFirst + cache->stats().magazine_rounds);  // the working set begins small again
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
  EXPECT_GT(base_arena().stats().free, before - 6 * 32768);  // each page in use may keep a slab with eight parts
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(DepotTest, trim_frees_the_empty_magazines_that_were_not_needed) {
  Cache* cache = make(48);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(take(*cache, 3000), 3000U);
  give(*cache, 3000);
  ASSERT_EQ(take(*cache, 3000), 3000U);
  EXPECT_EQ(cache->stats().depot_empty, 1U);
  trim();
  EXPECT_EQ(cache->stats().depot_empty, 1U);  // it belongs to the working set of the interval that ends here
  trim();
  EXPECT_EQ(cache->stats().depot_empty, 0U);
  give(*cache, 3000);
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

}  // namespace alloc_depot_test
