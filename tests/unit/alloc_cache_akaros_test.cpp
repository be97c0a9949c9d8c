/// Defects and limits of Akaros's slab layer (the tests' names are in docs): each case fails if this allocator has it.

#include <support/system_fixture.hpp>

#include <array>

#include <qm/detail/boundary_tag.hpp>

namespace alloc_cache_akaros_test {

using namespace qm;

class AkarosCache : public qm::test::SystemTest {
 protected:
  static Cache* make(const char* name, std::size_t size, Arena* source = nullptr) {
    CacheConfig config;
    config.name = name;
    config.object_size = size;
    config.source = source;
    return Cache::create(config);
  }
  static CacheStats stats_of(const char* name) {
    RegistryCursor<Cache> caches;
    return caches.find(name)->stats();
  }
  static std::size_t free_and_tags() { return free_bytes() + boundary_tags_stats().pages * 4096; }

  static inline std::array<void*, 2000> objects;
};

/// B7: a refused destroy freed the cache's structure all the same: importers were left dangling, and the structure was
/// reused while objects were live.
TEST_F(AkarosCache, B7_a_refused_destroy_frees_nothing) {
  Arena arena;
  ArenaConfig config;
  config.name = "importer";
  config.source = &page_arena();
  ASSERT_EQ(arena.initialize(config), Status::kOk);
  Cache* cache = make("kept", 100, &arena);
  ASSERT_NE(cache, nullptr);
  void* object = cache->allocate();
  const std::size_t caches = stats_of("kmem_cache").in_use;
  ASSERT_EQ(Cache::destroy(cache), Status::kBusy);
  EXPECT_EQ(stats_of("kmem_cache").in_use, caches);
  Cache* next = make("next", 100);
  EXPECT_NE(next, cache);
  EXPECT_EQ(make("kept", 100), nullptr);      // it still has its name,
  EXPECT_EQ(arena.destroy(), Status::kBusy);  // its source
  RegistryCursor<Cache> walk;
  EXPECT_EQ(walk.find("kept"), cache);  // and its place in every report
  while (walk.next() != nullptr) {
  }
  void* other = cache->allocate();
  EXPECT_NE(other, object);
  cache->free(other);
  cache->free(object);
  EXPECT_TRUE(cache->validate());
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  EXPECT_EQ(Cache::destroy(next), Status::kOk);
  EXPECT_EQ(arena.destroy(), Status::kOk);
}

/// B8: reap frees slabs that remain on a list.
TEST_F(AkarosCache, B8_reap_takes_the_slabs_it_frees_off_their_list) {
  Cache* cache = make("reaped", 300);
  ASSERT_NE(cache, nullptr);
  for (unsigned round = 0; round < 3; ++round) {
    for (unsigned i = 0; i < 500; ++i) ASSERT_NE(objects[i] = cache->allocate(), nullptr);
    for (unsigned i = 1; i < 500; ++i) cache->free(objects[i]);
    EXPECT_GT(cache->stats().slabs, 1U);
    EXPECT_GT(cache->reap(), 0U);
    EXPECT_EQ(cache->stats().slabs, 1U);
    EXPECT_TRUE(cache->validate());
    cache->free(objects[0]);
  }
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

/// Reap sees only empty slabs, and magazines keep every slab from being empty: of 2000 idle objects none was freed.
TEST_F(AkarosCache, reap_reaches_what_lies_in_magazines_and_depot) {
  Cache* cache = make("idle", 100);
  ASSERT_NE(cache, nullptr);
  for (void*& object : objects) object = cache->allocate();
  for (void* object : objects) cache->free(object);
  EXPECT_GT(cache->stats().in_magazines + cache->stats().in_depot, 50U);
  cache->reap();
  EXPECT_EQ(cache->stats().objects, 0U);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

/// B9: destroy lost the array of per-hart state, and two magazines a hart were not freed.
TEST_F(AkarosCache, B9_destroy_gives_back_hart_caches_and_magazines) {
  const std::size_t before = free_and_tags();  // nothing is in use yet
  std::size_t magazines = 0;
  for (unsigned i = 0; i < 100; ++i) {
    Cache* cache = make("shortlived", 100);
    ASSERT_NE(cache, nullptr);
    for (unsigned k = 0; k < 100; ++k) objects[k] = cache->allocate();
    for (unsigned k = 0; k < 100; ++k) cache->free(objects[k]);
    EXPECT_GT(stats_of("kmem_magazine").in_use, magazines);
    ASSERT_EQ(Cache::destroy(cache), Status::kOk);
    if (i == 0) magazines = stats_of("kmem_magazine").in_use;  // those of the caches below are in use now
    ASSERT_EQ(stats_of("kmem_magazine").in_use, magazines);
  }
  EXPECT_EQ(free_and_tags(), before);
}

/// Each cache took a page or more for its per-hart state.
TEST_F(AkarosCache, caches_share_pages) {
  restart(test::kPoolBytes, 4);
  std::array<Cache*, 60> caches;
  const std::size_t before = base_arena().stats().allocated;
  for (unsigned i = 0; i < caches.size(); ++i) {
    static char names[60][4];
    names[i][0] = 'c';
    names[i][1] = static_cast<char>('0' + i / 10);
    names[i][2] = static_cast<char>('0' + i % 10);
    ASSERT_NE(caches[i] = make(names[i], 64), nullptr);
  }
  const std::size_t each = sizeof(Cache) + 4 * sizeof(HartCache);
  EXPECT_LE(base_arena().stats().allocated - before, caches.size() * each * 8 / 7 + 2 * 4096);
  for (Cache* cache : caches) EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

/// Objects in magazines were shown as allocated.
TEST_F(AkarosCache, what_lies_in_magazines_is_not_in_use) {
  Cache* cache = make("counted", 64);
  ASSERT_NE(cache, nullptr);
  for (unsigned i = 0; i < 100; ++i) objects[i] = cache->allocate();
  EXPECT_EQ(cache->stats().in_use, 100U);
  for (unsigned i = 0; i < 100; ++i) cache->free(objects[i]);
  EXPECT_EQ(cache->stats().in_use, 0U);
  EXPECT_GT(cache->stats().in_magazines + cache->stats().in_depot, 25U);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

/// A constructor's failure was only a warning, and a slab with one object never became empty.
TEST_F(AkarosCache, a_failing_constructor_leaves_slabs_that_can_become_empty) {
  bool fails = true;
  CacheConfig config;
  config.name = "unmade";
  config.object_size = 60 * 1024;  // one object in each slab
  config.context = &fails;
  config.constructor = [](void*, void* context) noexcept { return !*static_cast<bool*>(context); };
  Cache* cache = Cache::create(config);
  ASSERT_NE(cache, nullptr);
  for (unsigned i = 0; i < 5; ++i) EXPECT_EQ(cache->allocate(), nullptr);
  EXPECT_EQ(cache->stats().failures, 5U);
  fails = false;
  void* object = cache->allocate();
  EXPECT_NE(object, nullptr);
  cache->free(object);
  cache->reap();
  EXPECT_EQ(cache->stats().slabs, 0U);
  EXPECT_TRUE(cache->validate());
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

}  // namespace alloc_cache_akaros_test
