/// The heap's blocks, which have headers before their payload: against a model, and damaged.

#include <support/system_fixture.hpp>

#include <algorithm>
#include <array>
#include <cstring>

#include <qm/fault.hpp>
#include <qm/misuse.hpp>
#include <qm/test/seed.hpp>

namespace alloc_blocks_test {

using namespace qm;

Arena& kheap() { return *RegistryCursor<Arena>().find("kheap"); }

/// A block with contents that identify it.
struct Held {
  unsigned char* start = nullptr;
  std::uint32_t size = 0;
  unsigned char fill = 0;

  void write(unsigned char with) {
    fill = with;
    std::memset(start, with, size);
  }
  [[nodiscard]] bool is_intact(std::size_t bytes) const {
    for (std::size_t i = 0; i < bytes; ++i) {
      if (start[i] != fill) return false;
    }
    return true;
  }
};

class BlocksTest : public qm::test::SystemTest {
 protected:
  static constexpr std::size_t kSmall = 48 * 1024;  ///< so small that no class has a cache
  void SetUp() override { start(kSmall); }
  void TearDown() override {
    set_misuse_handler(nullptr);
    SystemTest::TearDown();
  }
};

TEST_F(BlocksTest, a_random_run_keeps_all_contents_and_every_invariant) {
  static std::array<Held, 200> all;
  all = {};
  qm::test::Random random;
  for (unsigned step = 0; step < 20000; ++step) {
    Held& one = all[random.below(all.size())];
    const auto size = static_cast<std::uint32_t>(random.chance(10) ? random.between(500, 5000)
                                                                   : random.between(1, random.chance(50) ? 24 : 300));
    if (one.start == nullptr) {
      const std::size_t align = random.chance(10) ? heap::kAlignment << random.below(8) : heap::kAlignment;
      one.start = static_cast<unsigned char*>(heap::allocate_aligned(align, size));
      if (one.start == nullptr) continue;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one.start) % align, 0U);
      one.size = size;
      one.write(static_cast<unsigned char>(random.next()));
    } else if (random.chance(30)) {
      auto* moved = static_cast<unsigned char*>(heap::reallocate(one.start, size));
      if (moved == nullptr) continue;
      one.start = moved;
      ASSERT_TRUE(one.is_intact(size < one.size ? size : one.size)) << step;
      one.size = size;
      one.write(one.fill);
    } else {
      ASSERT_TRUE(one.is_intact(one.size)) << step;
      heap::free(one.start);
      one = {};
    }
    if (step % 16 == 0) {
      ASSERT_TRUE(kheap().validate()) << step;
    }
    if (step % 1000 == 0) kheap().reap();
  }
  for (Held& one : all) heap::free(one.start);
  EXPECT_EQ(heap::misuses(), 0U);
  EXPECT_EQ(kheap().stats().allocated, 0U);
  EXPECT_TRUE(kheap().validate());
}

TEST_F(BlocksTest, all_memory_comes_back_to_the_byte_after_exhaustion_at_every_size) {
  void* first = heap::allocate(100);
  heap::free(first);
  const std::size_t before = free_bytes();
  for (std::size_t size = 16; size <= kSmall; size += size < 256 ? 16 : size / 3 / 16 * 16) {
    static std::array<void*, kSmall / 16> blocks;
    std::size_t count = 0;
    while (void* block = heap::allocate(size)) blocks[count++] = block;
    EXPECT_TRUE(kheap().validate()) << size;
    while (count != 0) heap::free(blocks[--count]);
    EXPECT_EQ(kheap().stats().allocated, 0U) << size;
    EXPECT_EQ(free_bytes(), before) << size;
  }
}

TEST_F(BlocksTest, what_a_block_leaves_free_inside_a_span_goes_back_for_slabs) {
  void* low = heap::allocate(2000);
  void* middle = heap::allocate(5 * PageMap::kPageBytes);
  void* high = heap::allocate(2000);
  ASSERT_NE(high, nullptr);
  const std::size_t before = base_arena().stats().free;
  heap::free(middle);
  reclaim();
  EXPECT_GE(base_arena().stats().free, before + 4 * PageMap::kPageBytes);
  EXPECT_TRUE(kheap().validate());
  heap::free(low);
  heap::free(high);
  EXPECT_EQ(heap::misuses(), 0U);
}

