#include <support/system_fixture.hpp>

#include <array>
#include <cstring>

#include <qm/detail/boundary_tag.hpp>
#include <qm/test/seed.hpp>

namespace alloc_cache_test {

using namespace qm;
using qm::test::SystemTest;

class Cache : public SystemTest {
 protected:
  static qm::Cache* make(const char* name, std::size_t size, std::size_t alignment = 0, std::uint32_t flags = 0) {
    CacheConfig config;
    config.name = name;
    config.object_size = size;
    config.alignment = alignment;
    config.flags = flags;
    return qm::Cache::create(config);
  }
};

std::array<void*, 20000> objects;

/// Allocates until the cache fails, into `objects`. @returns the number of objects.
std::size_t exhaust(qm::Cache& cache) {
  std::size_t count = 0;
  while (count < objects.size() && (objects[count] = cache.allocate()) != nullptr) ++count;
  return count;
}

TEST_F(Cache, hands_out_distinct_aligned_objects_and_counts_them) {
  qm::Cache* cache = make("packet", 200, 64);
  ASSERT_NE(cache, nullptr);
  for (unsigned i = 0; i < 1000; ++i) {
    objects[i] = cache->allocate();
    ASSERT_NE(objects[i], nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(objects[i]) % 64, 0U);
    std::memset(objects[i], static_cast<int>(i), 200);
  }
  EXPECT_TRUE(cache->validate());
  EXPECT_EQ(cache->stats().in_use, 1000U);
  if (kCounted) {
    EXPECT_EQ(cache->stats().allocations, 1000U);
  }
  for (unsigned i = 0; i < 1000; ++i) {
    EXPECT_EQ(static_cast<unsigned char*>(objects[i])[199], i & 0xff);
    cache->free(objects[i]);
  }
  EXPECT_TRUE(cache->validate());
  EXPECT_EQ(cache->stats().in_use, 0U);
  EXPECT_EQ(qm::Cache::destroy(cache), Status::kOk);
}

TEST_F(Cache, an_allocation_that_finds_its_slabs_spent_makes_one_and_the_next_fills_the_magazine_from_it) {
  if (kChecked || !kMagazines) GTEST_SKIP() << "each allocation takes one object";
  qm::Cache* cache = make("spent", 64);
  ASSERT_NE(cache, nullptr);
  std::size_t taken = 0;
  CacheStats before;
  do {
    ASSERT_LT(taken, 100U);
    objects[taken] = cache->allocate();
    ASSERT_NE(objects[taken++], nullptr);
    before = cache->stats();
  } while (before.in_slabs + before.in_magazines != 0);
  objects[taken++] = cache->allocate();
  EXPECT_EQ(cache->stats().slabs, before.slabs + 1);
  EXPECT_EQ(cache->stats().in_magazines, 0U);
  objects[taken++] = cache->allocate();
  EXPECT_EQ(cache->stats().slabs, before.slabs + 1);
  EXPECT_GT(cache->stats().in_magazines, 0U);
  EXPECT_TRUE(cache->validate());
  while (taken != 0) cache->free(objects[--taken]);
  EXPECT_EQ(qm::Cache::destroy(cache), Status::kOk);
}

TEST_F(Cache, refuses_what_can_never_be_right) {
  Status why = Status::kOk;
  CacheConfig config;
  config.name = "x";
  EXPECT_EQ(qm::Cache::create(config, &why), nullptr);
  EXPECT_EQ(why, Status::kInvalid);
  config.object_size = 16;
  config.alignment = 24;
  EXPECT_EQ(qm::Cache::create(config, &why), nullptr);
  EXPECT_EQ(why, Status::kInvalid);
  config.alignment = 0;
  for (const char* name : {"", "two words", "abcdefghijklmnopqrstuvwxyz012345", "semi;colon"}) {
    config.name = name;
    EXPECT_EQ(qm::Cache::create(config, &why), nullptr) << name;
    EXPECT_EQ(why, Status::kInvalid);
  }
  config.name = "kmem_slab";
  EXPECT_EQ(qm::Cache::create(config, &why), nullptr);
  EXPECT_EQ(why, Status::kDuplicate);
  config.name = "huge";
  config.object_size = SIZE_MAX;
  EXPECT_EQ(qm::Cache::create(config, &why), nullptr);
  EXPECT_EQ(why, Status::kInvalid);
}

TEST_F(Cache, keeps_objects_constructed_between_uses) {
  struct Counts {
    unsigned made = 0;
    unsigned unmade = 0;
  } counts;
  CacheConfig config;
  config.name = "inode";
  config.object_size = 96;
  config.context = &counts;
  config.constructor = [](void* object, void* context) noexcept {
    *static_cast<unsigned*>(object) = 0xc0de;
    ++static_cast<Counts*>(context)->made;
    return true;
  };
  config.destructor = [](void* object, void* context) noexcept {
    if (*static_cast<unsigned*>(object) == 0xc0de) ++static_cast<Counts*>(context)->unmade;
  };
  qm::Cache* cache = qm::Cache::create(config);
  ASSERT_NE(cache, nullptr);
  unsigned made = 0;
  for (unsigned round = 0; round < 3; ++round) {
    if (round == 1) made = counts.made;
    for (unsigned i = 0; i < 10; ++i) {
      objects[i] = cache->allocate();
      ASSERT_NE(objects[i], nullptr);
      EXPECT_EQ(*static_cast<unsigned*>(objects[i]), 0xc0deU);
    }
    for (unsigned i = 0; i < 10; ++i) cache->free(objects[i]);
  }
  EXPECT_GE(made, 10U);
  if constexpr (kMagazines) {
    EXPECT_EQ(counts.made, made);  // constructed once, however often they are used
    EXPECT_EQ(counts.unmade, 0U);
  } else {
    EXPECT_EQ(counts.made, 30U);  // while they are allocated
    EXPECT_EQ(counts.unmade, 30U);
  }
  const unsigned in_all = counts.made;
  EXPECT_EQ(qm::Cache::destroy(cache), Status::kOk);
  EXPECT_EQ(counts.made, in_all);
  EXPECT_EQ(counts.unmade, in_all);
}

TEST_F(Cache, a_failing_constructor_is_an_exhausted_cache_and_loses_nothing) {
  unsigned left = 5;
  CacheConfig config;
  config.name = "fragile";
  config.object_size = 64;
  config.context = &left;
  config.constructor = [](void*, void* context) noexcept {
    auto& remaining = *static_cast<unsigned*>(context);
    return remaining != 0 && remaining-- != 0;
  };
  qm::Cache* cache = qm::Cache::create(config);
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(exhaust(*cache), 5U);
  EXPECT_EQ(cache->stats().failures, 1U);
  EXPECT_EQ(cache->stats().in_use, 5U);
  for (unsigned i = 0; i < 5; ++i) cache->free(objects[i]);
  EXPECT_TRUE(cache->validate());
  EXPECT_EQ(qm::Cache::destroy(cache), Status::kOk);
}

TEST_F(Cache, allocate_returns_null_and_counts_when_memory_is_exhausted_and_everything_comes_back) {
  restart(256 * 1024);
  const std::size_t before = free_bytes();
  qm::Cache* cache = make("greedy", 512);
  ASSERT_NE(cache, nullptr);
  const std::size_t count = exhaust(*cache);
  EXPECT_GT(count, before / 512 * 3 / 4);
  EXPECT_EQ(cache->stats().failures, 1U);
  EXPECT_EQ(cache->allocate(), nullptr);
  EXPECT_EQ(cache->stats().in_use, count);
  EXPECT_TRUE(cache->validate());
  for (std::size_t i = 0; i < count; ++i) cache->free(objects[i]);
  EXPECT_EQ(cache->stats().in_use, 0U);
  EXPECT_EQ(exhaust(*cache), count);
  for (std::size_t i = 0; i < count; ++i) cache->free(objects[i]);
  EXPECT_EQ(qm::Cache::destroy(cache), Status::kOk);
  EXPECT_TRUE(base_arena().validate());
}

TEST_F(Cache, idle_objects_of_one_cache_serve_another_before_an_allocation_fails) {
  restart(256 * 1024);
  qm::Cache* first = make("first", 256);
  qm::Cache* second = make("second", 1024);
  const std::size_t count = exhaust(*first);
  for (std::size_t i = 0; i < count; ++i) first->free(objects[i]);
  const std::size_t other = exhaust(*second);
  EXPECT_GT(other * 1024, count * 256 * 3 / 4);
  for (std::size_t i = 0; i < other; ++i) second->free(objects[i]);
}

TEST_F(Cache, destroy_refuses_while_an_object_is_out_and_leaves_the_cache_usable) {
  qm::Cache* cache = make("timer", 48);
  void* object = cache->allocate();
  EXPECT_EQ(qm::Cache::destroy(cache), Status::kBusy);
  std::memset(object, 1, 48);
  void* other = cache->allocate();
  EXPECT_NE(other, nullptr);
  EXPECT_NE(other, object);
  cache->free(object);
  cache->free(other);
  EXPECT_TRUE(cache->validate());
  EXPECT_EQ(qm::Cache::destroy(cache), Status::kOk);
}

TEST_F(Cache, a_cache_and_an_arena_created_used_and_destroyed_again_and_again_leave_no_byte_behind) {
  const std::size_t before = free_bytes() + boundary_tags_stats().pages * 4096;
  std::size_t free = 0;
  const std::uint64_t steps = test::steps(100'000);
  for (std::uint64_t step = 0; step < steps; ++step) {
    qm::Arena arena;
    ArenaConfig config;
    config.name = "shortlived";
    config.source = &page_arena();
    config.quantum = 64;
    ASSERT_EQ(arena.initialize(config), Status::kOk);
    const std::uintptr_t segment = arena.allocate(1000);
    ASSERT_NE(segment, 0U);
    CacheConfig of_arena;
    of_arena.name = "ephemeral";
    of_arena.object_size = 100;
    of_arena.source = &arena;
    qm::Cache* cache = qm::Cache::create(of_arena);
    ASSERT_NE(cache, nullptr);
    for (unsigned i = 0; i < 10; ++i) ASSERT_NE(objects[i] = cache->allocate(), nullptr);
    for (unsigned i = 0; i < 10; ++i) cache->free(objects[i]);
    ASSERT_EQ(qm::Cache::destroy(cache), Status::kOk);
    ASSERT_EQ(arena.free(segment, 1000), Status::kOk);
    ASSERT_EQ(arena.destroy(), Status::kOk);
    if (step == 1) free = base_arena().stats().free;
    if (step > 1) {
      ASSERT_EQ(base_arena().stats().free, free) << "step " << step;
    }
  }
  EXPECT_EQ(free_bytes() + boundary_tags_stats().pages * PageMap::kPageBytes, before);
}

TEST_F(Cache, create_use_destroy_leaves_no_byte_behind) {
  std::size_t before = 0;
  for (unsigned round = 0; round < 2000; ++round) {
    if (round == 700) before = free_bytes();  // every size occurred: from here on no boundary tags are needed
    qm::Cache* cache = make("shortlived", 16 + round % 700 * 8);
    ASSERT_NE(cache, nullptr);
    for (unsigned i = 0; i < 40; ++i) ASSERT_NE(objects[i] = cache->allocate(), nullptr);
    for (unsigned i = 0; i < 40; ++i) cache->free(objects[i]);
    ASSERT_EQ(qm::Cache::destroy(cache), Status::kOk);
  }
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(Cache, wastes_at_most_an_eighth_of_a_slab) {
  if (kChecked) GTEST_SKIP() << "redzones and checks";
  for (std::size_t size = 16; size <= 8192; size += 16) {
    qm::Cache* cache = make("sized", size);
    ASSERT_NE(cache, nullptr);
    SlabLayer& slabs = cache->slabs();
    EXPECT_LE((slabs.slab_bytes() - slabs.objects() * slabs.stride()) * 8, slabs.slab_bytes()) << size;
    ASSERT_EQ(qm::Cache::destroy(cache), Status::kOk);
  }
}

TEST_F(Cache, serves_alignments_beyond_a_page) {
  for (std::size_t alignment = 8; alignment <= 16384; alignment *= 2) {
    qm::Cache* cache = make("aligned", 24, alignment);
    ASSERT_NE(cache, nullptr);
    for (unsigned i = 0; i < 20; ++i) {
      objects[i] = cache->allocate();
      ASSERT_NE(objects[i], nullptr) << alignment;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(objects[i]) % alignment, 0U);
    }
    for (unsigned i = 0; i < 20; ++i) cache->free(objects[i]);
    ASSERT_EQ(qm::Cache::destroy(cache), Status::kOk);
  }
}

TEST_F(Cache, a_no_touch_cache_serves_identifiers_that_are_no_memory) {
  qm::Arena ids;
  ArenaConfig arena;
  arena.name = "ids";
  arena.start = 7;
  arena.size = 7 * 100;
  arena.quantum = 7;
  ASSERT_EQ(ids.initialize(arena), Status::kOk);
  CacheConfig config;
  config.name = "pairs";
  config.object_size = 14;
  config.alignment = 1;
  config.flags = cache_flags::kNoTouch;
  config.source = &ids;
  qm::Cache* cache = qm::Cache::create(config);
  ASSERT_NE(cache, nullptr);
  const std::size_t count = exhaust(*cache);
  EXPECT_GE(count, 48U);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(objects[i]) % 7, 0U);
    for (std::size_t k = 0; k < i; ++k) ASSERT_NE(objects[i], objects[k]);
  }
  EXPECT_TRUE(cache->validate());
  EXPECT_EQ(ids.destroy(), Status::kBusy);
  for (std::size_t i = 0; i < count; ++i) cache->free(objects[i]);
  EXPECT_TRUE(cache->validate());
  EXPECT_EQ(qm::Cache::destroy(cache), Status::kOk);
  EXPECT_EQ(ids.destroy(), Status::kOk);
}

