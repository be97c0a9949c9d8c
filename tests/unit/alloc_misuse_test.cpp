/// Misuse of a cache: the errors that every build finds when the object passes a slow path, and those that a checking
/// build finds at once.

#include "trace_fixture.hpp"

#include <array>
#include <cstring>

#include <qm/config.h>
#include <qm/detail/checked.hpp>
#include <qm/detail/slab_pass.hpp>

namespace alloc_misuse_test {

using namespace qm;

/// The reports since the test began.
struct Told {
  unsigned count = 0;
  std::array<MisuseReport, 16> reports;

  [[nodiscard]] const MisuseReport& last() const { return reports[(count - 1) % reports.size()]; }
  [[nodiscard]] unsigned of(Misuse kind) const {
    unsigned found = 0;
    for (unsigned i = 0; i < count && i < reports.size(); ++i) found += reports[i].kind == kind ? 1 : 0;
    return found;
  }
} told;

std::array<void*, 256> objects;

class MisuseTest : public test::TraceTest {
 protected:
  void SetUp() override {
    TraceTest::SetUp();
    told = {};
    set_misuse_handler(
        [](const MisuseReport& report) noexcept { told.reports[told.count++ % told.reports.size()] = report; });
  }
  void TearDown() override {
    EXPECT_TRUE(has_misuse_handler());
    set_misuse_handler(nullptr);
    EXPECT_FALSE(has_misuse_handler());
    TraceTest::TearDown();
  }

