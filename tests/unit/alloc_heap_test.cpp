#include <support/system_fixture.hpp>

#include <array>
#include <cstring>

namespace {

using namespace qm;

class Heap : public qm::test::SystemTest {};

TEST_F(Heap, wastes_at_most_15_bytes_or_an_eighth_in_a_class) {
  for (std::size_t size = 1; size <= heap::kMaxClassBytes; ++size) {
    void* block = heap::allocate(size);
    ASSERT_NE(block, nullptr);
    const std::size_t waste = heap::usable_size(block) - size;
    EXPECT_TRUE(waste <= 15 || waste * 8 <= heap::usable_size(block)) << size;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % heap::kAlignment, 0U);
    std::memset(block, 0xa5, heap::usable_size(block));
    heap::free(block);
  }
}

TEST_F(Heap, large_blocks_are_not_rounded_to_pages) {
  for (std::size_t size = heap::kMaxClassBytes + 1; size < 200000; size = size * 5 / 4) {
    void* block = heap::allocate(size);
    ASSERT_NE(block, nullptr);
    EXPECT_LT(heap::usable_size(block) - size, 64U);
    std::memset(block, 0x5a, size);
    heap::free(block);
  }
}

TEST_F(Heap, size_zero_is_a_block_of_its_own) {
  void* a = heap::allocate(0);
  void* b = heap::allocate(0);
  EXPECT_NE(a, nullptr);
  EXPECT_NE(a, b);
  heap::free(a);
  heap::free(b);
  heap::free(nullptr);
}

TEST_F(Heap, impossible_sizes_are_null_and_nothing_else) {
  EXPECT_EQ(heap::allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(heap::allocate(SIZE_MAX - 63), nullptr);
  EXPECT_EQ(heap::allocate(SIZE_MAX / 2), nullptr);
  EXPECT_EQ(heap::allocate_zeroed(SIZE_MAX / 2, 3), nullptr);
  EXPECT_EQ(heap::allocate_aligned(24, 100), nullptr);
  EXPECT_EQ(heap::allocate_aligned(0, 100), nullptr);
  EXPECT_EQ(heap::allocate_aligned(64, SIZE_MAX - 10), nullptr);
  void* block = heap::allocate(100);
  EXPECT_EQ(heap::reallocate(block, SIZE_MAX - 8), nullptr);
  std::memset(block, 1, 100);
  heap::free(block);
}

TEST_F(Heap, zeroed_memory_is_zero_also_when_it_was_used_before) {
  for (std::size_t size : {24U, 500U, 5000U}) {
    void* dirty = heap::allocate(size);
    std::memset(dirty, 0xff, size);
    heap::free(dirty);
    auto* clean = static_cast<unsigned char*>(heap::allocate_zeroed(size / 4, 4));
    ASSERT_NE(clean, nullptr);
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(clean[i], 0);
    heap::free(clean);
  }
}

TEST_F(Heap, aligned_blocks_are_aligned_in_every_size) {
  for (std::size_t alignment = 1; alignment <= 8192; alignment *= 2) {
    for (std::size_t size : {1U, 17U, 100U, 300U, 512U, 513U, 4000U, 9000U}) {
      void* block = heap::allocate_aligned(alignment, size);
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0U) << alignment << " " << size;
      EXPECT_GE(heap::usable_size(block), size);
      std::memset(block, 3, size);
      heap::free(block);
    }
  }
}

TEST_F(Heap, reallocate_keeps_the_contents_and_grows_large_blocks_in_place) {
  auto* block = static_cast<unsigned char*>(heap::allocate(10));
  for (unsigned i = 0; i < 10; ++i) block[i] = static_cast<unsigned char>(i);
  for (std::size_t size : {12U, 40U, 600U, 5000U, 100000U, 700U, 30U, 10U}) {
    block = static_cast<unsigned char*>(heap::reallocate(block, size));
    ASSERT_NE(block, nullptr);
    for (unsigned i = 0; i < 10; ++i) ASSERT_EQ(block[i], i) << size;
  }
  heap::free(block);
  void* large = heap::allocate(1000);
  EXPECT_EQ(heap::reallocate(large, 3000), large);
  EXPECT_EQ(heap::reallocate(large, 1500), large);
  heap::free(large);
}

TEST_F(Heap, random_blocks_keep_their_contents_and_everything_comes_back) {
  struct Block {
    unsigned char* start;
    std::size_t size;
    unsigned char fill;
  };
  static std::array<Block, 300> blocks;
  blocks = {};
  heap::free(heap::allocate(1000));
  const std::size_t before = free_bytes();
  std::uint32_t random = 12345;
  for (unsigned step = 0; step < 20000; ++step) {
    random = random * 1664525 + 1013904223;
    Block& block = blocks[(random >> 8) % blocks.size()];
    if (block.start != nullptr) {
      for (std::size_t i = 0; i < block.size; i += 7) ASSERT_EQ(block.start[i], block.fill);
      heap::free(block.start);
      block.start = nullptr;
    } else {
      block.size = (random >> 4) % ((random & 7) == 0 ? 9000 : 600);
      block.fill = static_cast<unsigned char>(random >> 24);
      block.start = static_cast<unsigned char*>(heap::allocate(block.size));
      ASSERT_NE(block.start, nullptr);
      std::memset(block.start, block.fill, block.size);
    }
  }
  for (Block& block : blocks) heap::free(block.start);
  const std::size_t after = free_bytes();
  EXPECT_GE(after + 24 * 4096 + 65536, before);  // the classes that were created, and pages that became boundary tags
  EXPECT_TRUE(base_arena().validate());
  EXPECT_TRUE(page_arena().validate());
}

}  // namespace
