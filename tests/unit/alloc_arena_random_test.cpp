// Arenas against a slow, obviously correct model: one cell an integer.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include <qm/arena.hpp>
#include <qm/test/seed.hpp>

#include "support/arena_fixture.hpp"

namespace qm {
namespace {

constexpr std::size_t kUnits = 320;       // integers of the model: 0 to kUnits - 1
constexpr std::size_t kAllocations = 96;  // most at a time

/// What every integer is: outside all spans, free, or part of allocation n.
class Model {
 public:
  static constexpr std::int16_t kOutside = -1;
  static constexpr std::int16_t kFree = -2;

  void add(std::uintptr_t start, std::size_t size, std::size_t quantum) {
    // Value 0 is none of ours; a span tiles from its first multiple of the quantum.
    for (std::uintptr_t i = start; i < start + size; ++i) cells_[i] = kFree;
    quantum_ = quantum;
    edges_[start] = true;
    edges_[start + size] = true;
  }
  [[nodiscard]] bool overlaps(std::uintptr_t start, std::size_t size) const {
    for (std::uintptr_t i = start; i < start + size; ++i) {
      if (cells_[i] != kOutside) return true;
    }
    return false;
  }
  /// Whether [start, start + size) is free and inside one span.
  [[nodiscard]] bool is_free(std::uintptr_t start, std::size_t size) const {
    if (start == 0 || start + size > kUnits || start + size < start) return false;
    for (std::uintptr_t i = start; i < start + size; ++i) {
      if (cells_[i] != kFree || (i != start && edges_[i])) return false;
    }
    return true;
  }
  [[nodiscard]] static bool meets(std::uintptr_t start, std::size_t size, const Constraint& c) {
    if (c.align > 1 && start % c.align != c.phase) return false;
    if (c.nocross != 0 && start / c.nocross != (start + size - 1) / c.nocross) return false;
    return start >= c.min && (c.max == 0 || start + size <= c.max);
  }
  /// The lowest start that will do, 0 if there is none.
  [[nodiscard]] std::uintptr_t lowest(std::size_t size, const Constraint& c) const {
    for (std::uintptr_t start = quantum_; start < kUnits; start += quantum_) {
      if (meets(start, size, c) && is_free(start, size)) return start;
    }
    return 0;
  }
  /// The size of the free segment around @p start.
  [[nodiscard]] std::size_t segment_at(std::uintptr_t start) const {
    std::uintptr_t low = start;
    while (low > 0 && !edges_[low] && cells_[low - 1] == kFree) --low;
    std::uintptr_t high = start + 1;
    while (high < kUnits && !edges_[high] && cells_[high] == kFree) ++high;
    return high - low;
  }
  /// The size of the smallest free segment that holds @p size, 0 if none does.
  [[nodiscard]] std::size_t smallest(std::size_t size) const {
    std::size_t best = 0;
    for (std::uintptr_t i = 0; i < kUnits; ++i) {
      if (cells_[i] != kFree || (i > 0 && !edges_[i] && cells_[i - 1] == kFree)) continue;
      const std::size_t segment = segment_at(i);
      if (segment >= size && (best == 0 || segment < best)) best = segment;
    }
    return best;
  }
  void fill(std::uintptr_t start, std::size_t size, std::int16_t value) {
    for (std::uintptr_t i = start; i < start + size; ++i) cells_[i] = value;
  }
  [[nodiscard]] std::size_t count_free() const {
    std::size_t count = 0;
    for (const std::int16_t cell : cells_) count += cell == kFree;
    return count;
  }
  [[nodiscard]] std::size_t largest() const {
    std::size_t largest = 0;
    for (std::uintptr_t i = 0; i < kUnits; ++i) {
      if (cells_[i] == kFree && segment_at(i) > largest) largest = segment_at(i);
    }
    return largest;
  }
  void clear() {
    for (std::int16_t& cell : cells_) cell = kOutside;
    for (bool& edge : edges_) edge = false;
  }
  [[nodiscard]] bool has_edge(std::uintptr_t at) const { return edges_[at]; }

 private:
  std::size_t quantum_ = 1;
  std::int16_t cells_[kUnits];
  bool edges_[kUnits + 1];
};

class ArenaRandom : public test::ArenaTest {
 protected:
  struct Held {
    std::uintptr_t start;
    std::size_t size;  // asked for
    bool constrained;
  };

  void begin(std::size_t quantum) {
    quantum_ = quantum;
    count_ = 0;
    model_.clear();
    make(quantum);
  }
  void end() {
    while (count_ != 0) release(count_ - 1);
    EXPECT_TRUE(arena_.validate());
    EXPECT_EQ(arena_.destroy(), Status::kOk);
  }
  [[nodiscard]] std::size_t rounded(std::size_t size) const { return (size + quantum_ - 1) / quantum_ * quantum_; }