  /// Frees @p bad among so many other objects that its magazine leaves the hart, and all of them return to their slabs.
  static void free_among_others(Cache& cache, void* bad) {
    for (void*& object : objects) object = cache.allocate();
    for (unsigned i = 0; i < objects.size(); ++i) {
      cache.free(objects[i]);
      if (i == 30) cache.free(bad);
    }
    cache.reap();
  }
  /// Expects that no object is live and the layer is consistent.
  static void expect_whole(Cache& cache) {
    cache.reap();
    EXPECT_EQ(cache.stats().in_use, 0U);
    EXPECT_TRUE(cache.validate());
    EXPECT_EQ(Cache::destroy(&cache), Status::kOk);
  }
};

int foreign_word[4];

TEST_F(MisuseTest, a_foreign_pointer_is_reported_when_it_comes_to_its_slab_at_the_latest) {
  Cache* cache = make("packet");
  void* const foreign[] = {foreign_word, &cache, reinterpret_cast<void*>(std::uintptr_t{16}),
                           reinterpret_cast<void*>(~std::uintptr_t{15}), test::pool() + test::kPoolBytes / 2};
  unsigned wanted = 0;
  for (void* bad : foreign) {
    free_among_others(*cache, bad);
    ASSERT_EQ(told.count, ++wanted);
    EXPECT_EQ(told.last().kind, Misuse::kForeign);
    EXPECT_EQ(told.last().cache, cache);
    EXPECT_EQ(told.last().object, bad);
  }
  EXPECT_EQ(cache->stats().misuses, wanted);
  expect_whole(*cache);
  EXPECT_EQ(told.count, wanted) << "each is told once";
}

TEST_F(MisuseTest, the_inside_of_an_object_is_reported_with_the_object) {
  Cache* cache = make("packet", 96);
  auto* object = static_cast<std::byte*>(cache->allocate());
  free_among_others(*cache, object + 40);
  ASSERT_EQ(told.count, 1U);
  EXPECT_EQ(told.last().kind, Misuse::kInterior);
  EXPECT_EQ(told.last().object, object);
  EXPECT_EQ(told.last().offset, 40U);
  cache->free(object);
  expect_whole(*cache);
}

TEST_F(MisuseTest, another_caches_object_is_reported_with_its_owner) {
  Cache* cache = make("packet");
  Cache* owner = make("session", 200);
  void* object = owner->allocate();
  free_among_others(*cache, object);
  ASSERT_EQ(told.count, 1U);
  EXPECT_EQ(told.last().kind, Misuse::kWrongCache);
  EXPECT_EQ(told.last().cache, cache);
  EXPECT_EQ(told.last().owner, owner);
  EXPECT_EQ(told.last().object, object);
  EXPECT_EQ(owner->stats().in_use, 1U) << "it is still out of its own cache";
  owner->free(object);
  expect_whole(*cache);
  expect_whole(*owner);
}

TEST_F(MisuseTest, in_another_caches_slab_only_an_allocated_object_is_reported_with_that_cache) {
  Cache* cache = make("packet");
  Cache* other = make("other", 96);
  void* kept = other->allocate();
  void* idle = other->allocate();
  other->free(idle);
  other->reap();
  Slab* const slab = other->slabs().find(kept);
  ASSERT_NE(slab, nullptr);
  ASSERT_EQ(other->slabs().find(idle), slab);
  void* const foreign[] = {idle, slab};
  unsigned wanted = 0;
  for (void* bad : foreign) {
    free_among_others(*cache, bad);
    ASSERT_EQ(told.count, ++wanted);
    EXPECT_EQ(told.last().kind, Misuse::kForeign);
    EXPECT_EQ(told.last().object, bad);
  }
  expect_whole(*cache);
  other->free(kept);
  expect_whole(*other);
}

TEST_F(MisuseTest, of_a_full_magazine_that_leaves_the_hart_rounds_are_looked_at_and_all_if_one_is_bad) {
  Cache* cache = make("packet");
  cache->free(cache->allocate());
  cache->free(cache->allocate());
  constexpr unsigned kBad = 60;
  for (unsigned i = 0; i < kBad; ++i) cache->free(&foreign_word);
  const unsigned before = told.count;
  if (!kChecked) {
    EXPECT_GE(before, 6U);
  }
  EXPECT_EQ(told.of(Misuse::kForeign), before < told.reports.size() ? before : told.reports.size());
  cache->reap();
  EXPECT_EQ(told.count, kBad) << "each is told once";
  expect_whole(*cache);
}

TEST_F(MisuseTest, an_object_that_lies_beside_itself_is_reported_when_its_full_magazine_leaves_the_hart) {
  Cache* cache = make("packet");
  constexpr unsigned kObjects = 100;
  for (unsigned i = 0; i < kObjects; ++i) objects[i] = cache->allocate();
  for (unsigned i = 0; i < kObjects; ++i) cache->free(objects[i]);
  for (unsigned i = 0; i < kObjects; ++i) objects[i] = cache->allocate();  // now the depot has empty magazines
  for (unsigned i = 0; i < kObjects; ++i) {
    cache->free(objects[i]);
    cache->free(objects[i]);
  }
  EXPECT_GE(told.of(Misuse::kDoubleFree), 1U);
  EXPECT_EQ(told.last().cache, cache);
  cache->reap();
  EXPECT_EQ(told.count, kObjects) << "each is told once";
  expect_whole(*cache);
}

TEST_F(MisuseTest, an_object_freed_twice_in_a_row_is_reported_when_the_second_comes_to_its_slab) {
  Cache* cache = make("packet");
  void* held = cache->allocate();
  for (void*& object : objects) object = cache->allocate();
  for (unsigned i = 0; i < objects.size(); ++i) {
    cache->free(objects[i]);
    if (i == 30) cache->free(objects[i]);
  }
  cache->reap();
  EXPECT_EQ(told.count, 1U);
  EXPECT_EQ(told.last().kind, Misuse::kDoubleFree);
  EXPECT_EQ(told.last().object, objects[30]);
  std::array<void*, 256> again;
  for (void*& object : again) object = cache->allocate();
  for (unsigned i = 0; i < again.size(); ++i) {
    for (unsigned j = 0; j < i; ++j) ASSERT_NE(again[i], again[j]);
  }
  for (void* object : again) cache->free(object);
  cache->free(held);
  expect_whole(*cache);
}

TEST_F(MisuseTest, an_object_that_is_back_in_its_slab_is_reported_at_the_free_or_at_the_exchange) {
  Cache* cache = make("packet");
  void* keeps_the_slab = cache->allocate();
  void* object = cache->allocate();
  cache->free(object);
  cache->reap();
  EXPECT_EQ(told.count, 0U);
  cache->free(object);  // there is no magazine, so the free itself takes a slow path
  ASSERT_EQ(told.count, 1U);
  EXPECT_EQ(told.last().kind, Misuse::kDoubleFree);
  EXPECT_EQ(told.last().object, object);
  cache->free(keeps_the_slab);
  expect_whole(*cache);
}

TEST_F(MisuseTest, a_free_that_doubles_another_does_not_let_a_cache_go_whose_object_is_out) {
  Cache* cache = make("packet");
  void* held = cache->allocate();
  void* object = cache->allocate();
  cache->free(object);
  cache->free(object);
  EXPECT_EQ(Cache::destroy(cache), Status::kBusy);
  EXPECT_EQ(told.of(Misuse::kDoubleFree), 1U);
  EXPECT_EQ(cache->stats().in_use, 1U);
  cache->free(held);
  expect_whole(*cache);
}

TEST_F(MisuseTest, among_many_frees_at_once_is_reported_and_the_others_are_done) {
  Cache* cache = make("packet");
  ASSERT_EQ(cache->allocate_bulk(objects.data(), 100), 100U);
  auto* inside = static_cast<std::byte*>(objects[40]) + 8;
  void* in_order[103];
  std::memcpy(in_order, objects.data(), 40 * sizeof(void*));
  in_order[40] = inside;
  in_order[41] = foreign_word;
  in_order[42] = nullptr;
  std::memcpy(in_order + 43, objects.data() + 40, 60 * sizeof(void*));
  cache->free_bulk(in_order, 103);
  EXPECT_EQ(told.of(Misuse::kInterior), 1U);
  EXPECT_EQ(told.of(Misuse::kForeign), 1U);
  EXPECT_EQ(told.of(Misuse::kNull), 1U);
  EXPECT_EQ(told.count, 3U);
  EXPECT_EQ(cache->stats().in_use, 0U);
  expect_whole(*cache);
  EXPECT_EQ(told.count, 3U);
}

TEST_F(MisuseTest, null_does_no_harm) {
  Cache* cache = make("packet");
  cache->free(nullptr);
  cache->free_slow(nullptr);
  free_among_others(*cache, nullptr);
  for (unsigned i = 0; i < 100; ++i) {
    objects[i] = cache->allocate();
    EXPECT_NE(objects[i], nullptr);
  }
  for (unsigned i = 0; i < 100; ++i) cache->free(objects[i]);
  EXPECT_EQ(told.count, told.of(Misuse::kNull));
  EXPECT_EQ(told.count, 3U);
  expect_whole(*cache);
  heap::free(nullptr);
  EXPECT_EQ(told.count, 3U);
}

TEST_F(MisuseTest, a_destroyed_cache_is_reported_by_its_name_and_hands_nothing_out) {
  Cache* cache = make("packet");
  void* object = cache->allocate();
  cache->free(object);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
  cache->free(object);
  ASSERT_EQ(told.count, 1U);
  EXPECT_EQ(told.last().kind, Misuse::kAfterDestroy);
  EXPECT_EQ(told.last().object, object);
  EXPECT_STREQ(told.last().cache->name(), "packet");
  EXPECT_EQ(cache->allocate(), nullptr);
  EXPECT_EQ(told.of(Misuse::kAfterDestroy), 2U);
  cache->free_bulk(&object, 1);
  EXPECT_EQ(told.of(Misuse::kAfterDestroy), 3U);
  Cache* next = make("next");
  ASSERT_NE(next, nullptr);
  next->free(next->allocate());
  expect_whole(*next);
  EXPECT_EQ(told.count, 3U);
}

TEST_F(MisuseTest, is_reported_with_the_stack_that_allocated_when_traced) {
  Cache* cache = make("packet");
  void* keeps_the_slab = cache->allocate();
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  auto* object = static_cast<std::byte*>(cache->allocate());
  static trace::DumpEntry entry;
  ASSERT_TRUE(trace::find(*cache, object, entry));
  cache->free(object + 8);  // while the object is live
  ASSERT_EQ(told.count, 1U);
  EXPECT_EQ(told.last().kind, Misuse::kInterior);
  trace::CallStack stack;
  std::uint32_t id = 0;
  ASSERT_TRUE(trace::stack_of(told.last().allocated_by, stack, id));
  EXPECT_EQ(id, entry.stack_id);
  ASSERT_TRUE(trace::stack_of(told.last().found_by, stack, id));
  EXPECT_GT(stack.depth, 0U);
  cache->free(object);
  cache->free(object);  // and after its record was removed
  cache->reap();
  ASSERT_EQ(told.count, 2U);
  EXPECT_EQ(told.last().kind, Misuse::kDoubleFree);
  ASSERT_TRUE(trace::stack_of(told.last().allocated_by, stack, id));
  EXPECT_EQ(id, entry.stack_id);
  trace::stop("packet");
  cache->free(keeps_the_slab);
  expect_whole(*cache);
}

TEST_F(MisuseTest, of_identifiers_is_reported_as_well) {
  Arena ids;
  ArenaConfig arena;
  arena.name = "ids";
  arena.start = 100;
  arena.size = 1000;
  arena.quantum = 1;
  ASSERT_EQ(ids.initialize(arena), Status::kOk);
  CacheConfig config;
  config.name = "id";
  config.object_size = 1;
  config.flags = cache_flags::kNoTouch;
  config.source = &ids;
  Cache* cache = Cache::create(config);
  ASSERT_NE(cache, nullptr);
  void* object = cache->allocate();
  cache->free(object);
  cache->free(object);
  cache->reap();
  EXPECT_EQ(told.of(Misuse::kDoubleFree), 1U);
  cache->free(reinterpret_cast<void*>(std::uintptr_t{5000}));
  cache->reap();
  EXPECT_EQ(told.of(Misuse::kForeign), 1U);
  expect_whole(*cache);
  EXPECT_EQ(ids.destroy(), Status::kOk);
}

// ---- the checking build ---------------------------------------------------------------------------------------------

#if defined(QM_CHECKED)
class CheckedTest : public MisuseTest {
 protected:
  static bool has_stack(std::uint32_t handle) {
    trace::CallStack stack;
    std::uint32_t id = 0;
    return trace::stack_of(handle, stack, id) && stack.depth > 0;
  }
  /// @returns the damage that a check of every object of the cache finds.
  static std::size_t damaged(Cache& cache) {
    struct Look {
      Cache& cache;
      std::size_t damaged = 0;
    } look{cache};
    SlabPass pass(cache.slabs());
    while (pass.step(
        [](SlabLayer&, Slab& slab, void* argument) noexcept {
          auto& on = *static_cast<Look*>(argument);
          on.damaged += checked::inspect(on.cache, slab);
        },
        &look)) {
    }
    EXPECT_TRUE(pass.complete());
    return look.damaged;
  }
};

TEST_F(CheckedTest, a_double_free_is_reported_at_once_with_all_its_stacks) {
  Cache* cache = make("packet");
  void* object = cache->allocate();
  cache->free(object);
  cache->free(object);
  ASSERT_EQ(told.count, 1U);
  EXPECT_EQ(told.last().kind, Misuse::kDoubleFree);
  EXPECT_EQ(told.last().cache, cache);
  EXPECT_EQ(told.last().object, object);
  EXPECT_TRUE(has_stack(told.last().allocated_by));
  EXPECT_TRUE(has_stack(told.last().freed_by));
  EXPECT_TRUE(has_stack(told.last().found_by));
  expect_whole(*cache);
}

TEST_F(CheckedTest, a_bad_address_is_reported_at_once) {
  Cache* cache = make("packet");
  Cache* owner = make("session", 200);
  auto* object = static_cast<std::byte*>(owner->allocate());
  cache->free(object);
  EXPECT_EQ(told.of(Misuse::kWrongCache), 1U);
  EXPECT_TRUE(has_stack(told.last().allocated_by)) << "the owner's";
  owner->free(object + 8);
  EXPECT_EQ(told.of(Misuse::kInterior), 1U);
  owner->free(foreign_word);
  EXPECT_EQ(told.of(Misuse::kForeign), 1U);
  owner->free(nullptr);
  EXPECT_EQ(told.of(Misuse::kNull), 1U);
  owner->free(object);
  EXPECT_EQ(told.count, 4U);
  expect_whole(*cache);
  expect_whole(*owner);
}

TEST_F(CheckedTest, a_write_behind_the_object_is_reported_at_its_free) {
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{24}, std::size_t{64}, std::size_t{500}, std::size_t{5000}}) {
    Cache* cache = make("packet", size);
    auto* object = static_cast<unsigned char*>(cache->allocate());
    std::memset(object, 0xff, cache->object_size());
    cache->free(object);
    EXPECT_EQ(told.count, 0U) << "all of it is the user's";
    object = static_cast<unsigned char*>(cache->allocate());
    object[cache->object_size()] = 0;
    cache->free(object);
    ASSERT_EQ(told.count, 1U) << size;
    EXPECT_EQ(told.last().kind, Misuse::kOverflow);
    EXPECT_EQ(told.last().object, object);
    EXPECT_EQ(told.last().offset, cache->object_size());
    EXPECT_TRUE(has_stack(told.last().allocated_by));
    expect_whole(*cache);
    EXPECT_EQ(told.count, 1U);
    told = {};
  }
}

