/// The results of validate() and verify_hart_caches() for a cache whose slabs or per-hart caches were overwritten, and the
/// answers of the slab layer for addresses that are not its objects.

#include <support/system_fixture.hpp>

#include <array>

#include <qm/fault.hpp>
#include <qm/misuse.hpp>

namespace alloc_cache_damage_test {

using namespace qm;

class CacheDamage : public qm::test::SystemTest {
 protected:
  void SetUp() override { start(test::kPoolBytes, 2); }  // hart 1 is never attached
  static Cache* make(std::size_t size) {
    CacheConfig config;
    config.name = "packet";
    config.object_size = size;
    return Cache::create(config);
  }
  /// Writes @p value over @p word, expects @p looks_sound() to detect it, and restores the old value.
  template <class Word, class Value, class Look>
  static void expect_seen(const char* what, Word& word, Value value, Look looks_sound) {
    const Word sound = word;
    word = static_cast<Word>(value);
    EXPECT_FALSE(looks_sound()) << what;
    word = sound;
    EXPECT_TRUE(looks_sound()) << what;
  }
  template <class Word, class Value, class Look>
  static void expect_seen(const char* what, std::atomic<Word>& word, Value value, Look looks_sound) {
    const Word sound = word.load();
    word.store(value);
    EXPECT_FALSE(looks_sound()) << what;
    word.store(sound);
    EXPECT_TRUE(looks_sound()) << what;
  }

