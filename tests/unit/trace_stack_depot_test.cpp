// The stack depot: equal and different stacks, colliding ids, and a full depot.

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <span>

#include <qm/test/seed.hpp>
#include <qm/trace/stack_depot.hpp>

namespace trace_stack_depot_test {

using namespace qm::trace;

/// Few ids, so that stacks collide often.
struct NarrowHash {
  static std::uint32_t id(std::span<const std::uint32_t> frames, bool truncated, std::uint32_t salt) {
    return ContentHash::id(frames, truncated, 0) % 4 + salt * 4 + kFirstId;
  }
};

template <class Hash, std::size_t kBytes>
struct Depot {
  using Stacks = BasicStackDepot<Hash>;
  static constexpr std::size_t kRegions = Stacks::regions_for(kBytes);
  alignas(8) std::byte memory[kRegions][Stacks::kRegionBytes];
  typename Stacks::Region directory[kRegions];
  Stacks depot;
  explicit Depot(std::size_t regions = kRegions) {
    depot.initialize(directory, kBytes);
    for (std::uint32_t region = 0; region != regions && region != depot.regions(); ++region)
      EXPECT_TRUE(depot.add_region(region, memory[region]));
  }
  bool add() {
    const std::uint32_t region = depot.next_region();
    if (region == depot.regions()) return false;
    return depot.add_region(region, memory[region]);
  }
  Stacks* operator->() { return &depot; }
};

TEST(StackDepot, the_same_stack_of_an_owner_has_one_handle) {
  static Depot<ContentHash, 4096> depot;
  const std::uint32_t frames[] = {0x100, 0x200, 0x300};
  const StackHandle first = depot->intern(1, frames, false);
  EXPECT_GE(first, kFirstHandle);
  EXPECT_EQ(depot->intern(1, frames, false), first);
  EXPECT_EQ(depot->stats().entries, 1U);
  const StackEntry* entry = depot->entry(first);
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->depth, 3U);
  EXPECT_EQ(entry->frames()[2], 0x300U);
  EXPECT_EQ(entry->owner, 1U);
  EXPECT_FALSE(entry->truncated());
}

TEST(StackDepot, has_a_small_region_and_then_large_ones) {
  using Stacks = StackDepot;
  EXPECT_EQ(Stacks::regions_for(256), 1U);
  EXPECT_EQ(Stacks::regions_for(512), 1U);
  EXPECT_EQ(Stacks::regions_for(513), 2U);
  EXPECT_EQ(Stacks::regions_for(512 + Stacks::kRegionBytes), 2U);
  EXPECT_EQ(Stacks::regions_for(512 + Stacks::kRegionBytes + 1), 3U);
}

TEST(StackDepot, has_no_regions_beyond_the_reach_of_a_handle) {
  constexpr std::size_t kMost = (std::size_t{1} << kStackHandleBits) / StackDepot::kRegionUnits;
  static StackDepot::Region directory[kMost + 1];
  static StackDepot depot;
  depot.initialize(directory, 512 + kMost * StackDepot::kRegionBytes);
  EXPECT_EQ(depot.regions(), kMost);
}

TEST(StackDepot, counts_the_stacks_that_it_could_not_store) {
  static Depot<ContentHash, 4096> depot;
  EXPECT_EQ(depot->stats().failures, 0U);
  depot->note_failure();
  depot->note_failure();
  EXPECT_EQ(depot->stats().failures, 2U);
}

