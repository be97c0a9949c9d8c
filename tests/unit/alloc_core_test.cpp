// The core form (QM_FULL=OFF): arenas, caches and the C interface. The heap has the full form's tests besides.

#include <support/system_fixture.hpp>

#include <array>
#include <cstring>

#include <qm/page_map.hpp>
#include <qm/qm.h>
#include <qm/test/harts.hpp>
#include <qm/test/seed.hpp>

namespace {

using namespace qm;
using qm::test::pool;

class Core : public qm::test::SystemTest {
 protected:
  void TearDown() override {
    reclaim();
    EXPECT_EQ(base_arena().stats().bad_frees, 0U);
    SystemTest::TearDown();
  }
};

// ---- arenas ---------------------------------------------------------------------------------------------------------

TEST_F(Core, an_arena_hands_out_all_it_has_and_is_one_segment_again_afterwards) {
  Arena arena;
  ASSERT_EQ(arena.initialize({.name = "ids", .start = 10, .size = 100, .quantum = 1}), Status::kOk);
  std::array<bool, 111> taken{};
  for (unsigned i = 0; i < 100; ++i) {
    const std::uintptr_t id = arena.allocate(1);
    ASSERT_GE(id, 10U);
    ASSERT_LT(id, 110U);
    EXPECT_FALSE(taken[id]);
    taken[id] = true;
  }
  EXPECT_EQ(arena.allocate(1), 0U);
  EXPECT_EQ(arena.stats().failures, 1U);
  EXPECT_EQ(arena.stats().free, 0U);
  for (unsigned i = 0; i < 100; ++i) EXPECT_EQ(arena.free(10 + i * 37 % 100), Status::kOk);
  EXPECT_EQ(arena.allocate(100), 10U);
  EXPECT_EQ(arena.destroy(), Status::kBusy);
  EXPECT_EQ(arena.free(10, 100), Status::kOk);
  EXPECT_EQ(arena.destroy(), Status::kOk);
}

TEST_F(Core, an_arena_refuses_what_cannot_be) {
  Arena arena;
  EXPECT_EQ(arena.initialize({.name = "none", .quantum = 0}), Status::kInvalid);
  ASSERT_EQ(arena.initialize({.name = "ranges", .start = 0x1000, .size = 0x4000}), Status::kOk);
  EXPECT_EQ(arena.initialize({.name = "again"}), Status::kBusy);
  EXPECT_EQ(arena.add(0x4000, 0x2000), Status::kOverlap);
  EXPECT_EQ(arena.add(0x5001, 0x1000), Status::kInvalid);
  EXPECT_EQ(arena.add(UINTPTR_MAX - 0x1000, 0x2000), Status::kInvalid);
  EXPECT_EQ(arena.add(0x8000, 0x2000), Status::kOk);
  EXPECT_EQ(arena.allocate(0), 0U);
  EXPECT_EQ(arena.allocate(SIZE_MAX), 0U);
  EXPECT_EQ(arena.allocate(0x4001), 0U);
  const std::uintptr_t start = arena.allocate(0x2000);
  EXPECT_EQ(start, 0x8000U);  // the smallest that fits
  EXPECT_EQ(arena.free(start, 0x1000), Status::kMismatch);
  EXPECT_EQ(arena.free(start + 0x1000), Status::kNotFound);
  EXPECT_EQ(arena.free(0), Status::kNotFound);
  EXPECT_EQ(arena.free(start, 0x1fff), Status::kOk);
  EXPECT_EQ(arena.free(start, 0x2000), Status::kNotFound);
  EXPECT_EQ(arena.stats().bad_frees, 4U);
  EXPECT_EQ(arena.destroy(), Status::kOk);
}

TEST_F(Core, an_arena_over_another_imports_what_it_needs_and_gives_it_back_at_once) {
  const std::size_t before = base_arena().stats().allocated;
  Arena arena;
  ASSERT_EQ(arena.initialize({.name = "small", .quantum = 64, .source = &base_arena(), .minimum_import = 0x4000}),
            Status::kOk);
  Arena odd;
  EXPECT_EQ(odd.initialize({.name = "odd", .quantum = 48, .source = &base_arena()}), Status::kInvalid);
  const std::uintptr_t first = arena.allocate(100);
  const std::uintptr_t second = arena.allocate(100);
  EXPECT_EQ(second, first + 128);
  EXPECT_EQ(arena.stats().total, 0x4000U);
  const std::uintptr_t large = arena.allocate(0x8000);
  ASSERT_NE(large, 0U);
  EXPECT_EQ(arena.free(large), Status::kOk);
  EXPECT_EQ(arena.stats().total, 0x4000U);
  EXPECT_EQ(arena.free(first), Status::kOk);
  EXPECT_EQ(arena.stats().total, 0x4000U);
  EXPECT_EQ(arena.free(second), Status::kOk);
  EXPECT_EQ(arena.stats().total, 0U);
  EXPECT_EQ(arena.destroy(), Status::kOk);
  EXPECT_EQ(base_arena().stats().allocated, before);
  EXPECT_EQ(base_arena().destroy(), Status::kBusy);  // the heap draws from it
}

TEST_F(Core, an_arena_with_a_source_takes_no_range_of_its_own) {
  Arena importer;
  ASSERT_EQ(importer.initialize({.name = "importer", .quantum = 64, .source = &base_arena()}), Status::kOk);
  EXPECT_EQ(importer.add(0x4000, 0x2000), Status::kInvalid);
  EXPECT_EQ(importer.stats().total, 0U);
  EXPECT_EQ(importer.destroy(), Status::kOk);
}

TEST_F(Core, an_arena_finds_starts_of_every_alignment) {
  for (std::size_t align = 1; align <= 0x10000; align *= 2) {
    const std::uintptr_t a = base_arena().allocate_aligned(0x3000, align);
    const std::uintptr_t b = base_arena().allocate_aligned(0x1000, align);
    ASSERT_NE(a, 0U);
    ASSERT_NE(b, 0U);
    EXPECT_EQ(a % align, 0U);
    EXPECT_EQ(b % align, 0U);
    EXPECT_EQ(base_arena().free(a, 0x3000), Status::kOk);
    EXPECT_EQ(base_arena().free(b, 0x1000), Status::kOk);
  }
}

TEST_F(Core, a_segment_grows_into_what_is_free_behind_it_and_shrinks_in_place) {
  Arena arena;
  ASSERT_EQ(arena.initialize({.name = "line", .start = 100, .size = 100, .quantum = 10}), Status::kOk);
  ASSERT_EQ(arena.allocate(30), 100U);
  EXPECT_EQ(arena.resize_in_place(100, 30, 55), Status::kOk);
  EXPECT_EQ(arena.size_of(100), 60U);
  EXPECT_EQ(arena.resize_in_place(100, 60, 110), Status::kNoMemory);
  EXPECT_EQ(arena.resize_in_place(100, 30, 10), Status::kMismatch);
  EXPECT_EQ(arena.resize_in_place(110, 30, 10), Status::kNotFound);
  EXPECT_EQ(arena.resize_in_place(100, 60, 0), Status::kInvalid);
  EXPECT_EQ(arena.resize_in_place(100, 60, 100), Status::kOk);
  EXPECT_EQ(arena.stats().free, 0U);
  EXPECT_EQ(arena.resize_in_place(100, 100, 20), Status::kOk);
  EXPECT_EQ(arena.allocate(80), 120U);
  EXPECT_EQ(arena.resize_in_place(100, 20, 30), Status::kNoMemory);
  EXPECT_EQ(arena.resize_in_place(100, 20, 10), Status::kOk);
  EXPECT_EQ(arena.stats().allocated, 90U);
  EXPECT_EQ(arena.free(120, 80), Status::kOk);
  EXPECT_EQ(arena.free(100, 10), Status::kOk);
  EXPECT_EQ(arena.allocate(100), 100U);
  EXPECT_EQ(arena.free(100, 100), Status::kOk);
  EXPECT_EQ(arena.destroy(), Status::kOk);
}

TEST_F(Core, an_arena_agrees_with_a_map_of_its_units_whatever_is_taken_and_freed) {
  constexpr std::size_t kUnits = 512;
  static std::array<std::uint16_t, kUnits + 1> map;  // the size of what begins there; 0xffff: inside; 0: free
  map = {};
  Arena arena;
  ASSERT_EQ(arena.initialize({.name = "model", .start = 3, .size = kUnits * 3, .quantum = 3}), Status::kOk);
  qm::test::Random random;
  const std::uint64_t steps = qm::test::steps(200000);
  std::size_t allocated = 0;
  const auto longest_free = [] {
    std::size_t longest = 0;
    for (std::size_t i = 0, run = 0; i < kUnits; ++i) {
      run = map[i] == 0 ? run + 1 : 0;
      if (run > longest) longest = run;
    }
    return longest;
  };
  for (std::uint64_t step = 0; step < steps; ++step) {
    const std::size_t at = random.below(kUnits);
    if (map[at] == 0) {
      const std::size_t size = 1 + random.below(random.chance(80) ? 8 : 60);
      const std::uintptr_t start = arena.allocate(size * 3);
      if (start == 0) {
        ASSERT_LT(longest_free(), size);
        continue;
      }
      ASSERT_EQ(start % 3, 0U);
      const std::size_t first = start / 3 - 1;
      ASSERT_LE(first + size, kUnits);
      for (std::size_t i = 0; i < size; ++i) {
        ASSERT_EQ(map[first + i], 0);
        map[first + i] = 0xffff;
      }
      map[first] = static_cast<std::uint16_t>(size);
      allocated += size;
    } else if (map[at] == 0xffff) {
      ASSERT_EQ(arena.free((at + 1) * 3), Status::kNotFound);
    } else if (random.chance(30)) {
      const std::size_t old = map[at];
      const std::size_t size = 1 + random.below(old + 4);
      std::size_t room = old;
      while (at + room < kUnits && map[at + room] == 0) ++room;
      const Status status = arena.resize_in_place((at + 1) * 3, old * 3, size * 3);
      ASSERT_EQ(status, size <= room ? Status::kOk : Status::kNoMemory);
      if (status != Status::kOk) continue;
      for (std::size_t i = 0; i < (size > old ? size : old); ++i) map[at + i] = i < size ? 0xffff : 0;
      map[at] = static_cast<std::uint16_t>(size);
      allocated += size - old;
    } else {
      const std::size_t size = map[at];
      ASSERT_EQ(arena.free((at + 1) * 3, size * 3), Status::kOk);
      for (std::size_t i = 0; i < size; ++i) map[at + i] = 0;
      allocated -= size;
    }
    ASSERT_EQ(arena.stats().allocated, allocated * 3);
  }
  for (std::size_t i = 0; i < kUnits; ++i) {
    if (map[i] != 0 && map[i] != 0xffff) {
      ASSERT_EQ(arena.free((i + 1) * 3), Status::kOk);
    }
  }
  EXPECT_EQ(arena.allocate(kUnits * 3), 3U);
  EXPECT_EQ(arena.free(3), Status::kOk);
  EXPECT_EQ(arena.destroy(), Status::kOk);
}

TEST_F(Core, the_best_fit_is_found_among_holes_of_hundreds_of_sizes) {
  constexpr std::size_t kHoles = 400;
  static std::array<std::uintptr_t, kHoles + 1> start;  // of the hole of so many units; 0: in use
  Arena arena;
  ASSERT_EQ(arena.initialize({.name = "holes", .start = 1, .size = kHoles * (kHoles + 3) / 2, .quantum = 1}),
            Status::kOk);
  for (std::size_t size = 1; size <= kHoles; ++size) {
    start[size] = arena.allocate(size);
    ASSERT_NE(start[size], 0U);
    ASSERT_NE(arena.allocate(1), 0U);  // keeps it apart from the next
  }
  ASSERT_EQ(arena.stats().free, 0U);
  for (std::size_t i = 0; i < kHoles; ++i) ASSERT_EQ(arena.free(start[1 + i * 7919 % kHoles]), Status::kOk);
  qm::test::Random random;
  for (unsigned step = 0; step < 5000; ++step) {
    const auto wanted = static_cast<std::size_t>(1 + random.below(kHoles));
    std::size_t size = wanted;
    while (size <= kHoles && start[size] == 0) ++size;
    const std::uintptr_t found = arena.allocate(wanted);
    ASSERT_EQ(found, size <= kHoles ? start[size] : 0);
    if (found != 0 && random.chance(90)) {
      ASSERT_EQ(arena.free(found, wanted), Status::kOk);
    } else if (found != 0) {
      ASSERT_EQ(arena.resize_in_place(found, wanted, size), Status::kOk);
      start[size] = 0;
    }
  }
}

// ---- caches ---------------------------------------------------------------------------------------------------------

TEST_F(Core, a_cache_of_any_size_has_aligned_objects_of_its_own_and_gives_all_memory_back) {
  const std::size_t before = free_bytes();
  for (std::size_t size : {1, 8, 13, 16, 24, 64, 100, 500, 1000, 1024, 3000, 4096, 5000, 40000, 300000, 1000000}) {
    for (std::size_t alignment : {0, 1, 64, 4096}) {
      Cache* cache = Cache::create({.name = "any", .object_size = size, .alignment = alignment});
      ASSERT_NE(cache, nullptr);
      std::array<unsigned char*, 40> objects{};
      unsigned have = 0;
      while (have < objects.size() && (objects[have] = static_cast<unsigned char*>(cache->allocate())) != nullptr) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(objects[have]) % (alignment != 0 ? alignment : 8), 0U);
        std::memset(objects[have], static_cast<int>(have + 1), size);
        ++have;
      }
      EXPECT_GE(have, size < 50000 ? objects.size() : 3U);
      const CacheStats stats = cache->stats();
      EXPECT_EQ(stats.in_use, have);
      EXPECT_EQ(stats.objects, stats.in_use + stats.in_slabs);
      EXPECT_EQ(Cache::destroy(cache), Status::kBusy);
      for (unsigned i = 0; i < have; ++i) {
        EXPECT_EQ(objects[i][0], i + 1);
        EXPECT_EQ(objects[i][size - 1], i + 1);
        cache->free(objects[i]);
      }
      EXPECT_EQ(cache->stats().misuses, 0U);
      EXPECT_EQ(Cache::destroy(cache), Status::kOk);
    }
  }
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(Core, a_cache_refuses_what_cannot_be) {
  Status why = Status::kOk;
  EXPECT_EQ(Cache::create({.name = "zero", .object_size = 0}, &why), nullptr);
  EXPECT_EQ(why, Status::kInvalid);
  EXPECT_EQ(Cache::create({.name = "odd", .object_size = 8, .alignment = 3}, &why), nullptr);
  EXPECT_EQ(why, Status::kInvalid);
  EXPECT_EQ(Cache::create({.name = "wide", .object_size = 8, .alignment = 8192}, &why), nullptr);
  EXPECT_EQ(why, Status::kInvalid);
  EXPECT_EQ(Cache::create({.name = "huge", .object_size = 1 << 20}, &why), nullptr);
  EXPECT_EQ(why, Status::kInvalid);
  EXPECT_EQ(Cache::create({.name = "max", .object_size = SIZE_MAX}, &why), nullptr);
  EXPECT_EQ(why, Status::kInvalid);
  EXPECT_EQ(Cache::create({.name = "ids", .object_size = 1, .flags = cache_flags::kNoTouch}, &why), nullptr);
  EXPECT_EQ(why, Status::kRefused);
  Arena bytes;
  ASSERT_EQ(bytes.initialize({.name = "bytes", .quantum = 64, .source = &base_arena()}), Status::kOk);
  EXPECT_EQ(Cache::create({.name = "fine", .object_size = 64, .source = &bytes}, &why), nullptr);
  EXPECT_EQ(why, Status::kInvalid);
  EXPECT_EQ(bytes.destroy(), Status::kOk);
}

