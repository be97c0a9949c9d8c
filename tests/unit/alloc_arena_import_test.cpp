// Arenas that import: spans from a source and back to it, and arenas that are their own source.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include <qm/arena.hpp>
#include <qm/hal/hart.hpp>

#include "support/arena_fixture.hpp"

namespace qm {
namespace alloc_arena_import_test {

class ArenaImport : public test::ArenaTest {
 protected:
  void TearDown() override {
    if (importer_.name()[0] != 0) {
      EXPECT_TRUE(importer_.validate());
      EXPECT_EQ(importer_.destroy(), Status::kOk);
    }
    ArenaTest::TearDown();
  }
  void make_importer(std::size_t quantum, std::size_t minimum = 0) {
    ASSERT_EQ(
        importer_.initialize({.name = "importer", .quantum = quantum, .source = &arena_, .minimum_import = minimum}),
        Status::kOk);
  }
  void expect_allocation(std::size_t size, std::size_t quantum) {
    const std::uintptr_t start = importer_.allocate(size);
    ASSERT_NE(start, 0U);
    EXPECT_EQ(start % quantum, 0U);
    EXPECT_TRUE(importer_.validate());
    EXPECT_EQ(importer_.free(start, size), Status::kOk);
    EXPECT_TRUE(importer_.validate());
  }

