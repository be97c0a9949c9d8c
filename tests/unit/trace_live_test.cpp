// The live trace on one hart: the recorded objects, and the states.

#include "trace_fixture.hpp"

#include <algorithm>
#include <cstring>

#include <qm/object_cache.hpp>
#include <qm/trace/record_table.hpp>
#include <qm/trace/unwind.hpp>

namespace trace_live_test {

using namespace qm;
using trace::State;

void* objects[20000];

class LiveTrace : public qm::test::TraceTest {
 protected:
  static State state(Cache& cache) { return trace::cache_trace(cache).state; }
};

TEST_F(LiveTrace, records_what_is_allocated_between_start_and_stop) {
  Cache* cache = make("packet");
  void* before = cache->allocate();
  EXPECT_EQ(state(*cache), State::kOff);
  const trace::CommandResult result = trace::start("packet");
  EXPECT_EQ(result.status, Status::kOk);
  EXPECT_EQ(result.caches, 1U);
  EXPECT_EQ(state(*cache), State::kOn);
  void* held = cache->allocate();
  cache->free(cache->allocate());
  EXPECT_EQ(recorded(*cache), 2U);
  EXPECT_EQ(trace::cache_trace(*cache).live, 1U);
  EXPECT_EQ(trace::cache_trace(*cache).from_before_start, 1U);
  EXPECT_EQ(trace::stop("packet").status, Status::kOk);
  EXPECT_EQ(state(*cache), State::kDraining);
  void* after = cache->allocate();
  EXPECT_EQ(recorded(*cache), 2U);
  cache->free(before);
  cache->free(after);
  EXPECT_EQ(trace::cache_trace(*cache).from_before_start, 0U);
  EXPECT_EQ(state(*cache), State::kDraining);
  cache->free(held);
  EXPECT_EQ(state(*cache), State::kOff);
  EXPECT_EQ(trace::cache_trace(*cache).live, 0U);
  EXPECT_TRUE(trace::validate());
  EXPECT_TRUE(cache->validate());
}

TEST_F(LiveTrace, from_before_start_falls_with_the_objects_that_were_out_then) {
  Cache* cache = make("packet");
  for (unsigned i = 0; i < 4; ++i) objects[i] = cache->allocate();
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  objects[4] = cache->allocate();
  static trace::Dump dump;
  const auto from_before = [&] {
    dump.begin(*cache);
    return dump.finish().from_before_start;
  };
  for (unsigned left = 4; left != 0; --left) {
    EXPECT_EQ(trace::cache_trace(*cache).from_before_start, left);
    EXPECT_EQ(from_before(), left);
    cache->free(objects[left - 1]);
  }
  EXPECT_EQ(trace::cache_trace(*cache).from_before_start, 0U);
  EXPECT_EQ(from_before(), 0U);
  dump.begin_all();
  EXPECT_EQ(dump.finish().from_before_start, 0U);
  cache->free(objects[4]);
}

TEST_F(LiveTrace, records_every_object_of_a_type_that_asks_for_little) {
  struct Odd {
    std::uint32_t words[51];
  };
  auto odd = ObjectCache<Odd>::create("odd");
  ASSERT_EQ(trace::start("odd").status, Status::kOk);
  for (unsigned i = 0; i < 40; ++i) objects[i] = odd.make();
  EXPECT_EQ(recorded(odd.cache()), 40U);
  EXPECT_EQ(dropped(odd.cache()), 0U);
  for (unsigned i = 0; i < 40; ++i) odd.destroy(static_cast<Odd*>(objects[i]));
  EXPECT_EQ(trace::cache_trace(odd.cache()).live, 0U);
}

// Neighbours are less than 8 bytes apart, or not at multiples of 8.
TEST_F(LiveTrace, names_each_object_of_caches_whose_alignment_is_below_8) {
  constexpr int kObjects = 100;
  struct Shape {
    const char* name;
    std::size_t size;
    std::size_t alignment;
    std::uint32_t flags = 0;
  };
  constexpr Shape kShapes[] = {{"byte", 1, 1},
                               {"six", 6, 2},
                               {"one", 1, 4},
                               {"four", 4, 4},
                               {"twelve", 12, 4},
                               {"twenty", 20, 4},
                               {"untouched", 12, 4, cache_flags::kNoTouch}};
  for (const Shape& shape : kShapes) {
    CacheConfig config;
    config.name = shape.name;
    config.object_size = shape.size;
    config.alignment = shape.alignment;
    config.flags = shape.flags;
    Cache* cache = Cache::create(config);
    ASSERT_NE(cache, nullptr);
    ASSERT_EQ(trace::start(shape.name).status, Status::kOk);
    for (int i = 0; i < kObjects; ++i) objects[i] = cache->allocate();
    EXPECT_EQ(recorded(*cache), std::uint64_t{kObjects}) << shape.name;
    EXPECT_EQ(dropped(*cache), 0U) << shape.name;
    static trace::Dump dump;
    trace::DumpEntry entry;
    dump.begin(*cache);
    bool shown[kObjects] = {};
    while (dump.next(entry)) {
      const auto at = std::find(objects, objects + kObjects, reinterpret_cast<void*>(entry.object)) - objects;
      ASSERT_LT(at, kObjects) << shape.name;
      EXPECT_FALSE(shown[at]) << shape.name;
      shown[at] = true;
    }
    EXPECT_EQ(std::count(shown, shown + kObjects, true), kObjects) << shape.name;
    for (int i = 0; i < kObjects; ++i) {
      ASSERT_TRUE(trace::find(*cache, objects[i], entry)) << shape.name;
      EXPECT_EQ(entry.object, reinterpret_cast<std::uintptr_t>(objects[i])) << shape.name;
    }
    for (int i = 0; i < kObjects; ++i) {
      cache->free(objects[i]);
      EXPECT_EQ(trace::cache_trace(*cache).live, static_cast<unsigned>(kObjects - 1 - i)) << shape.name;
    }
    EXPECT_TRUE(trace::validate());
    EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  }
}

TEST_F(LiveTrace, stopped_without_records_it_is_off_at_once_and_the_fast_path_is_open) {
  if (kChecked || !kMagazines) GTEST_SKIP() << "no per-hart cache opens";
  Cache* cache = make("packet");
  trace::start("packet");
  cache->free(cache->allocate());
  trace::stop("packet");
  EXPECT_EQ(state(*cache), State::kOff);
  EXPECT_EQ(cache->state().load(), 0U);
  cache->free(cache->allocate());  // each takes a slow path, which opens the per-hart cache
  EXPECT_NE(cache->hart_cache(0).limit.load(), nullptr);
  EXPECT_NE(cache->hart_cache(0).top.load(), closed_address());
}

TEST_F(LiveTrace, draining_leaves_the_pop_open_and_the_push_shut) {
  if (kChecked || !kMagazines) GTEST_SKIP() << "no per-hart cache opens";
  Cache* cache = make("packet");
  trace::start("packet");
  void* held = cache->allocate();
  EXPECT_EQ(cache->hart_cache(0).top.load(), closed_address());
  trace::stop("packet");
  void* other = cache->allocate();
  EXPECT_EQ(cache->hart_cache(0).limit.load(), nullptr);
  EXPECT_NE(cache->hart_cache(0).top.load(), closed_address());
  cache->free(held);
  cache->free(other);
  EXPECT_NE(cache->hart_cache(0).limit.load(), nullptr);
}

TEST_F(LiveTrace, draining_outlasts_exchanges_of_magazines) {
  if (kChecked || !kMagazines) GTEST_SKIP() << "no per-hart cache opens";
  Cache* cache = make("packet");
  constexpr unsigned kObjects = 60;
  for (unsigned i = 0; i < kObjects; ++i) objects[i] = cache->allocate();
  trace::start("packet");
  void* held = cache->allocate();
  void* held_too = cache->allocate();
  trace::stop("packet");
  for (unsigned i = 0; i < kObjects; ++i) cache->free(objects[i]);
  for (unsigned i = 0; i < kObjects; ++i) {
    objects[i] = cache->allocate();
    EXPECT_EQ(cache->hart_cache(0).limit.load(), nullptr) << "after allocation " << i;
  }
  cache->free(held);
  EXPECT_EQ(trace::cache_trace(*cache).live, 1U);
  HartCache& hart_cache = cache->hart_cache(0);
  unsigned freed = 0;
  while (freed < kObjects && hart_cache.top.load() != hart_cache.loaded.load()->end()) cache->free(objects[freed++]);
  ASSERT_LT(freed, kObjects);
  cache->free(held_too);  // into the previous magazine
  EXPECT_EQ(trace::cache_trace(*cache).live, 0U);
  while (freed < kObjects) cache->free(objects[freed++]);
  EXPECT_EQ(state(*cache), State::kOff);
  EXPECT_TRUE(trace::validate());
}

TEST_F(LiveTrace, a_dump_shows_the_object_its_size_its_stack_and_its_context) {
  Cache* cache = make("packet", 96);
  trace::start("packet");
  void* held = cache->allocate_at(nullptr, 90);
  trace::CallStack here;
  trace::walk_here(here);
  static trace::Dump dump;
  trace::DumpEntry entry;
  dump.begin(*cache);
  ASSERT_TRUE(dump.next(entry));
  EXPECT_EQ(entry.object, reinterpret_cast<std::uintptr_t>(held));
  EXPECT_EQ(entry.requested, 90U);
  EXPECT_EQ(entry.hart, 0U);
  EXPECT_FALSE(entry.context.empty());
  EXPECT_GE(entry.stack_id, trace::kFirstId);
  EXPECT_LT(entry.age_ticks, hal::Port::tick_rate() * 60);
  // This function's caller is also a frame of the object's stack; the frames below it are the test's.
  ASSERT_GE(here.depth, 1U);
  bool found = false;
  for (unsigned i = 0; i < entry.depth; ++i) found = found || entry.pcs[i] == here.pcs[0];
  EXPECT_TRUE(found);
  EXPECT_FALSE(dump.next(entry));
  const trace::DumpSummary summary = dump.finish();
  EXPECT_EQ(summary.outstanding, 1U);
  EXPECT_EQ(summary.figures.recorded, 1U);
  EXPECT_TRUE(summary.ended);
  EXPECT_EQ(summary.freed_meanwhile, 0U);
  EXPECT_EQ(summary.allocated_meanwhile, 0U);
  cache->free(held);
}

TEST_F(LiveTrace, reset_drops_records_and_figures_and_leaves_the_state) {
  Cache* cache = make("packet");
  trace::start("packet");
  for (unsigned i = 0; i < 500; ++i) objects[i] = cache->allocate();
  EXPECT_EQ(trace::reset("packet").status, Status::kOk);
  EXPECT_EQ(state(*cache), State::kOn);
  trace::CacheTrace now = trace::cache_trace(*cache);
  EXPECT_EQ(now.figures.recorded, 0U);
  EXPECT_EQ(now.live, 0U);
  EXPECT_EQ(now.from_before_start, 500U);
  EXPECT_TRUE(trace::validate());
  // New records may occupy the slots to which the old handles still refer.
  for (unsigned i = 500; i < 1000; ++i) objects[i] = cache->allocate();
  for (unsigned i = 0; i < 500; ++i) cache->free(objects[i]);
  now = trace::cache_trace(*cache);
  EXPECT_EQ(now.figures.recorded, 500U);
  EXPECT_EQ(now.live, 500U);
  for (unsigned i = 500; i < 1000; ++i) cache->free(objects[i]);
  EXPECT_EQ(trace::cache_trace(*cache).live, 0U);
  EXPECT_TRUE(trace::validate());
}

TEST_F(LiveTrace, reset_of_a_draining_cache_ends_the_watch) {
  Cache* cache = make("packet");
  trace::start("packet");
  void* held = cache->allocate();
  trace::stop("packet");
  trace::reset("packet");
  EXPECT_EQ(state(*cache), State::kOff);
  cache->free(held);
  EXPECT_TRUE(trace::validate());
}

TEST_F(LiveTrace, start_keeps_older_records) {
  Cache* cache = make("packet");
  trace::start("packet");
  void* first = cache->allocate();
  trace::stop("packet");
  void* between = cache->allocate();
  EXPECT_EQ(trace::start("packet").status, Status::kOk);
  EXPECT_EQ(trace::cache_trace(*cache).from_before_start, 1U);
  EXPECT_EQ(trace::start("packet").status, Status::kOk);  // already on
  void* second = cache->allocate();
  EXPECT_EQ(dump_of(*cache).outstanding, 2U);
  EXPECT_EQ(recorded(*cache), 2U);
  for (void* object : {first, between, second}) cache->free(object);
  EXPECT_EQ(dump_of(*cache).outstanding, 0U);
}

TEST_F(LiveTrace, names_and_globs_choose_the_caches) {
  Cache* a = make("net_a");
  Cache* b = make("net_b");
  Cache* own = make("net_own", 64, cache_flags::kNoTrace);
  EXPECT_EQ(trace::start("nothing").status, Status::kNotFound);
  EXPECT_EQ(trace::start("nothing*").status, Status::kNotFound);
  EXPECT_EQ(trace::start("net_own").status, Status::kRefused);
  EXPECT_EQ(trace::reset("net_own").status, Status::kRefused);
  EXPECT_EQ(trace::stop("kmem_trace").status, Status::kRefused);
  const trace::CommandResult result = trace::start("net_*");
  EXPECT_EQ(result.status, Status::kOk);
  EXPECT_EQ(result.caches, 2U);
  EXPECT_EQ(result.skipped, 1U);
  EXPECT_EQ(state(*a), State::kOn);
  EXPECT_EQ(state(*b), State::kOn);
  EXPECT_EQ(state(*own), State::kOff);
  EXPECT_EQ(trace::stop("net_a").status, Status::kOk);
  EXPECT_EQ(state(*b), State::kOn);
  EXPECT_EQ(trace::totals().traced, 1U);
}

TEST_F(LiveTrace, more_caches_than_a_visit_takes_are_all_started) {
  static char names[40][8];
  Cache* caches[40];
  for (unsigned i = 0; i < 40; ++i) {
    std::memcpy(names[i], "many_00", 8);
    names[i][5] = static_cast<char>('0' + i / 10);
    names[i][6] = static_cast<char>('0' + i % 10);
    caches[i] = make(names[i]);
    ASSERT_NE(caches[i], nullptr);
    caches[i]->free(caches[i]->allocate());  // opens its per-hart cache
  }
  EXPECT_EQ(trace::start("many_*").caches, 40U);
  for (Cache* cache : caches) cache->free(cache->allocate());
  for (Cache* cache : caches) EXPECT_EQ(recorded(*cache), 1U);
  EXPECT_EQ(trace::reset("many_*").caches, 40U);
  for (Cache* cache : caches) EXPECT_EQ(recorded(*cache), 0U);
  EXPECT_EQ(trace::stop("*").status, Status::kOk);
  for (Cache* cache : caches) EXPECT_EQ(state(*cache), State::kOff);
  EXPECT_EQ(trace::totals().traced, 0U);
}

TEST_F(LiveTrace, a_pattern_given_at_boot_traces_later_caches_from_the_first_allocation) {
  Cache* early = make("early");
  EXPECT_EQ(trace::trace_from_creation("late*").status, Status::kOk);
  EXPECT_EQ(trace::trace_from_creation("early").status, Status::kOk);
  EXPECT_EQ(trace::trace_from_creation("").status, Status::kInvalid);
  EXPECT_EQ(state(*early), State::kOn);
  Cache* late = make("later");
  Cache* other = make("other");
  EXPECT_EQ(state(*late), State::kOn);
  EXPECT_EQ(state(*other), State::kOff);
  void* first = late->allocate();
  EXPECT_EQ(recorded(*late), 1U);
  EXPECT_EQ(trace::cache_trace(*late).from_before_start, 0U);
  late->free(first);
}

TEST_F(LiveTrace, everything_is_traceable_that_does_not_refuse_also_the_cache_of_caches) {
  EXPECT_EQ(trace::start("*").status, Status::kOk);
  RegistryCursor<Cache> all;
  Cache* caches = all.find("kmem_cache");
  ASSERT_NE(caches, nullptr);
  Cache* cache = make("new_one");
  EXPECT_EQ(recorded(*caches), 1U);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  EXPECT_EQ(trace::cache_trace(*caches).live, 0U);
  const std::uintptr_t page = page_arena().allocate(4096);
  EXPECT_NE(page, 0U);
  RegistryCursor<Cache> again;
  Cache* pages = again.find("kpages_4096");
  ASSERT_NE(pages, nullptr);
  EXPECT_EQ(trace::cache_trace(*pages).live, 1U);
  EXPECT_EQ(page_arena().free(page, 4096), Status::kOk);
  EXPECT_EQ(trace::cache_trace(*pages).live, 0U);
  EXPECT_TRUE(trace::validate());
}

TEST_F(LiveTrace, ids_are_recorded_as_they_are) {
  static Arena numbers;
  new (&numbers) Arena;
  ArenaConfig config;
  config.name = "numbers";
  config.start = 1;
  config.size = 1000;
  config.quantum = 1;
  ASSERT_EQ(numbers.initialize(config), Status::kOk);
  CacheConfig ids;
  ids.name = "ids";
  ids.object_size = 1;
  ids.source = &numbers;
  ids.flags = cache_flags::kNoTouch;
  Cache* cache = Cache::create(ids);
  ASSERT_NE(cache, nullptr);
  trace::start("ids");
  for (unsigned i = 0; i < 100; ++i) {
    objects[i] = cache->allocate();
    ASSERT_NE(objects[i], nullptr);
  }
  static trace::Dump dump;
  trace::DumpEntry entry;
  dump.begin(*cache);
  for (unsigned i = 0; i < 100; ++i) {
    ASSERT_TRUE(dump.next(entry));
    EXPECT_EQ(entry.object, reinterpret_cast<std::uintptr_t>(objects[i]));
  }
  for (unsigned i = 0; i < 100; ++i) cache->free(objects[i]);
  EXPECT_EQ(trace::cache_trace(*cache).live, 0U);
  EXPECT_EQ(dropped(*cache), 0U);
}

// ---- destroy --------------------------------------------------------------------------------------------------------

TEST_F(LiveTrace, destroying_a_traced_cache_is_refused_while_objects_are_out_and_then_drops_its_trace) {
  Cache* cache = make("packet");
  trace::start("packet");
  void* held = cache->allocate();
  EXPECT_EQ(Cache::destroy(cache), Status::kBusy);
  EXPECT_EQ(state(*cache), State::kOn);
  EXPECT_EQ(trace::cache_trace(*cache).live, 1U);
  cache->free(held);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  EXPECT_EQ(trace::totals().traced, 0U);
  Cache* next = make("next");
  EXPECT_EQ(trace::start("next").status, Status::kOk);
  EXPECT_EQ(recorded(*next), 0U);
  EXPECT_TRUE(trace::validate());
}

// Cache::destroy() hides a cache and drains it on every hart before it can refuse for its live objects; then it shows it.
TEST_F(LiveTrace, stop_and_reset_reach_a_cache_whose_destroy_is_under_way) {
  Cache* cache = make("packet");
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  void* held = cache->allocate();
  ASSERT_EQ(registry_hide(*cache), Status::kOk);
  const trace::CommandResult reset = trace::reset("pa*");
  EXPECT_EQ(reset.status, Status::kOk);
  EXPECT_EQ(reset.caches, 1U);
  EXPECT_EQ(recorded(*cache), 0U);
  EXPECT_EQ(trace::stop("*").status, Status::kOk);
  registry_show(*cache);
  EXPECT_EQ(state(*cache), State::kOff);
  cache->free(held);
}

TEST_F(LiveTrace, a_dump_of_a_cache_that_is_destroyed_ends_and_says_so) {
  Cache* cache = make("packet");
  trace::start("packet");
  for (unsigned i = 0; i < 10; ++i) objects[i] = cache->allocate();
  static trace::Dump dump;
  trace::DumpEntry entry;
  dump.begin(*cache);
  EXPECT_TRUE(dump.next(entry));
  for (unsigned i = 0; i < 10; ++i) cache->free(objects[i]);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  EXPECT_FALSE(dump.next(entry));
  const trace::DumpSummary summary = dump.finish();
  EXPECT_TRUE(summary.destroyed);
  EXPECT_FALSE(summary.complete());
  EXPECT_EQ(summary.outstanding, 1U);
  EXPECT_EQ(summary.figures.recorded, 10U);
}

TEST_F(LiveTrace, creating_and_destroying_traced_caches_uses_nothing_up) {
  if (kChecked) GTEST_SKIP() << "a checking build has other sizes and more stacks";
  trace::trace_from_creation("temp");
  for (unsigned i = 0; i < 3; ++i) {  // warm-up
    Cache* cache = make("temp");
    cache->free(cache->allocate());
    ASSERT_EQ(Cache::destroy(cache), Status::kOk);
  }
  const std::size_t before = free_bytes();
  const std::uint32_t stacks = trace::totals().stacks;
  for (unsigned i = 0; i < 1000; ++i) {
    Cache* cache = make("temp");
    cache->free(cache->allocate());
    ASSERT_EQ(Cache::destroy(cache), Status::kOk);
  }
  EXPECT_EQ(free_bytes(), before);
  EXPECT_LE(trace::totals().stacks, stacks + 1);
}

TEST_F(LiveTrace, refuses_a_configuration_that_cannot_be) {
  trace::shutdown();
  shutdown();
  start(qm::test::kPoolBytes);
  trace::Config config;
  config.contexts = 100;
  EXPECT_EQ(trace::initialize(config), Status::kInvalid);
  config = {};
  config.stack_bytes = std::size_t{64} << 20;
  EXPECT_EQ(trace::initialize(config), Status::kInvalid);
  config = {};
  config.record_bytes = 0;
  EXPECT_EQ(trace::initialize(config), Status::kInvalid);
  config = {};
  config.stack_bytes = std::size_t{16} << 20;  // more than the memory has
  config.at_once = true;
  EXPECT_EQ(trace::initialize(config), Status::kNoMemory);
  EXPECT_EQ(trace::start("*").status, Status::kUnsafe);
  EXPECT_EQ(trace::initialize({}), Status::kOk);  // the failures have left nothing behind
  EXPECT_EQ(trace::initialize({}), Status::kBusy);
}

TEST_F(LiveTrace, takes_a_page_when_the_first_cache_is_traced_and_the_rest_as_it_is_needed) {
  if (kChecked) GTEST_SKIP() << "a checking build keeps stacks from the first allocation on";
  trace::shutdown();
  shutdown();
  start(qm::test::kPoolBytes);
  Cache* cache = make("packet");
  ASSERT_NE(cache, nullptr);
  const std::size_t before = base_arena().stats().allocated;
  trace::Config config;
  config.object_base = reinterpret_cast<std::uintptr_t>(qm::test::pool());
  ASSERT_EQ(trace::initialize(config), Status::kOk);
  EXPECT_EQ(trace::totals().stack_capacity, 262144U);  // the maximum
  EXPECT_EQ(trace::stop("packet").status, Status::kOk);
  EXPECT_EQ(trace::reset("*").status, Status::kOk);
  EXPECT_TRUE(trace::validate());
  EXPECT_LE(base_arena().stats().allocated, before + PageMap::kPageBytes);  // for the cache of records
  // The first start takes a page, the first record a chunk and memory for its table: nothing is sized for the maximum.
  const auto taken = [] {
    RegistryCursor<Arena> arenas;
    return arenas.find("ktrace")->stats().total;
  };
  EXPECT_EQ(taken(), 0U);
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  EXPECT_LE(taken(), hart_count() <= 4 ? 4096U : 12288U);
  EXPECT_EQ(trace::totals().records_reserved, 0U);
  void* object = cache->allocate();
  EXPECT_EQ(recorded(*cache), 1U);
  EXPECT_LE(taken(), hart_count() <= 4 ? 8192U : 16384U);
  EXPECT_EQ(trace::totals().records_reserved, trace::kChunkBytes);
  cache->free(object);
}

TEST_F(LiveTrace, a_start_without_memory_for_the_trace_changes_nothing) {
  if (kChecked) GTEST_SKIP() << "a checking build keeps stacks from the first allocation on";
  trace::shutdown();
  shutdown();
  start(qm::test::kPoolBytes);
  trace::Config config;
  ASSERT_EQ(trace::initialize(config), Status::kOk);
  Cache* cache = make("packet");
  ASSERT_NE(cache, nullptr);
  std::uintptr_t pages = 0;  // each page has the address of the one before
  while (const std::uintptr_t page = base_arena().allocate(PageMap::kPageBytes)) {
    *reinterpret_cast<std::uintptr_t*>(page) = pages;
    pages = page;
  }
  EXPECT_EQ(trace::start("packet").status, Status::kNoMemory);
  EXPECT_EQ(trace::trace_from_creation("*").status, Status::kNoMemory);
  EXPECT_EQ(cache->state().load(), 0U);
  while (pages != 0) {
    const std::uintptr_t page = pages;
    pages = *reinterpret_cast<std::uintptr_t*>(page);
    EXPECT_EQ(base_arena().free(page, PageMap::kPageBytes), Status::kOk);
  }
  cache->free(cache->allocate());
  EXPECT_TRUE(trace::validate());
}

}  // namespace trace_live_test