TEST_F(BlocksTest, what_is_small_lies_in_holes_and_not_behind_a_block_that_grows) {
  void* const hole = heap::allocate(2000);
  void* const between = heap::allocate(100);
  auto* grows = static_cast<unsigned char*>(heap::allocate(3000));
  heap::free(hole);
  ASSERT_NE(grows, nullptr);
  std::array<void*, 20> small{};
  for (std::size_t i = 0; i < small.size(); ++i) {
    EXPECT_EQ(heap::reallocate(grows, 3000 + 10 * i), grows) << i;
    ASSERT_NE(small[i] = heap::allocate(10), nullptr);
    EXPECT_LT(reinterpret_cast<std::uintptr_t>(small[i]), reinterpret_cast<std::uintptr_t>(grows));
  }
  for (void* block : small) heap::free(block);
  heap::free(between);
  heap::free(grows);
  EXPECT_TRUE(kheap().validate());
}

TEST_F(BlocksTest, pages_between_spans_join_them_when_no_other_memory_is_left) {
  constexpr std::size_t kPage = PageMap::kPageBytes;
  Arena& base = base_arena();
  heap::free(heap::allocate(1));
  reclaim();
  // All whole pages: of the upper ones only three in a row are freed, first the outer two.
  static std::array<std::uintptr_t, 200> pages;
  std::size_t count = 0;
  while ((pages[count] = base.allocate(kPage, Fit::kBest, nullptr, WaitPolicy::kQuiet)) != 0)
    ASSERT_LT(++count, pages.size());
  std::size_t low = count;
  for (std::size_t i = 0; i < count; ++i) {
    const auto has = [&](std::uintptr_t page) { return std::find(pages.begin(), pages.end(), page) != pages.end(); };
    if ((low == count || pages[i] > pages[low]) && has(pages[i] + kPage) && has(pages[i] + 2 * kPage)) low = i;
  }
  ASSERT_LT(low, count);
  const std::uintptr_t first = pages[low];
  std::array<unsigned char*, 400> filler{};
  std::size_t fillers = 0;
  const auto within = [](const void* block, std::uintptr_t page) {
    return reinterpret_cast<std::uintptr_t>(block) - page < kPage;
  };
  // A block at the start of each of the outer pages' spans, which are otherwise empty.
  std::array<void*, 2> kept{};
  for (const unsigned at : {0U, 2U}) {
    ASSERT_EQ(base.free(first + at * kPage, kPage), Status::kOk);
    for (;;) {
      auto* block = static_cast<unsigned char*>(heap::allocate(kPage / 4));
      ASSERT_NE(block, nullptr);
      if (within(block, first + at * kPage)) {
        kept[at / 2] = block;
        break;
      }
      ASSERT_LT(fillers, filler.size());
      filler[fillers++] = block;
    }
  }
  const std::size_t spans = kheap().stats().spans;
  const std::size_t wanted = kPage + kPage / 16;  // more than any page has
  EXPECT_EQ(heap::allocate(wanted), nullptr);
  EXPECT_TRUE(kheap().validate());
  ASSERT_EQ(base.free(first + kPage, kPage), Status::kOk);
  auto* joined = static_cast<unsigned char*>(heap::allocate(wanted));
  ASSERT_NE(joined, nullptr);
  EXPECT_TRUE(within(joined, first));
  EXPECT_EQ(kheap().stats().spans, spans - 1);
  EXPECT_TRUE(kheap().validate());
  EXPECT_TRUE(base.validate());
  heap::free(joined);
  for (void* block : kept) heap::free(block);
  while (fillers != 0) heap::free(filler[--fillers]);
  kheap().reap();
  EXPECT_TRUE(kheap().validate());
  EXPECT_TRUE(base.validate());
  for (std::size_t i = 0; i < count; ++i) {
    if (pages[i] - first >= 3 * kPage) EXPECT_EQ(base.free(pages[i], kPage), Status::kOk);
  }
}