  void add(test::Random& random) {
    std::uintptr_t start = random.below(kUnits);
    std::size_t size = random.below(kUnits / 4);
    if (start + size > kUnits) size = kUnits - start;
    const std::uintptr_t low = rounded(start == 0 ? 1 : start);
    const std::uintptr_t high = (start + size) / quantum_ * quantum_;
    const Status status = arena_.add(start, size);
    if (low >= high) {
      EXPECT_EQ(status, Status::kInvalid);
    } else if (model_.overlaps(low, high - low)) {
      EXPECT_EQ(status, Status::kOverlap);
    } else {
      EXPECT_EQ(status, Status::kOk);
      model_.add(low, high - low, quantum_);
    }
  }

  void hold(std::uintptr_t start, std::size_t size, bool constrained) {
    ASSERT_TRUE(model_.is_free(start, rounded(size))) << start << ' ' << size;
    ASSERT_EQ(start % quantum_, 0U);
    model_.fill(start, rounded(size), static_cast<std::int16_t>(count_));
    held_[count_++] = {start, size, constrained};
  }

  void allocate(test::Random& random) {
    const std::size_t size = 1 + random.below(random.chance(80) ? 24 : 90);
    const auto fit = static_cast<Fit>(random.below(3));
    const std::size_t smallest = model_.smallest(rounded(size));
    const std::uintptr_t start = arena_.allocate(size, fit);
    ASSERT_EQ(start != 0, smallest != 0) << size;
    if (start == 0) return;
    if (fit == Fit::kBest) {
      EXPECT_EQ(model_.segment_at(start), smallest);
    }
    hold(start, size, false);
  }

  void allocate_constrained(test::Random& random) {
    const std::size_t size = 1 + random.below(24);
    Constraint c;
    if (random.chance(60)) c.align = std::size_t{1} << random.below(7);
    if (c.align > 1 && random.chance(40)) c.phase = random.below(c.align);
    if (random.chance(40)) c.nocross = std::size_t{1} << random.below(8);
    if (random.chance(30)) c.min = random.below(kUnits);
    if (random.chance(30)) c.max = 1 + random.below(kUnits);
    const Fit fit = random.chance(25) ? Fit::kNext : Fit::kInstant;
    const std::uintptr_t lowest = model_.lowest(rounded(size), c);
    const std::uintptr_t start = arena_.allocate_constrained(size, c, fit);
    ASSERT_EQ(start != 0, lowest != 0) << "size " << size << " align " << c.align << " phase " << c.phase << " nocross "
                                       << c.nocross << " min " << c.min << " max " << c.max;
    if (start == 0) return;
    ASSERT_TRUE(Model::meets(start, rounded(size), c));
    hold(start, size, true);
  }

  void release(std::size_t index) {
    const Held held = held_[index];
    const Status status = held.constrained ? arena_.free_constrained(held.start, held.size)
                          : index % 2 == 0 ? arena_.free(held.start, held.size)
                                           : arena_.free(held.start);
    ASSERT_EQ(status, Status::kOk);
    model_.fill(held.start, rounded(held.size), Model::kFree);
    held_[index] = held_[--count_];
    if (index < count_) {
      model_.fill(held_[index].start, rounded(held_[index].size), static_cast<std::int16_t>(index));
    }
  }

  void resize(test::Random& random, std::size_t index) {
    Held& held = held_[index];
    const std::size_t before = rounded(held.size);
    const std::size_t size = 1 + random.below(40);
    const std::size_t after = rounded(size);
    const bool grows = after > before;
    const bool can = !grows || (!model_.has_edge(held.start + before) && model_.is_free(held.start + before, after - before));
    ASSERT_EQ(arena_.resize_in_place(held.start, held.size, size), can ? Status::kOk : Status::kNoMemory);
    if (!can) return;
    model_.fill(held.start, before, Model::kFree);
    model_.fill(held.start, after, static_cast<std::int16_t>(index));
    held.size = size;
  }

  void misuse(test::Random& random) {
    const std::uintptr_t start = random.below(kUnits);
    const std::size_t size = random.below(40);
    for (std::size_t i = 0; i < count_; ++i) {
      if (held_[i].start == start) return;
    }
    EXPECT_EQ(arena_.free(start, size), Status::kNotFound);
  }

