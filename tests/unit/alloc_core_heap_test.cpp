// The heap of the core form (QM_FULL=OFF).

#include <support/system_fixture.hpp>

#include <array>
#include <cstring>

#include <qm/test/seed.hpp>

namespace {

using namespace qm;
using qm::test::pool;

class CoreHeap : public qm::test::SystemTest {
 protected:
  /// Whether all that was taken came back, but for the slabs in which the caches of the classes lie.
  static bool is_whole() {
    reclaim();
    const ArenaStats stats = base_arena().stats();
    return stats.segments_allocated <= 2 && stats.bad_frees == 0;
  }
};

unsigned char* bytes_at(void* block) { return static_cast<unsigned char*>(block); }

TEST_F(CoreHeap, blocks_of_all_sizes_keep_their_contents_and_waste_at_most_15_bytes_or_an_eighth) {
  for (std::size_t size = 0; size < 3000; ++size) {
    unsigned char* block = bytes_at(heap::allocate(size));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % heap::kAlignment, 0U);
    const std::size_t usable = heap::usable_size(block);
    ASSERT_GE(usable, size);
    EXPECT_LE(usable - size, size < 128 ? 16U : size / 8);
    std::memset(block, 0x77, usable);
    unsigned char* behind = bytes_at(heap::allocate(size));
    std::memset(behind, 0x11, usable);
    EXPECT_EQ(block[0], 0x77);
    EXPECT_EQ(block[usable - 1], 0x77);
    heap::free(block);
    heap::free_sized(behind, size);
  }
  EXPECT_EQ(heap::misuses(), 0U);
  EXPECT_TRUE(is_whole());
}

TEST_F(CoreHeap, the_classes_rise_in_the_steps_that_are_said) {
  std::size_t before = 0;
  for (unsigned number = 1; heap::class_bytes(number) != 0; ++number) {
    const std::size_t size = heap::class_bytes(number);
    EXPECT_EQ(size - before, size <= 256 ? 16U : size <= 512 ? 32U : 64U);
    before = size;
    void* block = heap::allocate(size);
    EXPECT_EQ(heap::usable_size(block), size);
    heap::free(block);
  }
  EXPECT_EQ(before, heap::kMaxClassBytes);
}

TEST_F(CoreHeap, aligned_blocks_are_aligned_in_classes_and_above) {
  for (std::size_t alignment = 1; alignment <= 65536; alignment *= 2) {
    for (std::size_t size : {0, 1, 17, 100, 300, 1000, 5000, 70000}) {
      std::array<void*, 5> blocks{};
      for (void*& block : blocks) {
        block = heap::allocate_aligned(alignment, size);
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0U);
        std::memset(block, 1, size);
      }
      heap::free_sized(blocks[0], size, alignment);
      for (unsigned i = 1; i < blocks.size(); ++i) heap::free(blocks[i]);
    }
  }
  EXPECT_EQ(heap::allocate_aligned(3, 10), nullptr);
  EXPECT_EQ(heap::allocate_aligned(0, 10), nullptr);
  EXPECT_EQ(heap::misuses(), 0U);
  EXPECT_TRUE(is_whole());
}

TEST_F(CoreHeap, a_reallocation_keeps_the_contents_and_the_place_where_it_can) {
  void* block = heap::reallocate(nullptr, 20);
  EXPECT_EQ(heap::reallocate(block, 32), block);
  block = heap::reallocate(block, 0);
  EXPECT_EQ(heap::reallocate(block, 16), block);
  heap::free(block);
  unsigned char* large = bytes_at(heap::allocate(2000));
  for (unsigned i = 0; i < 2000; ++i) large[i] = static_cast<unsigned char>(i * 7);
  EXPECT_EQ(heap::reallocate(large, 30000), large);
  EXPECT_EQ(heap::reallocate(large, 2000), large);
  large = bytes_at(heap::reallocate(large, 90000));
  ASSERT_NE(large, nullptr);
  large = bytes_at(heap::reallocate(large, 1500));
  large = bytes_at(heap::reallocate(large, 700));
  for (unsigned i = 0; i < 700; ++i) ASSERT_EQ(large[i], static_cast<unsigned char>(i * 7));
  EXPECT_EQ(heap::reallocate(large, SIZE_MAX), nullptr);
  EXPECT_EQ(large[699], static_cast<unsigned char>(699 * 7));
  heap::free(large);
}

TEST_F(CoreHeap, zeroed_memory_is_zero_and_a_product_that_overflows_is_refused) {
  void* dirty = heap::allocate(5000);
  std::memset(dirty, 0xff, 5000);
  heap::free(dirty);
  unsigned char* block = bytes_at(heap::allocate_zeroed(50, 100));
  for (unsigned i = 0; i < 5000; ++i) ASSERT_EQ(block[i], 0);
  heap::free(block);
  EXPECT_EQ(heap::allocate_zeroed(SIZE_MAX / 4, 5), nullptr);
}

TEST_F(CoreHeap, no_size_wraps_into_a_small_block) {
  for (std::size_t less = 0; less < 2 * 4096; ++less) {
    EXPECT_EQ(heap::allocate(SIZE_MAX - less), nullptr) << less;
  }
  void* block = heap::allocate(5000);
  EXPECT_EQ(heap::reallocate(block, SIZE_MAX - 100), nullptr);
  heap::free(block);
  EXPECT_TRUE(is_whole());
}