TEST_F(BlocksTest, a_span_from_which_no_pages_can_go_back_for_lack_of_tags_is_as_it_was) {
  constexpr std::size_t kPage = PageMap::kPageBytes;
  restart(std::size_t{192} * 1024);
  void* low = heap::allocate(2000);
  void* middle = heap::allocate(5 * kPage);
  void* high = heap::allocate(2000);
  ASSERT_NE(high, nullptr);
  heap::free(middle);
  const auto fail_tags = [] {
    fault::set_acquisition_test(
        [](fault::Resource resource, const Arena*) noexcept { return resource != fault::Resource::kTag; });
  };
  // Until base has no tag any more to split a segment.
  fail_tags();
  static std::array<std::uintptr_t, 64> pages;
  std::size_t count = 0;
  while ((pages[count] = base_arena().allocate(kPage, Fit::kInstant, nullptr, WaitPolicy::kQuiet)) != 0)
    ASSERT_LT(++count, pages.size());
  const ArenaStats before = kheap().stats();
  const std::size_t free = base_arena().stats().free;
  ASSERT_GT(free, 0U);
  kheap().reap();
  EXPECT_EQ(base_arena().stats().free, free);
  ArenaStats after = kheap().stats();
  EXPECT_EQ(after.spans, before.spans);
  EXPECT_EQ(after.total, before.total);
  EXPECT_EQ(after.imported, before.imported);
  EXPECT_EQ(after.largest_free, before.largest_free);
  EXPECT_TRUE(kheap().validate());
  EXPECT_TRUE(base_arena().validate());
  fault::set_acquisition_test(nullptr);
  EXPECT_GE(kheap().reap(), 4 * kPage);
  EXPECT_TRUE(kheap().validate());
  while (count != 0) EXPECT_EQ(base_arena().free(pages[--count], kPage), Status::kOk);
  heap::free(low);
  heap::free(high);
  EXPECT_TRUE(kheap().validate());
  EXPECT_EQ(heap::misuses(), 0U);
}

TEST_F(BlocksTest, a_span_grows_by_what_its_free_end_lacks) {
  constexpr std::size_t kPage = PageMap::kPageBytes;
  void* low = heap::allocate(kPage + 100);  // in a span of the source
  for (std::size_t pages = 1; pages <= 4; ++pages) {
    // The end of the span is one free block; two quanta of it may be spare.
    void* end = heap::allocate(2 * kPage + 200);
    const std::size_t imported = kheap().stats().imported;
    heap::free(end);
    const ArenaStats before = kheap().stats();
    EXPECT_EQ(before.imported, imported);
    const std::size_t wanted = before.largest_free + pages * kPage - kPage / 2;
    void* large = heap::allocate(wanted);
    ASSERT_NE(large, nullptr);
    EXPECT_LE(kheap().stats().imported, before.imported + pages * kPage) << pages;
    heap::free(large);
    kheap().reap();
  }
  heap::free(low);
  EXPECT_TRUE(kheap().validate());
}

TEST_F(BlocksTest, the_end_of_a_span_goes_back_whatever_part_of_a_page_lies_before_it) {
  constexpr std::size_t kPage = PageMap::kPageBytes;
  restart(std::size_t{96} * 1024);
  void* first = heap::allocate(kPage);
  for (std::size_t size = 16; size <= kPage + 16; size += 16) {
    heap::free(heap::allocate(2 * kPage - 200));
    void* low = heap::allocate(size);
    kheap().reap();
    ASSERT_TRUE(kheap().validate()) << size;
    EXPECT_LT(kheap().stats().free, 2 * kPage) << size;
    void* next = heap::allocate(kPage);
    ASSERT_NE(next, nullptr);
    std::memset(next, 0x5a, kPage);
    ASSERT_TRUE(kheap().validate()) << size;
    heap::free(next);
    heap::free(low);
  }
  heap::free(first);
}

TEST_F(BlocksTest, imports_a_sixty_fourth_of_the_memory_at_a_time) {
  if (PageMap::kPageBytes != 4096 || base_arena().quantum() != 4096) GTEST_SKIP() << "other pages";
  for (std::size_t pages = 440; pages < 470; ++pages) {
    restart(pages * 4096);
    const std::size_t part = base_arena().stats().total / 64 / 4096;
    void* block = heap::allocate(5000);
    EXPECT_EQ(kheap().stats().imported, part * 4096) << pages;
    heap::free(block);
  }
}

