// An arena never touches the memory at its values. Here the values are addresses that fault when read or written:
// memory of the host that is mapped without access.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/test/seed.hpp>

#include "support/system_fixture.hpp"

namespace qm {
namespace alloc_arena_reserved_test {

class ArenaReserved : public test::SystemTest {
 protected:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kBytes = 1024 * kPage;

  void SetUp() override {
    SystemTest::SetUp();
    void* range = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(range, MAP_FAILED);
    range_ = reinterpret_cast<std::uintptr_t>(range);
    ASSERT_EQ(
        device_.initialize(
            {.name = "device", .start = range_, .size = kBytes, .quantum = kPage, .quantum_cache_max = 4 * kPage}),
        Status::kOk);
  }
  void TearDown() override {
    EXPECT_TRUE(device_.validate());
    EXPECT_EQ(device_.destroy(), Status::kOk);
    EXPECT_EQ(munmap(reinterpret_cast<void*>(range_), kBytes), 0);
    SystemTest::TearDown();
  }

  /// Random allocations of all kinds, and their frees.
  static void churn(Arena& arena, std::size_t unit) {
    struct Held {
      std::uintptr_t start;
      std::size_t size;
      bool constrained;
    } held[32] = {};
    test::Random random;
    for (unsigned step = 0; step < 5000; ++step) {
      Held& one = held[random.below(32)];
      if (one.start != 0) {
        EXPECT_EQ(one.constrained ? arena.free_constrained(one.start, one.size) : arena.free(one.start, one.size),
                  Status::kOk);
        one.start = 0;
        continue;
      }
      one.size = random.between(1, 16) * unit;
      one.constrained = random.chance(30);
      one.start = one.constrained ? arena.allocate_constrained(one.size, {.align = 4 * unit, .nocross = 64 * unit})
                                  : arena.allocate(one.size, static_cast<Fit>(random.below(3)));
      ASSERT_NE(one.start, 0U);
      if (one.constrained && arena.resize_in_place(one.start, one.size, one.size + unit) == Status::kOk)
        one.size += unit;
    }
    for (const Held& one : held) {
      if (one.start == 0) continue;
      EXPECT_EQ(one.constrained ? arena.free_constrained(one.start, one.size) : arena.free(one.start, one.size),
                Status::kOk);
    }
    EXPECT_TRUE(arena.validate());
  }

  Arena device_;
  std::uintptr_t range_ = 0;
};

TEST_F(ArenaReserved, segments_and_quantum_caches_of_a_range_that_faults) { churn(device_, kPage); }

TEST_F(ArenaReserved, an_importer_over_a_range_that_faults) {
  Arena importer;
  ASSERT_EQ(importer.initialize({.name = "importer", .quantum = 64, .source = &device_, .quantum_cache_max = 256}),
            Status::kOk);
  churn(importer, 64);
  EXPECT_EQ(importer.destroy(), Status::kOk);
}

TEST_F(ArenaReserved, a_no_touch_cache_over_a_range_that_faults) {
  CacheConfig config;
  config.name = "descriptors";
  config.object_size = 96;
  config.alignment = 32;
  config.flags = cache_flags::kNoTouch;
  config.source = &device_;
  Cache* cache = Cache::create(config);
  ASSERT_NE(cache, nullptr);
  static void* objects[2000];
  for (void*& object : objects) {
    object = cache->allocate();
    ASSERT_NE(object, nullptr);
    ASSERT_LT(reinterpret_cast<std::uintptr_t>(object) - range_, kBytes);
  }
  for (void* object : objects) cache->free(object);
  cache->reap();
  EXPECT_TRUE(cache->validate());
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

}  // namespace alloc_arena_reserved_test
}  // namespace qm