TEST_F(Core, a_cache_over_what_is_no_memory_of_the_allocators_has_no_objects_and_writes_nothing_there) {
  Arena numbers;
  ASSERT_EQ(numbers.initialize({.name = "numbers", .start = 4096, .size = 1 << 20}), Status::kOk);
  Cache* cache = Cache::create({.name = "wild", .object_size = 64, .source = &numbers});
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(cache->allocate(), nullptr);
  EXPECT_EQ(numbers.destroy(), Status::kBusy);  // the cache draws from it
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  EXPECT_EQ(numbers.stats().allocated, 0U);
  EXPECT_EQ(numbers.destroy(), Status::kOk);
}

TEST_F(Core, a_page_at_the_end_of_memory_grows_or_becomes_tags_and_is_never_both) {
  static std::array<std::uintptr_t, 300> pages;
  for (std::uintptr_t& page :
       pages) {  // each has a tag, so that in one of the rounds there are none left for the resize
    page = base_arena().allocate(4096);
    ASSERT_NE(page, 0U);
    const std::size_t all = base_arena().stats().free;
    const std::uintptr_t start = base_arena().allocate(all - 4096);
    if (start == 0) continue;  // its tags were of that page
    const Status status = base_arena().resize_in_place(start, all - 4096, all);
    const std::size_t size = base_arena().size_of(start);
    ASSERT_EQ(size, status == Status::kOk ? all : all - 4096);
    ASSERT_LE(base_arena().stats().allocated, base_arena().stats().total);
    ASSERT_EQ(base_arena().free(start, size), Status::kOk);
  }
  for (const std::uintptr_t page : pages) ASSERT_EQ(base_arena().free(page, 4096), Status::kOk);
}

