/// Caches used by all harts at once: objects change hands, idle memory is reclaimed, caches are created and destroyed.

#include <support/system_fixture.hpp>

#include <algorithm>
#include <array>
#include <atomic>

#include <qm/test/harts.hpp>
#include <qm/test/seed.hpp>

namespace alloc_cache_threads_test {

using namespace qm;

struct Object {
  std::atomic<std::uint32_t> holder;  // 0: none; else hart + 1
  std::uint32_t stamp;
};

class CacheThreads : public qm::test::SystemTest {
 protected:
  void SetUp() override { start(qm::test::kPoolBytes, test::harts()); }

  static Cache* make(const char* name, std::uint32_t rounds = 0) {
    CacheConfig config;
    config.name = name;
    config.object_size = 80;
    config.magazine_rounds = rounds;
    config.constructor = [](void* object, void*) noexcept {
      static_cast<Object*>(object)->holder.store(0, std::memory_order_relaxed);
      return true;
    };
    return Cache::create(config);
  }
};

/// Runs on each hart, which is attached to the allocator for that time.
template <class Callable>
void on_each_attached_hart(unsigned count, Callable&& callable) {
  test::on_each_hart(count, [&](unsigned hart) {
    attach_hart(hart);
    callable(hart);
    if (hart != 0) detach_hart(hart);
  });
}

/// Pages of boundary tags stay with the pool.
std::size_t tag_bytes() { return boundary_tags_stats().pages * 4096; }

std::atomic<std::uint32_t> violations;

Object* take(Cache& cache, unsigned hart) {
  auto* object = static_cast<Object*>(cache.allocate());
  if (object == nullptr) return nullptr;
  if (object->holder.exchange(hart + 1, std::memory_order_relaxed) != 0) violations.fetch_add(1);
  return object;
}

void give(Cache& cache, Object* object) {
  if (object->holder.exchange(0, std::memory_order_relaxed) == 0) violations.fetch_add(1);
  cache.free(object);
}

TEST_F(CacheThreads, no_object_is_held_twice_and_none_is_lost_while_they_change_hands) {
  violations = 0;
  Cache* cache = make("shared");
  ASSERT_NE(cache, nullptr);
  const unsigned harts = test::harts();
  static std::array<std::atomic<Object*>, 16> table;
  for (auto& slot : table) slot.store(nullptr);
  on_each_attached_hart(harts, [&](unsigned hart) {
    test::Random random(test::seed() + hart);
    std::array<Object*, 24> own{};
    for (unsigned step = 0; step < 20000; ++step) {
      Object*& mine = own[random.below(own.size())];
      if (mine == nullptr) {
        mine = take(*cache, hart);
      } else if (random.chance(30)) {
        // release/acquire: the object changes hands.
        mine = table[random.below(table.size())].exchange(mine, std::memory_order_acq_rel);
      } else {
        give(*cache, mine);
        mine = nullptr;
      }
      if (hart == 0 && step % 2000 == 0) cache->reap();
    }
    for (Object* object : own) {
      if (object != nullptr) give(*cache, object);
    }
  });
  for (auto& slot : table) {
    if (Object* object = slot.exchange(nullptr); object != nullptr) give(*cache, object);
  }
  EXPECT_EQ(violations.load(), 0U);
  EXPECT_EQ(cache->stats().in_use, 0U);
  EXPECT_EQ(cache->stats().misuses, 0U);
  EXPECT_TRUE(cache->validate());
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(CacheThreads, one_hart_allocates_and_another_frees_in_bounded_memory) {
  if (test::harts() < 2) return;
  Cache* cache = make("oneway");
  ASSERT_NE(cache, nullptr);
  static std::array<std::atomic<Object*>, 32> ring;
  for (auto& slot : ring) slot.store(nullptr);
  constexpr unsigned kObjects = 20000;
  std::atomic<std::size_t> most{0};
  on_each_attached_hart(2, [&](unsigned hart) {
    for (unsigned i = 0; i < kObjects; ++i) {
      auto& slot = ring[i % ring.size()];
      if (hart == 0) {
        auto* object = static_cast<Object*>(cache->allocate());
        while (slot.load(std::memory_order_acquire) != nullptr) hal::Port::relax();
        slot.store(object, std::memory_order_release);
        if (i % 1000 == 0) most = std::max(most.load(), cache->stats().objects);
      } else {
        Object* object = nullptr;
        while ((object = slot.exchange(nullptr, std::memory_order_acquire)) == nullptr) hal::Port::relax();
        cache->free(object);
      }
    }
  });
  EXPECT_LE(most.load(), 600U);
  EXPECT_EQ(cache->stats().in_use, 0U);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(CacheThreads, all_memory_idle_in_other_harts_magazines_is_had_before_an_allocation_fails) {
  restart(192 * 1024, test::harts());
  Cache* cache = make("hoarded", 61);
  ASSERT_NE(cache, nullptr);
  const unsigned harts = test::harts();
  static std::array<std::array<void*, 400>, hal::Port::kMaxHarts> held;
  // Each hart in turn allocates a share and frees it: its magazines keep as many objects as fit, and it stays attached.
  test::Barrier barrier(harts);
  std::atomic<unsigned> turn{0};
  std::size_t most = 0;
  static std::array<void*, 4000> all;
  on_each_attached_hart(harts, [&](unsigned hart) {
    while (turn.load() != hart) hal::Port::relax();
    for (void*& object : held[hart]) object = cache->allocate();
    turn.fetch_add(1);
    barrier.arrive();
    for (void* object : held[hart]) {
      if (object != nullptr) cache->free(object);
    }
    barrier.arrive();
    if (hart == 0) {
      while (most < all.size() && (all[most] = cache->allocate()) != nullptr) ++most;
    }
    barrier.arrive();
  });
  const CacheStats stats = cache->stats();
  EXPECT_EQ(stats.in_use, most);
  EXPECT_EQ(stats.in_magazines + stats.in_depot + stats.in_slabs, 0U);
  for (std::size_t i = 0; i < most; ++i) cache->free(all[i]);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(CacheThreads, destroy_succeeds_while_other_harts_reclaim) {
  const unsigned harts = test::harts();
  std::atomic<unsigned> refused{0};
  std::atomic<bool> done{false};
  on_each_attached_hart(harts, [&](unsigned hart) {
    for (unsigned round = 0; hart == 0 && round < 50; ++round) {
      Cache* cache = make("contested");
      if (cache == nullptr) continue;  // the previous one's destroy was refused, so it still has the name
      cache->free(cache->allocate());
      if (Cache::destroy(cache) != Status::kOk) refused.fetch_add(1);
    }
    if (hart == 0) done = true;
    while (!done) reclaim();
  });
  EXPECT_EQ(refused.load(), 0U);
}

TEST_F(CacheThreads, create_use_on_all_harts_and_destroy_leaves_no_byte_behind) {
  std::size_t before = 0;
  const std::uint64_t rounds = std::max<std::uint64_t>(60, test::steps(1000));
  const unsigned harts = test::harts();
  std::atomic<Cache*> current{nullptr};
  test::Barrier barrier(harts);
  on_each_attached_hart(harts, [&](unsigned hart) {
    for (std::uint64_t round = 0; round < rounds; ++round) {
      if (hart == 0) {
        if (round == 20) before = free_bytes() + tag_bytes();
        current = make("shortlived");
      }
      barrier.arrive();
      Cache* cache = current;
      std::array<void*, 30> objects;
      for (void*& object : objects) object = cache->allocate();
      for (void* object : objects) cache->free(object);
      barrier.arrive();
      if (hart == 0) {
        const Status status = Cache::destroy(cache);
        const CacheStats stats = status == Status::kOk ? CacheStats{} : cache->stats();
        EXPECT_EQ(status, Status::kOk) << "in use " << stats.in_use << ", in magazines " << stats.in_magazines
                                       << ", in depot " << stats.in_depot << ", in slabs " << stats.in_slabs << " of "
                                       << stats.objects;
      }
    }
    barrier.arrive();
  });
  EXPECT_EQ(free_bytes() + tag_bytes(), before);
}

}  // namespace alloc_cache_threads_test
