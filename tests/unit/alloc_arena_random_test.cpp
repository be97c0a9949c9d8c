// Arenas against a slow, obviously correct model with one cell for each integer. Random operations run on an arena with
// several spans, and on an arena with another quantum that imports from it. Every result is compared with the model's
// cells, and after every step both arenas validate themselves.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include <qm/arena.hpp>
#include <qm/detail/bits.hpp>
#include <qm/test/seed.hpp>

#include "arena_model.hpp"
#include "support/arena_fixture.hpp"

namespace qm {
namespace alloc_arena_random_test {

using test::ArenaMap;

constexpr std::size_t kMostHeld = 64;
constexpr std::size_t kMostSpans = 64;

struct Held {
  std::uintptr_t start;
  std::size_t size;  // requested
  bool constrained;
};

/// One arena, the segments that the test holds in it, and its cells.
struct Side {
  Arena* arena = nullptr;
  std::size_t quantum = 1;
  std::uintptr_t next_fit = 0;
  std::size_t count = 0;
  Held held[kMostHeld] = {};
  ArenaMap map;

  [[nodiscard]] std::size_t rounded(std::size_t size) const { return (size + quantum - 1) / quantum * quantum; }
};

struct Span {
  std::uintptr_t start;
  std::size_t size;
};

class ArenaRandom : public test::ArenaTest {
 protected:
  // ---- the model ----------------------------------------------------------------------------------------------------

  void begin(test::Random& random, std::size_t source_quantum) {
    source_.arena = &arena_;
    upper_.arena = &importer_;
    source_.quantum = source_quantum;
    source_.count = source_.next_fit = range_count_ = 0;
    make(source_quantum);
    for (unsigned i = 0; i < 4; ++i) add(random);
    begin_importer(random);
  }
  void begin_importer(test::Random& random) {
    const std::size_t quantum = random_quantum(random);
    const std::size_t minimum_import = random.chance(50) ? random.below(40) : 0;
    upper_.quantum = quantum;
    upper_.count = upper_.next_fit = span_count_ = 0;
    span_changes_ = 0;
    ASSERT_EQ(importer_.initialize(
                  {.name = "importer", .quantum = quantum, .source = &arena_, .minimum_import = minimum_import}),
              Status::kOk);
    settle();
  }
  void end() {
    while (upper_.count != 0) release(upper_, upper_.count - 1);
    while (source_.count != 0) release(source_, source_.count - 1);
    ASSERT_EQ(importer_.destroy(), Status::kOk);
    ASSERT_TRUE(arena_.validate());
    ASSERT_EQ(arena_.stats().allocated, 0U);
    ASSERT_EQ(arena_.destroy(), Status::kOk);
    ASSERT_EQ(tags_in_pool(), boundary_tags_stats().total);
  }

  /// Makes both maps from the held segments and the spans.
  void settle() {
    source_.map.clear();
    for (std::size_t i = 0; i < range_count_; ++i)
      source_.map.add_span(ranges_[i].start, ranges_[i].start + ranges_[i].size);
    upper_.map.clear();
    for (std::size_t i = 0; i < span_count_; ++i) {
      source_.map.set(spans_[i].start, spans_[i].size, false);
      upper_.map.add_span(upper_.rounded(spans_[i].start), inner_end(spans_[i]));
    }
    for (Side* side : {&source_, &upper_}) {
      for (std::size_t i = 0; i < side->count; ++i) {
        side->map.set(side->held[i].start, side->rounded(side->held[i].size), false);
      }
      side->map.settle();
    }
  }
  [[nodiscard]] std::uintptr_t inner_end(const Span& span) const {
    const std::uintptr_t end = span.start + span.size;
    return end - end % upper_.quantum;
  }
  [[nodiscard]] bool is_empty(const Span& span) const {
    const std::uintptr_t start = upper_.rounded(span.start);
    return upper_.map.is_free(start, inner_end(span) - start);
  }

  /// Reads the importer's spans: each of them must have been free in the source.
  void read_spans() {
    span_count_ = 0;
    settle();
    ArenaWalk walk(importer_);
    Segment segment;
    while (walk.next(segment)) {
      if (segment.kind != TagKind::kSpan) continue;
      ASSERT_TRUE(segment.imported);
      ASSERT_TRUE(source_.map.is_free(segment.start, segment.size)) << segment.start << '+' << segment.size;
      ASSERT_EQ(segment.start % source_.quantum, 0U);
      ASSERT_EQ(segment.size % source_.quantum, 0U);
      ASSERT_LT(span_count_, kMostSpans);
      spans_[span_count_++] = {segment.start, segment.size};
      source_.map.set(segment.start, segment.size, false);
      source_.map.settle();
    }
  }

