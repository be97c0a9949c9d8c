// The page map: tags of pages at any address, in leaves that are created when slabs are placed there.

#include <support/system_fixture.hpp>

#include <array>
#include <cstring>

#include <qm/detail/page_map.hpp>

namespace alloc_page_map_test {

using namespace qm;

constexpr std::size_t kPage = PageMap::kPageBytes;

class PageMapTest : public qm::test::SystemTest {
 protected:
  PageMap map_;
};

TEST_F(PageMapTest, pages_may_be_as_far_apart_as_addresses_go) {
  const std::uintptr_t last = UINTPTR_MAX - kPage + 1;
  EXPECT_EQ(map_.tag(0), 0U);
  ASSERT_TRUE(map_.mark(2 * kPage, kPage, 8));
  ASSERT_TRUE(map_.mark(last - kPage, 2 * kPage, 16));
  EXPECT_EQ(map_.tag(2 * kPage), 8U);
  EXPECT_EQ(map_.tag(3 * kPage - 1), 8U);
  EXPECT_EQ(map_.tag(last - kPage), 16U);
  EXPECT_EQ(map_.tag(UINTPTR_MAX), 16U);
  for (const std::uintptr_t address :
       {std::uintptr_t{0}, 2 * kPage - 1, 3 * kPage, UINTPTR_MAX / 2, last - kPage - 1}) {
    EXPECT_EQ(map_.tag(address), 0U) << address;
  }
  map_.clear(2 * kPage, kPage);
  EXPECT_EQ(map_.tag(2 * kPage), 0U);
  EXPECT_EQ(map_.tag(UINTPTR_MAX), 16U);
}

TEST_F(PageMapTest, a_leaf_that_is_added_changes_no_other) {
  constexpr std::uintptr_t kMiddle = std::uintptr_t{1} << 30;
  constexpr std::array<std::ptrdiff_t, 7> kPages = {0, 1, 3000, 9000, -2000, -9000, 12000};
  for (std::size_t marked = 0; marked != kPages.size(); ++marked) {
    const auto address = [&](std::size_t i) { return kMiddle + static_cast<std::uintptr_t>(kPages[i]) * kPage; };
    ASSERT_TRUE(map_.mark(address(marked), kPage, static_cast<std::uint8_t>(marked + 1)));
    for (std::size_t i = 0; i <= marked; ++i)
      EXPECT_EQ(map_.tag(address(i) + kPage / 2), i + 1) << i << " of " << marked;
    EXPECT_EQ(map_.tag(kMiddle + 2 * kPage), 0U);
    EXPECT_EQ(map_.tag(kMiddle - kPage), 0U);
  }
}

TEST_F(PageMapTest, costs_what_the_tagged_memory_is_and_not_what_lies_between) {
  const std::size_t before = base_arena().stats().free;
  ASSERT_TRUE(map_.mark(std::uintptr_t{1} << 30, kPage, 8));
  ASSERT_TRUE(map_.mark((std::uintptr_t{1} << 30) + PageMap::kLeafBytes - kPage, kPage, 8));
  EXPECT_EQ(base_arena().stats().free, before - kPage);
  ASSERT_TRUE(map_.mark(std::uintptr_t{3} << 30, kPage, 8));
  EXPECT_EQ(base_arena().stats().free, before - 2 * kPage);
}

TEST_F(PageMapTest, a_page_that_was_prepared_serves_for_the_next_leaf_or_goes_back) {
  const std::size_t before = base_arena().stats().free;
  EXPECT_TRUE(map_.prepare());  // the lower half of a page
  EXPECT_TRUE(map_.prepare());  // the upper half
  EXPECT_FALSE(map_.prepare());
  EXPECT_EQ(base_arena().stats().free, before - kPage);
  ASSERT_TRUE(map_.mark(std::uintptr_t{1} << 30, kPage, 8));
  EXPECT_EQ(base_arena().stats().free, before - kPage);
  for (std::uintptr_t page = kPage; page != PageMap::kLeafBytes; page += kPage)
    ASSERT_EQ(map_.tag((std::uintptr_t{1} << 30) + page), 0U);
  EXPECT_EQ(map_.trim(), 0U);
  for (const unsigned halves : {1U, 2U}) {
    for (unsigned half = 0; half != halves; ++half) EXPECT_TRUE(map_.prepare());
    EXPECT_EQ(map_.trim(), kPage);
    EXPECT_EQ(base_arena().stats().free, before - kPage);
  }
  // All of a used page is cleared, also the half that was not needed when it was allocated.
  const std::uintptr_t dirty = base_arena().allocate(kPage);
  ASSERT_NE(dirty, 0U);
  std::memset(reinterpret_cast<void*>(dirty), 0xff, kPage);
  base_arena().free(dirty, kPage);
  EXPECT_TRUE(map_.prepare());
  ASSERT_TRUE(map_.mark(std::uintptr_t{3} << 30, kPage, 8));
  for (std::uintptr_t page = kPage; page != PageMap::kLeafBytes; page += kPage)
    ASSERT_EQ(map_.tag((std::uintptr_t{3} << 30) + page), 0U);
}

TEST_F(PageMapTest, has_as_many_leaves_as_there_is_memory_for_them) {
  constexpr unsigned kLeaves = 200;
  const auto address = [](unsigned i) { return i * 7 * PageMap::kLeafBytes; };
  for (unsigned i = 1; i <= kLeaves; ++i) ASSERT_TRUE(map_.mark(address(i), kPage, static_cast<std::uint8_t>(i)));
  for (unsigned i = 1; i <= kLeaves; ++i) EXPECT_EQ(map_.tag(address(i)), i) << i;
}

TEST_F(PageMapTest, without_memory_to_grow_into_nothing_is_tagged) {
  while (base_arena().allocate(kPage, Fit::kInstant, nullptr, WaitPolicy::kQuiet) != 0) {
  }
  EXPECT_FALSE(map_.mark(kPage, kPage, 8));
  EXPECT_EQ(map_.tag(kPage), 0U);
}

TEST_F(PageMapTest, knows_its_regions) {
  PageMap map;
  for (unsigned i = 0; i < PageMap::kMaxRegions; ++i) {
    const std::uintptr_t start = 0x10000 * (i + 1) + kPage / 2;
    ASSERT_EQ(map.add_region(start, start + kPage), Status::kOk);
  }
  EXPECT_EQ(map.add_region(0x1000000, 0x1001000), Status::kNoMemory);
  EXPECT_EQ(map.region_of(0x10000).low, 0x10000U);
  EXPECT_EQ(map.region_of(0x20000 + kPage).low, 0x20000U);
  EXPECT_EQ(&map.region_of(0x20000 + kPage / 2 * 3), &PageMap::kNoRegion);
  EXPECT_EQ(&map.region_of(0), &PageMap::kNoRegion);
}

TEST_F(PageMapTest, prepares_the_next_leaf_only_if_its_regions_are_larger_than_one_leaf) {
  PageMap map;
  ASSERT_TRUE(map.mark(std::uintptr_t{1} << 30, kPage, 8));
  EXPECT_FALSE(map.prepares_next());
  ASSERT_EQ(map.add_region(std::uintptr_t{1} << 30, (std::uintptr_t{1} << 30) + PageMap::kLeafBytes), Status::kOk);
  EXPECT_FALSE(map.prepares_next());
  ASSERT_EQ(map.add_region(std::uintptr_t{3} << 30, (std::uintptr_t{3} << 30) + kPage), Status::kOk);
  EXPECT_EQ(map.prepares_next(), kMagazines && kPage >= 2048);
}

}  // namespace alloc_page_map_test
