// All harts store the same stacks at once: each stack ends up with one handle, also where ids collide.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

#include <qm/test/harts.hpp>
#include <qm/test/seed.hpp>
#include <qm/trace/stack_depot.hpp>

namespace {

using namespace qm::trace;

struct NarrowHash {
  static std::uint32_t id(std::span<const std::uint32_t> frames, bool truncated, std::uint32_t salt) {
    return ContentHash::id(frames, truncated, 0) % 64 + salt * 64 + kFirstId;
  }
};

constexpr unsigned kStacks = 500;
constexpr unsigned kBuckets = 64;
alignas(8) std::byte pool[65536];
std::uint32_t buckets[kBuckets];
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
    depot.initialize(pool, buckets);
    const unsigned count = qm::test::harts();
    qm::test::Barrier begin(count);
    qm::test::on_each_hart(count, [&](unsigned hart) {
      begin.arrive();
      for (std::uint32_t i = 0; i < kStacks; ++i) {
        const std::uint32_t frames[] = {i, run, i * 16, 7};
        handles[hart][i] = depot.intern(1, frames, false);
        // Where ids collide a stack's id need not be that of its content.
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

}  // namespace