  Arena importer_;
};

TEST_F(ArenaImport, aligns_inside_a_span_of_a_finer_source) {
  make(1, 1, 1000);
  make_importer(16);
  expect_allocation(16, 16);
  EXPECT_EQ(importer_.reap(), 16U);  // no excess
  EXPECT_EQ(arena_.stats().free, 1000U);
}

TEST_F(ArenaImport, every_pair_of_quanta) {
  for (std::size_t source = 1; source <= 24; ++source) {
    for (std::size_t quantum = 1; quantum <= 24; ++quantum) {
      Arena from;
      Arena to;
      ASSERT_EQ(from.initialize({.name = "from", .start = source, .size = 100 * source, .quantum = source}),
                Status::kOk);
      ASSERT_EQ(to.initialize({.name = "to", .quantum = quantum, .source = &from}), Status::kOk);
      const std::uintptr_t hold = from.allocate(1);
      const std::uintptr_t start = to.allocate(1);
      EXPECT_NE(start, 0U) << source << ' ' << quantum;
      EXPECT_EQ(start % quantum, 0U);
      EXPECT_TRUE(to.validate());
      EXPECT_EQ(to.free(start, 1), Status::kOk);
      EXPECT_EQ(from.free(hold, 1), Status::kOk);
      EXPECT_EQ(to.destroy(), Status::kOk);
      EXPECT_EQ(from.stats().free, from.stats().total);
      EXPECT_EQ(from.destroy(), Status::kOk);
    }
  }
}

TEST_F(ArenaImport, import_and_release_need_a_source) {
  const auto import = [](Arena&, std::size_t, Fit) noexcept -> std::uintptr_t { return 0; };
  const auto release = [](Arena&, std::uintptr_t, std::size_t) noexcept {};
  EXPECT_EQ(importer_.initialize({.name = "importer", .quantum = 1, .import = import}), Status::kInvalid);
  EXPECT_EQ(importer_.initialize({.name = "importer", .quantum = 1, .release = release}), Status::kInvalid);
  EXPECT_EQ(importer_.initialize({.name = "importer", .quantum = 1, .import = import, .release = release}),
            Status::kInvalid);
}

TEST_F(ArenaImport, what_no_span_of_the_source_can_hold_is_a_failure_of_the_source_too) {
  make(16, 64, 640);
  make_importer(16);
  EXPECT_EQ(importer_.allocate_constrained(32, {.align = 4096}), 0U);
  EXPECT_EQ(importer_.stats().failures, 1U);
  EXPECT_EQ(arena_.stats().failures, 2U);  // for a span of any place, and for one around an aligned place
}

TEST_F(ArenaImport, rounds_to_the_sources_quantum_and_loses_nothing) {
  make(64, 64, 640);
  make_importer(16);
  std::uintptr_t held[40];
  for (std::uintptr_t& start : held) {
    start = importer_.allocate(16);
    ASSERT_NE(start, 0U);
  }
  EXPECT_EQ(importer_.allocate(16), 0U);
  EXPECT_EQ(importer_.stats().failures, 1U);
  EXPECT_EQ(importer_.stats().imports, 10U);
  for (const std::uintptr_t start : held) EXPECT_EQ(importer_.free(start, 16), Status::kOk);
  EXPECT_TRUE(importer_.validate());
  EXPECT_EQ(importer_.stats().spans, 1U);  // the last span stays, for the next request
  EXPECT_EQ(importer_.stats().idle, 64U);
  EXPECT_EQ(importer_.reap(), 64U);
  EXPECT_EQ(importer_.reap(), 0U);
  EXPECT_EQ(importer_.stats().imported, 0U);
}

TEST_F(ArenaImport, a_single_segment_at_the_edge_does_not_make_spans_ping_pong) {
  make(64, 64, 6400);
  make_importer(16);
  const std::uintptr_t base = importer_.allocate(64);
  for (unsigned round = 0; round < 100; ++round) {
    const std::uintptr_t start = importer_.allocate(64);
    EXPECT_EQ(importer_.free(start, 64), Status::kOk);
  }
  EXPECT_EQ(importer_.stats().imports, 2U);
  EXPECT_EQ(importer_.stats().releases, 0U);
  EXPECT_EQ(importer_.free(base, 64), Status::kOk);
  EXPECT_EQ(importer_.stats().releases, 1U);  // only one empty span is kept
}

TEST_F(ArenaImport, minimum_import_gives_way_when_the_source_is_short) {
  make(64, 64, 640);
  make_importer(16, 512);
  const std::uintptr_t first = importer_.allocate(16);
  EXPECT_EQ(importer_.stats().imported, 512U);
  const std::uintptr_t second = importer_.allocate(512);
  EXPECT_EQ(second, 0U);
  const std::uintptr_t third = importer_.allocate(500);
  EXPECT_EQ(third, 0U);
  const std::uintptr_t fourth = importer_.allocate(496);
  EXPECT_NE(fourth, 0U);
  const std::uintptr_t fifth = importer_.allocate(100);
  EXPECT_NE(fifth, 0U);
  EXPECT_EQ(importer_.stats().imported, 640U);
  EXPECT_EQ(importer_.free(first, 16), Status::kOk);
  EXPECT_EQ(importer_.free(fourth, 496), Status::kOk);
  EXPECT_EQ(importer_.free(fifth, 100), Status::kOk);
}

TEST_F(ArenaImport, the_empty_span_goes_back_before_a_larger_request_fails) {
  make(64, 64, 640);
  make_importer(16);
  const std::uintptr_t small = importer_.allocate(320);
  EXPECT_EQ(importer_.free(small, 320), Status::kOk);
  EXPECT_EQ(importer_.stats().idle, 320U);
  const std::uintptr_t all = importer_.allocate(640);
  EXPECT_NE(all, 0U);
  EXPECT_EQ(importer_.free(all, 640), Status::kOk);
  EXPECT_EQ(importer_.allocate(641), 0U);
  EXPECT_EQ(importer_.stats().failures, 1U);
}

TEST_F(ArenaImport, sizes_near_the_end_of_a_word_do_not_wrap) {
  make(4096, 4096, 8192);
  make_importer(16, 8192);
  EXPECT_EQ(importer_.allocate(SIZE_MAX - 100), 0U);
  EXPECT_EQ(importer_.allocate(SIZE_MAX / 2 + 100), 0U);
  EXPECT_EQ(importer_.allocate_constrained(SIZE_MAX / 2 + 100, {.align = 4096}), 0U);
  EXPECT_EQ(importer_.allocate_constrained(SIZE_MAX / 2 + 1, {.nocross = SIZE_MAX / 2 + 1}), 0U);
  EXPECT_EQ(importer_.stats().failures, 4U);
  EXPECT_EQ(arena_.stats().free, 8192U);
}

TEST_F(ArenaImport, hands_constraints_on_to_the_source) {
  make(4096, 4096, std::size_t{64} * 4096);
  make_importer(64);
  const struct {
    std::size_t size;
    Constraint constraint;
  } cases[] = {
      {4096, {.align = 65536}},
      {64, {.align = 4096, .phase = 64}},
      {200, {.nocross = 256}},
      {4096, {.nocross = 4096}},
      {20000, {.nocross = 32768}},
      {64, {.min = 0x20000, .max = 0x20040}},
      {128, {.align = 128, .phase = 64, .nocross = 1024, .min = 0x10000, .max = 0x30000}},
  };
  for (const auto& test : cases) {
    const Constraint& c = test.constraint;
    const std::uintptr_t start = importer_.allocate_constrained(test.size, c);
    ASSERT_NE(start, 0U) << test.size;
    EXPECT_EQ(start % c.align, c.phase);
    if (c.nocross != 0) {
      EXPECT_EQ(start / c.nocross, (start + test.size - 1) / c.nocross);
    }
    EXPECT_GE(start, c.min);
    if (c.max != 0) {
      EXPECT_LE(start + test.size, c.max);
    }
    EXPECT_TRUE(importer_.validate());
    EXPECT_EQ(importer_.free_constrained(start, test.size), Status::kOk);
    importer_.reap();
    EXPECT_EQ(arena_.stats().free, std::size_t{64} * 4096);
  }
}

TEST_F(ArenaImport, a_request_that_no_import_can_meet_ends) {
  make(4096, 4096, std::size_t{64} * 4096);
  make_importer(64);
  EXPECT_EQ(importer_.allocate_constrained(64, {.max = 4096}), 0U);
  EXPECT_EQ(importer_.allocate_constrained(64, {.min = 1 << 20}), 0U);
  EXPECT_EQ(importer_.allocate_constrained(64, {.align = 1 << 20, .phase = 1 << 19}), 0U);
  EXPECT_EQ(arena_.stats().free, std::size_t{64} * 4096);
}

TEST_F(ArenaImport, next_fit_through_a_source_fails_or_fits_and_never_stops_the_system) {
  make(64, 64, 640);
  make_importer(16);
  const std::uintptr_t a = importer_.allocate(16, Fit::kNext);
  const std::uintptr_t b = importer_.allocate_constrained(16, {.align = 32}, Fit::kNext);
  EXPECT_NE(a, 0U);
  EXPECT_NE(b, 0U);
  EXPECT_EQ(importer_.allocate(4096, Fit::kNext), 0U);
  EXPECT_EQ(importer_.allocate_constrained(4096, {.align = 32}, Fit::kNext), 0U);
  EXPECT_EQ(importer_.free(a, 16), Status::kOk);
  EXPECT_EQ(importer_.free_constrained(b, 16), Status::kOk);
}

TEST_F(ArenaImport, a_bound_inside_the_sources_quantum_is_met) {
  // The span begins below the bound and ends above it; only the segment must respect the bound.
  make(4096, 4096, std::size_t{64} * 4096);
  make_importer(64);
  EXPECT_EQ(importer_.allocate_constrained(64, {.min = 0x20040, .max = 0x20080}), 0x20040U);
  EXPECT_EQ(importer_.stats().imported, 4096U);
  EXPECT_EQ(importer_.free_constrained(0x20040, 64), Status::kOk);
}

TEST_F(ArenaImport, the_last_quantum_of_an_unaligned_source_is_found) {
  make(1, 1, 100);
  const std::uintptr_t low = arena_.allocate_constrained(47, {.max = 48});
  const std::uintptr_t high = arena_.allocate_constrained(36, {.min = 64});
  ASSERT_EQ(low, 1U);
  ASSERT_EQ(high, 64U);  // [48, 64) and [100, 101) are left
  make_importer(16);
  EXPECT_EQ(importer_.allocate(16), 48U);
  EXPECT_EQ(importer_.free(48, 16), Status::kOk);
  EXPECT_EQ(arena_.free_constrained(low, 47), Status::kOk);
  EXPECT_EQ(arena_.free_constrained(high, 36), Status::kOk);
}

TEST_F(ArenaImport, sizes_above_two_gigabytes) {
  if (sizeof(std::size_t) == 4) GTEST_SKIP();
  constexpr auto kTera = static_cast<std::size_t>(std::uint64_t{1} << 40);
  make(4096, kTera, kTera);
  make_importer(16, kTera / 4);
  const std::uintptr_t small = importer_.allocate(16);
  EXPECT_EQ(importer_.stats().imported, kTera / 4);
  const std::uintptr_t large = importer_.allocate(kTera / 2 + 16);
  EXPECT_EQ(importer_.size_of(large), kTera / 2 + 16);
  EXPECT_EQ(importer_.allocate(kTera / 2), 0U);
  EXPECT_EQ(importer_.free(small, 16), Status::kOk);
  EXPECT_EQ(importer_.free(large, kTera / 2 + 16), Status::kOk);
}

// ---- import functions -----------------------------------------------------------------------------------------------

/// The observations of import functions that inspect their arenas.
struct Watched {
  Arena* importer = nullptr;
  unsigned calls = 0;
  std::uint32_t deepest = 0;
};
Watched watched;

void look_around() {
  ++watched.calls;
  if (hal::hart_local().lock_depth > watched.deepest) watched.deepest = hal::hart_local().lock_depth;
  EXPECT_TRUE(watched.importer->validate());  // takes the importer's lock, and so would hang if it were held
}
std::uintptr_t import_watched(Arena& source, std::size_t size, Fit fit) noexcept {
  look_around();
  return source.allocate(size, fit);
}
void release_watched(Arena& source, std::uintptr_t start, std::size_t size) noexcept {
  look_around();
  source.free(start, size);
}

TEST_F(ArenaImport, no_lock_is_held_while_the_source_is_asked) {
  make(64, 64, 640);
  ASSERT_EQ(
      importer_.initialize(
          {.name = "importer", .quantum = 16, .source = &arena_, .import = import_watched, .release = release_watched}),
      Status::kOk);
  watched = {&importer_, 0, 0};
  const std::uintptr_t plain = importer_.allocate(64);
  const std::uintptr_t constrained = importer_.allocate_constrained(64, {.align = 32, .nocross = 64});
  EXPECT_EQ(importer_.allocate(640), 0U);
  EXPECT_EQ(importer_.free(plain, 64), Status::kOk);
  EXPECT_EQ(importer_.free_constrained(constrained, 64), Status::kOk);
  importer_.reap();
  EXPECT_GE(watched.calls, 5U);
  EXPECT_EQ(watched.deepest, 0U);
}

TEST_F(ArenaImport, without_a_release_of_ones_own_spans_are_kept_for_ever) {
  make(64, 64, 640);
  ASSERT_EQ(importer_.initialize({.name = "importer",
                                  .quantum = 16,
                                  .source = &arena_,
                                  .import = [](Arena& source, std::size_t size,
                                               Fit fit) noexcept { return source.allocate(size, fit); }}),
            Status::kOk);
  const std::uintptr_t one = importer_.allocate(64);
  const std::uintptr_t other = importer_.allocate(64);
  EXPECT_EQ(importer_.free(one, 64), Status::kOk);
  EXPECT_EQ(importer_.free(other, 64), Status::kOk);
  EXPECT_EQ(importer_.reap(), 0U);
  EXPECT_EQ(importer_.stats().spans, 2U);
  EXPECT_EQ(importer_.stats().imported, 0U);
  EXPECT_EQ(importer_.destroy(), Status::kOk);
  EXPECT_EQ(arena_.stats().allocated, 128U);
  EXPECT_EQ(arena_.free(one, 64), Status::kOk);
  EXPECT_EQ(arena_.free(other, 64), Status::kOk);
}

/// An import function that creates spans, each one quantum above the end of the one before.
struct Well {
  Arena arena;
  Arena others;  ///< allocates boundary tags in the meantime
  std::uintptr_t next = 0x10010;
  std::size_t supplied = 0;
  bool tags_are_taken = false;

