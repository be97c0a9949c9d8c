/// The exact number of instructions of an arena's operations with thousands of free segments: see cost.hpp.

#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include <qm/arena.hpp>
#include <qm/detail/boundary_tag.hpp>
#include <qm/test/seed.hpp>

#include "cost.hpp"

namespace {

using qm::Arena;
using qm::Fit;
using qm::test::Cost;
using qm::test::counter_is_exact;
using qm::test::instructions;
using qm::test::put;

constexpr std::size_t kTags = 12000;
constexpr std::size_t kHoles = 2000;

/// Prints a cost, and expects its worst case to be at most @p most.
void print(std::string_view name, const Cost& cost, unsigned long most) {
  cost.print(name);
  if (counter_is_exact()) {
    EXPECT_LE(cost.worst(), most) << name;
  }
}

class ArenaCost : public testing::Test {
 protected:
  void SetUp() override {
    alignas(qm::BoundaryTag) static std::byte storage[kTags * sizeof(qm::BoundaryTag)];
    qm::registry_reset();
    qm::boundary_tags_initialize(storage, sizeof storage);
    ASSERT_EQ(arena_.initialize({.name = "test", .quantum = 16}), qm::Status::kOk);
  }
  void TearDown() override { EXPECT_TRUE(arena_.validate()); }

  /// Makes kHoles free segments between allocated ones, with sizes from a function, and a large free one above.
  template <class SizeOf>
  void make_holes(SizeOf size_of) {
    ASSERT_EQ(arena_.add(1 << 20, std::size_t{1} << 28), qm::Status::kOk);
    static std::uintptr_t holes[kHoles];
    for (std::size_t i = 0; i < kHoles; ++i) {
      holes[i] = arena_.allocate(size_of(i));
      ASSERT_NE(arena_.allocate(16), 0U);
    }
    qm::test::Random random(7);
    for (std::size_t i = kHoles; i-- > 1;) std::swap(holes[i], holes[random.below(i + 1)]);
    for (const std::uintptr_t hole : holes) ASSERT_EQ(arena_.free(hole), qm::Status::kOk);
    ASSERT_EQ(arena_.stats().segments_free, kHoles + 1);
  }

  /// The first request that needs a search by address enters all free segments into an index, with many short holds of
  /// the lock.
  void index_addresses() {
    Cost first;
    EXPECT_EQ(first.measure([&] { return arena_.allocate(std::size_t{1} << 40, Fit::kNext); }), 0U);
    print("first search by address", first, 600'000);
  }

  Arena arena_;
};

/// The size is just below the power of two above all holes, so a search of their list would scan all of it.
TEST_F(ArenaCost, instant_fit_passes_by_two_thousand_segments_just_too_small) {
  make_holes([](std::size_t i) { return 16 * (65 + i % 35); });
  Cost allocate;
  Cost free;
  for (unsigned i = 0; i < 1000; ++i) {
    const std::uintptr_t start = allocate.measure([&] { return arena_.allocate(1600); });
    free.measure([&] { return arena_.free(start, 1600); });
  }
  print("just too small: allocate", allocate, 450);
  print("just too small: free", free, 350);
}

TEST_F(ArenaCost, random_replacement_among_two_thousand_holes_is_bounded_with_every_fit) {
  make_holes([](std::size_t i) { return 16 * (1 + i * 37 % 120); });
  constexpr std::size_t kLive = 1000;
  static std::uintptr_t starts[kLive];
  static std::size_t sizes[kLive];
  constexpr std::string_view kNames[] = {"instant", "best", "next"};
  for (const Fit fit : {Fit::kInstant, Fit::kBest, Fit::kNext}) {
    if (fit == Fit::kNext) index_addresses();
    qm::test::Random random;
    Cost allocate;
    Cost free;
    for (unsigned step = 0; step < 20000; ++step) {
      const std::size_t i = random.below(kLive);
      if (starts[i] == 0) {
        sizes[i] = 16 * (1 + random.below(100));
        starts[i] = allocate.measure([&] { return arena_.allocate(sizes[i], fit); });
      } else {
        free.measure([&] { return arena_.free(starts[i], sizes[i]); });
        starts[i] = 0;
      }
    }
    for (std::size_t i = 0; i < kLive; ++i) {
      if (starts[i] != 0) arena_.free(starts[i], sizes[i]);
      starts[i] = 0;
    }
    put(kNames[static_cast<unsigned>(fit)]);
    const unsigned long most = fit == Fit::kNext ? 1800 : 700;
    print(" fit: allocate", allocate, most);
    print("  free", free, most);
  }
}

TEST_F(ArenaCost, bounds_end_a_search_where_they_are) {
  make_holes([](std::size_t) { return 16 * 4; });
  index_addresses();
  Cost below;
  Cost above;
  for (unsigned i = 0; i < 100; ++i) {
    // No segment below the bound fits, and every segment above it would: a search beyond the bound would succeed.
    // Quiet: only the search is measured, without the drain that follows a failure.
    const auto search_below = [&] {
      return arena_.allocate_constrained(16 * 5, {.max = (1 << 20) + 100'000}, Fit::kInstant, nullptr,
                                         qm::WaitPolicy::kQuiet);
    };
    EXPECT_EQ(below.measure(search_below), 0U);
    // 2000 segments lie below the lowest permitted start.
    const std::uintptr_t start =
        above.measure([&] { return arena_.allocate_constrained(16 * 4, {.min = (1 << 20) + 150'000}); });
    EXPECT_NE(start, 0U);
    EXPECT_EQ(arena_.free_constrained(start, 16 * 4), qm::Status::kOk);
  }
  print("upper bound", below, 1500);
  print("lower bound", above, 1500);
}

TEST_F(ArenaCost, a_long_search_lets_interrupts_in_all_the_while) {
  make_holes([](std::size_t) { return 16 * 7; });  // large enough, but none begins at the requested alignment
  const std::uintptr_t rest = arena_.allocate(arena_.stats().largest_free);
  ASSERT_NE(rest, 0U);
  qm::test::Ticks ticks(50);
  const unsigned long before = instructions();
  EXPECT_EQ(arena_.allocate_constrained(16 * 7, {.align = 1 << 18, .phase = 16}), 0U);
  const unsigned long cost = instructions() - before;
  ticks.stop();
  put("long search: ");
  put(cost);
  put(", longest time without a tick ");
  put(ticks.longest_gap());
  put("\n");
  if (counter_is_exact()) {
    EXPECT_GT(cost, 200'000U);
    EXPECT_GT(ticks.count(), 20U);
    EXPECT_LT(ticks.longest_gap(), 15'000U);
  }
}

}  // namespace