TEST_F(Core, frees_of_what_is_no_object_are_refused_and_counted_and_change_nothing) {
  Cache* cache = Cache::create({.name = "mine", .object_size = 40});
  Cache* other = Cache::create({.name = "other", .object_size = 3000});
  ASSERT_NE(cache, nullptr);
  ASSERT_NE(other, nullptr);
  auto* object = static_cast<unsigned char*>(cache->allocate());
  auto* kept = static_cast<unsigned char*>(cache->allocate());
  auto* foreign = static_cast<unsigned char*>(other->allocate());
  unsigned expected = 0;
  const auto refused = [&](void* address) {
    cache->free(address);
    EXPECT_EQ(cache->stats().misuses, ++expected);
    EXPECT_EQ(cache->stats().in_use, 2U);
  };
  refused(nullptr);
  refused(object + 8);
  refused(object + 1);
  refused(foreign);
  refused(foreign + 40);
  refused(&expected);
  refused(reinterpret_cast<void*>(UINTPTR_MAX));
  refused(pool());
  refused(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(object) & ~std::uintptr_t{4095}));  // its slab
  cache->free(object);
  cache->free(object);
  EXPECT_EQ(cache->stats().misuses, expected + 1);
  EXPECT_EQ(cache->stats().in_use, 1U);
  EXPECT_EQ(cache->allocate(), object);
  cache->free(object);
  cache->free(kept);
  other->free(foreign);
  EXPECT_EQ(other->stats().misuses, 0U);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  EXPECT_EQ(Cache::destroy(other), Status::kOk);
}