  Status make() {
    const ImportFunction draw = [](Arena& asking, std::size_t size, Fit) noexcept {
      auto* well = static_cast<Well*>(asking.context());
      const std::uintptr_t start = well->next;
      well->next += size + 16;
      well->supplied += size;
      if (well->tags_are_taken) well->take_tags();
      return start;
    };
    const Status status = others.initialize({.name = "others", .quantum = 1});
    return status != Status::kOk
               ? status
               : arena.initialize(
                     {.name = "well", .quantum = 16, .self_source = true, .import = draw, .context = this});
  }
  void end() {
    EXPECT_TRUE(arena.validate());
    EXPECT_EQ(arena.destroy(), Status::kOk);
    EXPECT_EQ(others.destroy(), Status::kOk);
  }
  /// Allocates all boundary tags: those of the pool, and the spare ones of the two arenas.
  void take_tags() {
    for (std::uintptr_t at = 1; others.add(at, 1) != Status::kNoMemory;) at += 2;
    for (std::uintptr_t at = 0x1000; arena.add(at, 16) != Status::kNoMemory;) at += 32;
  }
};

TEST_F(ArenaImport, what_cannot_go_back_is_not_asked_for_without_tags_and_entered_whoever_takes_them_meanwhile) {
  Well well;
  ASSERT_EQ(well.make(), Status::kOk);
  well.tags_are_taken = true;
  const std::uintptr_t start = well.arena.allocate(32);
  EXPECT_NE(start, 0U);
  EXPECT_EQ(well.supplied, 32U);
  EXPECT_EQ(tags_in_pool(), 0U);
  // The segments that take_tags() added are too small, and there is no tag for another.
  const std::size_t total = well.arena.stats().total;
  EXPECT_GE(total, 32U);
  EXPECT_EQ(well.arena.allocate(64), 0U);
  EXPECT_EQ(well.supplied, 32U);
  EXPECT_EQ(well.arena.stats().total, total);
  EXPECT_EQ(well.arena.free(start, 32), Status::kOk);
  well.end();
}

TEST_F(ArenaImport, what_cannot_go_back_is_kept_where_the_request_does_not_fit_in_it) {
  Well well;
  ASSERT_EQ(well.make(), Status::kOk);
  // No span lies below this bound: all spans that were tried stay, and serve other requests.
  EXPECT_EQ(well.arena.allocate_constrained(32, {.max = 0x10000}), 0U);
  EXPECT_GT(well.supplied, 0U);
  EXPECT_EQ(well.arena.stats().total, well.supplied);
  const std::size_t supplied = well.supplied;
  const std::uintptr_t start = well.arena.allocate(32);
  EXPECT_NE(start, 0U);
  EXPECT_EQ(well.supplied, supplied);
  EXPECT_EQ(well.arena.free(start, 32), Status::kOk);
  well.end();
}

std::uintptr_t import_wrapped(Arena&, std::size_t, Fit) noexcept { return UINTPTR_MAX - 15; }

TEST_F(ArenaImport, a_span_that_ends_behind_the_last_address_is_refused) {
  Arena arena;
  ASSERT_EQ(arena.initialize(
                {.name = "wrapped", .quantum = 16, .self_source = true, .import = import_wrapped, .release = nullptr}),
            Status::kOk);
  EXPECT_EQ(arena.allocate(16), 0U);
  EXPECT_EQ(arena.allocate(64), 0U);
  EXPECT_EQ(arena.allocate_constrained(64, {.align = 64}), 0U);
  EXPECT_EQ(arena.stats().spans, 0U);
  EXPECT_TRUE(arena.validate());
  EXPECT_EQ(arena.destroy(), Status::kOk);
}

// ---- self-source ----------------------------------------------------------------------------------------------------

/// An arena that creates its own spans, each above the one before.
struct Fountain {
  Arena arena;
  std::uintptr_t next = 0x10000;
  std::size_t released = 0;
};

std::uintptr_t import_from_nothing(Arena& arena, std::size_t size, Fit) noexcept {
  auto* fountain = static_cast<Fountain*>(arena.context());
  const std::uintptr_t start = fountain->next;
  fountain->next += size;
  return start;
}
void release_to_nothing(Arena& arena, std::uintptr_t, std::size_t size) noexcept {
  static_cast<Fountain*>(arena.context())->released += size;
}

TEST_F(ArenaImport, an_arena_can_be_its_own_source) {
  Fountain fountain;
  ASSERT_EQ(fountain.arena.initialize({.name = "fountain",
                                       .quantum = 4096,
                                       .self_source = true,
                                       .import = import_from_nothing,
                                       .release = release_to_nothing,
                                       .context = &fountain}),
            Status::kOk);
  EXPECT_EQ(fountain.arena.source(), nullptr);
  const std::uintptr_t a = fountain.arena.allocate(4096);
  const std::uintptr_t b = fountain.arena.allocate(4096);
  EXPECT_NE(a, b);
  ASSERT_EQ(importer_.initialize({.name = "importer", .quantum = 1, .source = &fountain.arena}), Status::kOk);
  const std::uintptr_t c = importer_.allocate(1);
  const std::uintptr_t d = importer_.allocate(1);
  EXPECT_NE(c, d);
  EXPECT_EQ(importer_.free(c, 1), Status::kOk);
  EXPECT_EQ(importer_.free(d, 1), Status::kOk);
  EXPECT_EQ(importer_.destroy(), Status::kOk);
  EXPECT_EQ(fountain.arena.free(a, 4096), Status::kOk);
  EXPECT_EQ(fountain.arena.free(b, 4096), Status::kOk);
  EXPECT_EQ(fountain.arena.destroy(), Status::kOk);
  EXPECT_EQ(fountain.released, fountain.next - 0x10000);
}

TEST_F(ArenaImport, a_segment_alone_in_its_span_grows_into_what_the_source_has_behind_it) {
  make(64, 64, 4096);
  make_importer(16);
  const std::uintptr_t start = importer_.allocate(80);  // a span of 128
  ASSERT_EQ(start, 64U);
  EXPECT_EQ(importer_.resize_in_place(start, 80, 128), Status::kOk);
  EXPECT_EQ(importer_.stats().total, 128U);
  EXPECT_EQ(importer_.resize_in_place(start, 128, 1000), Status::kOk);
  EXPECT_TRUE(importer_.validate());
  EXPECT_TRUE(arena_.validate());
  EXPECT_EQ(importer_.stats().total, 1024U);
  EXPECT_EQ(arena_.stats().allocated, 1024U);
  // Half of the missing bytes are in its span, the other half is free in the source.
  EXPECT_EQ(importer_.resize_in_place(start, 1000, 1040), Status::kOk);
  EXPECT_EQ(importer_.stats().total, 1088U);
  // The following bytes, in the span and behind it, now belong to others.
  const std::uintptr_t beside = importer_.allocate(16);
  EXPECT_EQ(beside, start + 1040);
  EXPECT_EQ(importer_.resize_in_place(start, 1040, 1104), Status::kNoMemory);
  EXPECT_EQ(importer_.free(beside, 16), Status::kOk);
  const std::uintptr_t wall = arena_.allocate_constrained(64, {.min = 64 + 1088});
  EXPECT_EQ(wall, 64U + 1088U);
  EXPECT_EQ(importer_.resize_in_place(start, 1040, 1104), Status::kNoMemory);
  EXPECT_EQ(importer_.stats().total, 1088U);
  EXPECT_EQ(arena_.free_constrained(wall, 64), Status::kOk);
  // Everything is freed as one segment.
  EXPECT_EQ(importer_.free(start, 1040), Status::kOk);
  importer_.reap();
  EXPECT_EQ(arena_.stats().allocated, 0U);
}

TEST_F(ArenaImport, a_span_that_cannot_be_made_longer_stays_as_it_is) {
  make(64, 64, 1024);
  make_importer(16);
  const std::uintptr_t start = importer_.allocate(64);
  EXPECT_EQ(importer_.resize_in_place(start, 64, 2000), Status::kNoMemory);
  EXPECT_EQ(importer_.stats().total, 64U);
  EXPECT_EQ(arena_.stats().allocated, 64U);
  EXPECT_TRUE(importer_.validate());
  // An arena with an import function does not know the memory behind its spans.
  Arena by_function;
  ASSERT_EQ(by_function.initialize(
                {.name = "by_function",
                 .quantum = 16,
                 .source = &arena_,
                 .import = [](Arena& from, std::size_t size,
                              Fit fit) noexcept { return from.allocate(size, fit, nullptr, WaitPolicy::kQuiet); },
                 .release = [](Arena& to, std::uintptr_t at, std::size_t size) noexcept { to.free(at, size); }}),
            Status::kOk);
  const std::uintptr_t other = by_function.allocate(64);
  EXPECT_EQ(by_function.resize_in_place(other, 64, 128), Status::kNoMemory);
  EXPECT_EQ(by_function.free(other, 64), Status::kOk);
  EXPECT_EQ(by_function.destroy(), Status::kOk);
  EXPECT_EQ(importer_.free(start, 64), Status::kOk);
}

/// A source that returns the same range each time.
std::uintptr_t import_again(Arena&, std::size_t, Fit) noexcept { return 0x1000; }
void release_again(Arena&, std::uintptr_t, std::size_t) noexcept {}

TEST_F(ArenaImport, a_source_that_hands_out_a_range_twice_is_refused) {
  Arena arena;
  ASSERT_EQ(
      arena.initialize(
          {.name = "again", .quantum = 16, .self_source = true, .import = import_again, .release = release_again}),
      Status::kOk);
  const std::uintptr_t first = arena.allocate(16);
  EXPECT_EQ(first, 0x1000U);
  EXPECT_EQ(arena.allocate(16), 0U);
  EXPECT_TRUE(arena.validate());
  EXPECT_EQ(arena.free(first, 16), Status::kOk);
  EXPECT_EQ(arena.destroy(), Status::kOk);
}

}  // namespace alloc_arena_import_test
}  // namespace qm
