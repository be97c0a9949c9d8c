// Arenas: edge cases, misuse, and past defects of other arenas. alloc_arena_akaros_test.cpp has the requirements on any
// arena. Values are integers without memory behind them, except where a test says "memory".

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <new>

#include <qm/arena.hpp>
#include <qm/hal/hart.hpp>

#include "support/arena_fixture.hpp"

namespace qm {
namespace alloc_arena_test {

using test::ArenaTest;

class Arenas : public ArenaTest {};

// ---- fits ---------------------------------------------------------------------------------------

TEST_F(Arenas, next_fit_goes_on_above_the_last_allocation) {
  make(1, 1, 30);
  const std::uintptr_t first = arena_.allocate(1, Fit::kNext);
  const std::uintptr_t second = arena_.allocate(1, Fit::kNext);
  EXPECT_EQ(arena_.free(first, 1), Status::kOk);
  const std::uintptr_t third = arena_.allocate(1, Fit::kNext);
  EXPECT_EQ(third, second + 1);
  EXPECT_EQ(arena_.free(second, 1), Status::kOk);
  EXPECT_EQ(arena_.free(third, 1), Status::kOk);
  // Everything is one free segment now, and next fit still defers reuse.
  EXPECT_EQ(arena_.allocate(1, Fit::kNext), third + 1);
  EXPECT_EQ(arena_.free(third + 1, 1), Status::kOk);
}

TEST_F(Arenas, next_fit_goes_round_at_the_end) {
  make(1, 1, 4);
  for (std::uintptr_t expected = 1; expected <= 4; ++expected) EXPECT_EQ(arena_.allocate(1, Fit::kNext), expected);
  EXPECT_EQ(arena_.allocate(1, Fit::kNext), 0U);
  EXPECT_EQ(arena_.free(2, 1), Status::kOk);
  EXPECT_EQ(arena_.allocate(1, Fit::kNext), 2U);
  for (std::uintptr_t start = 1; start <= 4; ++start) EXPECT_EQ(arena_.free(start, 1), Status::kOk);
}

TEST_F(Arenas, next_fit_begins_at_the_lowest_of_a_new_arena) {
  // The storage was used before: its contents must not be taken for the end of the last allocation.
  alignas(Arena) static std::byte storage[sizeof(Arena)];
  __builtin_memset(storage, 0x5a, sizeof storage);
  auto* arena = new (storage) Arena;
  ASSERT_EQ(arena->initialize({.name = "used", .start = 100, .size = 100, .quantum = 1}), Status::kOk);
  EXPECT_EQ(arena->allocate(10, Fit::kNext), 100U);
  EXPECT_EQ(arena->allocate(10, Fit::kNext), 110U);
  EXPECT_EQ(arena->free(100, 10), Status::kOk);
  EXPECT_EQ(arena->free(110, 10), Status::kOk);
  EXPECT_EQ(arena->destroy(), Status::kOk);
  ASSERT_EQ(arena->initialize({.name = "used", .start = 50, .size = 100, .quantum = 1}), Status::kOk);
  EXPECT_EQ(arena->allocate(10, Fit::kNext), 50U);
  EXPECT_EQ(arena->free(50, 10), Status::kOk);
  EXPECT_EQ(arena->destroy(), Status::kOk);
}

TEST_F(Arenas, best_fit_takes_the_smallest_of_a_higher_power_of_two) {
  make(1);
  EXPECT_EQ(arena_.add(1000, 200), Status::kOk);
  EXPECT_EQ(arena_.add(2000, 130), Status::kOk);
  EXPECT_EQ(arena_.add(3000, 180), Status::kOk);
  EXPECT_EQ(arena_.allocate(100, Fit::kBest), 2000U);
  EXPECT_EQ(arena_.free(2000, 100), Status::kOk);
}

TEST_F(Arenas, accounting) {
  make(1, 1, 100);
  EXPECT_EQ(arena_.stats().total, 100U);
  EXPECT_EQ(arena_.stats().free, 100U);
  const std::uintptr_t a = arena_.allocate_constrained(15, {.min = 10, .max = 40});
  const std::uintptr_t b = arena_.allocate_constrained(15, {.min = 50, .max = 90});
  ArenaStats stats = arena_.stats();
  EXPECT_EQ(stats.free, 70U);
  EXPECT_EQ(stats.total, 100U);
  EXPECT_EQ(stats.allocated, 30U);
  EXPECT_EQ(stats.high_water, 30U);
  EXPECT_EQ(stats.segments_allocated, 2U);
  EXPECT_EQ(stats.segments_free, 3U);
  EXPECT_EQ(stats.largest_free, 36U);
  EXPECT_EQ(arena_.free_constrained(a, 15), Status::kOk);
  EXPECT_EQ(arena_.free_constrained(b, 15), Status::kOk);
  stats = arena_.stats();
  EXPECT_EQ(stats.largest_free, 100U);
  EXPECT_EQ(stats.high_water, 30U);
  EXPECT_EQ(stats.allocations_ever, 2U);
  EXPECT_EQ(stats.frees_ever, 2U);
}

// ---- edges ----------------------------------------------------------------------------------------------------------

TEST_F(Arenas, sizes_that_cannot_be_are_failures_and_counted) {
  make(16, 16, 1024);
  EXPECT_EQ(arena_.allocate(0), 0U);
  EXPECT_EQ(arena_.allocate(SIZE_MAX), 0U);
  EXPECT_EQ(arena_.allocate(SIZE_MAX - 15), 0U);
  EXPECT_EQ(arena_.allocate(SIZE_MAX / 2 + 2, Fit::kBest), 0U);
  EXPECT_EQ(arena_.allocate(SIZE_MAX - 14, Fit::kNext), 0U);
  EXPECT_EQ(arena_.allocate_constrained(0, {}), 0U);
  EXPECT_EQ(arena_.allocate_constrained(SIZE_MAX, {}), 0U);
  EXPECT_EQ(arena_.allocate_constrained(16, {.align = 3}), 0U);
  EXPECT_EQ(arena_.allocate_constrained(16, {.align = 16, .phase = 16}), 0U);
  EXPECT_EQ(arena_.allocate_constrained(16, {.align = 16, .phase = 8}), 0U);
  EXPECT_EQ(arena_.allocate_constrained(16, {.nocross = 24}), 0U);
  EXPECT_EQ(arena_.allocate_constrained(32, {.nocross = 16}), 0U);
  EXPECT_EQ(arena_.allocate_constrained(16, {.min = 64, .max = 72}), 0U);
  EXPECT_EQ(arena_.allocate_constrained(16, {.min = SIZE_MAX}), 0U);
  EXPECT_EQ(arena_.allocate_constrained(16, {.align = SIZE_MAX / 2 + 1}), 0U);
  EXPECT_EQ(arena_.stats().failures, 15U);
  EXPECT_EQ(arena_.stats().free, 1024U);
}

TEST_F(Arenas, the_whole_of_the_integers_but_the_last) {
  make(1);
  EXPECT_EQ(arena_.add(0, SIZE_MAX), Status::kOk);
  EXPECT_EQ(arena_.stats().total, SIZE_MAX - 1);
  EXPECT_EQ(arena_.add(5, 1), Status::kOverlap);
  const std::uintptr_t all = arena_.allocate(SIZE_MAX - 1);
  EXPECT_EQ(all, 1U);
  EXPECT_EQ(arena_.free(all, SIZE_MAX - 1), Status::kOk);
  EXPECT_EQ(arena_.allocate_constrained(1, {.min = SIZE_MAX - 1}), SIZE_MAX - 1);
  EXPECT_EQ(arena_.free_constrained(SIZE_MAX - 1, 1), Status::kOk);
}

TEST_F(Arenas, spans_may_touch_and_not_share_a_single_number) {
  make(1, 10, 10);
  EXPECT_EQ(arena_.add(5, 6), Status::kOverlap);
  EXPECT_EQ(arena_.add(19, 6), Status::kOverlap);
  EXPECT_EQ(arena_.add(5, 5), Status::kOk);
  EXPECT_EQ(arena_.add(20, 5), Status::kOk);
  EXPECT_EQ(arena_.stats().total, 20U);
  EXPECT_TRUE(arena_.validate());
}

TEST_F(Arenas, zero_is_never_handed_out) {
  make(8, 0, 32);
  EXPECT_EQ(arena_.stats().total, 24U);
  EXPECT_EQ(arena_.allocate(8), 8U);
  EXPECT_EQ(arena_.free(8, 8), Status::kOk);
}

TEST_F(Arenas, add_refuses_overlap_and_what_holds_no_quantum) {
  make(16, 64, 64);
  const std::size_t tags = tags_in_pool();
  EXPECT_EQ(arena_.add(64, 64), Status::kOverlap);
  EXPECT_EQ(arena_.add(48, 32), Status::kOverlap);
  EXPECT_EQ(arena_.add(112, 32), Status::kOverlap);
  EXPECT_EQ(arena_.add(80, 16), Status::kOverlap);
  EXPECT_EQ(arena_.add(16, 256), Status::kOverlap);
  EXPECT_EQ(arena_.add(200, 15), Status::kInvalid);
  EXPECT_EQ(arena_.add(201, 16), Status::kInvalid);
  EXPECT_EQ(arena_.add(200, 0), Status::kInvalid);
  EXPECT_EQ(arena_.add(SIZE_MAX - 8, 32), Status::kInvalid);
  EXPECT_LE(tags - tags_in_pool(), std::size_t{Arena::kSpares});  // a refused add keeps no tag except the spares
  EXPECT_EQ(arena_.add(128, 16), Status::kOk);
  EXPECT_EQ(arena_.add(32, 32), Status::kOk);
  EXPECT_TRUE(arena_.validate());
  EXPECT_EQ(arena_.stats().spans, 3U);
}

TEST_F(Arenas, a_refused_add_costs_no_tag_however_often) {
  make(16, 64, 64);
  EXPECT_EQ(arena_.add(201, 16), Status::kInvalid);
  EXPECT_EQ(arena_.add(64, 64), Status::kOverlap);
  const std::size_t tags = tags_in_pool();
  for (unsigned i = 0; i < 100; ++i) {
    EXPECT_EQ(arena_.add(201, 16), Status::kInvalid);
    EXPECT_EQ(arena_.add(64, 64), Status::kOverlap);
  }
  EXPECT_EQ(tags_in_pool(), tags);
}

TEST_F(Arenas, neighbouring_spans_do_not_merge) {
  make(1, 1, 10);
  EXPECT_EQ(arena_.add(11, 10), Status::kOk);
  EXPECT_EQ(arena_.allocate(11), 0U);
  const std::uintptr_t a = arena_.allocate_constrained(5, {.min = 6});
  const std::uintptr_t b = arena_.allocate_constrained(5, {.min = 11});
  EXPECT_EQ(a, 6U);
  EXPECT_EQ(b, 11U);
  EXPECT_EQ(arena_.free_constrained(a, 5), Status::kOk);
  EXPECT_EQ(arena_.free_constrained(b, 5), Status::kOk);
  EXPECT_EQ(arena_.stats().segments_free, 2U);
}

// ---- misuse ---------------------------------------------------------------------------------------------------------

TEST_F(Arenas, one_that_was_not_initialized_or_was_destroyed_is_not_destroyed) {
  Arena none;
  EXPECT_EQ(none.destroy(), Status::kInvalid);
  EXPECT_EQ(none.initialize({.name = "", .quantum = 1}), Status::kInvalid);
  EXPECT_EQ(none.destroy(), Status::kInvalid);
  ASSERT_EQ(none.initialize({.name = "some", .start = 1, .size = 10, .quantum = 1}), Status::kOk);
  EXPECT_EQ(none.destroy(), Status::kOk);
  EXPECT_EQ(none.destroy(), Status::kInvalid);
}

TEST_F(Arenas, a_bad_free_is_refused_and_changes_nothing) {
  make(16, 16, 1024);
  const std::uintptr_t start = arena_.allocate(64);
  EXPECT_EQ(arena_.free(start, 32), Status::kMismatch);
  EXPECT_EQ(arena_.free(start, 80), Status::kMismatch);
  EXPECT_EQ(arena_.free(start, 0), Status::kMismatch);
  EXPECT_EQ(arena_.free(start, SIZE_MAX), Status::kMismatch);
  EXPECT_EQ(arena_.free(start + 16, 48), Status::kNotFound);
  EXPECT_EQ(arena_.free(5000, 16), Status::kNotFound);
  EXPECT_EQ(arena_.free(0, 16), Status::kNotFound);
  EXPECT_EQ(arena_.free(start + 16), Status::kNotFound);
  EXPECT_EQ(arena_.stats().bad_frees, 8U);
  EXPECT_EQ(arena_.stats().allocated, 64U);
  // The lock must have been released each time.
  EXPECT_EQ(hal::hart_local().lock_depth, 0U);
  EXPECT_EQ(arena_.free(start, 60), Status::kOk);
  EXPECT_EQ(arena_.free(start, 64), Status::kNotFound);
  EXPECT_EQ(arena_.stats().free, 1024U);
}

TEST_F(Arenas, free_without_a_size) {
  make(16, 16, 1024);
  const std::uintptr_t start = arena_.allocate(50);
  EXPECT_EQ(arena_.size_of(start), 64U);
  EXPECT_EQ(arena_.size_of(start + 16), 0U);
  EXPECT_EQ(arena_.free(start), Status::kOk);
  EXPECT_EQ(arena_.free(start), Status::kNotFound);
}

TEST_F(Arenas, configurations_that_make_no_sense_are_invalid) {
  Arena other;
  EXPECT_EQ(other.initialize({.name = nullptr}), Status::kInvalid);
  EXPECT_EQ(other.initialize({.name = ""}), Status::kInvalid);
  EXPECT_EQ(other.initialize({.name = "a b"}), Status::kInvalid);
  EXPECT_EQ(other.initialize({.name = "a23456789012345678901234567890ab"}), Status::kInvalid);
  EXPECT_EQ(other.initialize({.name = "x", .quantum = 0}), Status::kInvalid);
  EXPECT_EQ(other.initialize({.name = "x", .start = 16, .size = 16, .source = &arena_}), Status::kInvalid);
  EXPECT_EQ(other.initialize({.name = "x", .self_source = true}), Status::kInvalid);
  EXPECT_EQ(other.initialize({.name = "x", .quantum = 7, .quantum_cache_max = 15}), Status::kInvalid);
  EXPECT_EQ(other.initialize({.name = "x", .start = 16, .size = 16, .quantum = 4096}), Status::kInvalid);
  EXPECT_EQ(other.initialize({.name = "a23456789012345678901234567890a"}), Status::kOk);
  EXPECT_STREQ(other.name(), "a23456789012345678901234567890a");
  EXPECT_EQ(other.initialize({.name = "again"}), Status::kBusy);
  Arena third;
  EXPECT_EQ(third.initialize({.name = "a23456789012345678901234567890a"}), Status::kDuplicate);
  EXPECT_EQ(third.initialize({.name = "third", .start = 8, .size = 8, .quantum = 1}), Status::kOk);
  EXPECT_EQ(third.destroy(), Status::kOk);
  EXPECT_EQ(other.destroy(), Status::kOk);
}

TEST_F(Arenas, destroy_is_refused_while_anything_is_in_use) {
  make(16, 16, 1024);
  const std::uintptr_t start = arena_.allocate(16);
  EXPECT_EQ(arena_.destroy(), Status::kBusy);
  EXPECT_EQ(arena_.free(start, 16), Status::kOk);
  Arena importer;
  ASSERT_EQ(importer.initialize({.name = "importer", .quantum = 16, .source = &arena_}), Status::kOk);
  EXPECT_EQ(arena_.destroy(), Status::kBusy);
  {
    RegistryCursor<Arena> cursor;
    ASSERT_EQ(cursor.find("importer"), &importer);
    EXPECT_EQ(importer.destroy(), Status::kBusy);
    EXPECT_EQ(cursor.find("nobody"), nullptr);
  }
  // After a refused operation the arena works as before.
  const std::uintptr_t imported = importer.allocate(64);
  EXPECT_NE(imported, 0U);
  EXPECT_EQ(importer.destroy(), Status::kBusy);
  EXPECT_EQ(arena_.stats().allocated, 64U);
  EXPECT_TRUE(importer.validate() && arena_.validate());
  EXPECT_EQ(importer.free(imported, 64), Status::kOk);
  EXPECT_EQ(importer.destroy(), Status::kOk);
  EXPECT_EQ(arena_.stats().free, 1024U);
  EXPECT_EQ(arena_.destroy(), Status::kOk);
  make(16, 16, 1024);  // the storage and the name can be used again
}

TEST_F(Arenas, destroy_after_hundreds_of_segments_gives_back_every_tag) {
  const std::size_t tags = tags_in_pool();
  make(1, 1, 1000);
  for (unsigned i = 0; i < 1000; ++i) ASSERT_NE(arena_.allocate(1), 0U);
  EXPECT_LT(tags_in_pool(), tags - 1000);
  for (std::uintptr_t start = 2; start <= 1000; start += 2) ASSERT_EQ(arena_.free(start, 1), Status::kOk);
  EXPECT_EQ(arena_.destroy(), Status::kBusy);
  EXPECT_EQ(arena_.stats().segments_free, 500U);
  for (std::uintptr_t start = 1; start <= 1000; start += 2) ASSERT_EQ(arena_.free(start, 1), Status::kOk);
  EXPECT_EQ(arena_.destroy(), Status::kOk);
  EXPECT_EQ(tags_in_pool(), tags);
}

TEST_F(Arenas, destroy_gives_back_spans_and_tags) {
  make(16, 16, 4096);
  const std::size_t tags = tags_in_pool();
  for (unsigned round = 0; round < 100; ++round) {
    Arena importer;
    ASSERT_EQ(importer.initialize({.name = "importer", .quantum = 16, .source = &arena_}), Status::kOk);
    std::uintptr_t held[20];
    for (std::uintptr_t& start : held) start = importer.allocate(16);
    for (const std::uintptr_t start : held) EXPECT_EQ(importer.free(start, 16), Status::kOk);
    EXPECT_EQ(importer.destroy(), Status::kOk);
    EXPECT_EQ(arena_.stats().free, 4096U);
  }
  EXPECT_LE(tags - tags_in_pool(), std::size_t{Arena::kSpares});
}

// ---- resize ---------------------------------------------------------------------------------------------------------

TEST_F(Arenas, resize_in_place_uses_the_free_neighbour_and_gives_back_the_tail) {
  make(16, 16, 256);
  const std::uintptr_t start = arena_.allocate_constrained(32, {.max = 48});
  const std::uintptr_t wall = arena_.allocate_constrained(16, {.min = 112});
  ASSERT_EQ(start, 16U);
  ASSERT_EQ(wall, 112U);
  EXPECT_EQ(arena_.resize_in_place(start, 32, 64), Status::kOk);
  EXPECT_TRUE(arena_.validate());
  EXPECT_EQ(arena_.resize_in_place(start, 64, 96), Status::kOk);
  EXPECT_TRUE(arena_.validate());
  EXPECT_EQ(arena_.resize_in_place(start, 96, 112), Status::kNoMemory);
  EXPECT_EQ(arena_.resize_in_place(start, 96, 16), Status::kOk);
  EXPECT_TRUE(arena_.validate());
  EXPECT_EQ(arena_.resize_in_place(start, 16, 48), Status::kOk);
  EXPECT_EQ(arena_.resize_in_place(start, 48, 33), Status::kOk);
  EXPECT_EQ(arena_.resize_in_place(start, 48, 32), Status::kOk);
  EXPECT_TRUE(arena_.validate());
  EXPECT_EQ(arena_.resize_in_place(start, 64, 48), Status::kMismatch);
  EXPECT_EQ(arena_.resize_in_place(start + 16, 16, 48), Status::kNotFound);
  EXPECT_EQ(arena_.resize_in_place(start, 32, 0), Status::kInvalid);
  EXPECT_EQ(arena_.resize_in_place(start, 32, SIZE_MAX), Status::kInvalid);
  EXPECT_EQ(arena_.stats().high_water, 112U);
  EXPECT_EQ(arena_.free(start, 32), Status::kOk);
  EXPECT_EQ(arena_.free(wall, 16), Status::kOk);
  EXPECT_EQ(arena_.stats().largest_free, 256U);
}

// ---- constrained search over many segments --------------------------------------------------------------------------

TEST_F(Arenas, a_search_goes_on_behind_what_one_hold_of_the_lock_looks_at) {
  make(1);
  for (std::uintptr_t i = 0; i < 100; ++i) ASSERT_EQ(arena_.add(0x1000 + 0x100 * i + 1, 20), Status::kOk);
  ASSERT_EQ(arena_.add(0x1000 + 0x100 * 100, 20), Status::kOk);
  // Only the last one begins at a multiple of 0x100; none is so large that its start does not matter.
  EXPECT_EQ(arena_.allocate_constrained(20, {.align = 0x100}), 0x7400U);
  EXPECT_EQ(arena_.allocate_constrained(20, {.align = 0x100}), 0U);
  EXPECT_EQ(arena_.free_constrained(0x7400, 20), Status::kOk);
}

TEST_F(Arenas, a_segment_that_does_wherever_it_begins_shortens_the_search) {
  make(1);
  for (std::uintptr_t i = 0; i < 100; ++i) ASSERT_EQ(arena_.add(0x1000 + 0x100 * i + 1, 20), Status::kOk);
  ASSERT_EQ(arena_.add(0x7400, 20), Status::kOk);
  ASSERT_EQ(arena_.add(0x10001, 0x200), Status::kOk);
  EXPECT_EQ(arena_.allocate_constrained(20, {.align = 0x100}), 0x10100U);
  // With a bound, the lowest one is found, however far away it is.
  EXPECT_EQ(arena_.allocate_constrained(20, {.align = 0x100, .min = 1}), 0x7400U);
  EXPECT_EQ(arena_.free_constrained(0x10100, 20), Status::kOk);
  EXPECT_EQ(arena_.free_constrained(0x7400, 20), Status::kOk);
}

TEST_F(Arenas, a_first_search_by_address_finds_what_was_free_long_before) {
  make(1, 1, 2000);
  constexpr std::uintptr_t kSegments = 200;
  for (std::uintptr_t i = 0; i < kSegments; ++i) ASSERT_EQ(arena_.allocate(10), 10 * i + 1);
  for (std::uintptr_t i = 0; i < kSegments; i += 2) ASSERT_EQ(arena_.free(10 * i + 1, 10), Status::kOk);
  ASSERT_TRUE(arena_.validate());
  // More tags than one hold of the lock enters into the index.
  EXPECT_EQ(arena_.allocate_constrained(10, {.min = 1001, .max = 1021}), 1001U);
  EXPECT_TRUE(arena_.validate());
  for (std::uintptr_t i = 0; i < kSegments; i += 2) {
    if (i == 100) continue;
    EXPECT_EQ(arena_.allocate(10, Fit::kNext), 10 * i + 1);
  }
  EXPECT_EQ(arena_.allocate(10, Fit::kNext), 0U);
  for (std::uintptr_t i = 0; i < kSegments; ++i) EXPECT_EQ(arena_.free(10 * i + 1), Status::kOk);
  EXPECT_EQ(arena_.stats().segments_free, 1U);
}

// ---- walk -----------------------------------------------------------------------------------------------------------

TEST_F(Arenas, a_walk_shows_everything_in_address_order) {
  make(1, 1, 100);
  EXPECT_EQ(arena_.add(200, 10), Status::kOk);
  static const CallSite kSite = QM_SITE_VALUE("here.cpp", "here", nullptr, 1);
  const CallSite* const site = &kSite;
  EXPECT_EQ(arena_.allocate_constrained(10, {.min = 50}, Fit::kInstant, site), 50U);
  *arena_.handle(50) = 77;
  EXPECT_EQ(arena_.handle(51), nullptr);
  ArenaWalk walk(arena_);
  const Segment expected[] = {
      {.start = 1, .size = 100, .kind = TagKind::kSpan},      {.start = 1, .size = 49},
      {.start = 50, .size = 10, .kind = TagKind::kAllocated}, {.start = 60, .size = 41},
      {.start = 200, .size = 10, .kind = TagKind::kSpan},     {.start = 200, .size = 10},
  };
  Segment segment;
  for (const Segment& expect : expected) {
    ASSERT_TRUE(walk.next(segment));
    EXPECT_EQ(segment.start, expect.start);
    EXPECT_EQ(segment.size, expect.size);
    EXPECT_EQ(segment.kind, expect.kind);
    if (expect.kind == TagKind::kAllocated) {
      EXPECT_EQ(segment.handle, 77U);
      EXPECT_EQ(segment.site, site);
    }
  }
  EXPECT_FALSE(walk.next(segment));
  EXPECT_EQ(arena_.locate(55, segment), Status::kOk);
  EXPECT_EQ(segment.start, 50U);
  EXPECT_EQ(arena_.locate(49, segment), Status::kOk);
  EXPECT_EQ(segment.kind, TagKind::kFree);
  EXPECT_EQ(arena_.locate(209, segment), Status::kOk);
  EXPECT_EQ(arena_.locate(210, segment), Status::kNotFound);
  EXPECT_EQ(arena_.locate(150, segment), Status::kNotFound);
  EXPECT_EQ(arena_.locate(0, segment), Status::kNotFound);
  EXPECT_EQ(arena_.free_constrained(50, 10), Status::kOk);
}

TEST_F(Arenas, a_walk_survives_what_happens_around_it) {
  make(1, 1, 100);
  std::uintptr_t held[10];
  for (std::uintptr_t& start : held) start = arena_.allocate(10);
  ArenaWalk walk(arena_);
  Segment segment;
  ASSERT_TRUE(walk.next(segment));  // the span
  for (unsigned i = 0; i < 4; ++i) ASSERT_TRUE(walk.next(segment));
  EXPECT_EQ(segment.start, held[3]);
  // The segment at which the walk stands and both neighbours become one free segment.
  for (const unsigned i : {2U, 3U, 4U, 1U}) EXPECT_EQ(arena_.free(held[i], 10), Status::kOk);
  EXPECT_EQ(arena_.allocate(40), held[1]);
  for (unsigned i = 5; i < 10; ++i) {
    ASSERT_TRUE(walk.next(segment));
    EXPECT_EQ(segment.start, held[i]);
  }
  EXPECT_FALSE(walk.next(segment));
  EXPECT_EQ(arena_.free(held[1], 40), Status::kOk);
  EXPECT_EQ(arena_.free(held[0], 10), Status::kOk);
  for (unsigned i = 5; i < 10; ++i) EXPECT_EQ(arena_.free(held[i], 10), Status::kOk);
}

TEST_F(Arenas, a_walk_shows_of_a_segment_that_has_grown_downwards_the_part_that_it_has_not_shown) {
  make(1, 1, 40);
  std::uintptr_t held[4];
  for (std::uintptr_t& start : held) start = arena_.allocate(10);
  EXPECT_EQ(arena_.free(held[2], 10), Status::kOk);
  ArenaWalk walk(arena_);
  Segment segment;
  for (unsigned i = 0; i < 3; ++i) ASSERT_TRUE(walk.next(segment));
  EXPECT_EQ(segment.start, held[1]);
  EXPECT_EQ(arena_.free(held[1], 10), Status::kOk);
  ASSERT_TRUE(walk.next(segment));
  EXPECT_EQ(segment.kind, TagKind::kFree);
  EXPECT_EQ(segment.start, held[2]);
  EXPECT_EQ(segment.size, 10U);
  ASSERT_TRUE(walk.next(segment));
  EXPECT_EQ(segment.start, held[3]);
  for (const unsigned i : {0U, 3U}) EXPECT_EQ(arena_.free(held[i], 10), Status::kOk);
}

TEST_F(Arenas, cursors_see_every_arena_and_skip_none) {
  Arena one;
  Arena two;
  ASSERT_EQ(one.initialize({.name = "one"}), Status::kOk);
  ASSERT_EQ(two.initialize({.name = "two"}), Status::kOk);
  unsigned seen = 0;
  RegistryCursor<Arena> arenas;
  while (const Arena* arena = arenas.next()) seen += arena == &one ? 1 : arena == &two ? 10 : 0;
  EXPECT_EQ(seen, 11U);
  EXPECT_EQ(one.destroy(), Status::kOk);
  EXPECT_EQ(two.destroy(), Status::kOk);
}

}  // namespace alloc_arena_test
}  // namespace qm
