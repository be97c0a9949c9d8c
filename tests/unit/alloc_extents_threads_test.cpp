/// Extents while harts dissolve them: every hart creates and frees slabs of all three sizes, and one hart reclaims.

#include <support/system_fixture.hpp>

#include <array>

#include <qm/test/harts.hpp>
#include <qm/test/seed.hpp>

namespace alloc_extents_threads_test {

using namespace qm;

constexpr std::size_t kPage = 4096;

class ExtentsThreads : public test::SystemTest {};

TEST_F(ExtentsThreads, slabs_keep_their_places_while_extents_are_dissolved) {
  const unsigned harts = test::harts();
  restart(test::kPoolBytes, harts);
  std::array<Cache*, 3> caches{};
  constexpr std::array<const char*, 3> kNames = {"one", "two", "four"};
  for (std::size_t i = 0; i < caches.size(); ++i) {
    CacheConfig config;
    config.name = kNames[i];
    config.object_size = (kPage << i) / 2 - 40;
    config.flags = cache_flags::kNoMagazines;
    caches[i] = Cache::create(config);
    ASSERT_NE(caches[i], nullptr);
    ASSERT_EQ(caches[i]->slab_bytes(), kPage << i);
  }
  test::on_each_hart(harts, [&](unsigned hart) {
    if (hart != 0) attach_hart(hart);
    test::Random random(test::seed() + hart);
    struct Held {
      Cache* cache;
      unsigned char* object;
      unsigned char value;
    };
    std::array<Held, 160> mine{};
    const auto put_back = [&](Held& held) {
      if (held.object == nullptr) return;
      const std::size_t last = held.cache->object_size() - 1;
      ASSERT_EQ(held.object[0], held.value);
      ASSERT_EQ(held.object[last], held.value);
      held.cache->free(held.object);
      held.object = nullptr;
    };
    for (unsigned turn = 0; turn < 20000; ++turn) {
      Held& held = mine[random.below(mine.size())];
      put_back(held);
      if (random.below(4) != 0) {
        held.cache = caches[random.below(caches.size())];
        held.object = static_cast<unsigned char*>(held.cache->allocate(0, WaitPolicy::kQuiet));
        held.value = static_cast<unsigned char>(random.below(255) + 1);
        if (held.object != nullptr) {
          held.object[0] = held.value;
          held.object[held.cache->object_size() - 1] = held.value;
        }
      }
      if (turn % 64 == hart) caches[turn / 64 % caches.size()]->reap();
      if (turn % 97 == 0) base_arena().reap();
      if (turn % 500 == 7) {
        if (const std::uintptr_t block = base_arena().allocate(test::kPoolBytes / 4); block != 0) {
          ASSERT_EQ(base_arena().free(block, test::kPoolBytes / 4), Status::kOk);
        }
      }
    }
    for (Held& held : mine) put_back(held);
    if (hart != 0) detach_hart(hart);
  });
  EXPECT_TRUE(base_arena().validate());
  for (Cache* cache : caches) EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  reclaim();
  const ArenaStats stats = base_arena().stats();
  EXPECT_EQ(stats.in_extents, 0U);
  EXPECT_TRUE(base_arena().validate());
  EXPECT_GT(stats.free, test::kPoolBytes / 4 * 3);
}

}  // namespace alloc_extents_threads_test