TEST_F(CheckedTest, the_redzone_begins_where_the_request_ends) {
  Cache* cache = make("packet", 64);
  auto* object = static_cast<unsigned char*>(cache->allocate_at(nullptr, 21));
  EXPECT_EQ(checked::requested(*cache, object), 21U);
  object[20] = 1;
  cache->free(object);
  EXPECT_EQ(told.count, 0U);
  object = static_cast<unsigned char*>(cache->allocate_at(nullptr, 21));
  object[21] = 1;
  EXPECT_EQ(damaged(*cache), 1U);
  EXPECT_EQ(told.count, 1U);
  EXPECT_EQ(told.last().kind, Misuse::kOverflow);
  EXPECT_EQ(told.last().offset, 21U);
  EXPECT_EQ(damaged(*cache), 0U) << "told once";
  checked::resize(*cache, object, 40);
  std::memset(object, 2, 40);
  cache->free(object);
  EXPECT_EQ(told.count, 1U);
  expect_whole(*cache);
}

TEST_F(CheckedTest, an_object_in_use_keeps_the_stack_that_freed_it_in_its_life_before) {
  Cache* cache = make("packet", 64);
  MisuseReport life;
  life.cache = cache;
  life.object = cache->allocate();
  checked::add_stacks(life);
  EXPECT_TRUE(has_stack(life.allocated_by));
  EXPECT_FALSE(has_stack(life.freed_by));
  cache->free(life.object);
  const std::uint32_t first_user = life.allocated_by;
  checked::add_stacks(life);
  const std::uint32_t first_end = life.freed_by;
  EXPECT_TRUE(has_stack(first_end));
  EXPECT_EQ(life.allocated_by, first_user);
  ASSERT_EQ(test::allocate_by<1>(*cache), life.object);
  checked::add_stacks(life);
  EXPECT_TRUE(has_stack(life.allocated_by));
  EXPECT_NE(life.allocated_by, first_user);
  EXPECT_EQ(life.freed_by, first_end);
  const std::uint32_t second_user = life.allocated_by;
  cache->free(life.object);
  checked::add_stacks(life);
  EXPECT_EQ(life.allocated_by, second_user);
  EXPECT_NE(life.freed_by, first_end);
  expect_whole(*cache);
}

