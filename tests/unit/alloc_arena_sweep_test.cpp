// Every constrained request in a range, in small arenas: it must succeed exactly when an enumeration of all starts
// finds a place, and return such a place. The arenas have every quantum, several spans and holes; the requests also go
// through importers.
//
// The test is also built with defects in the search (alloc/src/arena/arena_defect.hpp), to show that it detects them.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string_view>

#include <qm/arena.hpp>
#include <qm/test/seed.hpp>

#include "arena_model.hpp"
#include "support/arena_fixture.hpp"

namespace qm {
namespace alloc_arena_sweep_test {

using test::ArenaMap;

#if defined(QM_ARENA_DEFECT)
constexpr bool kHasDefect = true;
#else
constexpr bool kHasDefect = false;
#endif

/// Pictures of arenas, one character for each quantum from the first one on: '.' free, '#' allocated, '|' where one
/// span ends and the next begins, ' ' in no span. The last one has more free segments than one hold of the lock visits,
/// and is for quanta up to kManyQuantum.
constexpr std::string_view kLayouts[] = {
    "..........................",
    "#.##..#...##.....#.......#",
    " ...#.|.##..|....#   ..#....|.|..",
    "  .  ..  ...  ....  .....  ",
    ".#.#.#..#.#.#.#.#.#...#.#.#.#.#.#.#.#.#.#..#.#.#.#.#....#.#.#.#.#..#.....#",
};
constexpr std::size_t kLayoutCount = sizeof kLayouts / sizeof kLayouts[0];
constexpr std::size_t kManyQuantum = 3;
static_assert((kLayouts[kLayoutCount - 1].size() + 1) * kManyQuantum <= ArenaMap::kUnits);

/// The layouts for an arena of @p quantum.
std::span<const std::string_view> layouts(std::size_t quantum) {
  return {kLayouts, quantum <= kManyQuantum ? kLayoutCount : kLayoutCount - 1};
}

class ArenaSweep : public test::ArenaTest {
 protected:
  static constexpr std::size_t kLevels = 3;

  /// One request of the sweep.
  struct Wish {
    std::size_t size;
    Constraint constraint;
  };

  /// Fills the test's arena and the map according to @p layout.
  void lay_out(std::string_view layout, std::size_t quantum) {
    make(quantum);
    map_.clear();
    held_count_ = 0;
    std::uintptr_t at = quantum;
    std::uintptr_t begin = 0;
    for (std::size_t i = 0; i <= layout.size(); ++i) {
      const char kind = i < layout.size() ? layout[i] : ' ';
      const bool in_span = kind == '.' || kind == '#';
      if (in_span && begin == 0) begin = at;
      if (!in_span && begin != 0) {
        ASSERT_EQ(arena_.add(begin, at - begin), Status::kOk);
        map_.add_span(begin, at);
        begin = 0;
      }
      if (kind != '|') at += quantum;
    }
    at = quantum;
    for (const char kind : layout) {
      if (kind == '#') {
        ASSERT_EQ(arena_.allocate_constrained(quantum, {.min = at, .max = at + quantum}), at);
        map_.set(at, quantum, false);
        held_[held_count_++] = at;
      }
      if (kind != '|') at += quantum;
    }
    map_.settle();
  }
  void clear(std::size_t quantum) {
    while (held_count_ != 0) ASSERT_EQ(arena_.free_constrained(held_[--held_count_], quantum), Status::kOk);
    ASSERT_TRUE(arena_.validate());
    ASSERT_EQ(arena_.destroy(), Status::kOk);
  }

  static void release(Arena& arena, std::uintptr_t start, std::size_t size) {
    EXPECT_EQ(arena.free_constrained(start, size), Status::kOk);
  }

