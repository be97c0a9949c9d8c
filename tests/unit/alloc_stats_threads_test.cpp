/// Statistics read while other harts allocate: never torn, never below zero. Akaros reads its counters without a lock.

#include <support/system_fixture.hpp>

#include <array>

#include <qm/test/harts.hpp>

namespace alloc_stats_threads_test {

using namespace qm;

class StatsThreads : public test::SystemTest {};

TEST_F(StatsThreads, add_up_at_every_moment) {
  const unsigned harts = test::harts();
  restart(test::kPoolBytes, harts);
  CacheConfig config;
  config.name = "packet";
  config.object_size = 200;
  Cache* cache = Cache::create(config);
  ASSERT_NE(cache, nullptr);
  Arena blocks;
  ArenaConfig arena;
  arena.name = "blocks";
  arena.quantum = 256;
  arena.source = &page_arena();
  ASSERT_EQ(blocks.initialize(arena), Status::kOk);
  test::on_each_hart(harts, [&](unsigned hart) {
    if (hart != 0) attach_hart(hart);
    std::array<void*, 60> mine{};
    std::array<std::uintptr_t, 20> segments{};
    for (unsigned turn = 0; turn < 12000; ++turn) {
      void*& slot = mine[turn * 7 % mine.size()];
      if (slot != nullptr) cache->free(slot);
      slot = turn % 3 != 0 ? cache->allocate() : nullptr;
      std::uintptr_t& segment = segments[turn * 3 % segments.size()];
      if (segment != 0) blocks.free(segment, 1000);
      segment = turn % 2 != 0 ? blocks.allocate(1000) : 0;
      if (hart != 0 || turn % 8 != 0) continue;
      for (Arena* one : {&blocks, &base_arena(), &page_arena()}) {
        const ArenaStats stats = one->stats();
        ASSERT_EQ(stats.total, stats.allocated + stats.free);
        ASSERT_LE(stats.largest_free, stats.free);
        ASSERT_LE(stats.allocated, stats.high_water);
        ASSERT_LE(stats.idle, stats.free);
      }
      const CacheStats stats = cache->stats();
      // Each hart's magazines are read one after another, so an object may be counted in two of them or in none; the
      // slab layer's counts are one consistent reading.
      ASSERT_LE(stats.in_use, stats.objects);
      ASSERT_LE(stats.in_slabs, stats.objects);
      ASSERT_LE(stats.objects - stats.in_slabs, stats.high_water);
    }
    for (void* object : mine) {
      if (object != nullptr) cache->free(object);
    }
    for (const std::uintptr_t segment : segments) {
      if (segment != 0) blocks.free(segment, 1000);
    }
    if (hart != 0) detach_hart(hart);
  });
  EXPECT_EQ(cache->stats().in_use, 0U);
  EXPECT_EQ(blocks.stats().allocated, 0U);
  EXPECT_EQ(blocks.destroy(), Status::kOk);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

}  // namespace alloc_stats_threads_test