TEST_F(CheckedTest, a_write_after_the_free_is_reported_by_a_look_and_at_the_next_allocation) {
  Cache* cache = make("packet", 64);
  auto* object = static_cast<unsigned char*>(cache->allocate());
  cache->free(object);
  EXPECT_EQ(damaged(*cache), 0U);
  object[13] = 1;
  EXPECT_EQ(damaged(*cache), 1U);
  ASSERT_EQ(told.count, 1U);
  EXPECT_EQ(told.last().kind, Misuse::kWriteAfterFree);
  EXPECT_EQ(told.last().object, object);
  EXPECT_EQ(told.last().offset, 13U);
  EXPECT_TRUE(has_stack(told.last().allocated_by));
  EXPECT_TRUE(has_stack(told.last().freed_by));
  EXPECT_EQ(damaged(*cache), 0U) << "told once";
  object[63] ^= 1;
  void* next = cache->allocate();
  EXPECT_EQ(next, object) << "the last freed is the first allocated";
  ASSERT_EQ(told.count, 2U);
  EXPECT_EQ(told.last().kind, Misuse::kWriteAfterFree);
  cache->free(next);
  expect_whole(*cache);
}

TEST_F(CheckedTest, constructed_objects_keep_their_contents_and_are_looked_at_all_the_same) {
  CacheConfig config;
  config.name = "inode";
  config.object_size = 64;
  static unsigned made, unmade;
  made = unmade = 0;
  config.constructor = [](void* object, void*) noexcept {
    ++made;
    std::memset(object, 0x77, 64);
    return true;
  };
  config.destructor = [](void* object, void*) noexcept {
    unmade += static_cast<unsigned char*>(object)[60] == 0x77 ? 1 : 100;
  };
  Cache* cache = Cache::create(config);
  ASSERT_NE(cache, nullptr);
  auto* object = static_cast<unsigned char*>(cache->allocate());
  EXPECT_EQ(object[63], 0x77);
  object[0] = 9;
  cache->free(object);
  EXPECT_EQ(object[0], 9);
  object[1] = 8;
  EXPECT_EQ(cache->allocate(), object);
  ASSERT_EQ(told.count, 1U);
  EXPECT_EQ(told.last().kind, Misuse::kWriteAfterFree);
  cache->free(object);
  object[2] = 8;
  cache->reap();  // the destructor runs
  EXPECT_EQ(told.count, 2U);
  EXPECT_EQ(unmade, made);
  expect_whole(*cache);
  EXPECT_EQ(told.count, 2U);
}

