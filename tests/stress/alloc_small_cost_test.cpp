/// The exact number of instructions of operations in a build without magazines: see cost.hpp.

#include <support/system_fixture.hpp>

#include <array>
#include <string_view>

#include "cost.hpp"

namespace {

using namespace qm;

using qm::test::Cost;

/// Prints a cost, and expects limits on its mean and its worst case on RV32. RV64 has tries of twice the depth.
void print(std::string_view name, const Cost& cost, unsigned long mean, unsigned long worst) {
  cost.print(name);
  if (!qm::test::counter_is_exact() || sizeof(void*) != 4) return;
  EXPECT_LE(cost.mean(), mean) << name;
  EXPECT_LE(cost.worst(), worst) << name;
}

class SmallCost : public qm::test::SystemTest {};

TEST_F(SmallCost, a_hot_pair_and_a_new_slab) {
  Cache* cache = Cache::create({.name = "hot", .object_size = 64});
  Cost nothing, first, allocations, frees;
  nothing.measure([] { return 0; });
  void* kept = first.measure([&] { return cache->allocate(); });
  for (unsigned i = 0; i < 1000; ++i) {
    void* object = allocations.measure([&] { return cache->allocate(); });
    frees.measure([&] { return cache->free(object), 0; });
  }
  print("the measurement itself", nothing, 20, 20);
  print("the first object of a cache", first, 1016, 1016);
  print("hot allocation of 64 bytes", allocations, 80, 82);
  print("hot free", frees, 87, 87);
  cache->free(kept);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(SmallCost, random_replacement_in_the_heap) {
  static std::array<void*, 1000> blocks;
  Cost allocations, frees;
  std::uint32_t random = 1;
  const auto draw = [&random](std::uint32_t below) { return (random = random * 1664525 + 1013904223) / 65536 % below; };
  blocks = {};
  for (unsigned i = 0; i < 20000; ++i) {
    void*& block = blocks[draw(blocks.size())];
    if (block != nullptr) frees.measure([&] { return heap::free(block), 0; });
    const std::size_t size = 16 + draw(1008);
    block = allocations.measure([&] { return heap::allocate(size); });
    ASSERT_NE(block, nullptr);
  }
  print("malloc of 16 to 1023 bytes, 1000 live", allocations, 735, 2450);
  print("free", frees, 490, 1250);
  for (void* block : blocks) heap::free(block);
  EXPECT_EQ(heap::misuses(), 0U);
}

TEST_F(SmallCost, large_blocks_among_isolated_holes) {
  static std::array<void*, 600> blocks;
  Cost allocations, frees;
  for (void*& block : blocks) ASSERT_NE(block = heap::allocate(1500), nullptr);
  for (unsigned i = 0; i < blocks.size(); i += 2) heap::free(blocks[i]);
  for (unsigned i = 0; i < 1000; ++i) {
    void* block = allocations.measure([&] { return heap::allocate(1600 + i % 7 * 300); });
    ASSERT_NE(block, nullptr);
    frees.measure([&] { return heap::free(block), 0; });
  }
  print("large block, 300 holes too small", allocations, 950, 4300);
  print("free", frees, 580, 615);
  for (unsigned i = 1; i < blocks.size(); i += 2) heap::free(blocks[i]);
}

}  // namespace
