#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <qm/bench/program.hpp>
#include <qm/bench/smallest_pool.hpp>

namespace bench_ram_test {

using namespace qm;
using bench::Script;
using replay::Kind;
using replay::Operation;

/// An unpacked recording, and the scripts made from it.
class Whole {
 public:
  explicit Whole(std::string_view name) {
    replay::Header header;
    const replay::Recording& recording = *replay::find_recording(name);
    EXPECT_TRUE(replay::read_header(recording.file, header));
    unpacked_.resize(replay::unpack_bytes(header) / sizeof(std::uint64_t) + 1);
    script = {replay::unpack(recording.file, unpacked_.data()), header.slots, header.peak_bytes};
    scaled_.resize(bench::scale_bytes(script) / sizeof(std::uint64_t) + 1);
  }
  Script scaled(std::uint32_t bytes) { return bench::scale(script, bytes, scaled_.data()); }

  Script script;

 private:
  std::vector<std::uint64_t> unpacked_, scaled_;
};

/// The live blocks of a program, computed only from its operations.
struct Live {
  std::map<std::uint32_t, std::uint32_t> sizes;  ///< by slot
  std::map<std::uint32_t, std::uint32_t> turns;
  std::uint32_t bytes = 0, peak = 0, largest = 0;
  bool whole = true;  ///< each operation is on a live block, and each turn follows the one before

  void perform(const Operation& operation) {
    const auto kind = static_cast<Kind>(operation.kind);
    const bool lives = sizes.contains(operation.slot);
    whole = whole && lives == (kind != Kind::kAllocate) && turns[operation.slot]++ == operation.turn;
    bytes -= lives ? sizes[operation.slot] : 0;
    if (kind == Kind::kFree) {
      sizes.erase(operation.slot);
      return;
    }
    sizes[operation.slot] = operation.size;
    bytes += operation.size;
    peak = std::max(peak, bytes);
    largest = std::max(largest, operation.size);
  }
};

TEST(BenchRam, A_scaled_program_has_whole_lives_of_blocks_that_fit) {
  for (const char* name : {"sqlite", "jq", "redis-threads"}) {
    Whole whole(name);
    for (const std::uint32_t bytes : {32U << 10, 64U << 10, 128U << 10}) {
      const Script small = whole.scaled(bytes);
      Live live;
      for (const Operation& operation : small.operations) {
        ASSERT_LT(operation.slot, small.slots);
        live.perform(operation);
      }
      EXPECT_TRUE(live.whole);
      EXPECT_EQ(live.peak, small.peak_bytes);
      EXPECT_LE(live.peak, bytes);
      EXPECT_GT(live.peak, bytes - bytes / 8) << name << ", " << bytes;
      EXPECT_LE(live.largest, bytes / 8);
    }
  }
}

TEST(BenchRam, Scaling_twice_gives_the_same) {
  Whole whole("jq");
  const Script first = whole.scaled(32U << 10);
  const std::vector<Operation> kept(first.operations.begin(), first.operations.end());
  const Script again = whole.scaled(32U << 10);
  ASSERT_EQ(again.operations.size(), kept.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(again.operations[i].slot, kept[i].slot);
    EXPECT_EQ(again.operations[i].size, kept[i].size);
  }
}

TEST(BenchRam, The_search_finds_the_smallest_pool_to_a_step) {
  for (const std::size_t live : {1U, 511U, 512U, 30'000U, 1'000'000U}) {
    for (const std::size_t needed : {live, live + 1, live + 5'000, 3 * live, 40 * live}) {
      const std::size_t found = bench::smallest_pool(live, [&](std::size_t pool) { return pool >= needed; });
      EXPECT_GE(found, needed);
      EXPECT_LT(found - needed, bench::kPoolStep) << live << ", " << needed;
    }
  }
  EXPECT_EQ(bench::smallest_pool(1000, [](std::size_t) { return false; }), 0U);
}

}  // namespace bench_ram_test
