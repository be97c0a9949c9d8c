#pragma once
/// A cache to allocate from and free to, and a function that uses up the memory behind it.

#include <support/system_fixture.hpp>

#include <array>

#include <qm/detail/boundary_tag.hpp>

namespace qm::test {

class DepotTest : public SystemTest {
 protected:
  static Cache* make(std::size_t size, std::size_t limit = 0, LimitCallback callback = nullptr) {
    CacheConfig config;
    config.name = "depots";
    config.object_size = size;
    config.limit = limit;
    config.limit_callback = callback;
    return Cache::create(config);
  }
  /// Allocates @p count objects, one by one. @returns the number of successful allocations.
  static std::size_t take(Cache& cache, std::size_t count, WaitPolicy wait_policy = WaitPolicy::kAuto) {
    std::size_t had = 0;
    while (had < count && (objects[had] = cache.allocate_at(nullptr, 0, wait_policy)) != nullptr) ++had;
    return had;
  }
  static void give(Cache& cache, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) cache.free(objects[i]);
  }
  /// Uses up all memory with another cache. @returns that cache; its objects are in `hoard`.
  static Cache* hoard_memory() {
    CacheConfig config;
    config.name = "hoard";
    config.object_size = 2048;
    Cache* cache = Cache::create(config);
    hoarded = 0;
    while (cache != nullptr && hoarded < hoard.size() && (hoard[hoarded] = cache->allocate()) != nullptr) ++hoarded;
    return cache;
  }
  static void give_hoard(Cache* cache) {
    for (std::size_t i = 0; i < hoarded; ++i) cache->free(hoard[i]);
    EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  }

  /// Pages of boundary tags stay with the pool.
  static std::size_t tag_bytes() { return boundary_tags_stats().pages * 4096; }

  static inline std::array<void*, 8192> objects;
  static inline std::array<void*, 4096> hoard;
  static inline std::size_t hoarded = 0;
};

}  // namespace qm::test