  /// Whether the importer must find a place: in its spans, or in the source after its empty span has been returned.
  [[nodiscard]] bool possible_above(std::size_t size, const Constraint& c) {
    if (test::lowest_start(upper_.map, upper_.quantum, size, c) != 0) return true;
    const std::size_t quanta[] = {upper_.quantum, source_.quantum};
    if (test::possible_through(source_.map, quanta, 2, size, c)) return true;
    if (importer_.stats().idle == 0) return false;
    ArenaMap after = source_.map;
    for (std::size_t i = 0; i < span_count_; ++i) {
      if (is_empty(spans_[i])) after.set(spans_[i].start, spans_[i].size, true);
    }
    after.settle();
    return test::possible_through(after, quanta, 2, size, c);
  }

  // ---- steps --------------------------------------------------------------------------------------------------------

  void add(test::Random& random) {
    const std::uintptr_t start = random.below(ArenaMap::kUnits);
    std::size_t size = random.below(ArenaMap::kUnits / 3);
    if (start + size > ArenaMap::kUnits) size = ArenaMap::kUnits - start;
    const std::uintptr_t low = source_.rounded(start == 0 ? 1 : start);
    const std::uintptr_t end = start + size;
    const std::uintptr_t high = end - end % source_.quantum;
    bool overlaps = false;
    for (std::size_t i = 0; i < range_count_; ++i) {
      overlaps |= low < ranges_[i].start + ranges_[i].size && ranges_[i].start < high;
    }
    const Status status = arena_.add(start, size);
    if (low >= high) {
      ASSERT_EQ(status, Status::kInvalid);
    } else if (overlaps) {
      ASSERT_EQ(status, Status::kOverlap);
    } else {
      ASSERT_EQ(status, Status::kOk);
      ranges_[range_count_++] = {low, high - low};
    }
  }

  void hold(Side& side, std::uintptr_t start, std::size_t size, bool constrained) {
    ASSERT_EQ(start % side.quantum, 0U);
    side.held[side.count++] = {start, size, constrained};
  }

  // Quietly: an empty span of the importer is not available to the source, because the source's model has no reclaim.
  void allocate(Side& side, test::Random& random) {
    const std::size_t size = 1 + random.below(random.chance(80) ? 24 : 90);
    const std::size_t rounded = side.rounded(size);
    const auto fit = static_cast<Fit>(random.below(3));
    const std::size_t smallest = side.map.smallest(rounded);
    const bool possible = smallest != 0 || (&side == &upper_ && possible_above(rounded, {}));
    const std::uintptr_t start = side.arena->allocate(size, fit, nullptr, WaitPolicy::kQuiet);
    ASSERT_EQ(start != 0, possible) << "size " << size;
    if (start == 0) return;
    if (smallest != 0) {
      ASSERT_TRUE(side.map.is_free(start, rounded));
      expect_fit(side, start, rounded, fit, smallest);
    }
    if (fit == Fit::kNext) side.next_fit = start + rounded;
    hold(side, start, size, false);
  }

  /// Whether @p start is a correct place for the fit, given all free segments of the arena.
  void expect_fit(const Side& side, std::uintptr_t start, std::size_t size, Fit fit, std::size_t smallest) {
    if (fit == Fit::kNext) {
      const std::uintptr_t above = test::lowest_start(side.map, side.quantum, size, {}, side.next_fit);
      EXPECT_EQ(start, above != 0 ? above : test::lowest_start(side.map, side.quantum, size, {}));
      return;
    }
    const std::size_t segment = side.map.segment_at(start);
    // Instant fit: the smallest segment where each size has a bin; above, a segment of the smallest power-of-two class
    // that is not empty and contains only segments that are large enough.
    const std::size_t sure = side.map.smallest(std::bit_ceil(size));
    const bool exact = segment >> floor_log2(side.quantum) < kWordBits;
    if (fit == Fit::kBest || sure == 0 || exact) {
      EXPECT_EQ(segment, smallest);
    } else {
      EXPECT_EQ(floor_log2(segment), floor_log2(sure));
    }
  }

