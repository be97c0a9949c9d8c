#include <support/system_fixture.hpp>

#include <array>
#include <cstring>

#include <qm/misuse.hpp>

namespace alloc_heap_test {

using namespace qm;

class Heap : public qm::test::SystemTest {};

TEST_F(Heap, wastes_at_most_31_bytes_or_an_eighth_whatever_the_size) {
  for (std::size_t size = 1; size <= 40000; size += size < 5000 ? 1 : 61) {
    void* block = heap::allocate(size);
    ASSERT_NE(block, nullptr);
    const std::size_t waste = heap::usable_size(block) - size;
    EXPECT_TRUE(waste <= 31 || waste * 8 <= heap::usable_size(block)) << size;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % heap::kAlignment, 0U);
    std::memset(block, 0xa5, heap::usable_size(block));
    heap::free(block);
  }
}

TEST_F(Heap, large_blocks_are_not_rounded_to_pages) {
  for (std::size_t size = heap::kMaxClassBytes + 1; size < 200000; size = size * 5 / 4) {
    void* block = heap::allocate(size);
    ASSERT_NE(block, nullptr);
    EXPECT_LT(heap::usable_size(block) - size, 32U);
    std::memset(block, 0x5a, size);
    heap::free(block);
  }
}

TEST_F(Heap, every_block_of_a_slab_of_several_pages_comes_back_where_it_belongs) {
  static std::array<void*, 300> blocks;  // at least 40 of them in slabs; the others come before the class has a cache
  for (const std::size_t wanted : {900U, 1024U, 1088U, 2700U, 4600U, 6500U}) {
    const std::size_t size = kMagazines ? wanted : qm::test::class_size(wanted);  // a smaller one would stay a block
    for (void*& block : blocks) ASSERT_NE(block = heap::allocate(size), nullptr);
    RegistryCursor<Cache> caches;
    Cache* cache = nullptr;
    do cache = caches.next();
    while (cache != nullptr && (cache->object_size() < size || cache->stats().in_use < 40));
    ASSERT_NE(cache, nullptr) << size;
    EXPECT_TRUE(kChecked || cache->slabs().slab_bytes() > SlabLayer::kPageBytes);
    for (void* block : blocks) heap::free(block);
    EXPECT_EQ(cache->stats().in_use, 0U);
    EXPECT_TRUE(cache->validate());
  }
  EXPECT_EQ(heap::misuses(), 0U);
}

TEST_F(Heap, a_size_above_the_table_is_a_class_s_if_at_most_an_eighth_is_waste) {
  for (std::size_t size = 1089; size <= heap::kMaxClassBytes; ++size) {
    void* block = heap::allocate(size);
    const std::size_t usable = heap::usable_size(block);
    bool is_class = false;
    for (unsigned number = 1; heap::class_bytes(number) != 0; ++number) is_class |= heap::class_bytes(number) == usable;
    EXPECT_TRUE(is_class || usable - size < 32) << size;
    EXPECT_LE((usable - size) * 8, usable) << size;
    heap::free_sized(block, size);
  }
  EXPECT_EQ(heap::misuses(), 0U);
}

TEST_F(Heap, no_larger_class_serves_for_its_alignment) {
  void* block = heap::allocate_aligned(128, 1050);
  EXPECT_LT(heap::usable_size(block), 1200U);
  heap::free_sized(block, 1050, 128);
  EXPECT_EQ(heap::misuses(), 0U);
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
  void* large = heap::allocate(20000);  // no free block is large enough: it comes from the end of a span that can grow
  EXPECT_EQ(heap::reallocate(large, 30000), large);
  EXPECT_EQ(heap::reallocate(large, 15000), large);
  heap::free(large);
}

TEST_F(Heap, reallocate_without_memory_leaves_the_block_as_it_was) {
  for (std::size_t size : {100U, 5000U}) {
    auto* block = static_cast<unsigned char*>(heap::allocate(size));
    ASSERT_NE(block, nullptr);
    std::memset(block, 0x77, size);
    EXPECT_EQ(heap::reallocate(block, qm::test::kPoolBytes), nullptr);
    EXPECT_GE(heap::usable_size(block), size);
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(block[i], 0x77);
    heap::free(block);
  }
}