  void step(test::Random& random) {
    const std::uint64_t dice = random.below(100);
    if (dice < 2) return add(random);
    if (dice < 4) return misuse(random);
    if (dice < 34 && count_ < kAllocations) return allocate(random);
    if (dice < 54 && count_ < kAllocations) return allocate_constrained(random);
    if (count_ == 0) return;
    if (dice < 64) return resize(random, random.below(count_));
    release(random.below(count_));
  }

  std::size_t quantum_ = 1;
  std::size_t count_ = 0;
  Held held_[kAllocations];
  Model model_;
};

TEST_F(ArenaRandom, agrees_with_a_model_of_one_cell_an_integer) {
  constexpr unsigned kSteps = 10'000;
  test::Random random;
  for (const std::size_t quantum : {1, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16}) {
    begin(quantum);
    for (unsigned i = 0; i < kSteps && !HasFatalFailure(); ++i) {
      step(random);
      ASSERT_TRUE(arena_.validate()) << "step " << i << " quantum " << quantum;
      const ArenaStats stats = arena_.stats();
      ASSERT_EQ(stats.free, model_.count_free());
      ASSERT_EQ(stats.segments_allocated, count_);
      if (i % 16 == 0) {
        ASSERT_EQ(stats.largest_free, model_.largest());
      }
    }
    ASSERT_FALSE(HasFatalFailure()) << "quantum " << quantum;
    end();
  }
}

/// Every combination of a constraint's members over a small arena, at every place and size of the one free segment: a start
/// is found exactly when one exists, and it is the lowest.
TEST_F(ArenaRandom, every_satisfiable_constrained_request_succeeds) {
  constexpr std::size_t kTop = 72;
  std::size_t satisfiable = 0;
  std::size_t asked = 0;
  for (const std::size_t quantum : {std::size_t{1}, std::size_t{3}, std::size_t{4}}) {
    for (std::uintptr_t low = quantum; low < 40; low += quantum == 1 ? 5 : quantum) {
      for (std::size_t length = quantum; low + length <= kTop; length += quantum == 1 ? 7 : 2 * quantum) {
        begin(quantum);
        ASSERT_EQ(arena_.add(low, length), Status::kOk);
        model_.add(low, length, quantum);
        for (std::size_t align = 1; align <= 32; align *= 2) {
          for (std::size_t phase = 0; phase < align; phase += align < 8 ? 1 : align / 4 - 1) {
            for (std::size_t nocross = 1; nocross <= 64; nocross *= 2) {
              for (const std::size_t size : {quantum, 3 * quantum, 8 * quantum}) {
                const Constraint constraint{.align = align, .phase = phase, .nocross = nocross == 1 ? 0 : nocross};
                const std::uintptr_t expected = model_.lowest(size, constraint);
                const std::uintptr_t start = arena_.allocate_constrained(size, constraint);
                ++asked;
                satisfiable += expected != 0;
                ASSERT_EQ(start, expected) << "quantum " << quantum << " range " << low << '+' << length << " size " << size
                                           << " align " << align << " phase " << phase << " nocross " << nocross;
                if (start != 0) {
                  ASSERT_EQ(arena_.free_constrained(start, size), Status::kOk);
                }
              }
            }
          }
        }
        end();
      }
    }
  }
  EXPECT_GT(satisfiable, 10'000U);
  EXPECT_GT(asked - satisfiable, 10'000U);
}

/// Many segments: the indexes at sizes where a mistake in a trie or a tree shows.
TEST_F(ArenaRandom, thousands_of_segments_of_all_sizes) {
  constexpr std::size_t kSegments = 600;
  test::Random random(test::seed() + 1);
  make(16, 16, std::size_t{1} << 24);
  static std::uintptr_t starts[kSegments];
  static std::size_t sizes[kSegments];
  for (std::size_t i = 0; i < kSegments; ++i) starts[i] = sizes[i] = 0;
  for (unsigned step = 0; step < 20'000; ++step) {
    const std::size_t i = random.below(kSegments);
    if (starts[i] != 0) {
      ASSERT_EQ(arena_.free(starts[i], sizes[i]), Status::kOk);
      starts[i] = 0;
    } else {
      sizes[i] = 1 + random.below(std::size_t{1} << random.between(1, 16));
      starts[i] = arena_.allocate(sizes[i], static_cast<Fit>(random.below(3)));
      ASSERT_NE(starts[i], 0U);
    }
    if (step % 64 == 0) {
      ASSERT_TRUE(arena_.validate()) << step;
    }
  }
  for (std::size_t i = 0; i < kSegments; ++i) {
    if (starts[i] != 0) {
      EXPECT_EQ(arena_.free(starts[i], sizes[i]), Status::kOk);
    }
  }
  EXPECT_EQ(arena_.stats().segments_free, 1U);
}

}  // namespace
}  // namespace qm