  void allocate_constrained(Side& side, test::Random& random) {
    const std::size_t size = 1 + random.below(24);
    const std::size_t rounded = side.rounded(size);
    Constraint c;
    if (random.chance(60)) c.align = std::size_t{1} << random.below(7);
    if (c.align > 1 && random.chance(40)) c.phase = random.below(c.align);
    if (random.chance(40)) c.nocross = std::size_t{1} << random.below(8);
    if (random.chance(30)) c.min = random.below(ArenaMap::kUnits);
    if (random.chance(30)) c.max = 1 + random.below(ArenaMap::kUnits);
    const Fit fit = random.chance(25) ? Fit::kNext : Fit::kInstant;
    const std::uintptr_t lowest = test::lowest_start(side.map, side.quantum, rounded, c);
    const bool possible = lowest != 0 || (&side == &upper_ && possible_above(rounded, c));
    const std::uintptr_t start = side.arena->allocate_constrained(size, c, fit, nullptr, WaitPolicy::kQuiet);
    ASSERT_EQ(start != 0, possible) << "size " << size << " align " << c.align << " phase " << c.phase << " nocross "
                                    << c.nocross << " min " << c.min << " max " << c.max;
    if (start == 0) return;
    ASSERT_TRUE(test::meets(start, rounded, c));
    if (lowest != 0) {
      ASSERT_TRUE(side.map.is_free(start, rounded));
      const bool bounded = c.nocross != 0 || c.min != 0 || c.max != 0;  // else any large segment will do
      const std::uintptr_t above =
          fit == Fit::kNext ? test::lowest_start(side.map, side.quantum, rounded, c, side.next_fit) : 0;
      if (bounded) {
        ASSERT_EQ(start, above != 0 ? above : lowest);
      }
    }
    if (fit == Fit::kNext) side.next_fit = start + rounded;
    hold(side, start, size, true);
  }

  void release(Side& side, std::size_t index) {
    const Held held = side.held[index];
    Arena& arena = *side.arena;
    ASSERT_EQ(held.constrained ? arena.free_constrained(held.start, held.size)
              : index % 2 == 0 ? arena.free(held.start, held.size)
                               : arena.free(held.start),
              Status::kOk);
    side.held[index] = side.held[--side.count];
  }

  /// Whether the source can extend the span in which the importer's segment is alone.
  [[nodiscard]] bool may_grow(std::uintptr_t start, std::size_t before, std::size_t after) {
    if (source_.quantum % upper_.quantum != 0) return false;
    for (std::size_t i = 0; i < span_count_; ++i) {
      const std::uintptr_t end = spans_[i].start + spans_[i].size;
      if (spans_[i].start != start) continue;
      if (start + before != end && !upper_.map.is_free(start + before, end - start - before)) return false;
      return !source_.map.has_edge(end) && source_.map.is_free(end, source_.rounded(start + after - end));
    }
    return false;
  }

  void resize(Side& side, test::Random& random, std::size_t index) {
    Held& held = side.held[index];
    const std::size_t before = side.rounded(held.size);
    const std::size_t size = 1 + random.below(40);
    const std::size_t after = side.rounded(size);
    const std::uintptr_t end = held.start + before;
    const bool can = after <= before || (!side.map.has_edge(end) && side.map.is_free(end, after - before)) ||
                     (&side == &upper_ && may_grow(held.start, before, after));
    ASSERT_EQ(side.arena->resize_in_place(held.start, held.size, size), can ? Status::kOk : Status::kNoMemory);
    if (can) held.size = size;
  }

  /// Frees of unallocated segments, and frees with a wrong size: they must be refused.
  void misuse(Side& side, test::Random& random) {
    const std::uintptr_t start = random.below(ArenaMap::kUnits);
    for (std::size_t i = 0; i < span_count_ && &side == &source_; ++i) {
      if (spans_[i].start == start) return;  // it belongs to the importer, which would lose its span
    }
    for (std::size_t i = 0; i < side.count; ++i) {
      if (side.held[i].start != start) continue;
      const std::size_t size = side.rounded(side.held[i].size) + side.quantum * (1 + random.below(3));
      ASSERT_EQ(side.arena->free(start, size), Status::kMismatch);
      return;
    }
    ASSERT_EQ(side.arena->free(start, random.below(40)), Status::kNotFound);
  }

  void reap() {
    const std::size_t idle = importer_.stats().idle;
    const std::size_t bytes = importer_.reap();
    ASSERT_EQ(bytes == 0, idle == 0);
    ASSERT_GE(bytes, idle);
    ASSERT_EQ(importer_.stats().idle, 0U);
  }

