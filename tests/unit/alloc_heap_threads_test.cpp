// The heap on several harts at once.

#include <support/system_fixture.hpp>

#include <array>
#include <atomic>
#include <cstring>

#include <qm/detail/page_map.hpp>
#include <qm/test/harts.hpp>
#include <qm/test/seed.hpp>

namespace alloc_heap_threads_test {

using namespace qm;

class HeapThreads : public qm::test::SystemTest {
 protected:
  void SetUp() override { start(qm::test::kPoolBytes, qm::test::harts()); }
};

TEST_F(HeapThreads, the_first_blocks_of_a_class_may_be_asked_for_at_the_same_moment) {
  const unsigned harts = qm::test::harts();
  static std::array<std::array<void*, 8>, 40> blocks;
  for (unsigned round = 0; round < 20; ++round) {
    restart(qm::test::kPoolBytes, harts);
    qm::test::Barrier barrier(harts);
    qm::test::on_each_hart(harts, [&](unsigned hart) {
      if (hart != 0) attach_hart(hart);
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        if (i % 8 == 0) barrier.arrive();
        blocks[i][hart] = heap::allocate(i * 13 + 1);
        EXPECT_NE(blocks[i][hart], nullptr);
        if (blocks[i][hart] != nullptr) std::memset(blocks[i][hart], static_cast<int>(hart), i * 13 + 1);
      }
      barrier.arrive();
      const unsigned next = (hart + 1) % harts;
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        const auto* bytes = static_cast<unsigned char*>(blocks[i][next]);
        EXPECT_EQ(bytes[0], next);
        EXPECT_EQ(bytes[i * 13], next);
        heap::free_sized(blocks[i][next], i * 13 + 1);
      }
      barrier.arrive();
      if (hart != 0) detach_hart(hart);
    });
    ASSERT_EQ(heap::misuses(), 0U);
    reclaim();
    ASSERT_EQ(page_arena().stats().allocated, 0U);
  }
}

TEST_F(HeapThreads, blocks_of_all_sizes_cross_between_harts_and_keep_their_contents) {
  constexpr std::size_t kSlots = 64;
  struct Block {
    std::atomic<unsigned char*> start{nullptr};
  };
  static std::array<Block, kSlots> slots;
  const unsigned harts = qm::test::harts();
  // A block contains its length and its fill byte. The hart that swaps it out of its slot owns it.
  const auto make = [](qm::test::Random& random) {
    const auto size =
        static_cast<std::uint32_t>(random.chance(20) ? random.between(600, 6000) : random.between(8, 500));
    auto* block = static_cast<unsigned char*>(heap::allocate(size));
    if (block == nullptr) return block;
    const auto fill = static_cast<unsigned char>(random.next());
    std::memset(block, fill, size);
    std::memcpy(block, &size, sizeof size);
    block[4] = fill;
    return block;
  };
  const auto end = [](unsigned char* block, qm::test::Random& random) {
    if (block == nullptr) return;
    std::uint32_t size = 0;
    std::memcpy(&size, block, sizeof size);
    const unsigned char fill = block[4];
    if (random.chance(10)) block = static_cast<unsigned char*>(heap::reallocate(block, size = size / 2 + 4));
    for (std::size_t i = 5; i < size; ++i) {
      EXPECT_EQ(block[i], fill);
    }
    heap::free_sized(block, size);
  };
  qm::test::on_each_hart(harts, [&](unsigned hart) {
    if (hart != 0) attach_hart(hart);
    qm::test::Random random(qm::test::seed() * 8 + hart);
    for (unsigned step = 0; step < 5000; ++step) {
      end(slots[random.below(kSlots)].start.exchange(make(random), std::memory_order_acq_rel), random);
    }
    if (hart != 0) detach_hart(hart);
  });
  qm::test::Random random;
  for (Block& slot : slots) end(slot.start.exchange(nullptr), random);
  EXPECT_EQ(heap::misuses(), 0U);
  EXPECT_TRUE(base_arena().validate());
  reclaim();
  EXPECT_EQ(page_arena().stats().allocated, 0U);
}

/// Another hart frees what it has allocated from new memory while that memory is still being added.
TEST_F(HeapThreads, no_request_fails_because_another_hart_takes_what_was_had_for_it) {
  constexpr std::size_t kBlock = 100'000;
  struct Link {
    Link* next;
  };
  static std::array<Link*, qm::hal::Port::kMaxHarts> held;
  static std::atomic<unsigned> taken;
  static std::atomic<unsigned> taken_at_first_failure;
  const auto take = [](unsigned hart) {
    while (void* place = heap::allocate(kBlock)) {
      held[hart] = new (place) Link{held[hart]};
      taken.fetch_add(1);
    }
    unsigned none = 0;
    taken_at_first_failure.compare_exchange_strong(none, taken.load());
  };
  const auto give = [](unsigned hart) {
    while (Link* link = held[hart]) {
      held[hart] = link->next;
      heap::free(link);
    }
  };
  const unsigned harts = qm::test::harts();
  take(0);
  const unsigned alone = taken.load();
  give(0);
  for (unsigned round = 0; round < 100; ++round) {
    taken = taken_at_first_failure = 0;
    qm::test::Barrier barrier(harts);
    qm::test::on_each_hart(harts, [&](unsigned hart) {
      if (hart != 0) attach_hart(hart);
      barrier.arrive();
      take(hart);
      barrier.arrive();
      give(hart);
      barrier.arrive();
      if (hart != 0) detach_hart(hart);
    });
    // Each hart may have an uncounted block, and leave a gap between its spans that is too small for a block.
    ASSERT_GE(taken_at_first_failure.load() + 2 * harts, alone) << "round " << round;
  }
}

TEST_F(HeapThreads, memory_may_be_added_while_other_harts_wait_for_it) {
  constexpr std::size_t kFirst = std::size_t{256} * 1024;
  constexpr std::size_t kMore = std::size_t{64} * 1024;
  const unsigned harts = qm::test::harts();
  restart(kFirst, harts);
  CacheConfig config;
  config.name = "packet";
  config.object_size = 500;
  Cache* const cache = Cache::create(config);
  ASSERT_NE(cache, nullptr);
  std::atomic<bool> complete{false};
  qm::test::on_each_hart(harts, [&](unsigned hart) {
    if (hart == 0) {
      for (std::size_t region = 1; region != PageMap::kMaxRegions; ++region) {
        const std::size_t offset =
            region * 2 * kMore + kFirst;  // with gaps, so that each is a memory region of its own
        EXPECT_EQ(add_memory({reinterpret_cast<std::uintptr_t>(qm::test::pool()) + offset, kMore}), Status::kOk);
      }
      complete.store(true, std::memory_order_release);
      return;
    }
    attach_hart(hart);
    for (bool last = false; !last;) {
      last = complete.load(std::memory_order_acquire);
      void* all = nullptr;  // a list through the objects' first words
      while (void* object = cache->allocate(0, WaitPolicy::kQuiet)) {
        *static_cast<void**>(object) = all;
        all = object;
      }
      while (all != nullptr) {
        void* object = all;
        all = *static_cast<void**>(object);
        cache->free(object);
      }
    }
    detach_hart(hart);
  });
  EXPECT_EQ(cache->stats().misuses, 0U);
  EXPECT_EQ(cache->stats().in_use, 0U);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

}  // namespace alloc_heap_threads_test
