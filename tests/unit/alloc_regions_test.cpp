/// Memory in several regions: all regions are used, nothing crosses from one into the next, and the memory between them
/// is never touched.

#include <support/system_fixture.hpp>

#include <array>
#include <cstring>
#include <span>

#include <qm/config.h>

#if !defined(QM_TARGET)
#include <sys/mman.h>
#endif

namespace alloc_regions_test {

using namespace qm;

constexpr std::size_t kRegion = std::size_t{512} * 1024;
constexpr unsigned char kUntouched = 0xee;

class Regions : public testing::Test {
 protected:
  void TearDown() override { shutdown(); }

  static MemoryRange piece(std::size_t offset, std::size_t size) {
    return {reinterpret_cast<std::uintptr_t>(test::pool()) + offset, size};
  }

  static bool lies_in_one(std::span<const MemoryRange> regions, const void* block, std::size_t size) {
    const auto start = reinterpret_cast<std::uintptr_t>(block);
    for (const MemoryRange& region : regions) {
      if (start >= region.start && start + size <= region.start + region.size) return true;
    }
    return false;
  }

  /// Allocates blocks and objects until memory is exhausted, fills and frees them. @returns the bytes allocated.
  static std::size_t use_everything(std::span<const MemoryRange> regions) {
    struct Block {
      Block* next;
      std::size_t size;
    };
    const std::size_t before = base_arena().stats().free;
    Block* blocks = nullptr;
    std::size_t taken = 0;
    for (const std::size_t size : {std::size_t{100000}, std::size_t{20000}, std::size_t{3000}, std::size_t{300}}) {
      while (void* place = heap::allocate(size)) {
        EXPECT_TRUE(lies_in_one(regions, place, size));
        std::memset(place, 0x11, size);
        blocks = new (place) Block{blocks, size};
        taken += size;
      }
    }
    EXPECT_TRUE(base_arena().validate());
    while (blocks != nullptr) {
      Block* block = blocks;
      blocks = block->next;
      heap::free_sized(block, block->size);
    }
    reclaim();
    EXPECT_GE(base_arena().stats().free + 64 * 1024, before) << "but for classes that stay and boundary tags";
    return taken;
  }
};

TEST_F(Regions, all_memory_of_all_regions_serves) {
  std::memset(test::pool(), kUntouched, 8 * kRegion);
  const std::array regions{piece(0, kRegion), piece(6 * kRegion, kRegion + 100), piece(3 * kRegion + 12, kRegion)};
  ASSERT_EQ(initialize(regions, 1), Status::kOk);
  attach_hart(0);
  EXPECT_EQ(base_arena().stats().spans, 3U);
  EXPECT_GE(base_arena().stats().total, 3 * kRegion - 5 * 4096);
  EXPECT_GT(use_everything(regions), kRegion * 2);
  for (const std::size_t hole : {kRegion + 1, 2 * kRegion, 3 * kRegion, 5 * kRegion, 7 * kRegion + 200}) {
    EXPECT_EQ(static_cast<unsigned char>(test::pool()[hole]), kUntouched) << hole;
  }
}

TEST_F(Regions, regions_that_touch_stay_apart) {
  const std::array regions{piece(0, kRegion), piece(kRegion, kRegion)};
  ASSERT_EQ(initialize(regions, 1), Status::kOk);
  attach_hart(0);
  EXPECT_EQ(base_arena().stats().spans, 2U);
  EXPECT_LE(base_arena().stats().largest_free, kRegion);
  EXPECT_GT(use_everything(regions), kRegion);
}

TEST_F(Regions, refuses_what_overlaps_or_is_too_small_to_begin_with) {
  EXPECT_EQ(initialize(std::array{piece(0, kRegion), piece(kRegion / 2, kRegion)}, 1), Status::kOverlap);
  shutdown();
  EXPECT_EQ(initialize(std::array{piece(0, 4096), piece(kRegion, kRegion)}, 1), Status::kInvalid);
  shutdown();
  EXPECT_EQ(initialize(std::array{piece(kRegion, kRegion), piece(0, 4096)}, 1), Status::kOk);
}

TEST_F(Regions, begins_at_the_first_whole_page_wherever_the_memory_begins) {
  constexpr std::size_t kPage = PageMap::kPageBytes;
  for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{2}, kPage - 1, kPage}) {
    const std::array one{piece(offset, kRegion)};
    ASSERT_EQ(initialize(one, 1), Status::kOk) << offset;
    attach_hart(0);
    EXPECT_EQ(base_arena().stats().total % kPage, 0U);
    const std::uintptr_t page = base_arena().allocate(kPage);
    EXPECT_GE(page, one[0].start);
    EXPECT_LE(page + kPage, one[0].start + one[0].size);
    EXPECT_EQ(base_arena().free(page, kPage), Status::kOk);
    shutdown();
  }
}