TEST_F(CheckedTest, a_destroy_that_is_refused_names_the_first_holders) {
  Cache* cache = make("packet");
  for (unsigned i = 0; i < 40; ++i) objects[i] = cache->allocate();
  for (unsigned i = 0; i < 34; ++i) cache->free(objects[i]);
  EXPECT_EQ(Cache::destroy(cache), Status::kBusy);
  ASSERT_EQ(told.count, 4U);
  for (unsigned i = 0; i < 4; ++i) {
    EXPECT_EQ(told.reports[i].kind, Misuse::kLeak);
    EXPECT_EQ(told.reports[i].count, 6U);
    EXPECT_TRUE(has_stack(told.reports[i].allocated_by));
    bool held = false;
    for (unsigned j = 34; j < 40; ++j) held = held || objects[j] == told.reports[i].object;
    EXPECT_TRUE(held);
  }
  for (unsigned i = 34; i < 40; ++i) cache->free(objects[i]);
  expect_whole(*cache);
}

TEST_F(CheckedTest, the_fast_path_stays_closed) {
  Cache* cache = make("packet");
  for (unsigned i = 0; i < 40; ++i) objects[i] = cache->allocate();
  for (unsigned i = 0; i < 40; ++i) cache->free(objects[i]);
  EXPECT_EQ(cache->hart_cache(0).top.load(), closed_address());
  EXPECT_EQ(cache->hart_cache(0).limit.load(), nullptr);
  EXPECT_GT(cache->stats().in_magazines, 0U) << "magazines serve as ever";
  expect_whole(*cache);
}
#endif

}  // namespace alloc_misuse_test