  /// Calls @p ask with every wish, or with every n-th wish where a step is slow.
  template <class Ask>
  void for_every_wish(std::size_t quantum, bool bounded, Ask ask) {
    static constexpr std::uintptr_t kBounds[][2] = {{0, 0},  {0, 16},  {0, 33},  {0, 64},  {0, 65},  {9, 0},   {9, 16},
                                                    {9, 33}, {9, 64},  {9, 65},  {17, 0},  {17, 33}, {17, 64}, {17, 65},
                                                    {40, 0}, {40, 64}, {40, 65}, {41, 80}, {64, 96}, {65, 0}};
    for (const std::size_t size : {std::size_t{1}, quantum + 1, 3 * quantum, 5 * quantum}) {
      for (std::size_t align = 1; align <= 64; align *= 2) {
        for (std::size_t phase = 0; phase < align; phase += align <= 16 ? 1 : 5) {
          for (std::size_t nocross = 2; nocross <= 64; nocross *= 2) {
            for (const auto& [min, max] : kBounds) {
              if (++number_ % stride_ == 0) ask(Wish{size, {align, phase, nocross == 2 ? 0 : nocross, min, max}});
              if (!bounded) break;
            }
          }
        }
      }
    }
  }

  /// Checks an answer of @p arena, an arena of @p quantum.
  void classify(const Wish& wish, std::size_t quantum, std::uintptr_t start, bool possible, bool is_free) {
    const std::size_t size = (wish.size + quantum - 1) / quantum * quantum;
    possible_ += possible;
    impossible_ += !possible;
    const bool good =
        start == 0 ? !possible : start % quantum == 0 && is_free && test::meets(start, size, wish.constraint);
    if (good) return;
    if (mismatches_++ == 0 && !kHasDefect) {
      const Constraint& c = wish.constraint;
      ADD_FAILURE() << "quantum " << quantum << " size " << wish.size << " align " << c.align << " phase " << c.phase
                    << " nocross " << c.nocross << " min " << c.min << " max " << c.max << ": " << start
                    << (possible ? ", possible" : ", impossible");
    }
  }
  void conclude() {
    if (kHasDefect) {
      EXPECT_GT(mismatches_, 0U) << "the sweep does not see the defect";
    } else {
      EXPECT_EQ(mismatches_, 0U);
    }
    EXPECT_GT(possible_, impossible_ / 20);
    EXPECT_GT(impossible_, possible_ / 20);
  }

  /// Requests each wish through @p levels arenas; quanta[0] is that of the innermost one. The outermost has the layout.
  void sweep_through(std::string_view layout, const std::size_t* quanta, std::size_t levels) {
    lay_out(layout, quanta[levels - 1]);
    Arena importers[kLevels];
    Arena* source = &arena_;
    for (std::size_t i = levels - 1; i-- > 0;) {
      const char* const names[] = {"level_0", "level_1", "level_2"};
      ASSERT_EQ(importers[i].initialize({.name = names[i], .quantum = quanta[i], .source = source}), Status::kOk);
      source = &importers[i];
    }
    for_every_wish(quanta[0], true, [&](const Wish& wish) {
      const std::size_t size = (wish.size + quanta[0] - 1) / quanta[0] * quanta[0];
      const bool possible = test::possible_through(map_, quanta, levels, size, wish.constraint);
      const std::uintptr_t start = source->allocate_constrained(wish.size, wish.constraint);
      classify(wish, quanta[0], start, possible, map_.is_free(start, size));
      if (start != 0) release(*source, start, wish.size);
      for (std::size_t i = 0; i + 1 < levels; ++i) importers[i].reap();
    });
    for (std::size_t i = 0; i + 1 < levels; ++i) {
      EXPECT_TRUE(importers[i].validate());
      EXPECT_EQ(importers[i].destroy(), Status::kOk);
    }
    clear(quanta[levels - 1]);
  }

  void SetUp() override {
    ArenaTest::SetUp();
    constexpr std::uint64_t kRequests = 1'000'000;  // about as many as a test requests in full
    const std::uint64_t steps = test::steps(kRequests);
    stride_ = steps == 0 || steps > kRequests ? 1 : kRequests / steps;
    // Coprime to the lengths of for_every_wish()'s loops, so that each value occurs.
    constexpr std::uint64_t kLengths = 2 * 3 * 5 * 17;
    while (stride_ != 1 && std::gcd(stride_, kLengths) != 1) ++stride_;
  }

