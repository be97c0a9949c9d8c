/// Exhaustion: an allocation that may wait fails last, after idle memory and the reclaimers; one report is made.

#include "exhaustion_fixture.hpp"

#include <algorithm>

namespace alloc_exhaustion_test {

using namespace qm;
using namespace qm::test;

class Exhaustion : public ExhaustionTest {};

// ---- may wait ------------------------------------------------------------------------------------------------------

TEST_F(Exhaustion, memory_idle_in_another_cache_on_other_harts_is_had_before_an_allocation_fails) {
  Cache* hoard = make("hoard");
  Cache* hungry = make("hungry", 1000);  // in slabs of one page, so that it does not matter which pages are free
  ASSERT_TRUE(hoard != nullptr && hungry != nullptr);
  const unsigned harts = test::harts();
  const std::size_t expected = take_all(*hungry);
  ASSERT_GT(expected, 0U);
  give_all(*hungry, expected);
  reclaim();
  std::size_t got = 0;
  test::Barrier barrier(harts);
  on_each_attached_hart(harts, [&](unsigned hart) {
    if (hart == harts - 1) give_all(*hoard, take_all(*hoard));
    barrier.arrive();
    if (hart == 0) {
      got = take_all(*hungry, WaitPolicy::kReclaim);
    }
    barrier.arrive();
  });
  // At most one page may have permanently become a magazine or tags.
  EXPECT_GE(got + 8, expected);
  EXPECT_EQ(hoard->stats().objects, 0U);
  EXPECT_EQ(exhaustion_stats().failures, 1U);
  EXPECT_GT(exhaustion_stats().rescued, 0U);
  EXPECT_EQ(last_report.silent, 0U);
  give_all(*hungry, got);
}

TEST_F(Exhaustion, a_failure_is_counted_and_reported_once_with_who_holds_the_memory) {
  constexpr std::uint32_t kInterval = 200;
  configure_exhaustion({.report = keep_report, .interval_ms = kInterval});
  Cache* cache = make("holder", 512);
  Cache* other = make("other", 4000);
  ASSERT_TRUE(cache != nullptr && other != nullptr);
  const std::size_t count = take_all(*cache, WaitPolicy::kReclaim);
  EXPECT_EQ(reports.load(), 1U);
  EXPECT_EQ(cache->stats().failures, 1U);
  EXPECT_EQ(name(last_report.name), "holder");
  EXPECT_EQ(last_report.size, 512U);
  EXPECT_EQ(last_report.wait_policy, WaitPolicy::kReclaim);
  EXPECT_FALSE(last_report.is_arena);
  EXPECT_EQ(name(last_report.holders[0].name), "holder");
  EXPECT_EQ(last_report.holders[0].bytes, count * 512);
  EXPECT_EQ(last_report.recoverable, 0U);
  EXPECT_EQ(last_report.failures, 1U);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(other->allocate(), nullptr);
  EXPECT_EQ(reports.load(), 1U);  // too soon for another report
  EXPECT_EQ(exhaustion_stats().failures, 11U);
  const std::uint64_t due = hal::Port::ticks() + hal::Port::tick_rate() / 1000 * kInterval;
  while (hal::Port::ticks() < due) hal::Port::relax();
  EXPECT_EQ(other->allocate(), nullptr);
  EXPECT_EQ(reports.load(), 2U);
  EXPECT_EQ(last_report.unreported, 10U);
  EXPECT_EQ(name(last_report.name), "other");
  give_all(*cache, count);
}

TEST_F(Exhaustion, what_a_drain_has_pinned_cannot_be_destroyed_meanwhile) {
  Cache* cache = make("pinned");
  ASSERT_NE(cache, nullptr);
  RegistryCursor<Cache> walk;
  RegistryCursor<Cache> pin;
  ASSERT_EQ(walk.find("pinned"), cache);
  pin.stand_with(walk);
  walk.leave();
  {
    const hal::InterruptGuard masked;  // so that the destroy does not wait for an answer
    EXPECT_EQ(Cache::destroy(cache), Status::kBusy);
  }
  pin.leave();
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

// ---- the only hart -------------------------------------------------------------------------------------------------

bool is_alone() { return hal::online_harts() == 1; }

/// A firmware that runs without interrupts: it allocates 256 KB, frees all of it, and then allocates one large block.
TEST_F(Exhaustion, idle_memory_of_the_only_hart_is_had_with_its_interrupts_masked) {
  if (!is_alone()) GTEST_SKIP() << "the others of a machine stay online";
  restart(256 * 1024);
  const hal::InterruptGuard masked;
  std::size_t count = 0;
  while (count < kMost && (table()[count] = heap::allocate(64 + count % 900)) != nullptr) ++count;
  for (std::size_t i = 0; i < count; ++i) heap::free(table()[i]);
  // With call sites, their tables lie between the free pages.
  void* block = heap::allocate((kCallSites ? 96 : 160) * 1024);
  EXPECT_NE(block, nullptr);
  heap::free(block);
}

TEST_F(Exhaustion, a_cache_is_reaped_and_destroyed_on_the_only_hart_with_its_interrupts_masked) {
  if (!is_alone()) GTEST_SKIP() << "the others of a machine stay online";
  Cache* cache = make("masked");
  ASSERT_NE(cache, nullptr);
  const hal::InterruptGuard masked;
  give_all(*cache, take_all(*cache));
  EXPECT_GT(cache->reap(), 0U);
  EXPECT_EQ(cache->stats().objects, 0U);
  cache->free(cache->allocate());
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(Exhaustion, nobody_waits_with_interrupts_masked_for_frees_that_cannot_come) {
  if (!is_alone()) GTEST_SKIP() << "the others of a machine stay online";
  Cache* cache = make("masked");
  ASSERT_NE(cache, nullptr);
  const hal::InterruptGuard masked;
  const std::size_t count = take_all(*cache);
  EXPECT_EQ(cache->allocate_at(nullptr, 0, wait_at_most(60'000)), nullptr);
  EXPECT_EQ(exhaustion_stats().waits, 0U);
  EXPECT_EQ(exhaustion_stats().atomic_failures, 0U);
  EXPECT_EQ(cache->allocate_at(nullptr, 0, WaitPolicy::kAtomic), nullptr);
  EXPECT_TRUE(finish_drain());
  give_all(*cache, count);
}

// ---- arenas --------------------------------------------------------------------------------------------------------

TEST_F(Exhaustion, numbers_idle_in_the_magazines_of_other_harts_are_had_before_an_arena_fails) {
  static constexpr std::size_t kNumbers = 64;
  Arena numbers;
  ASSERT_EQ(numbers.initialize({.name = "numbers", .start = 1, .size = kNumbers, .quantum = 1, .quantum_cache_max = 1}),
            Status::kOk);
  const unsigned harts = test::harts();
  test::Barrier barrier(harts);
  on_each_attached_hart(harts, [&](unsigned hart) {
    std::array<std::uintptr_t, kNumbers> mine{};
    if (hart == harts - 1) {
      for (std::uintptr_t& number : mine) number = numbers.allocate(1, Fit::kInstant, nullptr, WaitPolicy::kQuiet);
      for (const std::uintptr_t number : mine) {
        EXPECT_NE(number, 0U);
        EXPECT_EQ(numbers.free(number, 1), Status::kOk);
      }
    }
    barrier.arrive();
    if (hart == 0) {
      for (std::uintptr_t& number : mine) EXPECT_NE(number = numbers.allocate(1), 0U);
      EXPECT_EQ(numbers.allocate(1), 0U);
      for (const std::uintptr_t number : mine) EXPECT_EQ(numbers.free(number, 1), Status::kOk);
    }
    barrier.arrive();
  });
  EXPECT_EQ(numbers.stats().failures, 1U);
  EXPECT_EQ(reports.load(), 1U);
  EXPECT_TRUE(last_report.is_arena);
  EXPECT_EQ(name(last_report.name), "numbers");
  EXPECT_EQ(name(last_report.holders[0].name), "numbers");  // not memory: arenas below other roots are left out
  EXPECT_EQ(last_report.holders[0].bytes, kNumbers);
  EXPECT_EQ(last_report.holders[1].bytes, 0U);
  EXPECT_EQ(numbers.destroy(), Status::kOk);
}

TEST_F(Exhaustion, pages_idle_in_a_cache_are_had_before_the_arena_below_fails) {
  Cache* cache = make("idle");
  ASSERT_NE(cache, nullptr);
  give_all(*cache, take_all(*cache));
  const std::size_t bytes = base_arena().stats().total / 4;
  EXPECT_EQ(base_arena().allocate(bytes, Fit::kInstant, nullptr, WaitPolicy::kQuiet), 0U);
  const std::uintptr_t start = base_arena().allocate(bytes);
  EXPECT_NE(start, 0U);
  EXPECT_EQ(base_arena().free(start, bytes), Status::kOk);
  EXPECT_EQ(reports.load(), 0U);
}

TEST_F(Exhaustion, a_size_that_no_arena_could_ever_have_is_a_failure_but_no_exhaustion) {
  EXPECT_EQ(page_arena().allocate(kSmallRam * 2), 0U);
  EXPECT_EQ(page_arena().allocate(SIZE_MAX / 2), 0U);
  EXPECT_EQ(page_arena().stats().failures, 2U);
  EXPECT_EQ(reports.load(), 0U);
  EXPECT_EQ(exhaustion_stats().drains, 0U);
}

TEST_F(Exhaustion, an_arena_from_which_nothing_draws_asks_the_reclaimers_and_no_hart) {
  static Arena numbers;
  ASSERT_EQ(numbers.initialize({.name = "numbers", .start = 1, .size = 2, .quantum = 1}), Status::kOk);
  EXPECT_EQ(numbers.allocate(2), 1U);
  Reclaimer release(
      [](std::size_t, void*) noexcept -> std::size_t { return numbers.free(1, 2) == Status::kOk ? 2 : 0; });
  EXPECT_EQ(add_reclaimer(release), Status::kOk);
  EXPECT_EQ(numbers.allocate(1), 1U);
  EXPECT_EQ(exhaustion_stats().drains, 0U);
  EXPECT_EQ(numbers.allocate(2), 0U);
  EXPECT_EQ(remove_reclaimer(release), Status::kOk);
  EXPECT_EQ(reports.load(), 1U);
  EXPECT_EQ(numbers.free(1, 1), Status::kOk);
  EXPECT_EQ(numbers.destroy(), Status::kOk);
}

// ---- reclaimers ----------------------------------------------------------------------------------------------------

struct Spare {
  Cache* cache = nullptr;
  std::array<void*, 64> objects{};
  unsigned count = 0;
  unsigned asked = 0;
  std::size_t wanted = 0;
  bool recursed = false;
  Status removal = Status::kOk;
  Reclaimer* self = nullptr;

  static std::size_t give(std::size_t wanted, void* context) noexcept {
    auto& spare = *static_cast<Spare*>(context);
    ++spare.asked;
    spare.wanted = wanted;
    spare.recursed = spare.recursed || spare.cache->allocate() != nullptr;
    if (spare.self != nullptr) spare.removal = remove_reclaimer(*spare.self);
    const unsigned had = spare.count;
    while (spare.count != 0) spare.cache->free(spare.objects[--spare.count]);
    return had * spare.cache->object_size();
  }
};

TEST_F(Exhaustion, reclaimers_are_asked_in_turn_until_the_allocation_succeeds_and_never_recursively) {
  Cache* cache = make("reclaimed");
  ASSERT_NE(cache, nullptr);
  static Spare empty, full, never;
  for (Spare* spare : {&empty, &full, &never}) {
    *spare = {};
    spare->cache = cache;
  }
  Reclaimer first(Spare::give, &empty);
  Reclaimer second(Spare::give, &full);
  Reclaimer third(Spare::give, &never);
  EXPECT_EQ(add_reclaimer(first), Status::kOk);
  EXPECT_EQ(add_reclaimer(second), Status::kOk);
  EXPECT_EQ(add_reclaimer(third), Status::kOk);
  EXPECT_EQ(add_reclaimer(third), Status::kBusy);
  Reclaimer none(nullptr);
  EXPECT_EQ(add_reclaimer(none), Status::kInvalid);
  EXPECT_EQ(remove_reclaimer(none), Status::kNotFound);
  full.self = &second;
  while (full.count < full.objects.size() && (full.objects[full.count] = cache->allocate()) != nullptr) ++full.count;
  const std::size_t rest = take_all(*cache);
  void* object = cache->allocate();
  EXPECT_NE(object, nullptr);
  EXPECT_EQ(empty.asked, 1U);
  EXPECT_EQ(full.asked, 1U);
  EXPECT_EQ(never.asked, 0U);
  EXPECT_EQ(full.wanted, 256U);
  EXPECT_FALSE(empty.recursed || full.recursed);
  EXPECT_EQ(full.removal, Status::kBusy);  // from within itself
  EXPECT_EQ(exhaustion_stats().rescued, 1U);
  EXPECT_EQ(cache->stats().failures, 3U);  // the last of take_all(), and one in each reclaimer that was called
  EXPECT_EQ(remove_reclaimer(second), Status::kOk);
  EXPECT_EQ(remove_reclaimer(first), Status::kOk);
  EXPECT_EQ(remove_reclaimer(third), Status::kOk);
  cache->free(object);
  give_all(*cache, rest);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(Exhaustion, a_destructor_that_allocates_during_a_drain_fails_quietly_and_holds_up_nobody) {
  static Cache* other;
  static unsigned got;
  other = make("other");
  got = 0;
  Cache* cache = Cache::create({.name = "destroyed", .object_size = 256, .destructor = [](void*, void*) noexcept {
                                  if (void* object = other->allocate(); object != nullptr) {
                                    ++got;
                                    other->free(object);
                                  }
                                }});
  ASSERT_TRUE(cache != nullptr && other != nullptr);
  void* kept = cache->allocate();
  const std::size_t count = take_all(*other);
  cache->free(kept);
  reclaim();
  EXPECT_EQ(got, 0U);
  EXPECT_EQ(exhaustion_stats().drains, 1U);
  EXPECT_EQ(reports.load(), 0U);
  give_all(*other, count);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

bool constructor_works;
unsigned constructions;

TEST_F(Exhaustion, a_constructor_that_fails_follows_the_policy_and_is_not_called_for_the_whole_batch) {
  CacheConfig config;
  config.name = "constructed";
  config.object_size = 64;
  config.constructor = [](void*, void*) noexcept {
    ++constructions;
    return constructor_works;
  };
  Cache* cache = Cache::create(config);
  ASSERT_NE(cache, nullptr);
  constructor_works = false;
  constructions = 0;
  EXPECT_EQ(cache->allocate(), nullptr);
  EXPECT_LE(constructions, 4U);
  EXPECT_EQ(cache->stats().failures, 1U);
  EXPECT_EQ(cache->stats().in_use, 0U);
  EXPECT_EQ(reports.load(), 1U);
  Reclaimer repair([](std::size_t, void*) noexcept -> std::size_t {
    constructor_works = true;
    return 1;
  });
  EXPECT_EQ(add_reclaimer(repair), Status::kOk);
  void* object = cache->allocate();
  EXPECT_NE(object, nullptr);
  cache->free(object);
  EXPECT_EQ(remove_reclaimer(repair), Status::kOk);
  EXPECT_TRUE(cache->validate());
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(Exhaustion, no_memory_for_a_cache_leaves_no_trace_of_it) {
  Cache* cache = make("filler", 512);
  ASSERT_NE(cache, nullptr);
  const std::size_t before = free_bytes() + boundary_tags_stats().pages * 4096;  // pages of tags are never freed
  const std::size_t count = take_all(*cache);
  Cache* extra[64] = {};
  Status why = Status::kOk;
  unsigned made = 0;
  CacheConfig config;
  config.object_size = 64;
  static constexpr char kDigits[] = "0123456789abcdef";
  static char names[64][3];
  for (; made < 64; ++made) {
    names[made][0] = kDigits[made / 16];
    names[made][1] = kDigits[made % 16];
    config.name = names[made];
    if ((extra[made] = Cache::create(config, &why)) == nullptr) break;
  }
  ASSERT_LT(made, 64U);
  EXPECT_EQ(why, Status::kNoMemory);
  give_all(*cache, count);
  extra[made] = Cache::create(config, &why);  // the failed create has not registered the name
  EXPECT_EQ(why, Status::kOk);
  for (Cache* one : extra) {
    if (one != nullptr) {
      EXPECT_EQ(Cache::destroy(one), Status::kOk);
    }
  }
  EXPECT_EQ(free_bytes() + boundary_tags_stats().pages * 4096, before);
}

TEST_F(Exhaustion, a_limit_is_reported_as_one_and_drains_nobody_else) {
  Cache* cache = Cache::create({.name = "limited", .object_size = 64, .limit = 5});
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(take_all(*cache, WaitPolicy::kReclaim), 5U);
  EXPECT_EQ(reports.load(), 1U);
  EXPECT_TRUE(last_report.at_limit);
  EXPECT_EQ(exhaustion_stats().drains, 0U);
  void* waited = cache->allocate_at(nullptr, 0, wait_at_most(5));
  EXPECT_EQ(waited, nullptr);
  give_all(*cache, 5);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(Exhaustion, a_handler_that_is_served_from_the_reserve_starts_a_drain) {
  Cache* cache = make("reserved");
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(cache->reserve(2), Status::kOk);
  const std::size_t count = take_all(*cache);
  void* object = nullptr;
  {
    const hal::InterruptGuard masked;
    object = cache->allocate();
  }
  EXPECT_NE(object, nullptr);
  EXPECT_EQ(drains_wanted.load(), 1U);
  EXPECT_TRUE(finish_drain());
  EXPECT_EQ(reports.load(), 0U);  // no allocation has failed
  cache->free(object);
  give_all(*cache, count);
  EXPECT_EQ(cache->reserve(0), Status::kOk);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(Exhaustion, a_drain_asks_the_harts_once_for_the_magazines_of_several_caches) {
  if (!kMagazines) GTEST_SKIP() << "there are none";
  const std::array<Cache*, 3> caches{make("first"), make("second"), make("third")};
  const unsigned harts = test::harts();
  test::Barrier barrier(harts);
  on_each_attached_hart(harts, [&](unsigned hart) {
    for (Cache* cache : caches) cache->free(cache->allocate());
    barrier.arrive();
    if (hart == 0) reclaim();
    barrier.arrive();
  });
  EXPECT_EQ(exhaustion_stats().drains, 1U);
  EXPECT_LE(exhaustion_stats().broadcasts, 2U);  // the caches of an arena follow in a second batch
  for (Cache* cache : caches) EXPECT_EQ(cache->stats().objects, 0U);
}

TEST_F(Exhaustion, a_report_says_where_the_idle_memory_lies) {
  configure_exhaustion({.report = keep_report});  // no drain before the report
  Cache* idle = make("idle");
  Cache* hungry = make("hungry", 1000);
  ASSERT_TRUE(idle != nullptr && hungry != nullptr);
  Arena spans;
  ASSERT_EQ(spans.initialize({.name = "spans", .quantum = 16, .source = &base_arena()}), Status::kOk);
  EXPECT_EQ(spans.free(spans.allocate(64), 64), Status::kOk);
  const std::size_t in_spans = spans.stats().idle;
  EXPECT_GE(in_spans, 64U);
  std::array<void*, 3> objects{};
  for (void*& object : objects) ASSERT_NE(object = idle->allocate(), nullptr);
  const std::size_t count = take_all(*hungry);
  for (void* object : objects) idle->free(object);
  const CacheStats stats = idle->stats();
  const SlabStats slabs = idle->slabs().stats();
  std::size_t in_magazines = 0, in_previous = 0;
  if constexpr (kMagazines) {
    in_magazines = idle->hart_cache(0).rounds() * stats.object_size;
    in_previous = idle->hart_cache(0).prev_rounds.load() * stats.object_size;
    EXPECT_GT(in_magazines, 0U);
  }
  const std::size_t kheap_idle = RegistryCursor<Arena>().find("kheap")->stats().idle;
  {
    const InHandler handler;
    EXPECT_EQ(hungry->allocate_at(nullptr, 0, WaitPolicy::kAtomic), nullptr);
  }
  ASSERT_EQ(reports.load(), 1U);
  EXPECT_EQ(last_report.in_magazines[0], in_magazines);
  EXPECT_EQ(last_report.in_previous[0], in_previous);
  EXPECT_EQ(last_report.in_depots, stats.in_depot * stats.object_size);
  EXPECT_GE(last_report.in_slabs, slabs.empty_slabs * stats.slab_bytes);
  EXPECT_EQ(last_report.in_spans, in_spans + kheap_idle);
  EXPECT_EQ(last_report.recoverable,
            in_magazines + last_report.in_depots + last_report.in_slabs + last_report.in_spans);
  give_all(*hungry, count);
  static_cast<void>(finish_drain());
  EXPECT_EQ(spans.destroy(), Status::kOk);
}

}  // namespace alloc_exhaustion_test