TEST_F(Core, a_cache_out_of_memory_says_so_and_goes_on_when_there_is_some) {
  restart(32 * PageMap::kPageBytes);
  Cache* cache = Cache::create({.name = "all", .object_size = 1000});
  Cache* idle = Cache::create({.name = "idle", .object_size = 100});
  ASSERT_NE(idle, nullptr);
  idle->free(idle->allocate());
  EXPECT_EQ(idle->stats().slabs, 1U);
  std::array<void*, 140> objects{};
  unsigned have = 0;
  while ((objects[have] = cache->allocate()) != nullptr) ++have;
  EXPECT_EQ(idle->stats().slabs, 0U);  // its idle slab was asked for
  EXPECT_GE(have, 25 * 4U);
  EXPECT_EQ(cache->stats().failures, 1U);
  EXPECT_EQ(cache->allocate(), nullptr);
  EXPECT_EQ(heap::allocate(100), nullptr);
  cache->free(objects[0]);
  EXPECT_EQ(cache->allocate(), objects[0]);
  for (unsigned i = 0; i < have; ++i) cache->free(objects[i]);
  EXPECT_EQ(cache->stats().slabs, 1U);
  void* block = heap::allocate(60000);
  EXPECT_NE(block, nullptr);
  heap::free(block);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  EXPECT_EQ(Cache::destroy(idle), Status::kOk);
}

