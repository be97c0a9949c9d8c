// Arenas used by all harts at once.

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/detail/observer.hpp>
#include <qm/test/harts.hpp>
#include <qm/test/seed.hpp>

#include "support/arena_fixture.hpp"
#include "support/system_fixture.hpp"

namespace qm {
namespace alloc_arena_threads_test {

constexpr unsigned kMaxHarts = 8;

/// The hart that holds each unit: if a unit is allocated twice, the hart that marks it second detects that.
class Ownership {
 public:
  static constexpr std::size_t kUnits = 4096;
  void take(std::uintptr_t start, std::size_t size) {
    for (std::uintptr_t unit = start; unit < start + size; ++unit) {
      if (owner_[unit].exchange(1, std::memory_order_relaxed) != 0) conflicts_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  void give(std::uintptr_t start, std::size_t size) {
    for (std::uintptr_t unit = start; unit < start + size; ++unit) {
      if (owner_[unit].exchange(0, std::memory_order_relaxed) != 1) conflicts_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  [[nodiscard]] std::uint32_t conflicts() const { return conflicts_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> owner_[kUnits] = {};
  std::atomic<std::uint32_t> conflicts_{0};
};

class ArenaHarts : public test::ArenaTest {
 protected:
  static constexpr unsigned kHeld = 16;
  static constexpr unsigned kRounds = 4000;

  /// Random allocations and frees on one hart; every segment has one owner at a time.
  static void churn(Arena& arena, Ownership& ownership, unsigned hart) {
    test::Random random(test::seed() * kMaxHarts + hart);
    std::uintptr_t starts[kHeld] = {};
    std::size_t sizes[kHeld] = {};
    for (unsigned round = 0; round < kRounds; ++round) {
      const unsigned i = static_cast<unsigned>(random.below(kHeld));
      if (starts[i] != 0) {
        ownership.give(starts[i], sizes[i]);
        EXPECT_EQ(arena.free(starts[i], sizes[i]), Status::kOk);
        starts[i] = 0;
        continue;
      }
      sizes[i] = random.between(1, 20);
      starts[i] = random.chance(20) ? arena.allocate_constrained(sizes[i], {.align = 16, .nocross = 32})
                                    : arena.allocate(sizes[i], static_cast<Fit>(random.below(3)));
      if (starts[i] != 0) ownership.take(starts[i], sizes[i]);
    }
    for (unsigned i = 0; i < kHeld; ++i) {
      if (starts[i] == 0) continue;
      ownership.give(starts[i], sizes[i]);
      EXPECT_EQ(arena.free(starts[i]), Status::kOk);
    }
  }
};

TEST_F(ArenaHarts, no_segment_is_handed_out_twice_or_lost) {
  static Ownership ownership;
  make(1, 1, 1500);
  test::on_each_hart(test::harts(), [&](unsigned hart) { churn(arena_, ownership, hart); });
  EXPECT_EQ(ownership.conflicts(), 0U);
  EXPECT_EQ(arena_.stats().free, 1500U);
  EXPECT_EQ(arena_.stats().segments_free, 1U);
}

TEST_F(ArenaHarts, segments_come_and_go_while_the_address_index_is_made) {
  make(1, 1, 4000);
  for (std::uintptr_t start = 1; start <= 4000; start += 5) ASSERT_EQ(arena_.allocate(5), start);
  for (std::uintptr_t start = 1; start <= 4000; start += 20) ASSERT_EQ(arena_.free(start, 5), Status::kOk);
  test::Barrier barrier(test::harts());
  test::on_each_hart(test::harts(), [&](unsigned hart) {
    barrier.arrive();
    // Only the last hart searches by address; the others free segments behind and before it.
    if (hart + 1 == test::harts()) {
      EXPECT_EQ(arena_.allocate_constrained(6, {.max = 5}), 0U);
      return;
    }
    for (std::uintptr_t start = 11 + 20 * hart; start <= 4000; start += 20 * (test::harts() - 1)) {
      EXPECT_EQ(arena_.free(start, 5), Status::kOk);
      const std::uintptr_t again = arena_.allocate(3);
      EXPECT_EQ(arena_.free(again, 3), Status::kOk);
    }
  });
  EXPECT_TRUE(arena_.validate());
  for (std::uintptr_t start = 1; start <= 4000; start += 5) static_cast<void>(arena_.free(start, 5));
  EXPECT_EQ(arena_.allocate_constrained(1, {.min = 2000}), 2000U);
  EXPECT_EQ(arena_.free_constrained(2000, 1), Status::kOk);
  EXPECT_EQ(arena_.stats().segments_free, 1U);
}

TEST_F(ArenaHarts, imports_and_releases_cross) {
  static Ownership ownership;
  make(32, 32, 2048);
  Arena importer;
  ASSERT_EQ(importer.initialize({.name = "importer", .quantum = 1, .source = &arena_}), Status::kOk);
  std::atomic<bool> done{false};
  test::on_each_hart(test::harts(), [&](unsigned hart) {
    if (hart == 1) {
      for (unsigned round = 0; round < kRounds; ++round) importer.reap();
    }
    churn(importer, ownership, hart);
    done.store(true, std::memory_order_relaxed);
  });
  EXPECT_TRUE(done.load(std::memory_order_relaxed));
  EXPECT_EQ(ownership.conflicts(), 0U);
  EXPECT_TRUE(importer.validate());
  EXPECT_EQ(importer.stats().allocated, 0U);
  EXPECT_EQ(importer.destroy(), Status::kOk);
  EXPECT_EQ(arena_.stats().free, 2048U);
}

TEST_F(ArenaHarts, segments_grow_while_what_follows_them_comes_and_goes) {
  make(32, 32, 32 * 1024);
  Arena importer;
  ASSERT_EQ(importer.initialize({.name = "importer", .quantum = 1, .source = &arena_, .minimum_import = 256}),
            Status::kOk);
  // The first hart's segment is alone in its span, except for segments that the others allocate behind it.
  const std::uintptr_t first = importer.allocate(32);
  ASSERT_NE(first, 0U);
  test::on_each_hart(test::harts(), [&](unsigned hart) {
    std::size_t size = 32;
    for (unsigned round = 0; round < kRounds; ++round) {
      if (hart == 0) {
        const std::size_t wanted = round % 2 == 0 ? 96 : 32;
        if (importer.resize_in_place(first, size, wanted) == Status::kOk) size = wanted;
      } else if (const std::uintptr_t behind = importer.allocate(100); behind != 0) {
        EXPECT_EQ(importer.free(behind, 100), Status::kOk);
      }
    }
    if (hart == 0) {
      EXPECT_EQ(importer.free(first, size), Status::kOk);
    }
  });
  EXPECT_TRUE(importer.validate());
  EXPECT_TRUE(arena_.validate());
  importer.reap();
  EXPECT_EQ(importer.destroy(), Status::kOk);
  EXPECT_EQ(arena_.stats().free, 32U * 1024U);
}

TEST_F(ArenaHarts, statistics_never_tear) {
  static Ownership ownership;
  make(32, 32, 2048);
  Arena importer;
  ASSERT_EQ(importer.initialize({.name = "importer", .quantum = 1, .source = &arena_}), Status::kOk);
  test::on_each_hart(test::harts(), [&](unsigned hart) {
    if (hart != 0 || test::harts() == 1) churn(importer, ownership, hart);
    for (unsigned round = 0; hart == 0 && round < 2000; ++round) {
      for (Arena* arena : {&importer, &arena_}) {
        const ArenaStats stats = arena->stats();
        EXPECT_EQ(stats.free + stats.allocated, stats.total);
        EXPECT_LE(stats.largest_free, stats.free);
        EXPECT_LE(stats.idle, stats.free);
        EXPECT_EQ(stats.segments_allocated, stats.allocations_ever - stats.frees_ever);
        EXPECT_EQ(stats.spans + stats.releases, stats.imports + (arena == &arena_ ? 1 : 0));
        EXPECT_LE(stats.allocated, stats.high_water);
      }
    }
  });
  EXPECT_EQ(ownership.conflicts(), 0U);
  EXPECT_EQ(importer.destroy(), Status::kOk);
  EXPECT_EQ(arena_.stats().free, 2048U);
}

TEST_F(ArenaHarts, imports_releases_walks_and_validation_cross) {
  static Ownership ownership;
  make(32, 32, 2048);
  Arena importer;
  ASSERT_EQ(importer.initialize({.name = "importer", .quantum = 1, .source = &arena_}), Status::kOk);
  test::on_each_hart(test::harts(), [&](unsigned hart) {
    if (hart != 0 || test::harts() == 1) churn(importer, ownership, hart);
    for (unsigned round = 0; hart == 0 && round < 200; ++round) {
      Segment segment;
      for (Arena* arena : {&importer, &arena_}) {
        ArenaWalk walk(*arena);
        std::uintptr_t position = 0;
        while (walk.next(segment)) {
          EXPECT_GE(segment.start, segment.kind == TagKind::kSpan ? 0 : position);
          if (segment.kind != TagKind::kSpan) position = segment.start + segment.size;
        }
        EXPECT_TRUE(arena->validate());
      }
      importer.locate(32 + round, segment);
      importer.reap();
    }
  });
  EXPECT_EQ(ownership.conflicts(), 0U);
  EXPECT_TRUE(importer.validate());
  EXPECT_EQ(importer.destroy(), Status::kOk);
  EXPECT_EQ(arena_.stats().free, 2048U);
}

TEST_F(ArenaHarts, walks_and_registry_cursors_survive_churn) {
  static Ownership ownership;
  constexpr std::uintptr_t kKept = 2000;
  make(1, 1, 1500);
  ASSERT_EQ(arena_.add(kKept, 100), Status::kOk);
  ASSERT_EQ(arena_.allocate_constrained(100, {.min = kKept}), kKept);
  test::on_each_hart(test::harts(), [&](unsigned hart) {
    if (hart != 0) return churn(arena_, ownership, hart);
    for (unsigned round = 0; round < 100; ++round) {
      ArenaWalk walk(arena_);
      Segment segment;
      std::uintptr_t position = 0;
      unsigned kept = 0;
      while (walk.next(segment)) {
        if (segment.kind == TagKind::kSpan) continue;
        EXPECT_GE(segment.start, position);
        position = segment.start + segment.size;
        kept += segment.start == kKept && segment.kind == TagKind::kAllocated;
      }
      EXPECT_EQ(kept, 1U);
      RegistryCursor<Arena> arenas;
      EXPECT_EQ(arenas.find("test"), &arena_);
      EXPECT_EQ(arena_.locate(kKept + 50, segment), Status::kOk);
    }
  });
  EXPECT_EQ(ownership.conflicts(), 0U);
  EXPECT_EQ(arena_.free_constrained(kKept, 100), Status::kOk);
}

TEST_F(ArenaHarts, creating_and_destroying_on_all_harts_leaks_nothing) {
  make(16, 16, 4096);
  test::on_each_hart(test::harts(), [&](unsigned hart) {
    const char* const names[kMaxHarts] = {"a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7"};
    for (unsigned round = 0; round < 200; ++round) {
      Arena own;
      Arena same;
      EXPECT_EQ(own.initialize({.name = names[hart % kMaxHarts], .quantum = 4, .source = &arena_}), Status::kOk);
      EXPECT_EQ(same.initialize({.name = names[hart % kMaxHarts]}), Status::kDuplicate);
      const std::uintptr_t start = own.allocate(100);
      EXPECT_NE(start, 0U);
      EXPECT_EQ(own.free(start, 100), Status::kOk);
      EXPECT_EQ(own.destroy(), Status::kOk);
    }
  });
  EXPECT_EQ(arena_.stats().free, 4096U);
}

/// Arenas with quantum caches over a complete allocator: some harts reclaim idle memory while others use it.
class ArenaReclaim : public test::SystemTest {
 protected:
  void SetUp() override { start(test::kPoolBytes, test::harts()); }
};

TEST_F(ArenaReclaim, quantum_caches_and_spans_are_reclaimed_under_those_who_use_them) {
  constexpr unsigned kHeld = 12;
  constexpr unsigned kRounds = 1500;
  static Ownership ownership;
  const std::size_t before = free_bytes() + boundary_tags_stats().pages * 4096;
  Arena ids;
  ASSERT_EQ(ids.initialize({.name = "ids", .start = 1, .size = Ownership::kUnits - 1, .quantum = 1}), Status::kOk);
  Arena above;
  ASSERT_EQ(above.initialize({.name = "above", .quantum = 1, .source = &ids, .quantum_cache_max = 4}), Status::kOk);
  test::on_each_hart(test::harts(), [&](unsigned hart) {
    attach_hart(hart);
    test::Random random(test::seed() * kMaxHarts + hart);
    std::uintptr_t starts[kHeld] = {};
    std::size_t sizes[kHeld] = {};
    for (unsigned round = 0; round < kRounds; ++round) {
      const unsigned i = static_cast<unsigned>(random.below(kHeld));
      if (starts[i] == 0) {
        sizes[i] = random.between(1, 8);
        starts[i] = above.allocate(sizes[i]);
        if (starts[i] != 0) ownership.take(starts[i], sizes[i]);
      } else {
        ownership.give(starts[i], sizes[i]);
        EXPECT_EQ(above.free(starts[i], sizes[i]), Status::kOk);
        starts[i] = 0;
      }
      if (round % 100 == hart) reclaim();
      if (round % 256 == hart) {
        EXPECT_TRUE(above.validate() && ids.validate());
      }
    }
    for (unsigned i = 0; i < kHeld; ++i) {
      if (starts[i] == 0) continue;
      ownership.give(starts[i], sizes[i]);
      EXPECT_EQ(above.free(starts[i], sizes[i]), Status::kOk);
    }
    if (hart != 0) detach_hart(hart);
  });
  EXPECT_EQ(ownership.conflicts(), 0U);
  EXPECT_EQ(above.destroy(), Status::kOk);
  EXPECT_EQ(ids.stats().free, Ownership::kUnits - 1);
  EXPECT_EQ(ids.destroy(), Status::kOk);
  EXPECT_EQ(free_bytes() + boundary_tags_stats().pages * 4096, before);
}

/// Stands on the first cache that it is notified of, like a report that shows it.
struct Reader final : Observer {
  RegistryCursor<Cache> cursor;
  std::atomic<bool> stands{false};

  void created(Cache& cache) noexcept override {
    if (stands.load(std::memory_order_relaxed)) return;
    EXPECT_EQ(cursor.find(cache.name()), &cache);
    stands.store(true, std::memory_order_release);
  }
  void prepare(const Allocation&, void*, Prepared&) noexcept override {}
  bool record(const Allocation&, void*, Prepared&) noexcept override { return true; }
  void release(Prepared&) noexcept override {}
  void forget(Cache&, void*) noexcept override {}
  void forget(Arena&, std::uintptr_t) noexcept override {}
  void resized(Arena&, std::uintptr_t, std::size_t, std::size_t) noexcept override {}
  void release_handles(std::uint32_t*, std::size_t) noexcept override {}
  void destroyed(Cache&) noexcept override {}
  void destroyed(Arena&) noexcept override {}
};

TEST_F(ArenaReclaim, an_arena_that_is_refused_leaves_no_cache_though_a_report_stands_on_one) {
  if (test::harts() < 2) GTEST_SKIP();
  Arena ids;
  ASSERT_EQ(ids.initialize({.name = "ids", .start = 1, .size = 100, .quantum = 1}), Status::kOk);
  const std::size_t before = free_bytes() + boundary_tags_stats().pages * 4096;
  Reader reader;
  set_observer(&reader);
  test::on_each_hart(2, [&](unsigned hart) {
    if (hart == 0) {
      const hal::InterruptGuard masked;  // so that no destroy waits for the report
      Arena same;
      EXPECT_EQ(same.initialize({.name = "ids", .quantum = 1, .source = &ids, .quantum_cache_max = 4}),
                Status::kDuplicate);
      return;
    }
    while (!reader.stands.load(std::memory_order_acquire)) hal::Port::relax();
    const std::uint64_t begun = hal::Port::ticks();
    while (hal::Port::ticks() - begun < hal::ticks_of(2)) hal::Port::relax();
    reader.cursor.leave();
  });
  set_observer(nullptr);
  RegistryCursor<Cache> caches;
  for (const char* name : {"ids_1", "ids_2", "ids_3", "ids_4"}) EXPECT_EQ(caches.find(name), nullptr);
  reclaim();
  EXPECT_EQ(free_bytes() + boundary_tags_stats().pages * 4096, before);
  EXPECT_EQ(ids.destroy(), Status::kOk);
}

}  // namespace alloc_arena_threads_test
}  // namespace qm