TEST_F(Regions, the_allocators_own_caches_have_their_structures_in_the_first_pages) {
  ASSERT_EQ(initialize(std::array{piece(0, kRegion)}, 1), Status::kOk);
  const MemoryRange first = internal::first_pages();
  RegistryCursor<Cache> caches;
  for (const char* name : {"kmem_cache", "kmem_magazine", "kmem_slab"}) {
    const Cache* const cache = caches.find(name);
    ASSERT_NE(cache, nullptr) << name;
    const auto address = reinterpret_cast<std::uintptr_t>(cache);
    // Large pages have room for the structures of more caches, which kmem_slab is the first of.
    const bool lies_in_slab = name == std::string_view{"kmem_slab"} && SlabLayer::kPageBytes >= 4096;
    EXPECT_EQ(address >= first.start && address - first.start < first.size, !lies_in_slab) << name;
  }
}

TEST_F(Regions, pages_have_quantum_caches_from_64_KiB_on) {
  for (const std::size_t bytes : {std::size_t{56 * 1024}, kRegion}) {
    ASSERT_EQ(initialize(std::array{piece(0, bytes)}, 1), Status::kOk);
    attach_hart(0);
    RegistryCursor<Cache> caches;
    EXPECT_EQ(caches.find("kpages_4096") != nullptr, bytes == kRegion);
    const std::size_t before = base_arena().stats().free;
    const std::uintptr_t page = page_arena().allocate(4096);
    EXPECT_NE(page, 0U);
    EXPECT_EQ(page_arena().free(page, 4096), Status::kOk);
    reclaim();
    EXPECT_GE(base_arena().stats().free + 4096, before) << "but for boundary tags";
    shutdown();
  }
}

TEST_F(Regions, refuses_harts_and_ranges_that_cannot_be) {
  const std::array one{piece(0, kRegion)};
  EXPECT_EQ(add_memory(piece(kRegion, kRegion)), Status::kInvalid);  // before initialize()
  EXPECT_EQ(initialize({}, 1), Status::kInvalid);
  EXPECT_EQ(initialize(one, 0), Status::kInvalid);
  EXPECT_EQ(initialize(one, hal::Port::kMaxHarts + 1), Status::kInvalid);
  EXPECT_EQ(initialize(std::array{piece(1, 2 * 4096)}, 1), Status::kInvalid);  // 15 whole pages
  ASSERT_EQ(initialize(one, 1), Status::kOk);
  EXPECT_EQ(initialize(one, 1), Status::kBusy);
  EXPECT_EQ(add_memory({UINTPTR_MAX - 4095, 8192}), Status::kInvalid);
  EXPECT_EQ(add_memory(piece(0, kRegion)), Status::kOverlap);
  EXPECT_TRUE(base_arena().validate());
}

