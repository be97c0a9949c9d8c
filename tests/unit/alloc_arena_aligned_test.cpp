// Arena::allocate_aligned(): every arena supports it, whatever else is linked.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include <qm/arena.hpp>

namespace qm {
namespace alloc_arena_aligned_test {

class AlignedArenas : public testing::Test {
 protected:
  void SetUp() override {
    alignas(BoundaryTag) static std::byte tags[64 * sizeof(BoundaryTag)];
    registry_reset();
    boundary_tags_initialize(tags, sizeof tags);
  }
  void TearDown() override { EXPECT_EQ(arena_.destroy(), Status::kOk); }
  Arena arena_;
};

TEST_F(AlignedArenas, a_segment_with_room_to_spare_is_cut_on_both_sides) {
  ASSERT_EQ(arena_.initialize({.name = "pages", .start = 0x1100, .size = 0x4000, .quantum = 0x100}), Status::kOk);
  const std::uintptr_t start = arena_.allocate_aligned(0x800, {.align = 0x1000, .phase = 0x800});
  EXPECT_EQ(start, 0x1800U);
  EXPECT_TRUE(arena_.validate());
  EXPECT_EQ(arena_.stats().segments_free, 2U);
  EXPECT_EQ(arena_.free_constrained(start, 0x800), Status::kOk);
  EXPECT_EQ(arena_.stats().segments_free, 1U);
}

TEST_F(AlignedArenas, an_aligned_segment_that_is_just_large_enough_is_found) {
  ASSERT_EQ(arena_.initialize({.name = "pages", .start = 0x2000, .size = 0x1000, .quantum = 0x100}), Status::kOk);
  EXPECT_EQ(arena_.allocate_aligned(0x1000, {.align = 0x2000, .phase = 0x1000}), 0U);
  EXPECT_EQ(arena_.stats().failures, 1U);
  const std::uintptr_t start = arena_.allocate_aligned(0x1000, {.align = 0x1000});
  EXPECT_EQ(start, 0x2000U);
  EXPECT_TRUE(arena_.validate());
  EXPECT_EQ(arena_.free_constrained(start, 0x1000), Status::kOk);
}

TEST_F(AlignedArenas, an_alignment_up_to_the_quantum_asks_for_nothing_more) {
  ASSERT_EQ(arena_.initialize({.name = "pages", .start = 0x1100, .size = 0x100, .quantum = 0x100}), Status::kOk);
  const std::uintptr_t start = arena_.allocate_aligned(0x100, {.align = 0x40});
  EXPECT_EQ(start, 0x1100U);
  EXPECT_EQ(arena_.free_constrained(start, 0x100), Status::kOk);
}

TEST_F(AlignedArenas, neither_a_size_nor_an_alignment_of_half_a_word_wraps) {
  constexpr std::size_t kHalf = SIZE_MAX / 2 + 1;
  ASSERT_EQ(arena_.initialize({.name = "ids", .start = 1, .size = 1000, .quantum = 1}), Status::kOk);
  EXPECT_EQ(arena_.allocate_aligned(10, {.align = kHalf, .phase = 1000}), 0U);
  EXPECT_EQ(arena_.allocate_aligned(kHalf, {.align = kHalf}), 0U);
  EXPECT_EQ(arena_.allocate_aligned(kHalf + 1, {.align = kHalf}), 0U);
  EXPECT_EQ(arena_.allocate_aligned(SIZE_MAX, {.align = 16}), 0U);
  EXPECT_TRUE(arena_.validate());
}

/// Sixteen pages from page 1 on, with free pairs among them: a few at odd pages, and one at an even page.
class PairsOfPages : public AlignedArenas {
 protected:
  static constexpr std::uintptr_t kPage = 0x1000;
  using Pairs = std::array<std::uintptr_t, 4>;
  void SetUp() override {
    AlignedArenas::SetUp();
    ASSERT_EQ(arena_.initialize({.name = "pages", .start = kPage, .size = 16 * kPage, .quantum = kPage}), Status::kOk);
  }
  void make_pairs(const Pairs& pairs) {
    for (unsigned i = 0; i < 16; ++i) ASSERT_NE(arena_.allocate(kPage), 0U);
    for (const std::uintptr_t page : pairs) {
      EXPECT_EQ(arena_.free(page * kPage, kPage), Status::kOk);
      EXPECT_EQ(arena_.free((page + 1) * kPage, kPage), Status::kOk);
    }
  }
  /// Frees all pages except those of @p pairs.
  void give_back(const Pairs& pairs) {
    for (std::uintptr_t page = 1; page <= 16; ++page) {
      bool is_free = false;
      for (const std::uintptr_t pair : pairs) is_free = is_free || page == pair || page == pair + 1;
      if (!is_free) {
        EXPECT_EQ(arena_.free(page * kPage, kPage), Status::kOk);
      }
    }
  }
};

TEST_F(PairsOfPages, the_only_aligned_one_is_found_among_others_of_its_size) {
  for (const auto& pairs : {std::array<std::uintptr_t, 4>{4, 1, 7, 11}, {11, 7, 1, 4}}) {
    make_pairs(pairs);
    const std::uintptr_t start = arena_.allocate_aligned(2 * kPage, {.align = 2 * kPage});
    EXPECT_EQ(start, 4 * kPage);
    EXPECT_EQ(arena_.allocate_aligned(2 * kPage, {.align = 2 * kPage}), 0U);
    EXPECT_TRUE(arena_.validate());
    EXPECT_EQ(arena_.free_constrained(start, 2 * kPage), Status::kOk);
    give_back(pairs);
  }
}

TEST_F(PairsOfPages, a_span_is_imported_around_the_only_aligned_place_of_the_source) {
  const Pairs pairs{4, 1, 7, 11};
  make_pairs(pairs);
  Arena importer;
  ASSERT_EQ(importer.initialize({.name = "importer", .quantum = 0x40, .source = &arena_}), Status::kOk);
  const std::uintptr_t start = importer.allocate_aligned(kPage + 0x40, {.align = 2 * kPage, .phase = 0x80});
  EXPECT_EQ(start, 4 * kPage + 0x80);
  EXPECT_TRUE(importer.validate() && arena_.validate());
  EXPECT_EQ(importer.free_constrained(start, kPage + 0x40), Status::kOk);
  EXPECT_EQ(importer.destroy(), Status::kOk);
  give_back(pairs);
}

TEST_F(AlignedArenas, a_span_is_imported_with_room_and_goes_back_whole) {
  ASSERT_EQ(arena_.initialize({.name = "source", .start = 0x1000, .size = 0x10000, .quantum = 0x1000}), Status::kOk);
  Arena importer;
  ASSERT_EQ(importer.initialize({.name = "importer", .quantum = 0x40, .source = &arena_}), Status::kOk);
  const std::uintptr_t start = importer.allocate_aligned(0x1000, {.align = 0x4000});
  EXPECT_NE(start, 0U);
  EXPECT_EQ(start % 0x4000, 0U);
  EXPECT_TRUE(importer.validate() && arena_.validate());
  EXPECT_EQ(importer.free_constrained(start, 0x1000), Status::kOk);
  EXPECT_EQ(importer.destroy(), Status::kOk);
  EXPECT_EQ(arena_.stats().allocated, 0U);
}

TEST_F(AlignedArenas, a_span_of_a_source_with_another_quantum_has_room_for_the_request) {
  ASSERT_EQ(arena_.initialize({.name = "source", .start = 5, .size = 1000, .quantum = 5}), Status::kOk);
  Arena importer;
  ASSERT_EQ(importer.initialize({.name = "importer", .quantum = 16, .source = &arena_}), Status::kOk);
  std::uintptr_t starts[8];
  for (std::uintptr_t& start : starts) {
    start = importer.allocate(32);
    EXPECT_NE(start, 0U);
    EXPECT_EQ(start % 16, 0U);
  }
  EXPECT_TRUE(importer.validate() && arena_.validate());
  for (const std::uintptr_t start : starts) EXPECT_EQ(importer.free(start, 32), Status::kOk);
  EXPECT_EQ(importer.destroy(), Status::kOk);
}

TEST_F(AlignedArenas, an_alignment_that_the_quantum_does_not_divide_is_met_and_leaves_nothing_behind) {
  ASSERT_EQ(arena_.initialize({.name = "source", .start = 3, .size = 999, .quantum = 3}), Status::kOk);
  Arena importer;
  ASSERT_EQ(importer.initialize({.name = "importer", .quantum = 3, .source = &arena_}), Status::kOk);
  const std::uintptr_t start = importer.allocate_aligned(6, {.align = 64, .phase = 1});
  EXPECT_TRUE(importer.validate() && arena_.validate());
  EXPECT_NE(start, 0U);
  EXPECT_EQ(start % 64, 1U);
  EXPECT_EQ(importer.free_constrained(start, 6), Status::kOk);
  EXPECT_EQ(importer.destroy(), Status::kOk);
  EXPECT_EQ(arena_.stats().allocated, 0U);
}

}  // namespace alloc_arena_aligned_test
}  // namespace qm