TEST_F(Heap, what_is_no_block_is_refused_and_nothing_happens) {
  static unsigned char elsewhere[64];
  qm::test::make_class(40);
  auto* small = static_cast<unsigned char*>(heap::allocate(40));
  auto* large = static_cast<unsigned char*>(heap::allocate(5000));
  CacheConfig config;
  config.name = "strangers";
  config.object_size = 64;
  Cache* cache = Cache::create(config);
  void* stranger = cache->allocate();
  static MisuseReport told;
  set_misuse_handler([](const MisuseReport& report) noexcept { told = report; });
  std::size_t refused = 0;
  for (void* wrong : {static_cast<void*>(elsewhere), static_cast<void*>(large + 64), static_cast<void*>(large + 16),
                      stranger, reinterpret_cast<void*>(UINTPTR_MAX), reinterpret_cast<void*>(std::uintptr_t{8})}) {
    heap::free(wrong);
    EXPECT_EQ(heap::misuses(), ++refused);
    EXPECT_EQ(told.kind, Misuse::kForeign);
    EXPECT_EQ(told.object, wrong);
    EXPECT_EQ(heap::reallocate(wrong, 10), nullptr);
    EXPECT_EQ(heap::misuses(), ++refused);
    EXPECT_EQ(heap::usable_size(wrong), 0U);
  }
  heap::free(large);
  heap::free(large);  // a double free
  EXPECT_EQ(heap::misuses(), ++refused);
  heap::free_sized(small, 1000);
  EXPECT_EQ(told.kind, Misuse::kWrongSize);
  EXPECT_STREQ(told.cache->name(), "kmalloc_48");
  set_misuse_handler(nullptr);
  EXPECT_EQ(cache->stats().in_use, 1U);
  cache->free(stranger);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  heap::free(small);
}

TEST_F(Heap, free_with_a_size_checks_it) {
  for (const std::size_t size : {40, 128}) qm::test::make_class(size);
  void* small = heap::allocate(40);
  void* large = heap::allocate(5000);
  void* aligned = heap::allocate_aligned(64, 100);
  std::size_t refused = 0;
  for (std::size_t wrong : {std::size_t{1}, std::size_t{32}, std::size_t{49}, std::size_t{5000}, SIZE_MAX}) {
    heap::free_sized(small, wrong);
    EXPECT_EQ(heap::misuses(), ++refused);
  }
  for (std::size_t wrong : {std::size_t{0}, std::size_t{40}, std::size_t{4900}, std::size_t{5100}, SIZE_MAX}) {
    heap::free_sized(large, wrong);
    EXPECT_EQ(heap::misuses(), ++refused);
  }
  heap::free_sized(aligned,
                   kCallSites ? 200 : 100);  // 112 bytes are not aligned to 64; with call sites it is a large block
  EXPECT_EQ(heap::misuses(), ++refused);
  heap::free_sized(small, 40);
  heap::free_sized(large, 5000);
  heap::free_sized(aligned, 100, 64);
  heap::free_sized(nullptr, 40);
  EXPECT_EQ(heap::misuses(), refused);
  EXPECT_EQ(heap::usable_size(large), 0U);
}

TEST_F(Heap, free_with_a_size_knows_every_size_and_what_realloc_made_of_it) {
  for (std::size_t size = 0; size <= 1200; ++size) {
    heap::free_sized(heap::allocate(size), size);
    heap::free_sized(heap::reallocate(heap::allocate(size * 7 % 1201), size), size);
    for (std::size_t alignment = 16; alignment <= 1024; alignment *= 4) {
      heap::free_sized(heap::allocate_aligned(alignment, size), size, alignment);
    }
  }
  EXPECT_EQ(heap::misuses(), 0U);
}