  ArenaMap map_;
  std::uintptr_t held_[64] = {};
  std::size_t held_count_ = 0;
  std::uint64_t number_ = test::seed();
  std::uint64_t stride_ = 1;
  std::size_t possible_ = 0;
  std::size_t impossible_ = 0;
  std::size_t mismatches_ = 0;
};

TEST_F(ArenaSweep, a_request_succeeds_exactly_when_some_start_would_do) {
  for (const std::size_t quantum : {1, 2, 3, 4, 5, 6, 7}) {
    for (const std::string_view layout : layouts(quantum)) {
      lay_out(layout, quantum);
      for_every_wish(quantum, true, [&](const Wish& wish) {
        const std::size_t size = (wish.size + quantum - 1) / quantum * quantum;
        const bool possible = test::lowest_start(map_, quantum, size, wish.constraint) != 0;
        const std::uintptr_t start = arena_.allocate_constrained(wish.size, wish.constraint);
        classify(wish, quantum, start, possible, map_.is_free(start, size));
        if (start != 0) release(arena_, start, wish.size);
      });
      clear(quantum);
    }
  }
  conclude();
}

TEST_F(ArenaSweep, through_an_importer_exactly_when_the_source_has_a_place) {
  constexpr std::size_t kPairs[][2] = {{1, 4}, {4, 1}, {2, 6}, {6, 4}, {3, 7}, {8, 8}, {7, 5}, {5, 2}};
  for (const auto& quanta : kPairs) {
    for (const std::string_view layout : layouts(quanta[1])) sweep_through(layout, quanta, 2);
  }
  conclude();
}

TEST_F(ArenaSweep, through_two_importers_exactly_when_the_outermost_source_has_a_place) {
  if (kHasDefect) return;  // the sweeps above must detect it
  constexpr std::size_t kTriples[][3] = {{1, 2, 4}, {4, 2, 1}, {2, 6, 4}, {3, 5, 2}, {4, 6, 7}};
  for (const auto& quanta : kTriples) {
    for (const std::string_view layout : {kLayouts[1], kLayouts[2]}) sweep_through(layout, quanta, 3);
  }
  conclude();
}

/// An import function of another project knows only sizes. This suffices if the source is much larger than the request.
std::uintptr_t import_foreign(Arena& source, std::size_t size, Fit fit) noexcept {
  return source.allocate(size, fit, nullptr, WaitPolicy::kQuiet);
}
void release_foreign(Arena& source, std::uintptr_t start, std::size_t size) noexcept { source.free(start, size); }

TEST_F(ArenaSweep, an_import_function_of_ones_own_gets_enough_for_any_alignment_and_boundary) {
  if (kHasDefect) return;  // the sweeps above must detect it
  for (const std::size_t quantum : {1, 3, 4, 6, 7}) {
    for (const std::size_t source : {1, 3, 4, 8}) {
      make(source, source, std::size_t{100'000} * source);
      const std::uintptr_t shift = arena_.allocate(source);  // so that spans begin at no multiple of much
      Arena foreign;  // has the import function: the importer itself, or the arena below it
      Arena above;
      const bool is_below = source == 3 || source == 8;
      ASSERT_EQ(foreign.initialize({.name = "foreign",
                                    .quantum = is_below ? 5 : quantum,
                                    .source = &arena_,
                                    .import = import_foreign,
                                    .release = release_foreign}),
                Status::kOk);
      ASSERT_EQ(above.initialize({.name = "above", .quantum = quantum, .source = &foreign}), Status::kOk);
      Arena& importer = is_below ? above : foreign;
      for_every_wish(quantum, false, [&](const Wish& wish) {
        const Constraint& c = wish.constraint;
        const std::size_t size = (wish.size + quantum - 1) / quantum * quantum;
        bool possible = false;  // starts and boundaries repeat: a few multiples of all of them cover every case
        for (std::uintptr_t start = quantum; start <= quantum * 64 * 2 && !possible; start += quantum) {
          possible = test::meets(start, size, c);
        }
        const std::uintptr_t start = importer.allocate_constrained(wish.size, c);
        classify(wish, quantum, start, possible, true);
        if (start != 0) release(importer, start, wish.size);
        above.reap();
        foreign.reap();
      });
      EXPECT_EQ(above.destroy(), Status::kOk);
      EXPECT_EQ(foreign.destroy(), Status::kOk);
      EXPECT_EQ(arena_.free(shift, source), Status::kOk);
      ASSERT_EQ(arena_.destroy(), Status::kOk);
    }
  }
  conclude();
}

}  // namespace alloc_arena_sweep_test
}  // namespace qm
