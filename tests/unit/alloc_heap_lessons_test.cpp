// Defects of Akaros's kmalloc and the lessons of their fixes: for each a test that fails if this heap has it.

#include <support/system_fixture.hpp>

#include <array>
#include <cstring>

namespace alloc_heap_lessons_test {

using namespace qm;

class HeapLessons : public qm::test::SystemTest {
 protected:
  static void fill(void* block, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
      static_cast<unsigned char*>(block)[i] = static_cast<unsigned char>(i * 7 + 3);
  }
  [[nodiscard]] static bool holds(const void* block, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
      if (static_cast<const unsigned char*>(block)[i] != static_cast<unsigned char>(i * 7 + 3)) return false;
    }
    return true;
  }
};

// "kmalloc size+tag unchecked": a size near the end of a word became a small block.
TEST_F(HeapLessons, no_size_wraps_into_a_small_block) {
  for (std::size_t below = 0; below < 9000; below = below * 2 + 1) {
    EXPECT_EQ(heap::allocate(SIZE_MAX - below), nullptr) << below;
    EXPECT_EQ(heap::allocate_zeroed(1, SIZE_MAX - below), nullptr);
    EXPECT_EQ(heap::reallocate(nullptr, SIZE_MAX - below), nullptr);
    for (std::size_t alignment = 1; alignment <= (std::size_t{1} << 24); alignment *= 16) {
      EXPECT_EQ(heap::allocate_aligned(alignment, SIZE_MAX - below), nullptr) << below << " " << alignment;
    }
  }
  for (std::size_t half = SIZE_MAX / 2; half > SIZE_MAX / 64; half /= 2) EXPECT_EQ(heap::allocate(half + 1), nullptr);
  EXPECT_EQ(heap::allocate_aligned(SIZE_MAX / 2 + 1, 1), nullptr);
  EXPECT_EQ(heap::allocate_zeroed(SIZE_MAX / 4 + 2, 4), nullptr);
  EXPECT_EQ(heap::allocate_zeroed(4, SIZE_MAX / 4 + 2), nullptr);
}

// "roundup_pow2 shifts an int": the size of a slab's import was undefined from 2 GiB on.
TEST_F(HeapLessons, objects_of_gigabytes_are_imported_right) {
  if constexpr (sizeof(std::size_t) == 8) {
    for (unsigned shift = 30; shift <= 40; ++shift) {
      const std::size_t size = std::size_t{1} << shift;
      Arena range;
      ASSERT_EQ(range.initialize({.name = "range", .start = size, .size = 40 * size, .quantum = size}), Status::kOk);
      CacheConfig config;
      config.name = "huge";
      config.object_size = size;
      config.flags = cache_flags::kNoTouch;
      config.source = &range;
      Cache* cache = Cache::create(config);
      ASSERT_NE(cache, nullptr) << shift;
      const auto object = reinterpret_cast<std::uintptr_t>(cache->allocate());
      EXPECT_GE(object, size);
      EXPECT_EQ(object % size, 0U);
      cache->free(reinterpret_cast<void*>(object));
      EXPECT_EQ(Cache::destroy(cache), Status::kOk);
      EXPECT_EQ(range.destroy(), Status::kOk);
    }
  }
}

// "kmalloc panics on NULL even for MEM_ATOMIC".
TEST_F(HeapLessons, without_memory_there_is_a_null_whatever_the_wait_policy) {
  static std::array<void*, 200000> blocks;
  std::size_t count = 0;
  for (const WaitPolicy wait_policy : {WaitPolicy::kAtomic, WaitPolicy::kReclaim}) {
    for (const std::size_t size : {1700, 900, 100, 1700}) {
      while (count < blocks.size() && (blocks[count] = heap::allocate_at(nullptr, size, wait_policy)) != nullptr)
        ++count;
    }
  }
  ASSERT_LT(count, blocks.size());
  for (const WaitPolicy wait_policy :
       {WaitPolicy::kAtomic, WaitPolicy::kAuto, WaitPolicy::kReclaim, WaitPolicy::kQuiet, wait_at_most(1)}) {
    EXPECT_EQ(heap::allocate_at(nullptr, 60000, wait_policy), nullptr);
  }
  while (count != 0) heap::free(blocks[--count]);
  void* block = heap::allocate(60000);
  EXPECT_NE(block, nullptr);
  heap::free(block);
}

// A tag before each block: 64 bytes took 128.
TEST_F(HeapLessons, powers_of_two_take_a_header_more_at_most) {
  for (std::size_t size = 16; size <= 2048; size *= 2) {
    void* block = heap::allocate(size);
    EXPECT_GE(heap::usable_size(block), size);
    EXPECT_LT(heap::usable_size(block) - size, heap::kAlignment);
    heap::free(block);
  }
}

// 782b10e9, 6a0d3c17: realloc lost contents, or did not count the room of its tag.
TEST_F(HeapLessons, realloc_keeps_all_contents_over_every_boundary) {
  for (std::size_t size = 1; size < 1400; size += 13) {
    for (const std::size_t step :
         {std::size_t{1}, std::size_t{15}, std::size_t{100}, std::size_t{700}, std::size_t{5000}}) {
      void* block = heap::allocate(size);
      fill(block, size);
      block = heap::reallocate(block, size + step);
      ASSERT_TRUE(holds(block, size)) << size << " + " << step;
      EXPECT_GE(heap::usable_size(block), size + step);
      fill(block, size + step);
      block = heap::reallocate(block, size);
      ASSERT_TRUE(holds(block, size)) << size + step << " - " << step;
      heap::free(block);
    }
  }
  EXPECT_EQ(heap::misuses(), 0U);
}

// krealloc panicked on a block from kmalloc_align, which also had a limit of 2^28.
TEST_F(HeapLessons, an_aligned_block_is_a_block_like_any_other) {
  for (std::size_t alignment = 16; alignment <= 65536; alignment *= 2) {
    void* block = heap::allocate_aligned(alignment, 300);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0U);
    fill(block, 300);
    block = heap::reallocate(block, 3000);
    ASSERT_TRUE(holds(block, 300));
    heap::free(block);
  }
  // More than the memory has, wherever it lies: no panic.
  EXPECT_EQ(heap::allocate_aligned(std::size_t{1} << (sizeof(std::size_t) * 8 - 2), 300), nullptr);
  EXPECT_EQ(heap::misuses(), 0U);
}

// Only free checked canaries; a second free of a large block was not reported.
TEST_F(HeapLessons, a_second_free_of_a_large_block_is_found_at_once) {
  void* block = heap::allocate(3000);
  heap::free(block);
  heap::free(block);
  EXPECT_EQ(heap::misuses(), 1U);
  void* again = heap::allocate(3000);
  void* other = heap::allocate(3000);
  EXPECT_NE(again, other);
  heap::free(again);
  heap::free(other);
}

}  // namespace alloc_heap_lessons_test