TEST_F(Heap, pages_that_were_slabs_serve_as_large_blocks_and_back) {
  static std::array<void*, 20000> small;
  for (unsigned round = 0; round < 3; ++round) {
    std::size_t count = 0;
    while (count < small.size() && (small[count] = heap::allocate(100)) != nullptr) ++count;
    ASSERT_GT(count * 100, qm::test::kPoolBytes / 4);
    while (count != 0) heap::free(small[--count]);
    reclaim();
    constexpr std::size_t kLarge = qm::test::kPoolBytes / 64;
    while (count < 40 && (small[count] = heap::allocate(kLarge)) != nullptr) std::memset(small[count++], 0xff, kLarge);
    ASSERT_GT(count, 25U);
    while (count != 0) heap::free(small[--count]);
    EXPECT_EQ(heap::misuses(), 0U);
    reclaim();
    ASSERT_EQ(page_arena().stats().allocated, 0U);
  }
}

TEST_F(Heap, a_class_whose_name_is_taken_is_served_by_large_blocks) {
  CacheConfig config;
  config.name = "kmalloc_48";
  config.object_size = 8;
  Cache* thief = Cache::create(config);
  ASSERT_NE(thief, nullptr);
  void* block = heap::allocate(40);
  ASSERT_NE(block, nullptr);
  std::memset(block, 1, 40);
  EXPECT_EQ(thief->stats().in_use, 0U);
  heap::free_sized(block, 40);
  EXPECT_EQ(heap::misuses(), 0U);
  EXPECT_EQ(Cache::destroy(thief), Status::kOk);
  qm::test::make_class(40);
  RegistryCursor<Cache> caches;
  EXPECT_NE(caches.find("kmalloc_48"), nullptr);
}

TEST(HeapRegions, memory_may_lie_in_ranges_with_anything_between) {
  // The pool's second quarter does not belong to the heap: the heap neither allocates it nor writes to it.
  std::byte* pool = qm::test::pool();
  constexpr std::size_t kQuarter = qm::test::kPoolBytes / 4;
  std::memset(pool + kQuarter, 0x3c, kQuarter);
  const MemoryRange ranges[] = {{reinterpret_cast<std::uintptr_t>(pool + 2 * kQuarter), kQuarter},
                                {reinterpret_cast<std::uintptr_t>(pool), kQuarter}};
  ASSERT_EQ(initialize(ranges, 1), Status::kOk);
  attach_hart(0);
  ASSERT_EQ(add_memory({reinterpret_cast<std::uintptr_t>(pool + 3 * kQuarter), kQuarter}), Status::kOk);
  EXPECT_EQ(add_memory({reinterpret_cast<std::uintptr_t>(pool + 3 * kQuarter), 4096}), Status::kOverlap);
  static std::array<unsigned char*, 20000> blocks;
  std::size_t count = 0;
  while (count < blocks.size() &&
         (blocks[count] = static_cast<unsigned char*>(heap::allocate(count % 7 == 0 ? 900 : 120))) != nullptr) {
    blocks[count][0] = static_cast<unsigned char>(count);
    ++count;
  }
  std::size_t in_range[4] = {};
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(blocks[i][0], static_cast<unsigned char>(i));
    ++in_range[static_cast<std::size_t>(reinterpret_cast<std::byte*>(blocks[i]) - pool) / kQuarter];
    heap::free(blocks[i]);
  }
  EXPECT_GT(in_range[0], 1000U);
  EXPECT_EQ(in_range[1], 0U);
  EXPECT_GT(in_range[2], 1000U);
  EXPECT_GT(in_range[3], 1000U);
  EXPECT_EQ(heap::misuses(), 0U);
  for (std::size_t i = 0; i < kQuarter; ++i) ASSERT_EQ(pool[kQuarter + i], std::byte{0x3c});
  shutdown();
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
  EXPECT_GE(after + 24 * 4096 + 65536, before);  // the caches of the classes, and pages that became boundary tags
  EXPECT_TRUE(base_arena().validate());
  EXPECT_TRUE(page_arena().validate());
}

}  // namespace alloc_heap_test