  /// Destroys the importer if it has no allocated segments, and makes another; otherwise destroy must be refused and
  /// change nothing. For the source it is always refused.
  void destroy(test::Random& random) {
    ASSERT_EQ(arena_.destroy(), Status::kBusy);
    if (upper_.count != 0) {
      ASSERT_EQ(importer_.destroy(), Status::kBusy);
      return;
    }
    ASSERT_EQ(importer_.destroy(), Status::kOk);
    begin_importer(random);
  }

  void step(test::Random& random) {
    Side& side = random.chance(35) ? source_ : upper_;
    const std::uint64_t dice = random.below(1000);
    if (dice < 10 && range_count_ < kMostSpans) return add(random);
    if (dice < 30) return misuse(side, random);
    if (dice < 40) return reap();
    if (dice < 45) return destroy(random);
    const std::uint64_t allocations = growing_ ? 750 : 400;
    if (dice < allocations && side.count < kMostHeld) {
      return random.chance(60) ? allocate(side, random) : allocate_constrained(side, random);
    }
    if (side.count == 0) return;
    if (random.chance(20)) return resize(side, random, random.below(side.count));
    release(side, random.below(side.count));
  }

  // ---- the comparison -----------------------------------------------------------------------------------------------

  /// The arena's allocated segments must be exactly the held ones and, below the importer, its spans.
  void expect_segments(const Side& side) {
    std::uint16_t sizes[ArenaMap::kUnits] = {};
    std::size_t expected = side.count;
    for (std::size_t i = 0; i < side.count; ++i) {
      sizes[side.held[i].start] = static_cast<std::uint16_t>(side.rounded(side.held[i].size));
    }
    for (std::size_t i = 0; i < span_count_ && &side == &source_; ++i, ++expected) {
      sizes[spans_[i].start] = static_cast<std::uint16_t>(spans_[i].size);
    }
    ArenaWalk walk(*side.arena);
    Segment segment;
    while (walk.next(segment)) {
      if (segment.kind != TagKind::kAllocated) continue;
      ASSERT_EQ(segment.size, sizes[segment.start]) << segment.start;
      --expected;
    }
    ASSERT_EQ(expected, 0U);
  }

  void compare(std::uint64_t number) {
    ASSERT_TRUE(arena_.validate());
    ASSERT_TRUE(importer_.validate());
    const ArenaStats upper = importer_.stats();
    const std::uint64_t changes = upper.imports + upper.releases + (std::uint64_t{upper.imported} << 32);  // or grown
    if (changes != span_changes_) {
      read_spans();
      span_changes_ = changes;
    }
    settle();
    const ArenaStats lower = arena_.stats();
    ASSERT_EQ(upper.free, upper_.map.count_free());
    ASSERT_EQ(upper.largest_free, upper_.map.largest());
    ASSERT_EQ(upper.segments_allocated, upper_.count);
    ASSERT_EQ(upper.spans, span_count_);
    ASSERT_EQ(lower.free, source_.map.count_free());
    ASSERT_EQ(lower.largest_free, source_.map.largest());
    ASSERT_EQ(lower.segments_allocated, source_.count + span_count_);
    if (number % 8 != 0) return;
    expect_segments(source_);
    expect_segments(upper_);
  }

  static std::size_t random_quantum(test::Random& random) {
    static constexpr std::size_t kQuanta[] = {1, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16};
    return kQuanta[random.below(sizeof kQuanta / sizeof kQuanta[0])];
  }

  Arena importer_;
  Side source_;
  Side upper_;
  Span ranges_[kMostSpans] = {};  // of the source
  std::size_t range_count_ = 0;
  Span spans_[kMostSpans] = {};  // of the importer
  std::size_t span_count_ = 0;
  std::uint64_t span_changes_ = 0;
  bool growing_ = true;
};

TEST_F(ArenaRandom, an_arena_and_its_importer_agree_with_a_model_of_one_cell_an_integer) {
  constexpr std::uint64_t kStepsOfAPair = 5'000;
  test::Random random;
  const std::uint64_t steps = test::steps(1'000'000);
  for (std::uint64_t number = 0; number < steps; ++number) {
    if (number % kStepsOfAPair == 0) {
      if (number != 0) end();
      begin(random, random_quantum(random));
    }
    if (number % 64 == 0) growing_ = random.chance(50);
    step(random);
    if (!HasFatalFailure()) compare(number);
    ASSERT_FALSE(HasFatalFailure()) << "step " << number << ", quanta " << source_.quantum << " and " << upper_.quantum;
  }
  end();
}

/// Many segments: the sizes of the indexes at which a mistake in a trie or a tree shows.
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

}  // namespace alloc_arena_random_test
}  // namespace qm