/// An arena with memory outside of all regions, which its source adds to.
TEST_F(Regions, a_cache_has_objects_in_a_region_and_in_memory_that_no_region_has) {
  ASSERT_EQ(initialize(std::array{piece(4 * kRegion, kRegion)}, 1), Status::kOk);
  attach_hart(0);
  for (const std::size_t own : {std::size_t{0}, 6 * kRegion}) {  // below the region and above it
    Arena fast;
    ASSERT_EQ(fast.initialize({.name = "fast", .quantum = 4096, .source = &base_arena()}), Status::kOk);
    const MemoryRange memory = piece(own, 8 * 4096);
    ASSERT_EQ(fast.add(memory.start, memory.size), Status::kOk);
    CacheConfig config;
    config.name = "packet";
    config.object_size = 512;
    config.source = &fast;
    Cache* cache = Cache::create(config);
    ASSERT_NE(cache, nullptr);
    static std::array<void*, 150> objects;
    for (void*& object : objects) ASSERT_NE(object = cache->allocate(), nullptr);
    ASSERT_NE(fast.stats().imported, 0U);
    for (void* object : objects) EXPECT_EQ(cache->slabs().classify(object), SlabLayer::ObjectState::kOut);
    for (void* object : objects) cache->free(object);
    EXPECT_EQ(cache->stats().misuses, 0U);
    EXPECT_EQ(cache->stats().in_use, 0U);
    ASSERT_EQ(Cache::destroy(cache), Status::kOk);
    fast.reap();
    ASSERT_EQ(fast.destroy(), Status::kOk);
  }
}

TEST_F(Regions, memory_is_added_to_a_region_or_not_at_all) {
  ASSERT_EQ(initialize(std::array{piece(0, kRegion)}, 1), Status::kOk);
  EXPECT_EQ(add_memory(piece(0, kRegion)), Status::kOverlap) << "and leaves its place to the next";
  for (std::size_t region = 1; region != PageMap::kMaxRegions; ++region)
    ASSERT_EQ(add_memory(piece(kRegion + region * 8192, 8192)), Status::kOk) << region;
  const std::size_t total = base_arena().stats().total;
  EXPECT_EQ(add_memory(piece(2 * kRegion, 8192)), Status::kNoMemory);
  EXPECT_EQ(base_arena().stats().total, total) << "what lies in no region is no cache's";
}

#if !defined(QM_TARGET)
TEST_F(Regions, hundreds_of_gigabytes_may_lie_between_them) {
  constexpr std::size_t kHole = std::size_t{1} << 38;
  // Reading in the hole would end the test here.
  void* all = mmap(nullptr, kHole + 2 * kRegion, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(all, MAP_FAILED);
  const auto low = reinterpret_cast<std::uintptr_t>(all);
  const std::array regions{MemoryRange{low, kRegion}, MemoryRange{low + kRegion + kHole, kRegion}};
  for (const MemoryRange& region : regions) {
    ASSERT_EQ(mprotect(reinterpret_cast<void*>(region.start), region.size, PROT_READ | PROT_WRITE), 0);
  }
  ASSERT_EQ(initialize(regions, 1), Status::kOk) << "what it keeps per page must not grow with the hole";
  attach_hart(0);
  EXPECT_LT(base_arena().stats().allocated, 64U * 1024);
  // A cache with slabs in both regions: an address in the hole is no object of it, and nothing there is read.
  CacheConfig config;
  config.name = "packet";
  config.object_size = 500;
  Cache* cache = Cache::create(config);
  ASSERT_NE(cache, nullptr);
  static std::array<void*, 1500> objects;
  for (void*& object : objects) ASSERT_NE(object = cache->allocate(), nullptr);
  for (const std::uintptr_t hole : {low + kRegion, low + kHole / 2, regions[1].start - 1}) {
    EXPECT_EQ(cache->slabs().classify(reinterpret_cast<void*>(hole)), SlabLayer::ObjectState::kOutside);
    cache->free_slow(reinterpret_cast<void*>(hole));
  }
  EXPECT_EQ(cache->stats().misuses, 3U);
  for (void* object : objects) cache->free(object);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  reclaim();
  EXPECT_GT(use_everything(regions), kRegion);
  shutdown();
  munmap(all, kHole + 2 * kRegion);
}
#endif

}  // namespace alloc_regions_test
