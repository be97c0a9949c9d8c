// The portable checks of arenas: the behaviour of any arena in the manner of vmem, each check written from the fact
// that it asserts. Akaros's kernel tests assert the same facts; Akaros itself fails number 8. Values are integers
// without memory behind them, except where a test says "memory".

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include <qm/arena.hpp>
#include <qm/cache.hpp>

#include "support/system_fixture.hpp"

namespace qm {
namespace alloc_arena_akaros_test {

/// An arena over a complete allocator, which quantum caches and caches of identifiers need.
class ArenaChecks : public test::SystemTest {
 protected:
  void TearDown() override {
    if (arena_.name()[0] != 0) {
      EXPECT_TRUE(arena_.validate());
      EXPECT_EQ(arena_.destroy(), Status::kOk);
    }
    EXPECT_TRUE(base_arena().validate());
    SystemTest::TearDown();
  }
  void make(std::size_t quantum, std::uintptr_t start, std::size_t size, std::size_t quantum_cache_max = 0) {
    ASSERT_EQ(
        arena_.initialize(
            {.name = "test", .start = start, .size = size, .quantum = quantum, .quantum_cache_max = quantum_cache_max}),
        Status::kOk);
  }
  void add(std::uintptr_t start, std::size_t size) { ASSERT_EQ(arena_.add(start, size), Status::kOk); }
  void free(std::uintptr_t start, std::size_t size) { EXPECT_EQ(arena_.free(start, size), Status::kOk); }
  void free_constrained(std::uintptr_t start, std::size_t size) {
    EXPECT_EQ(arena_.free_constrained(start, size), Status::kOk);
  }