TEST_F(BlocksTest, takes_a_hole_of_the_size_before_larger_ones_that_were_freed_later) {
  restart(std::size_t{128} * 1024);
  // Holes of one power of two, and two of about a size.
  static constexpr std::array<std::size_t, 6> kSizes = {1100, 1200, 2000, 2000, 2000, 2000};
  std::array<void*, kSizes.size()> holes{};
  std::array<void*, kSizes.size()> between{};
  void* const first = heap::allocate(kheap().stats().largest_free - 200);  // the rest lies in a span that grows
  ASSERT_NE(first, nullptr);
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    ASSERT_NE(holes[i] = heap::allocate(kSizes[i]), nullptr);
    ASSERT_NE(between[i] = heap::allocate(4000), nullptr);
  }
  for (void* hole : holes) heap::free(hole);
  void* small = heap::allocate(1100);
  void* large = heap::allocate(1200);
  EXPECT_EQ(small, holes[0]);
  EXPECT_EQ(large, holes[1]);
  heap::free(small);
  heap::free(large);
  for (void* block : between) heap::free(block);
  heap::free(first);
  EXPECT_TRUE(kheap().validate());
}

TEST_F(BlocksTest, classes_have_caches_from_forty_eight_pages_of_memory_on) {
  for (std::size_t pages = 44; pages < 60; ++pages) {
    restart(pages * PageMap::kPageBytes);
    const std::size_t total = base_arena().stats().total / PageMap::kPageBytes;
    static std::array<void*, 2000> blocks;
    std::size_t count = 0;
    while (count < blocks.size() && (blocks[count] = heap::allocate(64)) != nullptr) ++count;
    EXPECT_EQ(RegistryCursor<Cache>().find("kmalloc_64") != nullptr, total >= 48) << pages;
    while (count != 0) heap::free(blocks[--count]);
  }
}

