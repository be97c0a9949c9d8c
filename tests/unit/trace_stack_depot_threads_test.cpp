// All harts store the same stacks at once: each stack gets exactly one handle, even if ids collide.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

#include <qm/test/harts.hpp>
#include <qm/test/seed.hpp>
#include <qm/trace/stack_depot.hpp>

namespace trace_stack_depot_threads_test {

using namespace qm::trace;

struct NarrowHash {
  static std::uint32_t id(std::span<const std::uint32_t> frames, bool truncated, std::uint32_t salt) {
    return ContentHash::id(frames, truncated, 0) % 64 + salt * 64 + kFirstId;
  }
};

constexpr unsigned kStacks = 500;
constexpr std::size_t kBytes = 65536;
constexpr std::size_t kRegions = StackDepot::regions_for(kBytes);
alignas(8) std::byte memory[8][kRegions][StackDepot::kRegionBytes];
StackDepot::Region directory[kRegions];
std::uint32_t handles[8][kStacks];

StackKey key_of(std::uint16_t owner, std::span<const std::uint32_t> frames) {
  StackKey key{};
  key.owner = owner;
  key.depth = static_cast<std::uint8_t>(frames.size());
  std::copy(frames.begin(), frames.end(), key.frames);
  return key;
}

template <class Hash>
void stores_each_stack_once() {
  static BasicStackDepot<Hash> depot;
  for (unsigned run = 0; run < 20; ++run) {
    depot.initialize(directory, kBytes);
    const unsigned count = qm::test::harts();
    qm::test::Barrier begin(count);
    qm::test::on_each_hart(count, [&](unsigned hart) {
      begin.arrive();
      for (std::uint32_t i = 0; i < kStacks; ++i) {
        const std::uint32_t frames[] = {i, run, i * 16, 7};
        while ((handles[hart][i] = depot.intern(1, frames, false)) == kStackNoMemory) {
          const std::uint32_t region = depot.next_region();
          ASSERT_LT(region, kRegions);
          if (!depot.has_region(region)) depot.add_region(region, memory[hart][region]);
        }
        // If ids collide, a stack's id may differ from the id of its content.
        const StackHandle found = depot.find(Hash::id(frames, false, 0), key_of(1, frames));
        EXPECT_TRUE(found == handles[hart][i] || (found == kNoStack && std::is_same_v<Hash, NarrowHash>));
      }
    });
    EXPECT_EQ(depot.stats().entries, kStacks);
    for (std::uint32_t i = 0; i < kStacks; ++i) {
      for (unsigned hart = 1; hart < count; ++hart) ASSERT_EQ(handles[hart][i], handles[0][i]);
      EXPECT_EQ(depot.entry(handles[0][i])->frames()[2], i * 16);
    }
  }
}

TEST(StackDepotThreads, harts_that_store_the_same_stack_get_one_handle) { stores_each_stack_once<ContentHash>(); }
TEST(StackDepotThreads, also_where_ids_collide) { stores_each_stack_once<NarrowHash>(); }

}  // namespace trace_stack_depot_threads_test
