// Arenas with quantum caches, and caches of identifiers over arenas.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <qm/arena.hpp>
#include <qm/cache.hpp>

#include "support/system_fixture.hpp"

namespace qm {
namespace alloc_arena_quantum_test {

class ArenaQuantum : public test::SystemTest {
 protected:
  void TearDown() override {
    // The totals must be correct: every page has been freed, except those of boundary tags.
    EXPECT_TRUE(base_arena().validate());
    SystemTest::TearDown();
  }

  /// Allocates @p count segments of each of @p sizes, frees them, and expects starts that are multiples of the quantum.
  static void use(Arena& arena, const std::size_t* sizes, std::size_t size_count, std::size_t count) {
    std::uintptr_t starts[16];
    for (std::size_t s = 0; s < size_count; ++s) {
      for (std::size_t i = 0; i < count; ++i) {
        starts[i] = arena.allocate(sizes[s]);
        ASSERT_NE(starts[i], 0U);
        EXPECT_EQ(starts[i] % arena.quantum(), 0U);
        for (std::size_t other = 0; other < i; ++other) {
          EXPECT_TRUE(starts[i] >= starts[other] + sizes[s] || starts[other] >= starts[i] + sizes[s]);
        }
      }
      for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(arena.free(starts[i], sizes[s]), Status::kOk);
    }
  }
};

TEST_F(ArenaQuantum, small_multiples_come_from_caches) {
  Arena ids;
  ASSERT_EQ(ids.initialize({.name = "ids", .start = 1, .size = 10000, .quantum = 1, .quantum_cache_max = 3}),
            Status::kOk);
  const std::size_t sizes[] = {1, 2, 3, 4};
  use(ids, sizes, 4, 1);
  RegistryCursor<Cache> caches;
  for (const char* name : {"ids_1", "ids_2", "ids_3"}) EXPECT_NE(caches.find(name), nullptr) << name;
  EXPECT_EQ(caches.find("ids_4"), nullptr);
  EXPECT_EQ(ids.stats().allocations_ever - ids.stats().frees_ever, ids.stats().segments_allocated);
  EXPECT_TRUE(ids.validate());
  const std::uintptr_t kept = ids.allocate(2);
  EXPECT_EQ(ids.destroy(), Status::kBusy);
  EXPECT_EQ(ids.free(kept, 2), Status::kOk);
  const std::uintptr_t again = ids.allocate(3);  // a refused destroy has changed nothing
  EXPECT_NE(again, 0U);
  EXPECT_EQ(ids.free(again, 3), Status::kOk);
  EXPECT_EQ(ids.destroy(), Status::kOk);
  EXPECT_EQ(caches.find("ids_1"), nullptr);
}

TEST_F(ArenaQuantum, a_segment_behind_a_cache_is_not_freed_by_its_start) {
  Arena ids;
  ASSERT_EQ(ids.initialize({.name = "ids", .start = 1, .size = 10000, .quantum = 1, .quantum_cache_max = 3}),
            Status::kOk);
  std::uintptr_t held[64];
  for (std::uintptr_t& start : held) start = ids.allocate(1);
  // One of these is the start of a slab, which is a segment of the arena itself.
  for (const std::uintptr_t start : held) EXPECT_EQ(ids.free(start), Status::kNotFound);
  for (const std::uintptr_t start : held) EXPECT_EQ(ids.free_constrained(start, 1), Status::kNotFound);
  for (const std::uintptr_t start : held) EXPECT_EQ(ids.free(start, 1), Status::kOk);
  EXPECT_TRUE(ids.validate());
  EXPECT_EQ(ids.destroy(), Status::kOk);
}

TEST_F(ArenaQuantum, a_bad_free_of_a_size_that_a_cache_serves_is_refused) {
  Arena ids;
  ASSERT_EQ(ids.initialize({.name = "ids", .start = 1, .size = 10000, .quantum = 1, .quantum_cache_max = 3}),
            Status::kOk);
  const std::uintptr_t one = ids.allocate(1);
  const std::uintptr_t two = ids.allocate(2);
  const std::uintptr_t large = ids.allocate(10);
  ASSERT_TRUE(one != 0 && two != 0 && large != 0);
  EXPECT_EQ(ids.free(20000, 1), Status::kNotFound);
  EXPECT_EQ(ids.free(two + 1, 2), Status::kNotFound);
  EXPECT_EQ(ids.free(one, 2), Status::kMismatch);
  EXPECT_EQ(ids.free(two, 1), Status::kMismatch);
  EXPECT_EQ(ids.free(large, 3), Status::kNotFound);
  EXPECT_EQ(ids.stats().bad_frees, 5U);
  EXPECT_EQ(ids.free(one, 1), Status::kOk);
  reclaim();  // afterwards the object is in its slab, or the slab is gone
  EXPECT_EQ(ids.free(one, 1), Status::kNotFound);
  EXPECT_EQ(ids.free(two, 2), Status::kOk);
  EXPECT_EQ(ids.free(large, 10), Status::kOk);
  EXPECT_TRUE(ids.validate());
  EXPECT_EQ(ids.destroy(), Status::kOk);
}

TEST_F(ArenaQuantum, a_second_free_that_follows_the_first_is_refused_at_once) {
  Arena ids;
  ASSERT_EQ(ids.initialize({.name = "ids", .start = 1, .size = 10000, .quantum = 1, .quantum_cache_max = 3}),
            Status::kOk);
  // Enough to fill magazines, so that the last freed ones lie in the first, in one of the depot's, and in a new one.
  std::uintptr_t held[200];
  for (std::uintptr_t& start : held) start = ids.allocate(2);
  unsigned refused = 0;
  for (const std::uintptr_t start : held) {
    EXPECT_EQ(ids.free(start, 2), Status::kOk);
    EXPECT_EQ(ids.free(start, 2), Status::kNotFound) << start;
    EXPECT_EQ(ids.stats().bad_frees, ++refused);
  }
  EXPECT_TRUE(ids.validate());
  EXPECT_EQ(ids.destroy(), Status::kOk);
}

TEST_F(ArenaQuantum, there_are_sixteen_caches_at_most) {
  static_assert(kMostQuantumCaches == 16);
  Arena ids;
  EXPECT_EQ(ids.initialize({.name = "ids", .start = 1, .size = 1000, .quantum = 2, .quantum_cache_max = 34}),
            Status::kInvalid);
  EXPECT_EQ(ids.initialize({.name = "ids", .start = 1, .size = 1000, .quantum = 2, .quantum_cache_max = 32}),
            Status::kOk);
  const std::uintptr_t start = ids.allocate(32);
  EXPECT_NE(start, 0U);
  EXPECT_EQ(ids.free(start, 32), Status::kOk);
  EXPECT_EQ(ids.destroy(), Status::kOk);
}

TEST_F(ArenaQuantum, the_names_of_the_caches_fit_behind_that_of_the_arena) {
  char name[kNameBytes] = {};
  std::memset(name, 'a', kNameBytes - 1);
  Arena ids;
  // `_9` follows the name. A refusal leaves nothing behind.
  const auto create = [&] {
    return ids.initialize({.name = name, .start = 1, .size = 1000, .quantum = 9, .quantum_cache_max = 9});
  };
  EXPECT_EQ(create(), Status::kInvalid);
  name[kNameBytes - 2] = 0;
  EXPECT_EQ(create(), Status::kInvalid);
  name[kNameBytes - 3] = 0;
  ASSERT_EQ(create(), Status::kOk);
  name[kNameBytes - 3] = '_';
  name[kNameBytes - 2] = '9';
  EXPECT_NE(RegistryCursor<Cache>().find(name), nullptr);
  EXPECT_EQ(ids.destroy(), Status::kOk);
}

unsigned misuses;
void count_misuse(const MisuseReport&) noexcept { ++misuses; }

TEST_F(ArenaQuantum, a_constrained_segment_given_to_a_quantum_cache_is_reported_and_stays_allocated) {
  Arena ids;
  ASSERT_EQ(ids.initialize({.name = "ids", .start = 1, .size = 10000, .quantum = 1, .quantum_cache_max = 3}),
            Status::kOk);
  misuses = 0;
  set_misuse_handler(count_misuse);
  const std::uintptr_t start = ids.allocate_constrained(2, {.min = 5000});
  ASSERT_EQ(start, 5000U);
  EXPECT_EQ(ids.free(start, 2), Status::kNotFound);  // free_constrained() is the right function
  reclaim();
  EXPECT_EQ(misuses, 1U);
  EXPECT_TRUE(ids.validate());
  EXPECT_EQ(ids.size_of(start), 2U);
  EXPECT_EQ(ids.free_constrained(start, 2), Status::kOk);
  set_misuse_handler(nullptr);
  EXPECT_EQ(ids.destroy(), Status::kOk);
}

TEST_F(ArenaQuantum, an_importer_draws_from_a_source_with_caches_by_any_fit) {
  Arena from;
  Arena to;
  ASSERT_EQ(from.initialize({.name = "from", .start = 64, .size = 65536, .quantum = 64, .quantum_cache_max = 256}),
            Status::kOk);
  ASSERT_EQ(to.initialize({.name = "to", .quantum = 16, .source = &from}), Status::kOk);
  const std::uintptr_t next = to.allocate(16, Fit::kNext);
  const std::uintptr_t constrained = to.allocate_constrained(64, {.align = 64, .nocross = 64}, Fit::kNext);
  const std::uintptr_t large = to.allocate(1000, Fit::kNext);
  EXPECT_NE(next, 0U);
  EXPECT_NE(constrained, 0U);
  EXPECT_NE(large, 0U);
  EXPECT_EQ(to.free(next, 16), Status::kOk);
  EXPECT_EQ(to.free_constrained(constrained, 64), Status::kOk);
  EXPECT_EQ(to.free(large, 1000), Status::kOk);
  EXPECT_TRUE(to.validate() && from.validate());
  EXPECT_EQ(to.destroy(), Status::kOk);
  EXPECT_EQ(from.destroy(), Status::kOk);
}

TEST_F(ArenaQuantum, caches_of_identifiers_and_of_aligned_bytes) {
  Arena from;
  ASSERT_EQ(from.initialize({.name = "from", .start = 7, .size = 70000, .quantum = 7}), Status::kOk);
  CacheConfig config;
  config.name = "pairs";
  config.object_size = 14;
  config.alignment = 1;
  config.flags = cache_flags::kNoTouch;
  config.source = &from;
  Cache* pairs = Cache::create(config);
  ASSERT_NE(pairs, nullptr);
  EXPECT_EQ(from.destroy(), Status::kBusy);
  void* held[3];
  for (void*& object : held) {
    object = pairs->allocate();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(object) % 7, 0U);
  }
  for (void* object : held) pairs->free(object);
  EXPECT_EQ(Cache::destroy(pairs), Status::kOk);
  EXPECT_EQ(from.stats().free, from.stats().total);
  EXPECT_EQ(from.destroy(), Status::kOk);
  config = {};
  config.name = "bytes";
  config.object_size = 1;
  config.alignment = 16;
  config.flags = cache_flags::kNoTouch;
  Cache* bytes = Cache::create(config);
  ASSERT_NE(bytes, nullptr);
  for (void*& object : held) {
    object = bytes->allocate();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(object) % 16, 0U);
  }
  for (void* object : held) bytes->free(object);
  EXPECT_EQ(Cache::destroy(bytes), Status::kOk);
}

TEST_F(ArenaQuantum, ten_thousand_arenas_come_and_go) {
  // Tags stay in the pool, so the first rounds may add a page of them.
  std::size_t free_before = 0;
  for (unsigned round = 0; round < 10'000; ++round) {
    if (round == 100) free_before = free_bytes();
    Arena arena;
    ASSERT_EQ(arena.initialize({.name = "transient", .quantum = 64, .source = &page_arena()}), Status::kOk);
    const std::uintptr_t start = arena.allocate(100);
    ASSERT_NE(start, 0U);
    ASSERT_EQ(arena.free(start, 100), Status::kOk);
    ASSERT_EQ(arena.destroy(), Status::kOk);
  }
  EXPECT_EQ(free_bytes(), free_before);
}

}  // namespace alloc_arena_quantum_test
}  // namespace qm