TEST_F(BlocksTest, a_large_free_block_at_the_end_of_a_span_goes_back_at_once) {
  restart(std::size_t{512} * 1024);
  void* low = heap::allocate(2000);
  void* large = heap::allocate(100'000);
  ASSERT_NE(large, nullptr);
  const std::size_t before = base_arena().stats().free;
  heap::free(large);
  EXPECT_GE(base_arena().stats().free, before + 50'000);
  EXPECT_TRUE(kheap().validate());
  heap::free(low);
}

TEST_F(BlocksTest, a_class_gets_its_cache_once_it_holds_enough) {
  restart(std::size_t{512} * 1024);
  for (std::size_t size = 128; size <= 1024; size += 16) {  // the caches that are made at once take their share
    for (int i = 0; i < 16; ++i) heap::free(heap::allocate(size));
  }
  static std::array<void*, 4096> blocks;
  std::size_t count = 0;
  while (RegistryCursor<Cache>().find("kmalloc_64") == nullptr && count < blocks.size())
    ASSERT_NE(blocks[count++] = heap::allocate(64), nullptr);
  EXPECT_GE(count, 256U);
  EXPECT_LT(count, blocks.size());
  while (count != 0) heap::free(blocks[--count]);
  EXPECT_EQ(heap::misuses(), 0U);
}

TEST_F(BlocksTest, the_first_operations_of_a_class_have_blocks_and_make_its_cache_in_steps) {
  restart(qm::test::kPoolBytes);
  constexpr std::size_t kSize = 64;
  const auto has_cache = [] { return RegistryCursor<Cache>().find("kmalloc_64") != nullptr; };
  std::array<void*, 16> blocks;
  std::size_t count = 0;
  std::size_t held = kheap().segments_held();
  while (!has_cache() && count < blocks.size()) {
    ASSERT_NE(blocks[count++] = heap::allocate(kSize), nullptr);
    EXPECT_EQ(kheap().segments_held(), ++held);  // the one that creates the cache is a block, too
  }
  EXPECT_GE(count, 2U);
  ASSERT_LT(count, blocks.size());
  void* const object = heap::allocate(kSize);
  EXPECT_EQ(kheap().segments_held(), held);
  EXPECT_EQ(heap::usable_size(object), kSize);
  heap::free(object);
  while (count != 0) heap::free(blocks[--count]);
  EXPECT_EQ(heap::misuses(), 0U);
}

TEST_F(BlocksTest, a_block_of_a_class_without_a_cache_changes_its_size_where_it_is) {
  restart(std::size_t{64} * 1024);  // no class has a cache yet
  auto* const block = static_cast<unsigned char*>(heap::allocate(40));
  ASSERT_NE(block, nullptr);
  std::memset(block, 0x5a, 40);
  for (const std::size_t size : {56, 72, 200, 120, 40, 8}) {
    ASSERT_EQ(heap::reallocate(block, size), block) << size;
    EXPECT_GE(heap::usable_size(block), size);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(block[i], 0x5a);
    EXPECT_TRUE(kheap().validate());
  }
  heap::free(block);
  EXPECT_EQ(heap::misuses(), 0U);
}

// ---- damage ---------------------------------------------------------------------------------------------------------

MisuseReport last;
unsigned reports = 0;
void note(const MisuseReport& report) noexcept {
  last = report;
  ++reports;
}

TEST_F(BlocksTest, a_write_behind_a_block_is_reported_with_both_neighbours_when_either_is_freed) {
  set_misuse_handler(note);
  qm::test::Random random;
#if defined(__riscv)
  constexpr unsigned kRounds = 2000;  // emulated
#else
  constexpr unsigned kRounds = 100'000;
#endif
  for (unsigned round = 0; round < kRounds; ++round) {
    restart(kSmall);
    set_misuse_handler(note);
    std::array<unsigned char*, 3> blocks{};
    for (auto& block : blocks)
      ASSERT_NE(block = static_cast<unsigned char*>(heap::allocate(random.between(1, 200))), nullptr);
    const std::size_t bytes = random.between(1, 64);
    unsigned char* const end = blocks[0] + heap::usable_size(blocks[0]);
    std::array<unsigned char, 64> before{};
    std::memcpy(before.data(), end, bytes);
    for (std::size_t i = 0; i < bytes; ++i) end[i] = static_cast<unsigned char>(random.next());
    if (std::memcmp(before.data(), end, bytes) == 0) continue;  // unchanged
    reports = 0;
    // With call sites, a note lies between the payload and the next header: the block's own free checks it.
    constexpr std::size_t kNote = kCallSites ? 2 * sizeof(void*) : 0;
    const bool is_in_note = bytes <= kNote || std::memcmp(before.data() + kNote, end + kNote, bytes - kNote) == 0;
    heap::free(blocks[is_in_note ? 0 : random.below(2)]);
    ASSERT_EQ(reports, 1U) << round;
    EXPECT_EQ(last.kind, Misuse::kOverflow);
    EXPECT_EQ(last.object, blocks[0]);
    EXPECT_EQ(last.neighbour, blocks[1]);
    EXPECT_EQ(heap::misuses(), 1U);
    EXPECT_EQ(kheap().stats().segments_allocated, 3U);  // both remain untouched
    heap::free(blocks[2]);                              // not adjacent to the damage
  }
}

TEST_F(BlocksTest, a_write_to_free_memory_behind_a_block_misleads_no_allocation) {
  qm::test::Random random;
  for (unsigned round = 0; round < 500; ++round) {
    restart(kSmall);
    static std::array<unsigned char*, 40> blocks;
    for (auto& block : blocks)
      ASSERT_NE(block = static_cast<unsigned char*>(heap::allocate(random.between(1, 400))), nullptr);
    for (std::size_t i = 1; i < blocks.size(); i += 2) heap::free(blocks[i]);
    const std::size_t hit = random.below(blocks.size() / 2) * 2;
    std::memset(blocks[hit] + heap::usable_size(blocks[hit]), static_cast<int>(random.next() & 0xff), 24);
    // A damaged header is not followed: every allocation returns undamaged memory or none.
    for (unsigned i = 0; i < 60; ++i) {
      const std::size_t size = random.between(1, 400);
      auto* block = static_cast<unsigned char*>(heap::allocate(size));
      if (block != nullptr) std::memset(block, 0x5a, size);
    }
    ArenaWalk walk(kheap());
    Segment segment;
    bool is_sound = true;
    while (walk.next(segment)) is_sound = walk.is_sound() && is_sound;
    EXPECT_FALSE(is_sound) << round;  // `verify` reports this too
  }
}

TEST_F(BlocksTest, a_second_free_and_an_address_inside_are_refused) {
  auto* block = static_cast<unsigned char*>(heap::allocate(300));
  auto* other = static_cast<unsigned char*>(heap::allocate(300));
  heap::free(block + 16);
  heap::free(block + 8);
  EXPECT_EQ(heap::misuses(), 2U);
  heap::free(block);
  heap::free(block);
  EXPECT_EQ(heap::misuses(), 3U);
  heap::free(other);
  heap::free(other);  // its block was joined with the neighbour
  EXPECT_EQ(heap::misuses(), 4U);
  EXPECT_TRUE(kheap().validate());
}

}  // namespace alloc_blocks_test