/// An observer that counts the calls of the trace's seam.
class CountingObserver final : public Observer {
 public:
  unsigned prepared = 0, recorded = 0, forgotten = 0, released = 0;
  void* last = nullptr;
  std::size_t requested = 0;
  bool takes_handler = false;  ///< the handler of misuse, during its report, as another hart may do
  void prepare(const Allocation&, void*, Prepared& p) noexcept override {
    p.ready = true;
    ++prepared;
  }
  bool record(const Allocation& a, void* object, Prepared& p) noexcept override {
    last = object;
    requested = a.requested;
    ++recorded;
    return p.ready;
  }
  void release(Prepared&) noexcept override { ++released; }
  void forget(qm::Cache&, void*) noexcept override { ++forgotten; }
  void forget(Arena&, std::uintptr_t) noexcept override {}
  void resized(Arena&, std::uintptr_t, std::size_t, std::size_t) noexcept override {}
  void release_handles(std::uint32_t*, std::size_t) noexcept override {}
  void created(qm::Cache&) noexcept override {}
  void destroyed(qm::Cache&) noexcept override {}
  void destroyed(Arena&) noexcept override {}
  std::uint32_t stack(std::uintptr_t) noexcept override {
    if (takes_handler) set_misuse_handler(nullptr);
    return 0;
  }
};