TEST_F(CoreHeap, what_is_no_block_is_refused_and_counted) {
  heap::free(nullptr);
  EXPECT_EQ(heap::misuses(), 0U);
  unsigned char* small = bytes_at(heap::allocate(100));
  unsigned char* large = bytes_at(heap::allocate(10000));
  Cache* cache = Cache::create({.name = "mine", .object_size = 100});
  void* object = cache->allocate();
  Cache* classes = Cache::of(small);
  ASSERT_NE(classes, nullptr);
  unsigned expected = 0;
  const auto refused = [&](void* address) {
    heap::free(address);
    EXPECT_EQ(heap::misuses() + classes->stats().misuses, ++expected);
  };
  refused(small + 16);
  refused(large + 64);
  refused(object);
  refused(&expected);
  refused(pool());
  heap::free(small);
  refused(small);
  heap::free(large);
  refused(large);
  EXPECT_EQ(heap::usable_size(small), 0U);
  EXPECT_EQ(heap::usable_size(large), 0U);
  EXPECT_EQ(heap::usable_size(object), 0U);
  EXPECT_EQ(heap::usable_size(nullptr), 0U);
  EXPECT_EQ(heap::reallocate(large, 10), nullptr);
  EXPECT_EQ(heap::misuses() + classes->stats().misuses, ++expected);
  void* block = heap::allocate(100);
  heap::free_sized(block, 200);
  EXPECT_EQ(heap::misuses() + classes->stats().misuses, ++expected);
  EXPECT_EQ(heap::usable_size(block), 112U);
  heap::free_sized(block, 97);
  EXPECT_EQ(heap::usable_size(block), 0U);
  cache->free(object);
  EXPECT_EQ(cache->stats().misuses, 0U);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(CoreHeap, memory_that_has_run_out_comes_back_whole) {
  for (std::size_t size : {16, 100, 1000, 3000, 50000}) {
    restart(64 * 4096);
    static std::array<void*, 16384> blocks;
    std::size_t have = 0;
    while ((blocks[have] = heap::allocate(size)) != nullptr) {
      std::memset(blocks[have++], 0xaa, size);
      ASSERT_LT(have, blocks.size());
    }
    EXPECT_GE(have * size, 64 * 4096 * 3 / 5U);
    EXPECT_EQ(heap::allocate(size), nullptr);
    heap::free(blocks[have / 2]);
    EXPECT_EQ(blocks[have / 2] = heap::allocate(size), blocks[have / 2]);
    for (std::size_t i = 0; i < have; ++i) heap::free(blocks[i * 7919 % have]);
    EXPECT_TRUE(is_whole());
    EXPECT_EQ(heap::misuses(), 0U);
  }
}

TEST_F(CoreHeap, random_work_corrupts_nothing_and_loses_nothing) {
  restart(200 * 4096);
  struct Block {
    unsigned char* start = nullptr;
    std::size_t size = 0;
    unsigned char fill = 0;
  };
  static std::array<Block, 300> blocks;
  blocks = {};
  qm::test::Random random;
  const auto is_sound = [](const Block& block) {
    for (std::size_t i = 0; i < block.size; i += block.size < 64 ? 1 : block.size / 16) {
      if (block.start[i] != block.fill) return false;
    }
    return block.size == 0 || block.start[block.size - 1] == block.fill;
  };
  const auto draw = [&] {
    return random.chance(70) ? random.below(200) : random.chance(80) ? random.below(2500) : random.below(40000);
  };
  std::uint64_t failures = 0;
  const std::uint64_t steps = qm::test::steps(300000);
  for (std::uint64_t step = 0; step < steps; ++step) {
    Block& block = blocks[random.below(blocks.size())];
    const std::size_t size = draw();
    if (block.start == nullptr) {
      const unsigned log2 = random.chance(20) ? static_cast<unsigned>(random.below(13)) : 0;
      block.start = bytes_at(log2 != 0 ? heap::allocate_aligned(std::size_t{1} << log2, size) : heap::allocate(size));
      if (block.start == nullptr) {
        ++failures;
        continue;
      }
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block.start) % (std::size_t{1} << log2), 0U);
    } else {
      ASSERT_TRUE(is_sound(block));
      if (random.chance(60)) {
        heap::free(block.start);
        block = {};
        continue;
      }
      auto* moved = bytes_at(heap::reallocate(block.start, size));
      if (moved == nullptr) {
        ++failures;
        continue;
      }
      block.start = moved;
      if (size < block.size) block.size = size;
      ASSERT_TRUE(is_sound(block));
    }
    ASSERT_GE(heap::usable_size(block.start), size);
    block.size = size;
    block.fill = static_cast<unsigned char>(random.below(256));
    std::memset(block.start, block.fill, size);
  }
  for (Block& block : blocks) {
    EXPECT_TRUE(block.start == nullptr || is_sound(block));
    heap::free(block.start);
  }
  EXPECT_EQ(heap::misuses(), 0U);
  EXPECT_TRUE(is_whole());
  if (steps > 50000) {
    EXPECT_GT(failures, 0U);
  }
}

}  // namespace