  static inline std::array<void*, 100> objects;
};

TEST_F(CacheDamage, validate_sees_it_in_a_slab) {
  Cache* cache = make(256);
  ASSERT_NE(cache, nullptr);
  for (void*& object : objects) object = cache->allocate();
  for (unsigned i = 0; i < objects.size(); i += 2) cache->free(objects[i]);
  cache->give_back();
  Slab* partly = nullptr;
  Slab* full = nullptr;
  for (void* object : objects) {
    Slab* slab = cache->slabs().find(object);
    ASSERT_NE(slab, nullptr);
    (slab->in_use == slab->objects ? full : partly) = slab;
  }
  const auto sound = [&] { return cache->validate(); };
  ASSERT_TRUE(sound());
  for (Slab* slab : {partly, full}) {
    if (slab == nullptr) continue;
    expect_seen("in_use", slab->in_use, slab->in_use - 1, sound);
    expect_seen("in_use", slab->in_use, slab->in_use + 1, sound);
    expect_seen("objects", slab->objects, slab->objects + 1, sound);
    expect_seen("layer", slab->layer, nullptr, sound);
  }
  ASSERT_NE(partly, nullptr);
  expect_seen("first_word", partly->first_word, 1, sound);
  for (unsigned i = 1; i < objects.size(); i += 2) cache->free(objects[i]);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(CacheDamage, validate_sees_a_hart_cache_of_a_hart_that_has_none) {
  Cache* cache = make(256);
  ASSERT_NE(cache, nullptr);
  const auto sound = [&] { return cache->validate(); };
  void* word = nullptr;
  expect_seen("an open per-hart cache", cache->hart_cache(1).top, &word, sound);
  expect_seen("a limit of a closed per-hart cache", cache->hart_cache(1).limit, &word, sound);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(CacheDamage, verify_hart_caches_sees_it_in_every_word_of_a_hart_cache) {
  Cache* cache = make(256);
  ASSERT_NE(cache, nullptr);
  for (void*& object : objects) object = cache->allocate();
  for (void* object : objects) cache->free(object);
  HartCache& own = cache->hart_cache(0);
  Magazine* loaded = own.loaded.load();
  ASSERT_NE(loaded, nullptr);
  ASSERT_NE(own.prev, nullptr);
  const auto sound = [&] { return cache->verify_hart_caches() == Status::kOk; };
  ASSERT_TRUE(sound());
  expect_seen("loaded", own.loaded, nullptr, sound);
  expect_seen("top below the magazine", own.top, &loaded->bottom, sound);
  expect_seen("top behind the magazine", own.top, loaded->end() + 1, sound);
  expect_seen("limit", own.limit, loaded->end() - 1, sound);
  expect_seen("what lies below the rounds", loaded->bottom, loaded, sound);
  expect_seen("prev_rounds", own.prev_rounds, own.prev->rounds + 1U, sound);
  expect_seen("prev", own.prev, own.prev_rounds.load() != 0 ? nullptr : loaded, sound);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(CacheDamage, verify_hart_caches_sees_it_in_a_closed_hart_cache) {
  Cache* cache = make(256);
  ASSERT_NE(cache, nullptr);
  HartCache& own = cache->hart_cache(0);
  const auto sound = [&] { return cache->verify_hart_caches() == Status::kOk; };
  ASSERT_TRUE(sound());
  void* word = nullptr;
  expect_seen("a limit without a magazine", own.limit, &word, sound);  // nothing was allocated yet
  cache->free(cache->allocate());
  {
    const hal::InterruptGuard masked;
    cache->close(0);
  }
  ASSERT_TRUE(sound());
  Magazine* loaded = own.loaded.load();
  ASSERT_NE(loaded, nullptr);
  expect_seen("a limit", own.limit, loaded->end(), sound);
  expect_seen("saved_top", own.saved_top, nullptr, sound);
  expect_seen("saved_top", own.saved_top, loaded->end() + 1, sound);
  cache->free(cache->allocate());
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(CacheDamage, look_for_finds_an_object_of_either_magazine_and_none_of_the_slabs) {
  Cache* cache = make(256);
  ASSERT_NE(cache, nullptr);
  for (void*& object : objects) object = cache->allocate();
  EXPECT_EQ(cache->look_for(objects[0]).place, Cache::Place::kUser);
  for (void* object : objects) cache->free(object);
  HartCache& own = cache->hart_cache(0);
  ASSERT_NE(own.prev, nullptr);
  ASSERT_NE(own.prev->rounds, 0U);
  for (unsigned i = 0; i < own.prev->rounds; ++i) {
    EXPECT_EQ(cache->look_for(own.prev->slots()[i]).place, Cache::Place::kMagazine);
  }
  cache->reap();
  void* object = cache->allocate();
  ObjectPlace place;
  Slab* slab = cache->slabs().find(object);
  for (unsigned i = 0; i < slab->objects; ++i) {
    void* other = cache->slabs().object(*slab, i);
    ASSERT_TRUE(cache->locate(reinterpret_cast<std::uintptr_t>(other), place));
    if (place.is_out) continue;
    EXPECT_EQ(cache->look_for(other).place, Cache::Place::kSlab);
  }
  cache->free(object);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

MisuseReport refused;
unsigned refusals = 0;

/// Frees that nothing could detect at once: a second one of an object that its slab has back already, or that lies
/// below others of its magazine, and one of the address behind the last object of a slab.
TEST_F(CacheDamage, what_a_full_magazine_must_not_hold_is_reported_when_the_magazine_leaves_the_hart) {
  if (kChecked || !kMagazines) GTEST_SKIP() << "each free is checked";
  for (const unsigned spoil : {0U, 1U, 2U, 3U}) {
    Cache* cache = make(256);
    ASSERT_NE(cache, nullptr);
    // Afterwards the depot has empty magazines.
    for (void*& object : objects) ASSERT_NE(object = cache->allocate(), nullptr);
    for (void* object : objects) cache->free(object);
    for (void*& object : objects) ASSERT_NE(object = cache->allocate(), nullptr);
    const HartCache& own = cache->hart_cache(0);
    const auto both_are_full = [&] {
      return own.prev != nullptr && own.prev->rounds == own.prev->capacity && own.rounds() == own.prev->capacity * 2U;
    };
    std::size_t freed = 0;
    while (!both_are_full() && freed < objects.size()) cache->free(objects[freed++]);
    ASSERT_LT(freed, objects.size());
    const unsigned first = own.inspected + 2U > own.prev->capacity ? 0 : own.inspected;  // the next that is inspected
    void** const slots = own.prev->slots();
    const void* victim = slots[first + spoil % 2];
    void* lost = nullptr;  // overwritten, so that no free will return it
    if (spoil == 2) {
      lost = slots[first + 1];
      slots[first + 1] = slots[first];
    } else if (spoil == 3) {
      lost = slots[first];
      const Slab* slab = cache->slabs().find(lost);
      ASSERT_NE(slab, nullptr);
      slots[first] = reinterpret_cast<void*>(slab->start + slab->objects * cache->slabs().stride());
      victim = slots[first];
    } else {
      EXPECT_EQ(cache->slabs().put(slots[first + spoil]), Status::kOk);
    }
    refusals = 0;
    set_misuse_handler([](const MisuseReport& report) noexcept {
      refused = report;
      ++refusals;
    });
    cache->free(objects[freed++]);
    EXPECT_EQ(refusals, 1U);
    EXPECT_EQ(refused.kind, spoil == 3 ? Misuse::kForeign : Misuse::kDoubleFree);
    EXPECT_EQ(refused.object, victim);
    set_misuse_handler(nullptr);
    if (lost != nullptr) cache->free(lost);
    while (freed < objects.size()) cache->free(objects[freed++]);
    EXPECT_EQ(cache->stats().in_use, 0U);
    EXPECT_TRUE(cache->validate());
    EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  }
}

TEST_F(CacheDamage, a_full_magazine_that_a_new_one_replaces_in_a_closed_hart_cache_is_inspected_too) {
  if (kChecked || !kMagazines) GTEST_SKIP() << "each free is checked";
  Cache* cache = make(256);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(fault::set(*cache, fault::Mode::kEvery, 1'000'000), Status::kOk);  // closes the per-hart caches
  for (void*& object : objects) ASSERT_NE(object = cache->allocate(), nullptr);
  cache->reap();
  HartCache& own = cache->hart_cache(0);
  const auto both_are_full = [&] {
    return own.prev != nullptr && own.prev->rounds == own.prev->capacity && own.rounds() == own.prev->capacity * 2U;
  };
  std::size_t freed = 0;
  while (!both_are_full() && freed < objects.size()) cache->free(objects[freed++]);
  ASSERT_LT(freed, objects.size());
  EXPECT_EQ(cache->stats().depot_empty, 0U);
  void* const victim = own.prev->slots()[own.inspected + 2U > own.prev->capacity ? 0 : own.inspected];
  EXPECT_EQ(cache->slabs().put(victim), Status::kOk);
  refusals = 0;
  set_misuse_handler([](const MisuseReport& report) noexcept {
    refused = report;
    ++refusals;
  });
  cache->free(objects[freed++]);
  EXPECT_EQ(refusals, 1U);
  EXPECT_EQ(refused.object, victim);
  set_misuse_handler(nullptr);
  while (freed < objects.size()) cache->free(objects[freed++]);
  fault::clear();
  EXPECT_EQ(cache->stats().in_use, 0U);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(CacheDamage, an_address_that_is_no_object_has_no_trace_handle) {
  Cache* cache = make(256);
  ASSERT_NE(cache, nullptr);
  void* object = cache->allocate();
  EXPECT_EQ(cache->handle(object), nullptr);
  static std::array<std::uint32_t, 64> handles;
  static std::array<std::uint32_t, 64> others;
  ASSERT_LE(cache->slabs().objects(), handles.size());
  EXPECT_FALSE(cache->adopt_handles(&handles, handles.data()));
  EXPECT_TRUE(cache->adopt_handles(object, handles.data()));
  EXPECT_FALSE(cache->adopt_handles(object, others.data()));
  EXPECT_GE(cache->handle(object), handles.data());
  EXPECT_LT(cache->handle(object), handles.data() + handles.size());
  EXPECT_EQ(cache->handle(static_cast<std::byte*>(object) + 1), nullptr);
  EXPECT_EQ(cache->handle(&handles), nullptr);
  cache->slabs().find(object)->handles.store(nullptr);
  cache->free(object);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(CacheDamage, a_slab_layer_takes_back_only_what_is_out) {
  SlabLayer slabs;
  SlabConfig config;
  config.source = &page_arena();
  config.object_size = 200;
  ASSERT_EQ(slabs.initialize(config), Status::kOk);
  void* object = nullptr;
  ASSERT_EQ(slabs.take(&object, 1).count, 1U);
  EXPECT_EQ(slabs.put(&object), Status::kMismatch);
  EXPECT_EQ(slabs.put(static_cast<std::byte*>(object) + 8), Status::kMismatch);
  EXPECT_EQ(slabs.put(static_cast<std::byte*>(object) + 200 * slabs.objects()), Status::kMismatch);
  EXPECT_EQ(slabs.destroy(), Status::kBusy);
  EXPECT_TRUE(slabs.validate());
  EXPECT_EQ(slabs.put(object), Status::kOk);
  EXPECT_EQ(slabs.put(object), Status::kNotFound);
  EXPECT_TRUE(slabs.validate());
  EXPECT_EQ(slabs.destroy(), Status::kOk);
  EXPECT_EQ(slabs.stats().slabs, 0U);
}

TEST_F(CacheDamage, a_slab_layer_refuses_sizes_and_alignments_that_cannot_be) {
  const auto status_of = [](Arena* source, std::size_t size, std::size_t alignment) {
    SlabLayer slabs;
    SlabConfig config;
    config.source = source;
    config.object_size = size;
    config.alignment = alignment;
    return slabs.initialize(config);
  };
  Arena* pages = &page_arena();
  EXPECT_EQ(status_of(pages, 64, 8), Status::kOk);
  EXPECT_EQ(status_of(nullptr, 64, 8), Status::kInvalid);
  EXPECT_EQ(status_of(pages, 0, 8), Status::kInvalid);
  EXPECT_EQ(status_of(pages, 64, 24), Status::kInvalid);
  EXPECT_EQ(status_of(pages, SIZE_MAX / 16 + 1, 8), Status::kInvalid);
  EXPECT_EQ(status_of(pages, 64, SIZE_MAX / 16 * 8 + 8), Status::kInvalid);
  Arena numbers;
  ASSERT_EQ(numbers.initialize({.name = "numbers", .quantum = SIZE_MAX - 7}), Status::kOk);
  SlabLayer slabs;
  SlabConfig config;
  config.source = &numbers;
  config.object_size = 64;
  config.no_touch = &no_touch_calls;
  EXPECT_EQ(slabs.initialize(config), Status::kInvalid);  // a slab has more quanta than a word can count
  EXPECT_EQ(numbers.destroy(), Status::kOk);
}

}  // namespace alloc_cache_damage_test