TEST_F(Cache, the_state_word_closes_the_paths_and_reopens_them) {
  if (kChecked) GTEST_SKIP() << "a checking build's per-hart caches stay closed";
  CountingObserver trace;
  set_observer(&trace);
  qm::Cache* cache = make("traced", 128);
  void* warm = cache->allocate();
  cache->free(warm);
  const auto change = [&](std::uint32_t word) {
    cache->state().store(word);
    const hal::InterruptGuard masked;
    cache->close(0);
    cache->open_hart_cache(0);
  };
  using namespace trace_state;
  change(kRecord | kWatch | kHold);
  void* object = cache->allocate_at(nullptr, 100);
  EXPECT_EQ(trace.recorded, 1U);
  EXPECT_EQ(trace.last, object);
  EXPECT_EQ(trace.requested, 100U);
  EXPECT_EQ(trace.prepared, trace.released);
  cache->free(object);
  EXPECT_EQ(trace.forgotten, 1U);
  change(kWatch | kSettled);
  object = cache->allocate();
  EXPECT_EQ(trace.recorded, 1U);
  if constexpr (kMagazines) {
    EXPECT_NE(cache->hart_cache(0).top.load(), closed_address());  // the pop is open again at once
  }
  cache->free(object);
  EXPECT_EQ(trace.forgotten, 2U);
  change(0);
  const std::size_t misses = cache->stats().misses;
  object = cache->allocate();
  cache->free(object);
  EXPECT_EQ(trace.forgotten, 2U);
  EXPECT_EQ(cache->stats().misses, misses);
  if (kCounted) {
    EXPECT_EQ(cache->stats().allocations, 4U);
  }
}