TEST(StackDepot, a_number_from_elsewhere_has_an_entry_only_if_it_is_a_handle) {
  static Depot<ContentHash, 4096> depot;
  std::uint32_t frames[7];
  StackHandle handles[20];
  for (std::uint32_t i = 0; i < 20; ++i) {
    for (std::uint32_t& frame : frames) frame = kFirstHandle + i;  // frames look like handles
    handles[i] = depot->intern(1, std::span(frames, i % 7 + 1), false);
  }
  unsigned found = 0;
  for (std::uint32_t number = 0; number < 2 * StackDepot::kRegionUnits; ++number)
    found += depot->find_entry(number) != nullptr ? 1 : 0;
  EXPECT_EQ(found, 20U);
  for (const StackHandle handle : handles) EXPECT_EQ(depot->find_entry(handle), depot->entry(handle));
  EXPECT_EQ(depot->find_entry(0xffff'ffff), nullptr);
}

TEST(StackDepot, another_owner_has_another_handle_and_the_same_id) {
  static Depot<ContentHash, 4096> depot;
  const std::uint32_t frames[] = {0x100, 0x200};
  const StackHandle first = depot->intern(1, frames, false);
  const StackHandle second = depot->intern(2, frames, false);
  EXPECT_NE(first, second);
  EXPECT_EQ(depot->id(first), depot->id(second));
  EXPECT_EQ(depot->stats().collisions, 0U);
  EXPECT_EQ(depot->intern(1, frames, false), first);
  EXPECT_EQ(depot->intern(2, frames, false), second);
}

TEST(StackDepot, depth_frames_and_truncation_make_a_different_stack) {
  static Depot<ContentHash, 4096> depot;
  const std::uint32_t frames[] = {0x100, 0x200, 0x300};
  const std::uint32_t swapped[] = {0x200, 0x100, 0x300};
  const StackHandle handles[] = {
      depot->intern(1, frames, false),
      depot->intern(1, frames, true),
      depot->intern(1, {frames, 2}, false),
      depot->intern(1, swapped, false),
      depot->intern(1, {frames, std::size_t{0}}, false),
  };
  for (const StackHandle& one : handles) {
    for (const StackHandle& other : handles) {
      EXPECT_EQ(one == other, &one == &other);
      EXPECT_EQ(depot->id(one) == depot->id(other), &one == &other);
    }
  }
}

TEST(StackDepot, ids_depend_on_the_content_alone) {
  // The value is part of the contract: it is used to compare captures of two boots of one image.
  const std::uint32_t frames[] = {0x100, 0x200, 0x300};
  static Depot<ContentHash, 4096> one;
  static Depot<ContentHash, 4096> other;
  const std::uint32_t before[] = {0x900};
  other->intern(9, before, false);
  EXPECT_EQ(one->id(one->intern(1, frames, false)), other->id(other->intern(7, frames, false)));
  EXPECT_EQ(one->id(one->intern(1, frames, false)), ContentHash::id(frames, false, 0));
}

TEST(StackDepot, full_it_says_no_memory_and_still_finds_what_it_has) {
  static Depot<ContentHash, 512> depot;
  std::uint32_t frames[] = {0, 1, 2, 3, 4};
  StackHandle handles[32];
  unsigned stored = 0;
  for (; stored < 32; ++stored) {
    frames[0] = stored;
    handles[stored] = depot->intern(1, frames, false);
    if (handles[stored] == kStackNoMemory) break;
  }
  EXPECT_EQ(stored, (512 - 16) / StackEntry::bytes(5));
  EXPECT_EQ(depot->stats().used_bytes, stored * StackEntry::bytes(5));
  EXPECT_EQ(depot->intern(1, frames, false), kStackNoMemory);
  EXPECT_EQ(depot->id(kStackNoMemory), kStackNoMemory);
  EXPECT_EQ(depot->entry(kStackNoMemory), nullptr);
  for (unsigned i = 0; i < stored; ++i) {
    frames[0] = i;
    EXPECT_EQ(depot->intern(1, frames, false), handles[i]);
  }
}

TEST(StackDepot, takes_its_memory_a_region_at_a_time) {
  static constexpr std::size_t kBytes = StackDepot::kFirstBytes + 2 * StackDepot::kRegionBytes + 200;
  static Depot<ContentHash, kBytes> depot(1);
  static StackHandle handles[2000];
  unsigned stored = 0;
  std::uint32_t regions = 1;
  for (; stored < std::size(handles); ++stored) {
    const std::uint32_t frames[] = {stored, stored * 7, 3, 4};
    if (handles[stored] = depot->intern(1, frames, false); handles[stored] != kStackNoMemory) continue;
    if (!depot.add()) break;
    ++regions;
    handles[stored] = depot->intern(1, frames, false);
    ASSERT_NE(handles[stored], kStackNoMemory);
    EXPECT_EQ(handles[stored] / StackDepot::kRegionUnits, regions - 1);
    EXPECT_EQ(depot->find_entry(handles[stored]), depot->entry(handles[stored]));
    EXPECT_EQ(depot->find_entry(handles[stored] - 1), nullptr);
  }
  EXPECT_EQ(regions, 4U);
  EXPECT_EQ(depot->next_region(), depot->regions());
  EXPECT_EQ(depot->stats().capacity_bytes, kBytes);
  EXPECT_EQ(depot->stats().used_bytes, stored * StackEntry::bytes(4));
  EXPECT_GT(depot->stats().used_bytes, kBytes - 4 * StackEntry::bytes(4) - 16);
  for (unsigned i = 0; i < stored; ++i) {
    const std::uint32_t frames[] = {i, i * 7, 3, 4};
    EXPECT_EQ(depot->intern(1, frames, false), handles[i]);
  }
  unsigned seen = 0;
  for (StackDepot::Walk walk(depot.depot); walk.next() != kNoStack;) ++seen;
  EXPECT_EQ(seen, stored);
}

TEST(StackDepot, a_region_that_two_add_is_added_once) {
  static Depot<ContentHash, 4096> depot(0);
  const std::uint32_t frames[] = {1, 2};
  EXPECT_EQ(depot->intern(1, frames, false), kStackNoMemory);
  EXPECT_EQ(depot->next_region(), 0U);
  EXPECT_TRUE(depot->add_region(0, depot.memory[0]));
  EXPECT_FALSE(depot->add_region(0, depot.memory[1]));
  const StackHandle handle = depot->intern(1, frames, false);
  EXPECT_EQ(handle, kFirstHandle);
  EXPECT_EQ(static_cast<void*>(depot->entry(handle)), depot.memory[0] + std::size_t{8} * kFirstHandle);
}

TEST(StackDepot, colliding_stacks_are_kept_apart_marked_and_counted) {
  static Depot<NarrowHash, 65536> depot;
  constexpr unsigned kStacks = 40;
  StackHandle handles[kStacks];
  for (unsigned i = 0; i < kStacks; ++i) {
    const std::uint32_t frames[] = {i, i + 1};
    handles[i] = depot->intern(1, frames, false);
    const std::uint32_t natural = NarrowHash::id(frames, false, 0);
    const StackEntry& entry = *depot->entry(handles[i]);
    EXPECT_EQ((entry.flags & StackEntry::kCollided) != 0, entry.id != natural);
  }
  EXPECT_EQ(depot->stats().entries, kStacks);
  EXPECT_EQ(depot->stats().collisions, kStacks - 4);
  for (unsigned i = 0; i < kStacks; ++i) {
    const std::uint32_t frames[] = {i, i + 1};
    EXPECT_EQ(depot->intern(1, frames, false), handles[i]);
    for (unsigned other = 0; other < i; ++other) EXPECT_NE(depot->id(handles[i]), depot->id(handles[other]));
  }
  EXPECT_EQ(depot->stats().entries, kStacks);
}

TEST(StackDepot, a_collided_stack_has_the_same_id_for_every_owner) {
  static Depot<NarrowHash, 65536> depot;
  for (std::uint16_t owner = 1; owner <= 3; ++owner) {
    for (unsigned i = 0; i < 12; ++i) {
      const std::uint32_t frames[] = {i};
      const StackHandle handle = depot->intern(owner, frames, false);
      const StackHandle oldest = depot->intern(1, frames, false);
      EXPECT_EQ(depot->id(handle), depot->id(oldest));
      EXPECT_EQ(&depot->oldest(depot->id(handle)), depot->entry(oldest));
    }
  }
  EXPECT_EQ(depot->stats().entries, 36U);
}

TEST(StackDepot, a_key_finds_the_stack_that_is_equal_in_every_part) {
  static Depot<ContentHash, 4096> depot;
  const std::uint32_t frames[] = {0x100, 0x200, 0x300, 0x400, 0xffff'fff0};  // the last lies before the text's start
  for (std::size_t depth = 0; depth <= 5; ++depth) {
    const StackHandle stored = depot->intern(1, {frames, depth}, false);
    StackKey key{};
    std::uint64_t hash = ContentHash::begin(0);
    key.owner = 1;
    key.depth = static_cast<std::uint8_t>(depth);
    for (std::size_t i = 0; i < depth; ++i) {
      key.frames[i] = frames[i];
      hash = ContentHash::add_distance(hash, static_cast<std::int32_t>(frames[i]));
    }
    const std::uint32_t id = ContentHash::end(hash, depth, false);
    EXPECT_EQ(depot->find(id, key), stored);
    EXPECT_EQ(depot->find(id + 16, key), kNoStack);
    key.owner = 2;
    EXPECT_EQ(depot->find(id, key), kNoStack);
    key.owner = 1;
    key.flags = StackEntry::kTruncated;
    EXPECT_EQ(depot->find(id, key), kNoStack);
    key.flags = 0;
    for (std::size_t i = 0; i < depth; ++i) {
      ++key.frames[i];
      EXPECT_EQ(depot->find(id, key), kNoStack) << "frame " << i << " of " << depth;
      --key.frames[i];
    }
  }
}

TEST(StackDepot, sentinels_are_no_ids) {
  struct LowHash {
    static std::uint32_t id(std::span<const std::uint32_t>, bool, std::uint32_t salt) { return salt; }
  };
  static Depot<LowHash, 4096> depot;
  const std::uint32_t frames[] = {1};
  const StackHandle handle = depot->intern(1, frames, false);
  EXPECT_EQ(depot->id(handle), kFirstId);
  EXPECT_EQ(depot->stats().collisions, 0U);
  const std::uint32_t other[] = {2};
  EXPECT_EQ(depot->id(depot->intern(1, other, false)), kFirstId + 1);
}

TEST(StackDepot, a_walk_shows_every_entry_once) {
  static Depot<ContentHash, 65536> depot;
  qm::test::Random random;
  constexpr unsigned kStacks = 300;
  for (unsigned i = 0; i < kStacks; ++i) {
    const std::uint32_t frames[] = {i, static_cast<std::uint32_t>(random.next())};
    depot->intern(1, frames, false);
  }
  static bool seen[kStacks];
  unsigned count = 0;
  StackDepot::Walk walk(depot.depot);
  while (const StackHandle handle = walk.next()) {
    const std::uint32_t mark = depot->entry(handle)->frames()[0];
    ASSERT_LT(mark, kStacks);
    EXPECT_FALSE(seen[mark]);
    seen[mark] = true;
    ++count;
  }
  EXPECT_EQ(count, kStacks);
}

}  // namespace trace_stack_depot_test