  Arena arena_;
};

// 1
TEST_F(ArenaChecks, next_fit_goes_on_above_the_last_allocation) {
  make(1, 1, 30);
  const std::uintptr_t first = arena_.allocate(1, Fit::kNext);
  const std::uintptr_t second = arena_.allocate(1, Fit::kNext);
  free(first, 1);
  const std::uintptr_t third = arena_.allocate(1, Fit::kNext);
  EXPECT_EQ(third, second + 1);
  free(second, 1);
  free(third, 1);
}

// 2
TEST_F(ArenaChecks, best_fit_takes_the_smallest_that_fits) {
  make(1, 0, 0);
  add(1000, 64);
  add(3000, 127);
  add(2000, 67);
  add(4000, 127);
  add(5000, 128);
  EXPECT_EQ(arena_.allocate(65, Fit::kBest), 2000U);
  free(2000, 65);
}

// 3
TEST_F(ArenaChecks, instant_fit_takes_from_the_first_power_of_two_in_which_all_fit) {
  make(1, 0, 0);
  add(1000, 64);
  add(2000, 67);
  add(3000, 64);
  add(4000, 128);
  EXPECT_EQ(arena_.allocate(65, Fit::kInstant), 4000U);
  free(4000, 65);
}

// 4
TEST_F(ArenaChecks, starts_are_multiples_of_the_quantum) {
  make(32, 0, 0);
  add(4097, 64);
  EXPECT_EQ(arena_.allocate(1), 4128U);
  EXPECT_EQ(arena_.allocate(1), 0U);
  free(4128, 1);
}

// 5
TEST_F(ArenaChecks, the_quantum_need_be_no_power_of_two) {
  make(7, 7, 49);
  EXPECT_EQ(arena_.allocate(7), 7U);
  EXPECT_EQ(arena_.allocate(7), 14U);
  free(7, 7);
  free(14, 7);
  const std::uintptr_t aligned = arena_.allocate_constrained(7, {.align = 4});
  EXPECT_EQ(aligned, 28U);  // the only multiple of both
  const std::uintptr_t other = arena_.allocate(7);
  EXPECT_NE(other, 0U);
  EXPECT_EQ(other % 7, 0U);
  free_constrained(aligned, 7);
  free(other, 7);
}

// 6
TEST_F(ArenaChecks, nocross_passes_by_a_start_that_would_cross) {
  make(3, 3, 20);
  EXPECT_EQ(arena_.allocate_constrained(3, {.nocross = 4}), 9U);  // starts 3 and 6 would cross
  free_constrained(9, 3);
}

// 7
TEST_F(ArenaChecks, a_phase_may_put_the_start_just_below_the_alignment) {
  make(1, 0, 0);
  add(15, 15);
  EXPECT_EQ(arena_.allocate_constrained(15, {.align = 8, .phase = 7}, Fit::kBest), 15U);
  free_constrained(15, 15);
}

// 8
TEST_F(ArenaChecks, instant_fit_falls_back_to_best_fit_before_it_fails) {
  make(1, 0, 0);
  add(1, 15);
  EXPECT_EQ(arena_.allocate(15, Fit::kInstant), 1U);
  free(1, 15);
  EXPECT_EQ(arena_.allocate_constrained(15, {}, Fit::kInstant), 1U);
  free_constrained(1, 15);
}

// 9
TEST_F(ArenaChecks, small_multiples_of_the_quantum_come_from_caches_and_larger_ones_do_not) {
  make(1, 1, 10000, 3);
  for (std::size_t size = 1; size <= 4; ++size) {
    const std::uintptr_t start = arena_.allocate(size);
    EXPECT_NE(start, 0U);
    free(start, size);
  }
  RegistryCursor<Cache> caches;
  for (const char* name : {"test_1", "test_2", "test_3"}) EXPECT_NE(caches.find(name), nullptr) << name;
  EXPECT_EQ(caches.find("test_4"), nullptr);
}

// 10
TEST_F(ArenaChecks, quantum_caches_hand_out_multiples_of_an_odd_quantum) {
  make(7, 7, 70000, 21);
  for (std::size_t size = 7; size <= 21; size += 7) {
    std::uintptr_t starts[4];
    for (std::uintptr_t& start : starts) {
      start = arena_.allocate(size);
      EXPECT_NE(start, 0U);
      EXPECT_EQ(start % 7, 0U);
    }
    for (const std::uintptr_t start : starts) free(start, size);
  }
}

// 11
TEST_F(ArenaChecks, a_quantum_may_be_larger_than_a_page) {
  make(8192, 8192, std::size_t{4} * 8192, 8192);
  std::uintptr_t starts[4];
  for (std::uintptr_t& start : starts) {
    start = arena_.allocate(8192);
    EXPECT_NE(start, 0U);
    EXPECT_EQ(start % 8192, 0U);
  }
  EXPECT_EQ(arena_.allocate(8192), 0U);
  for (const std::uintptr_t start : starts) free(start, 8192);
}

std::uintptr_t import_shifted(Arena& source, std::size_t size, Fit fit) noexcept {
  return source.allocate(size, fit) << 15;
}
void release_shifted(Arena& source, std::uintptr_t start, std::size_t size) noexcept { source.free(start >> 15, size); }

// 12
TEST_F(ArenaChecks, import_functions_may_translate_what_they_import) {
  make(4096, 4096, std::size_t{4} * 4096);
  Arena importer;
  ASSERT_EQ(importer.initialize({.name = "importer",
                                 .quantum = 1,
                                 .source = &arena_,
                                 .import = import_shifted,
                                 .release = release_shifted,
                                 .quantum_cache_max = 2}),
            Status::kOk);
  const std::uintptr_t one = importer.allocate(1);
  const std::uintptr_t two = importer.allocate(2);
  EXPECT_GE(one, std::uintptr_t{1} << 15);
  EXPECT_GE(two, std::uintptr_t{1} << 15);
  EXPECT_EQ(importer.free(one, 1), Status::kOk);
  EXPECT_EQ(importer.free(two, 2), Status::kOk);
  EXPECT_EQ(importer.destroy(), Status::kOk);
  EXPECT_EQ(arena_.stats().free, arena_.stats().total);
}

/// Allocates three objects of a no-touch cache, expects multiples of @p unit, and destroys the cache.
void use_no_touch_cache(std::size_t size, std::size_t alignment, Arena* source, std::size_t unit) {
  CacheConfig config;
  config.name = "objects";
  config.object_size = size;
  config.alignment = alignment;
  config.flags = cache_flags::kNoTouch;
  config.source = source;
  Cache* cache = Cache::create(config);
  ASSERT_NE(cache, nullptr);
  void* objects[3];
  for (void*& object : objects) {
    object = cache->allocate();
    EXPECT_NE(object, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(object) % unit, 0U);
  }
  for (void* object : objects) cache->free(object);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

// 13
TEST_F(ArenaChecks, caches_import_from_any_arena_and_objects_keep_its_quantum_or_their_alignment) {
  make(7, 7, 70000);
  use_no_touch_cache(14, 1, &arena_, 7);
  EXPECT_EQ(arena_.stats().free, arena_.stats().total);
  use_no_touch_cache(1, 16, nullptr, 16);
}

// 14
TEST_F(ArenaChecks, an_importer_of_a_coarser_quantum_aligns_inside_the_span) {
  make(1, 1, 1000);
  Arena importer;
  ASSERT_EQ(importer.initialize({.name = "importer", .quantum = 16, .source = &arena_}), Status::kOk);
  const std::uintptr_t start = importer.allocate(16);
  EXPECT_NE(start, 0U);
  EXPECT_EQ(start % 16, 0U);
  EXPECT_EQ(importer.free(start, 16), Status::kOk);
  EXPECT_EQ(importer.destroy(), Status::kOk);
  EXPECT_EQ(arena_.stats().free, 1000U);
}

// 15
TEST_F(ArenaChecks, phase_nocross_and_bounds_hold_with_an_odd_quantum) {
  make(3, 3, 4096);
  const std::uintptr_t phased = arena_.allocate_constrained(3, {.align = 16, .phase = 6});
  EXPECT_NE(phased, 0U);
  EXPECT_EQ(phased % 16, 6U);
  EXPECT_EQ(phased % 3, 0U);
  const std::uintptr_t inside = arena_.allocate_constrained(15, {.nocross = 16});
  EXPECT_NE(inside, 0U);
  EXPECT_EQ(inside % 3, 0U);
  EXPECT_EQ(inside / 16, (inside + 14) / 16);
  const std::uintptr_t bounded = arena_.allocate_constrained(3, {.min = 81, .max = 252});
  const std::uintptr_t again = arena_.allocate_constrained(3, {.min = 81, .max = 252});
  for (const std::uintptr_t start : {bounded, again}) {
    EXPECT_GE(start, 81U);
    EXPECT_LE(start + 3, 252U);
    EXPECT_EQ(start % 3, 0U);
  }
  EXPECT_NE(bounded, again);
  free_constrained(phased, 3);
  free_constrained(inside, 15);
  free_constrained(bounded, 3);
  free_constrained(again, 3);
}

// 16
TEST_F(ArenaChecks, bounds_are_an_inclusive_start_and_an_exclusive_end) {
  make(1, 1, 100);
  EXPECT_EQ(arena_.allocate_constrained(20, {.min = 10, .max = 30}), 10U);
  EXPECT_EQ(arena_.allocate_constrained(20, {.min = 30, .max = 50}), 30U);
  EXPECT_EQ(arena_.allocate_constrained(20, {.min = 50, .max = 69}), 0U);
  free_constrained(10, 20);
  free_constrained(30, 20);
}

// 17
TEST_F(ArenaChecks, free_and_total_add_up) {
  make(1, 1, 100);
  EXPECT_EQ(arena_.stats().total, 100U);
  EXPECT_EQ(arena_.stats().free, 100U);
  const std::uintptr_t low = arena_.allocate_constrained(15, {.min = 10, .max = 40});
  const std::uintptr_t high = arena_.allocate_constrained(15, {.min = 50, .max = 90});
  EXPECT_EQ(arena_.stats().free, 70U);
  EXPECT_EQ(arena_.stats().total, 100U);
  free_constrained(low, 15);
  free_constrained(high, 15);
}

/// An arena that creates its own spans, each above the one before.
struct Fountain {
  Arena arena;
  std::uintptr_t next = 0x10000;
};
std::uintptr_t import_from_nothing(Arena& arena, std::size_t size, Fit) noexcept {
  std::uintptr_t& next = static_cast<Fountain*>(arena.context())->next;
  next += size;
  return next - size;
}
void release_to_nothing(Arena&, std::uintptr_t, std::size_t) noexcept {}

// 18
TEST_F(ArenaChecks, an_arena_may_be_its_own_source) {
  Fountain fountain;
  ASSERT_EQ(fountain.arena.initialize({.name = "fountain",
                                       .quantum = 4096,
                                       .self_source = true,
                                       .import = import_from_nothing,
                                       .release = release_to_nothing,
                                       .context = &fountain}),
            Status::kOk);
  Arena importer;
  ASSERT_EQ(importer.initialize({.name = "importer", .quantum = 1, .source = &fountain.arena}), Status::kOk);
  for (Arena* arena : {&fountain.arena, &importer}) {
    const std::size_t size = arena->quantum();
    const std::uintptr_t one = arena->allocate(size);
    const std::uintptr_t other = arena->allocate(size);
    EXPECT_NE(one, 0U);
    EXPECT_NE(other, 0U);
    EXPECT_NE(one, other);
    EXPECT_EQ(arena->free(one, size), Status::kOk);
    EXPECT_EQ(arena->free(other, size), Status::kOk);
  }
  EXPECT_EQ(importer.destroy(), Status::kOk);
  EXPECT_EQ(fountain.arena.destroy(), Status::kOk);
}

}  // namespace alloc_arena_akaros_test
}  // namespace qm