TEST_F(Cache, more_bytes_than_an_object_has_are_refused) {
  static MisuseReport told;
  told = {};
  set_misuse_handler([](const MisuseReport& report) noexcept { told = report; });
  qm::Cache* cache = make("packet", 64);
  EXPECT_EQ(cache->allocate(100), nullptr);
  EXPECT_EQ(told.kind, Misuse::kTooLarge);
  EXPECT_EQ(told.cache, cache);
  EXPECT_EQ(told.count, 100U);
  EXPECT_EQ(cache->allocate_at(nullptr, 65), nullptr);
  EXPECT_EQ(cache->stats().failures, 2U);
  EXPECT_EQ(cache->stats().misuses, 2U);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{64}}) {
    void* object = cache->allocate(bytes);
    EXPECT_NE(object, nullptr);
    cache->free(object);
  }
  set_misuse_handler(nullptr);
  EXPECT_EQ(qm::Cache::destroy(cache), Status::kOk);
}

unsigned told_misuses;

TEST_F(Cache, a_misuse_handler_that_goes_while_a_report_is_made_gets_it) {
  qm::Cache* cache = make("fresh", 128);
  CountingObserver trace;
  trace.takes_handler = true;
  set_observer(&trace);
  told_misuses = 0;
  set_misuse_handler([](const MisuseReport&) noexcept { ++told_misuses; });
  cache->free_slow(nullptr);
  cache->free_slow(nullptr);
  set_observer(nullptr);
  EXPECT_EQ(told_misuses, 1U);
  EXPECT_EQ(qm::Cache::destroy(cache), Status::kOk);
}

TEST_F(Cache, none_is_made_before_the_allocator_is_set_up_and_after_it_was_shut_down) {
  shutdown();
  Status why = Status::kOk;
  EXPECT_EQ(qm::Cache::create({.name = "early", .object_size = 64}, &why), nullptr);
  EXPECT_EQ(why, Status::kInvalid);
  Arena ids;
  EXPECT_EQ(ids.initialize({.name = "ids", .quantum = 1, .quantum_cache_max = 2}), Status::kInvalid);
  start(test::kPoolBytes);
}

TEST_F(Cache, a_record_is_prepared_with_the_object_if_recording_starts_in_the_middle) {
  // A cache's first allocation goes through refill(): there the object is allocated before the state word is read.
  CountingObserver trace;
  set_observer(&trace);
  qm::Cache* cache = make("fresh", 128);
  cache->state().store(trace_state::kRecord | trace_state::kWatch | trace_state::kHold);
  void* object = cache->allocate();
  EXPECT_NE(object, nullptr);
  EXPECT_EQ(trace.recorded, 1U);
  cache->free(object);
  EXPECT_EQ(trace.forgotten, 1U);
}

}  // namespace alloc_cache_test
