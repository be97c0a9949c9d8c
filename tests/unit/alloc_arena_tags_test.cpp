// The sources of boundary tags, and the behaviour when no tag is available.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include <qm/arena.hpp>

namespace qm {
namespace alloc_arena_tags_test {

class ArenaTags : public testing::Test {
 protected:
  static constexpr std::size_t kPages = 64;
  static constexpr std::size_t kPageBytes = 4096;
  void SetUp() override {
    alignas(BoundaryTag) static std::byte first[kFirstTags * sizeof(BoundaryTag)];
    alignas(kPageBytes) static std::byte memory[kPages * kPageBytes];
    registry_reset();
    boundary_tags_initialize(first, sizeof first);
    memory_ = reinterpret_cast<std::uintptr_t>(memory);
    ASSERT_EQ(root_.initialize({.name = "root", .start = memory_, .size = sizeof memory}), Status::kOk);
    boundary_tags_set_root(root_);
  }
  Arena root_;
  std::uintptr_t memory_ = 0;
};

TEST_F(ArenaTags, the_root_supplies_the_pool_from_itself) {
  Arena ids;
  ASSERT_EQ(ids.initialize({.name = "ids", .start = 1, .size = 1000, .quantum = 1}), Status::kOk);
  for (unsigned i = 0; i < 1000; ++i) ASSERT_NE(ids.allocate(1), 0U) << i;
  EXPECT_EQ(ids.allocate(1), 0U);
  EXPECT_TRUE(ids.validate());
  EXPECT_TRUE(root_.validate());
  const BoundaryTagStats tags = boundary_tags_stats();
  EXPECT_EQ(root_.stats().allocated, tags.pages * kPageBytes);
  EXPECT_LE(tags.pages, 1000 / (kPageBytes / sizeof(BoundaryTag)) + 2);
  for (std::uintptr_t i = 1; i <= 1000; ++i) EXPECT_EQ(ids.free(i, 1), Status::kOk);
  EXPECT_EQ(ids.destroy(), Status::kOk);
  EXPECT_EQ(root_.destroy(), Status::kBusy);
}

TEST_F(ArenaTags, every_operation_refills_the_pool) {
  Arena ids;
  ASSERT_EQ(ids.initialize({.name = "ids", .quantum = 1}), Status::kOk);
  const auto empty_the_pool = [&] {
    // Each add takes one range, until the next tag would come from a page.
    static std::uintptr_t at = 1;
    while (boundary_tags_stats().free != 0) ASSERT_EQ(ids.add(10 * at++, 5), Status::kOk);
  };
  ASSERT_EQ(ids.add(1'000'000, 1000), Status::kOk);
  Arena importer;
  ASSERT_EQ(importer.initialize({.name = "importer", .quantum = 1, .source = &root_}), Status::kOk);
  const auto pages = [] { return boundary_tags_stats().pages; };
  std::uintptr_t held[4 * Arena::kSpares] = {};
  std::size_t count = 0;
  // Each kind of operation, often enough to use up the arena's spare tags.
  empty_the_pool();
  std::size_t before = pages();
  for (unsigned i = 0; i < Arena::kSpares; ++i) {
    held[count++] = ids.allocate_constrained(4, {.align = 8, .min = 1'000'000});
    EXPECT_NE(held[count - 1], 0U);
  }
  EXPECT_GT(pages(), before);
  empty_the_pool();
  before = pages();
  for (unsigned i = 0; i < Arena::kSpares; ++i) EXPECT_EQ(ids.resize_in_place(held[i], 4, 3), Status::kOk);
  for (unsigned i = 0; i < Arena::kSpares; ++i) EXPECT_EQ(ids.resize_in_place(held[i], 3, 4), Status::kOk);
  for (unsigned i = 0; i <= Arena::kSpares; ++i) {
    held[count++] = ids.allocate(1, Fit::kNext);
    EXPECT_NE(held[count - 1], 0U);
  }
  EXPECT_GT(pages(), before);
  empty_the_pool();
  before = pages();
  const std::uintptr_t imported = importer.allocate(100);
  EXPECT_NE(imported, 0U);
  EXPECT_GT(pages(), before);
  EXPECT_TRUE(ids.validate() && importer.validate() && root_.validate());
  EXPECT_EQ(importer.free(imported, 100), Status::kOk);
  EXPECT_EQ(importer.destroy(), Status::kOk);
  for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(ids.free(held[i]), Status::kOk);
  EXPECT_EQ(ids.destroy(), Status::kOk);
}

TEST_F(ArenaTags, running_out_of_tags_is_a_failure_and_passes) {
  // First the root allocates every page.
  std::uintptr_t pages[kPages];
  std::size_t taken = 0;
  for (std::uintptr_t page = root_.allocate(kPageBytes); page != 0; page = root_.allocate(kPageBytes))
    pages[taken++] = page;
  EXPECT_GE(taken, kPages - 3);
  Arena ids;
  ASSERT_EQ(ids.initialize({.name = "ids", .quantum = 2}), Status::kOk);
  std::size_t ranges = 0;
  Status status = Status::kOk;
  while ((status = ids.add(10 + 100 * ranges, 10)) == Status::kOk) ++ranges;
  EXPECT_EQ(status, Status::kNoMemory);
  EXPECT_TRUE(ids.validate());
  // Now every operation that needs a tag must fail cleanly.
  const std::size_t total = ids.stats().total;
  std::size_t allocated = 0;
  while (ids.allocate(2) != 0) ++allocated;
  EXPECT_EQ(ids.allocate(2, Fit::kNext), 0U);
  EXPECT_EQ(ids.allocate_constrained(2, {.align = 4}), 0U);
  EXPECT_TRUE(ids.validate());
  EXPECT_EQ(ids.stats().total, total);
  EXPECT_LT(allocated, total / 2);
  EXPECT_GT(boundary_tags_stats().failures, 0U);
  // After one page is freed, everything works.
  EXPECT_EQ(root_.free(pages[--taken], kPageBytes), Status::kOk);
  const std::uintptr_t more = ids.allocate(2);
  EXPECT_NE(more, 0U);
  EXPECT_EQ(boundary_tags_stats().failures != 0, true);
  ArenaWalk walk(ids);
  Segment segment;
  while (walk.next(segment)) {
    if (segment.kind == TagKind::kAllocated) {
      EXPECT_EQ(ids.free(segment.start), Status::kOk);
    }
  }
  while (taken != 0) EXPECT_EQ(root_.free(pages[--taken], kPageBytes), Status::kOk);
  EXPECT_TRUE(root_.validate());
}

TEST_F(ArenaTags, fail_the_nth_tag_for_every_n) {
  // A pool of n tags and no root: each step of the script must work or fail cleanly.
  for (std::size_t n = 0; n < 40; ++n) {
    alignas(BoundaryTag) static std::byte storage[64 * sizeof(BoundaryTag)];
    registry_reset();
    boundary_tags_initialize(storage, n * sizeof(BoundaryTag));
    Arena source;
    Arena importer;
    const bool has_source =
        source.initialize({.name = "source", .start = 64, .size = 6400, .quantum = 64}) == Status::kOk;
    if (has_source) {
      ASSERT_EQ(importer.initialize({.name = "importer", .quantum = 16, .source = &source}), Status::kOk);
      std::uintptr_t held[6] = {};
      for (unsigned i = 0; i < 6; ++i) {
        held[i] = i % 2 == 0 ? importer.allocate(16 * (i + 1)) : importer.allocate_constrained(16, {.align = 128});
        EXPECT_TRUE(importer.validate() && source.validate()) << n;
      }
      if (held[0] != 0) {
        const Status status = importer.resize_in_place(held[0], 16, 32);
        EXPECT_TRUE(status == Status::kOk || status == Status::kNoMemory);
        EXPECT_EQ(importer.free(held[0], status == Status::kOk ? 32 : 16), Status::kOk);
      }
      for (unsigned i = 1; i < 6; ++i) {
        if (held[i] != 0) {
          EXPECT_EQ(importer.free(held[i]), Status::kOk) << n;
        }
      }
      EXPECT_TRUE(importer.validate());
      EXPECT_EQ(importer.destroy(), Status::kOk);
      EXPECT_EQ(source.stats().free, 6400U);
      EXPECT_EQ(source.destroy(), Status::kOk);
    }
    EXPECT_EQ(boundary_tags_stats().free, n);
  }
}

TEST_F(ArenaTags, the_last_tag_of_the_pool_is_used_however_short_its_chains_are) {
  static constexpr std::size_t kTags = 15;
  alignas(BoundaryTag) static std::byte storage[kTags * sizeof(BoundaryTag)];
  registry_reset();
  boundary_tags_initialize(storage, sizeof storage);
  // A destroyed arena returns chains of its spare tags. @returns how many segments it had.
  const auto live = [](std::size_t most) {
    Arena ids;
    EXPECT_EQ(ids.initialize({.name = "ids", .start = 1, .size = 1000, .quantum = 1}), Status::kOk);
    std::size_t taken = 0;
    while (taken < most && ids.allocate(1) != 0) ++taken;
    for (std::uintptr_t start = 1; start <= taken; ++start) EXPECT_EQ(ids.free(start, 1), Status::kOk);
    EXPECT_EQ(ids.destroy(), Status::kOk);
    EXPECT_EQ(boundary_tags_stats().free, kTags);
    return taken;
  };
  for (std::size_t most = 0; most < 8; ++most) {
    EXPECT_EQ(live(most), most);
    EXPECT_EQ(live(kTags), kTags - 2) << most;  // its span and its free segment have a tag each
  }
}

}  // namespace alloc_arena_tags_test
}  // namespace qm
