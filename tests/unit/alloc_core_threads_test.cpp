// The core form on several harts: its locks are all there is between them.

#include <support/system_fixture.hpp>

#include <array>
#include <atomic>
#include <cstring>

#include <qm/test/harts.hpp>
#include <qm/test/seed.hpp>

namespace {

using namespace qm;

class CoreThreads : public qm::test::SystemTest {
 protected:
  void SetUp() override { start(qm::test::kPoolBytes, qm::test::harts()); }
};

TEST_F(CoreThreads, blocks_and_objects_cross_between_harts_and_keep_their_contents) {
  struct Slot {
    std::atomic<unsigned char*> start{nullptr};
  };
  static std::array<Slot, 96> slots;
  Cache* cache = Cache::create({.name = "shared", .object_size = 72});
  ASSERT_NE(cache, nullptr);
  const std::uint64_t steps = qm::test::steps(60000);
  qm::test::on_each_hart(qm::test::harts(), [&](unsigned hart) {
    qm::test::Random random(qm::test::seed() * 100 + hart);
    for (std::uint64_t step = 0; step < steps; ++step) {
      // The first third of the slots has objects of the cache. A block says how long it is and what it is filled with.
      const auto number = static_cast<std::size_t>(random.below(slots.size()));
      const bool is_object = number < slots.size() / 3;
      const std::size_t size = is_object ? 72 : 3 + random.below(random.chance(90) ? 250 : 20000);
      auto* fresh = static_cast<unsigned char*>(is_object ? cache->allocate() : heap::allocate(size));
      if (fresh != nullptr) {
        std::memset(fresh, static_cast<int>(step & 0xff), size);
        fresh[0] = static_cast<unsigned char>(size & 0xff);
        fresh[1] = static_cast<unsigned char>(size >> 8);
      }
      unsigned char* old = slots[number].start.exchange(fresh, std::memory_order_acq_rel);
      if (old == nullptr) continue;
      const std::size_t length = old[0] + old[1] * std::size_t{256};
      for (std::size_t i = 3; i < length; i += length / 8 + 1) EXPECT_EQ(old[i], old[2]);
      is_object ? cache->free(old) : heap::free(old);
    }
  });
  for (std::size_t i = 0; i < slots.size(); ++i) {
    unsigned char* left = slots[i].start.exchange(nullptr);
    if (left != nullptr) i < slots.size() / 3 ? cache->free(left) : heap::free(left);
  }
  EXPECT_EQ(cache->stats().in_use, 0U);
  EXPECT_EQ(cache->stats().misuses + heap::misuses(), 0U);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  reclaim();
  EXPECT_LE(base_arena().stats().segments_allocated, 2U);  // the structures of the heap's caches
  EXPECT_EQ(base_arena().stats().bad_frees, 0U);
}

TEST_F(CoreThreads, harts_at_the_end_of_memory_fail_and_lose_none_of_it) {
  restart(48 * 4096, qm::test::harts());
  const std::uint64_t steps = qm::test::steps(4000);
  qm::test::on_each_hart(qm::test::harts(), [&](unsigned hart) {
    qm::test::Random random(qm::test::seed() * 100 + hart);
    std::array<void*, 24> blocks{};
    for (std::uint64_t step = 0; step < steps; ++step) {
      void*& block = blocks[random.below(blocks.size())];
      heap::free(block);
      block = heap::allocate(random.chance(50) ? random.below(400) : random.below(12000));
      if (random.chance(2)) static_cast<void>(reclaim());
    }
    for (void* block : blocks) heap::free(block);
  });
  reclaim();
  EXPECT_LE(base_arena().stats().segments_allocated, 2U);  // the structures of the heap's caches
  EXPECT_EQ(heap::misuses(), 0U);
}

TEST_F(CoreThreads, caches_come_and_go_on_all_harts) {
  const std::size_t before = free_bytes();
  const std::uint64_t steps = qm::test::steps(2000);
  qm::test::on_each_hart(qm::test::harts(), [&](unsigned hart) {
    qm::test::Random random(qm::test::seed() * 100 + hart);
    for (std::uint64_t step = 0; step < steps; ++step) {
      Cache* cache = Cache::create({.name = "brief", .object_size = 1 + static_cast<std::size_t>(random.below(3000))});
      if (cache == nullptr) continue;
      void* object = cache->allocate();
      if (random.chance(10)) static_cast<void>(reclaim());
      if (object != nullptr) {
        EXPECT_EQ(Cache::destroy(cache), Status::kBusy);
        cache->free(object);
      }
      EXPECT_EQ(Cache::destroy(cache), Status::kOk);
    }
  });
  EXPECT_GE(free_bytes() + 8192, before);
}

}  // namespace
