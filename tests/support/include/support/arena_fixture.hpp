#pragma once
/// Arenas for tests, without the rest of the allocator: a pool of boundary tags in static storage, and one arena that
/// the test makes.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include <qm/arena.hpp>
#include <qm/detail/boundary_tag.hpp>

namespace qm::test {

class ArenaTest : public testing::Test {
 protected:
  static constexpr std::size_t kTags = 2048;

  void SetUp() override {
    registry_reset();
    boundary_tags_initialize(tags().data(), tags().size_bytes());
  }
  void TearDown() override {
    if (arena_.quantum() != 1 || arena_.stats().spans != 0) {
      EXPECT_TRUE(arena_.validate());
      if (arena_.name()[0] != 0) {
        EXPECT_EQ(arena_.destroy(), Status::kOk);
      }
    }
    EXPECT_EQ(tags_in_pool(), boundary_tags_stats().total);
  }

  /// Initializes the test's arena.
  void make(std::size_t quantum, std::uintptr_t start = 0, std::size_t size = 0) {
    ASSERT_EQ(arena_.initialize({.name = "test", .start = start, .size = size, .quantum = quantum}), Status::kOk);
  }
  /// @returns all boundary tags, used or not.
  [[nodiscard]] static std::span<BoundaryTag> tags() {
    alignas(BoundaryTag) static std::byte storage[kTags * sizeof(BoundaryTag)];
    return {static_cast<BoundaryTag*>(static_cast<void*>(storage)), kTags};
  }
  [[nodiscard]] static std::size_t tags_in_pool() { return boundary_tags_stats().free; }

  Arena arena_;
};

}  // namespace qm::test
