/// Slabs: their waste, their addresses, the memory that they touch.

#include <support/system_fixture.hpp>

#include <array>
#include <cstring>

namespace alloc_slab_test {

using namespace qm;

class SlabTest : public qm::test::SystemTest {
 protected:
  static Cache* make(std::size_t size, std::size_t alignment = 0, Arena* source = nullptr, std::uint32_t flags = 0) {
    CacheConfig config;
    config.name = "slabs";
    config.object_size = size;
    config.alignment = alignment;
    config.flags = flags;
    config.source = source;
    return Cache::create(config);
  }
  /// Makes an arena of memory that begins @p before bytes below a multiple of 128 KiB.
  static void make_arena(Arena& arena, std::size_t quantum, std::size_t size, std::size_t before = 0) {
    arena_memory =
        round_up(reinterpret_cast<std::uintptr_t>(test::pool()) + test::kPoolBytes / 2 + before, 131072) - before;
    ASSERT_EQ(arena.initialize({.name = "pages", .start = arena_memory, .size = size, .quantum = quantum}),
              Status::kOk);
  }
  void SetUp() override { start(test::kPoolBytes / 2); }  // tests have arenas of their own in the other half

  static inline std::uintptr_t arena_memory = 0;
  static inline std::array<void*, 4096> objects;
};

/// @returns the bytes of a slab that no object of @p size uses.
std::size_t waste(const SlabLayer& slabs, std::size_t size) { return slabs.slab_bytes() - slabs.objects() * size; }

TEST_F(SlabTest, wastes_at_most_an_eighth_for_every_size_up_to_64_KiB) {
  // Packed as closely as the user allows: the remainder is only the slab's waste.
  SlabConfig config;
  config.source = &page_arena();
  config.alignment = 1;
  unsigned over = 0;
  for (config.object_size = 1; config.object_size <= 65536; ++config.object_size) {
    SlabLayer slabs;
    ASSERT_EQ(slabs.initialize(config), Status::kOk);
    if (waste(slabs, config.object_size) * 8 > slabs.slab_bytes() && ++over < 10) {
      ADD_FAILURE() << config.object_size << " bytes: " << waste(slabs, config.object_size) << " of "
                    << slabs.slab_bytes();
    }
  }
}

TEST_F(SlabTest, wastes_at_most_an_eighth_for_every_alignment_up_to_16_pages) {
  SlabConfig config;
  config.source = &page_arena();
  for (config.alignment = 1; config.alignment <= 65536; config.alignment *= 2) {
    for (const std::size_t size : {1U, 24U, 100U, 1000U, 4096U, 4097U, 20000U, 65536U, 100000U, 1000000U}) {
      config.object_size = size;
      SlabLayer slabs;
      ASSERT_EQ(slabs.initialize(config), Status::kOk);
      EXPECT_LE(waste(slabs, slabs.object_size()) * 8, slabs.slab_bytes()) << size << " at " << config.alignment;
      EXPECT_EQ(slabs.alignment(), config.alignment);
      EXPECT_EQ(slabs.object_size() % config.alignment, 0U);
    }
  }
}

TEST_F(SlabTest, is_the_least_that_wastes_an_eighth_and_for_a_large_class_of_the_heap_a_sixteenth) {
  if (PageMap::kPageBytes != 4096 || sizeof(long) != 8 || kChecked) GTEST_SKIP() << "other slabs";
  struct Case {
    std::size_t size;
    unsigned heap_class;
    std::size_t slab_bytes;
    unsigned objects;
  };
  for (const Case& one : {Case{8, 0, 4096, 498}, Case{192, 0, 4096, 21}, Case{1024, 0, 8192, 7}, Case{1792, 0, 4096, 2},
                          Case{5120, 0, 16384, 3}, Case{100'000, 0, 524288, 5}, Case{192, 1, 4096, 21},
                          Case{1024, 1, 8192, 7}, Case{1032, 1, 16384, 15}, Case{1280, 1, 8192, 6},
                          Case{1792, 1, 16384, 9}, Case{2016, 1, 8192, 4}, Case{5120, 1, 32768, 6}}) {
    SlabConfig config;
    config.source = &page_arena();
    config.object_size = one.size;
    config.alignment = 8;
    config.heap_class = static_cast<std::uint8_t>(one.heap_class);
    SlabLayer slabs;
    ASSERT_EQ(slabs.initialize(config), Status::kOk);
    EXPECT_EQ(slabs.slab_bytes(), one.slab_bytes) << one.size << " of class " << one.heap_class;
    EXPECT_EQ(slabs.objects(), one.objects) << one.size << " of class " << one.heap_class;
  }
}

TEST_F(SlabTest, uses_up_quanta_that_are_larger_than_its_pages) {
  Arena arena;
  make_arena(arena, 65536, 4 * 65536);
  Cache* cache = make(100, 0, &arena);
  ASSERT_NE(cache, nullptr);
  EXPECT_LE(waste(cache->slabs(), cache->object_size()) * 8, cache->slabs().slab_bytes());
  EXPECT_EQ(cache->slabs().slab_bytes(), 65536U);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
  EXPECT_EQ(arena.destroy(), Status::kOk);
}

TEST_F(SlabTest, aligns_without_being_asked_as_any_type_of_the_size_may_need) {
  struct Case {
    std::size_t size, alignment;
  };
  for (const Case& one : {Case{1, 8}, Case{8, 8}, Case{16, 16}, Case{17, 8}, Case{24, 8}, Case{32, 16}, Case{40, 8},
                          Case{48, 16}, Case{100, 8}, Case{4096, 16}}) {
    Cache* cache = make(one.size);
    ASSERT_NE(cache, nullptr);
    EXPECT_EQ(cache->alignment(), one.alignment) << one.size;
    EXPECT_LT(cache->object_size() - one.size, one.alignment);
    ASSERT_EQ(Cache::destroy(cache), Status::kOk);
  }
}

TEST_F(SlabTest, finds_the_slab_of_every_object_by_its_address_and_of_no_other_address) {
  for (const std::size_t size : {8U, 24U, 100U, 192U, 700U, 1000U, 5000U, 9000U}) {
    Cache* cache = make(size);
    ASSERT_NE(cache, nullptr);
    SlabLayer& slabs = cache->slabs();
    const unsigned count = slabs.objects() + 1;  // needs a second slab
    for (unsigned i = 0; i < count; ++i) ASSERT_NE(objects[i] = cache->allocate(), nullptr);
    for (unsigned i = 0; i < count; ++i) {
      Slab* slab = slabs.find(objects[i]);
      ASSERT_NE(slab, nullptr);
      const unsigned index = slabs.index(*slab, objects[i]);
      ASSERT_NE(index, SlabLayer::kNoIndex);
      EXPECT_EQ(slab->start + index * slabs.stride(), reinterpret_cast<std::uintptr_t>(objects[i]));
      EXPECT_EQ(slabs.find(static_cast<std::byte*>(objects[i]) + size - 1), slab);
      EXPECT_EQ(slabs.index(*slab, static_cast<std::byte*>(objects[i]) + 1), SlabLayer::kNoIndex);
    }
    for (unsigned i = 0; i < count; ++i) cache->free(objects[i]);
    ASSERT_EQ(Cache::destroy(cache), Status::kOk);
  }
}

TEST_F(SlabTest, colours_neighbouring_slabs_differently_and_keeps_every_alignment) {
  if (qm::kCallSites) GTEST_SKIP() << "another distance between objects: their tags";
  if (PageMap::kPageBytes != 4096) GTEST_SKIP() << "smaller slabs, of which these objects leave nothing";
  // 12 objects of 320 bytes leave 200: steps of 64 keep the alignment 64, which follows from 320.
  Cache* cache = make(320, 32);
  ASSERT_NE(cache, nullptr);
  SlabLayer& slabs = cache->slabs();
  const unsigned count = slabs.objects() * 8;
  unsigned seen = 0;
  for (unsigned i = 0; i < count; ++i) {
    ASSERT_NE(objects[i] = cache->allocate(), nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(objects[i]) % 64, 0U);
    const Slab* slab = slabs.find(objects[i]);
    ASSERT_NE(slab, nullptr);
    const std::size_t offset = slab->start % slabs.slab_bytes();
    ASSERT_TRUE(offset % 64 == 0 && offset < 256) << offset;
    seen |= 1U << offset / 64;
    std::memset(objects[i], 0xff, 320);
  }
  EXPECT_EQ(seen, 15U);
  EXPECT_TRUE(cache->validate());  // no object overlaps a header
  for (unsigned i = 0; i < count; ++i) cache->free(objects[i]);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(SlabTest, a_batch_that_has_objects_leaves_an_empty_slab_as_it_is) {
  SlabConfig config;
  config.source = &page_arena();
  config.object_size = 200;
  SlabLayer slabs;
  ASSERT_EQ(slabs.initialize(config), Status::kOk);
  const unsigned whole = slabs.objects();
  ASSERT_LT(whole + 1, objects.size());
  unsigned count = 0;
  while (count <= whole) count += slabs.take(objects.data() + count, 1).count;
  EXPECT_EQ(slabs.put(objects[whole]), Status::kOk);  // the second slab is empty now
  EXPECT_EQ(slabs.put(objects[0]), Status::kOk);
  EXPECT_EQ(slabs.stats().empty_slabs, 1U);
  EXPECT_EQ(slabs.take(objects.data() + whole, 4).count, 1U);
  EXPECT_EQ(slabs.stats().empty_slabs, 1U);
  for (unsigned i = 1; i <= whole; ++i) EXPECT_EQ(slabs.put(objects[i]), Status::kOk);
  EXPECT_EQ(slabs.destroy(), Status::kOk);
}

TEST_F(SlabTest, a_short_slab_in_memory_that_was_used_has_a_single_object) {
  constexpr std::size_t kPage = PageMap::kPageBytes;
  if (4 * kPage > SlabLayer::kUsualSlabBytes) GTEST_SKIP() << "no slab of many objects has more than a page";
  Arena arena;
  make_arena(arena, kPage, kPage, kPage);  // a short slab ends where a whole one would
  std::memset(reinterpret_cast<void*>(arena_memory), 0xff, kPage);
  SlabConfig config;
  config.source = &arena;
  config.object_size = 16;
  config.least_slab = 4 * kPage;
  SlabLayer slabs;
  ASSERT_EQ(slabs.initialize(config), Status::kOk);
  ASSERT_EQ(slabs.slab_bytes(), 4 * kPage);
  ASSERT_GT(slabs.objects(), 64U);  // the bitmap has several words
  EXPECT_EQ(slabs.take(objects.data(), 10).count, 1U);
  EXPECT_EQ(slabs.take(objects.data() + 1, 10).count, 0U);
  EXPECT_TRUE(slabs.validate());
  EXPECT_EQ(slabs.put(objects[0]), Status::kOk);
  EXPECT_EQ(slabs.destroy(), Status::kOk);
  EXPECT_EQ(arena.destroy(), Status::kOk);
}

TEST_F(SlabTest, objects_of_the_first_and_the_last_word_of_a_bitmap_are_found_again) {
  Cache* cache = make(8);
  ASSERT_NE(cache, nullptr);
  const unsigned count = cache->slabs().objects();
  ASSERT_GT(count, 8 * sizeof(long));  // more than a word
  for (unsigned i = 0; i < count; ++i) ASSERT_NE(objects[i] = cache->allocate(), nullptr);
  const std::size_t slabs = cache->slabs().stats().slabs;
  for (const unsigned first : {0U, count - 1}) {
    const unsigned second = count - 1 - first;
    cache->free(objects[first]);
    cache->free(objects[second]);
    void* const one = cache->allocate();
    void* const other = cache->allocate();
    EXPECT_TRUE((one == objects[first] && other == objects[second]) ||
                (one == objects[second] && other == objects[first]));
    EXPECT_EQ(cache->slabs().stats().slabs, slabs);
  }
  for (unsigned i = 0; i < count; ++i) cache->free(objects[i]);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(SlabTest, a_new_slab_touches_none_of_its_objects) {
  if (qm::kCallSites) GTEST_SKIP() << "the object that is taken gets a tag";
  Arena arena;
  make_arena(arena, 4096, 4096);
  std::memset(reinterpret_cast<void*>(arena_memory), 0x5a, 4096);
  Cache* cache = make(64, 0, &arena);
  ASSERT_NE(cache, nullptr);
  void* object = cache->allocate();
  ASSERT_NE(object, nullptr);
  const auto* bytes = reinterpret_cast<const unsigned char*>(arena_memory);
  for (std::size_t i = 0; i < cache->slabs().objects() * 64; ++i) ASSERT_EQ(bytes[i], 0x5a) << i;
  cache->free(object);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
  EXPECT_EQ(arena.destroy(), Status::kOk);
}

TEST_F(SlabTest, a_source_too_short_for_a_whole_slab_supplies_single_objects) {
  Arena arena;
  // A whole slab of 40 KiB objects has 128 KiB and three objects; a short one has 44 KiB and ends at the same place as
  // a whole one.
  constexpr std::size_t kShort = 44 * 1024;
  make_arena(arena, 4096, kShort + 131072, kShort);
  Cache* cache = make(40 * 1024, 0, &arena);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(cache->slabs().slab_bytes(), 131072U);
  unsigned count = 0;
  while ((objects[count] = cache->allocate()) != nullptr) {
    std::memset(objects[count], static_cast<int>(count), 40 * 1024);
    ++count;
  }
  EXPECT_EQ(count, 4U);
  EXPECT_TRUE(cache->validate());
  EXPECT_EQ(cache->stats().slab_bytes, 131072U);
  EXPECT_EQ(arena.stats().free, 0U);
  for (unsigned i = 0; i < count; ++i) {
    EXPECT_EQ(static_cast<unsigned char*>(objects[i])[40 * 1024 - 1], static_cast<unsigned char>(i));
    cache->free(objects[i]);
    EXPECT_TRUE(cache->validate());
  }
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
  EXPECT_EQ(arena.stats().allocated, 0U);
  EXPECT_EQ(arena.destroy(), Status::kOk);
}

TEST_F(SlabTest, an_object_too_large_for_a_good_slab_lies_alone_with_little_behind_it) {
  SlabConfig config;
  config.source = &page_arena();
  for (config.object_size = 65536; config.object_size < (4U << 20); config.object_size += 52345) {
    SlabLayer slabs;
    ASSERT_EQ(slabs.initialize(config), Status::kOk);
    EXPECT_LE(waste(slabs, config.object_size) * 8, slabs.slab_bytes()) << config.object_size;
  }
}

TEST_F(SlabTest, a_slab_of_one_object_goes_from_full_to_empty) {
  Cache* cache = make(60 * 1024);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(cache->slabs().objects(), 1U);
  for (unsigned round = 0; round < 3; ++round) {
    for (unsigned i = 0; i < 8; ++i) ASSERT_NE(objects[i] = cache->allocate(), nullptr);
    EXPECT_TRUE(cache->validate());
    for (unsigned i = 0; i < 8; ++i) cache->free(objects[i]);
    EXPECT_TRUE(cache->validate());
  }
  EXPECT_EQ(cache->stats().in_use, 0U);
  cache->reap();
  EXPECT_EQ(cache->stats().slabs, 0U);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

/// A source that checks its callers.
struct Nosy {
  static inline unsigned asked = 0;
  static inline bool held = false;
  static inline Cache* cache = nullptr;
  static std::uintptr_t import(Arena& source, std::size_t size, Fit fit) noexcept {
    ++asked;
    held = held || hal::hart_local().lock_depth != 0 || !hal::may_wait();
    if (cache != nullptr) {  // the cache itself can be used at this time, because its lock is free
      Cache* self = cache;
      cache = nullptr;
      void* object = self->allocate();
      self->free(object);
    }
    return source.allocate(size, fit);
  }
  static void release(Arena& source, std::uintptr_t start, std::size_t size) noexcept {
    held = held || hal::hart_local().lock_depth != 0 || !hal::may_wait();
    source.free(start, size);
  }
};

TEST_F(SlabTest, asks_its_source_with_no_lock_held_and_interrupts_enabled) {
  Arena arena;
  ArenaConfig config;
  config.name = "nosy";
  config.source = &page_arena();
  config.import = Nosy::import;
  config.release = Nosy::release;
  ASSERT_EQ(arena.initialize(config), Status::kOk);
  Nosy::asked = 0;
  Nosy::held = false;
  Cache* cache = make(500, 0, &arena);
  ASSERT_NE(cache, nullptr);
  Nosy::cache = cache;
  for (unsigned i = 0; i < 100; ++i) ASSERT_NE(objects[i] = cache->allocate(), nullptr);
  EXPECT_GE(Nosy::asked, 12U);
  for (unsigned i = 0; i < 100; ++i) cache->free(objects[i]);
  EXPECT_TRUE(cache->validate());
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
  EXPECT_EQ(arena.destroy(), Status::kOk);
  EXPECT_FALSE(Nosy::held);
}

TEST_F(SlabTest, a_thousand_objects_take_hardly_more_of_the_arena_than_their_bytes) {
  if (qm::kCallSites) GTEST_SKIP() << "the figures are of builds without tags";
  struct Case {
    std::size_t size;
    std::size_t tenths;  // of a byte, an object
  };
  for (const Case& one : {Case{64, 656}, Case{24, 247}}) {
    Arena arena;
    make_arena(arena, 4096, 1 << 20);
    Cache* cache = make(one.size, 0, &arena);
    ASSERT_NE(cache, nullptr);
    for (unsigned i = 0; i < 1000; ++i) ASSERT_NE(objects[i] = cache->allocate(), nullptr);
    EXPECT_LE(arena.stats().allocated * 10, one.tenths * 1000) << one.size;
    for (unsigned i = 0; i < 1000; ++i) cache->free(objects[i]);
    ASSERT_EQ(Cache::destroy(cache), Status::kOk);
    EXPECT_EQ(arena.destroy(), Status::kOk);
  }
}

TEST_F(SlabTest, reap_leaves_lists_that_work) {
  Cache* cache = make(300);
  ASSERT_NE(cache, nullptr);
  for (unsigned round = 0; round < 5; ++round) {
    for (unsigned i = 0; i < 200; ++i) ASSERT_NE(objects[i] = cache->allocate(), nullptr);
    for (unsigned i = round; i < 200; ++i) cache->free(objects[i]);
    EXPECT_GT(cache->reap(), 0U);
    EXPECT_TRUE(cache->validate());
    const unsigned of_slab = cache->slabs().objects();
    EXPECT_EQ(cache->stats().slabs, (round + of_slab - 1) / of_slab);
    for (unsigned i = 0; i < round; ++i) cache->free(objects[i]);
  }
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(SlabTest, a_no_touch_slab_of_many_small_objects_wastes_nothing) {
  Arena ids;
  ASSERT_EQ(ids.initialize({.name = "ids", .start = 4096, .size = 64 * 4096, .quantum = 4096}), Status::kOk);
  Cache* cache = make(16, 16, &ids, cache_flags::kNoTouch);
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(cache->slabs().objects(), 256U);
  EXPECT_EQ(waste(cache->slabs(), 16), 0U);
  for (unsigned i = 0; i < 1000; ++i) ASSERT_NE(objects[i] = cache->allocate(), nullptr);
  EXPECT_TRUE(cache->validate());
  EXPECT_EQ(cache->stats().slabs, 4U);
  for (unsigned i = 0; i < 1000; ++i) cache->free(objects[i]);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
  EXPECT_EQ(ids.destroy(), Status::kOk);
}

}  // namespace alloc_slab_test