TEST_F(Core, objects_are_constructed_while_they_are_out_and_a_constructor_may_fail) {
  struct Counts {
    unsigned constructed = 0, destroyed = 0, fail_at = 5;
  } counts;
  CacheConfig config;
  config.name = "made";
  config.object_size = 48;
  config.context = &counts;
  config.constructor = [](void* object, void* context) noexcept {
    auto& seen = *static_cast<Counts*>(context);
    std::memset(object, 0x5a, 48);
    return ++seen.constructed != seen.fail_at;
  };
  config.destructor = [](void*, void* context) noexcept { ++static_cast<Counts*>(context)->destroyed; };
  Cache* cache = Cache::create(config);
  std::array<void*, 8> objects{};
  for (unsigned i = 0; i < objects.size(); ++i) {
    objects[i] = cache->allocate();
    EXPECT_EQ(objects[i] == nullptr, i == 4);
    if (objects[i] != nullptr) {
      EXPECT_EQ(static_cast<unsigned char*>(objects[i])[47], 0x5a);
    }
  }
  EXPECT_EQ(cache->stats().failures, 1U);
  EXPECT_EQ(cache->stats().in_use, 7U);
  for (unsigned i = 0; i < objects.size(); ++i) {
    if (i != 4) cache->free(objects[i]);
  }
  cache->free(objects[0]);  // twice: no destructor
  EXPECT_EQ(counts.destroyed, 7U);
  EXPECT_EQ(cache->stats().misuses, 1U);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(Core, a_limit_is_kept_and_objects_come_by_the_bulk) {
  Cache* cache = Cache::create({.name = "few", .object_size = 200, .limit = 30});
  std::array<void*, 40> objects{};
  EXPECT_EQ(cache->allocate_bulk(objects.data(), 10), 10U);
  EXPECT_EQ(cache->allocate_bulk(objects.data() + 10, 30), 20U);
  EXPECT_EQ(cache->allocate(), nullptr);
  EXPECT_EQ(cache->stats().failures, 2U);
  EXPECT_EQ(cache->stats().high_water, 30U);
  EXPECT_EQ(cache->reserve(1), Status::kRefused);
  cache->free_bulk(objects.data(), 30);
  EXPECT_EQ(cache->stats().in_use, 0U);
  EXPECT_EQ(cache->stats().misuses, 0U);
  EXPECT_NE(cache->reap(), 0U);
  EXPECT_EQ(cache->reap(), 0U);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

TEST_F(Core, memory_comes_in_ranges_and_none_overlaps_another) {
  shutdown();
  const auto start = reinterpret_cast<std::uintptr_t>(pool());
  const MemoryRange tiny{start, 15 * 4096};
  EXPECT_EQ(initialize({&tiny, 1}, 1), Status::kInvalid);
  EXPECT_EQ(add_memory({start, 65536}), Status::kInvalid);
  const MemoryRange two[] = {{start + 100, 20 * 4096}, {start + 40 * 4096, 2 * 4096}};
  EXPECT_EQ(initialize(two, 0), Status::kInvalid);
  ASSERT_EQ(initialize(two, 1), Status::kOk);
  EXPECT_EQ(initialize(two, 1), Status::kBusy);
  EXPECT_EQ(base_arena().stats().total, 18 * 4096U + 4096);
  EXPECT_EQ(add_memory({start + 19 * 4096, 8 * 4096}), Status::kOverlap);
  EXPECT_EQ(add_memory({start + 30 * 4096, 4096}), Status::kInvalid);
  EXPECT_EQ(add_memory({UINTPTR_MAX - 100, 4096}), Status::kInvalid);
  EXPECT_EQ(add_memory({start + 100 * 4096, 100 * 4096}), Status::kOk);
  void* block = heap::allocate(70 * 4096);
  EXPECT_NE(block, nullptr);
  heap::free(block);
  for (unsigned bank = 3; bank < PageMap::kMaxBanks; ++bank)
    EXPECT_EQ(add_memory({start + (200 + 4 * bank) * 4096, 3 * 4096}), Status::kOk);
  EXPECT_EQ(add_memory({start + 400 * 4096, 3 * 4096}), Status::kNoMemory);
}

TEST_F(Core, tags_for_many_segments_come_from_pages_and_the_pages_are_missed_by_none) {
  static std::array<std::uintptr_t, 700> pages;
  unsigned have = 0;
  while (have < pages.size() && (pages[have] = base_arena().allocate(4096)) != 0) ++have;
  ASSERT_EQ(have, pages.size());
  for (unsigned i = 0; i < have; i += 2) EXPECT_EQ(base_arena().free(pages[i], 4096), Status::kOk);
  for (unsigned i = 1; i < have; i += 2) EXPECT_EQ(base_arena().free(pages[i], 4096), Status::kOk);
  const std::size_t left = base_arena().stats().free;
  for (have = 0; have < pages.size() && (pages[have] = base_arena().allocate(4096)) != 0;) ++have;
  EXPECT_EQ(have, pages.size());
  EXPECT_EQ(base_arena().stats().free, left - have * 4096);
  for (unsigned i = 0; i < have; ++i) EXPECT_EQ(base_arena().free(pages[i], 4096), Status::kOk);
}

// ---- C --------------------------------------------------------------------------------------------------------------

TEST_F(Core, the_c_interface_has_all_but_what_the_form_has_not) {
  shutdown();
  ASSERT_EQ(qm_init(pool(), qm::test::kPoolBytes), QM_OK);
  qm_cache* cache = qm_cache_create("packet", 512, 64, 0, nullptr, nullptr, nullptr, nullptr);
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(qm_cache_create("ids", 1, 0, QM_NO_TOUCH, nullptr, nullptr, nullptr, nullptr), nullptr);
  void* packet = qm_cache_alloc(cache, QM_ATOMIC);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(packet) % 64, 0U);
  qm_cache_counts counts;
  qm_cache_stats(cache, &counts);
  EXPECT_EQ(counts.in_use, 1U);
  EXPECT_EQ(counts.objects, counts.in_use + counts.in_magazines + counts.in_depot + counts.reserved + counts.in_slabs);
  EXPECT_EQ(qm_cache_destroy(cache), QM_BUSY);
  qm_cache_free(cache, packet);
  EXPECT_EQ(qm_cache_reserve(cache, 4), QM_REFUSED);
  EXPECT_EQ(qm_cache_destroy(cache), QM_OK);
  qm_arena* arena = qm_arena_create("ports", 1024, 64, 1, nullptr, nullptr, nullptr, 0);
  ASSERT_NE(arena, nullptr);
  EXPECT_EQ(qm_arena_create("cached", 0, 0, 64, nullptr, nullptr, qm_base_arena(), 64), nullptr);
  const std::uintptr_t port = qm_arena_alloc(arena, 4, QM_NEXT_FIT);
  EXPECT_EQ(qm_arena_free_bytes(arena), 60U);
  EXPECT_EQ(qm_arena_destroy(arena), QM_BUSY);
  EXPECT_EQ(qm_arena_free(arena, port, 3), QM_MISMATCH);
  EXPECT_EQ(qm_arena_free(arena, port, 4), QM_OK);
  EXPECT_EQ(qm_arena_destroy(qm_base_arena()), QM_INVALID);
  EXPECT_EQ(qm_arena_destroy(arena), QM_OK);
  auto* text = static_cast<char*>(qm_calloc(10, 7));
  EXPECT_EQ(text[69], 0);
  std::memcpy(text, "quarter", 8);
  text = static_cast<char*>(qm_realloc(text, 5000));
  EXPECT_STREQ(text, "quarter");
  EXPECT_GE(qm_usable_size(text), 5000U);
  qm_free_sized(text, 5000);
  EXPECT_EQ(qm_calloc(SIZE_MAX / 2, 3), nullptr);
  EXPECT_EQ(heap::misuses(), 0U);
  EXPECT_EQ(qm_page_arena(), qm_base_arena());
  static_cast<void>(qm_reclaim());
  EXPECT_LE(base_arena().stats().segments_allocated, 1U);  // the structures of the heap's caches
}

}  // namespace
