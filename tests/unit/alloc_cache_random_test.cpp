/// Caches against a slow, obviously correct model: a table of the live objects. Six caches of all kinds share a small
/// memory, so allocations fail frequently; each failure is checked.

#include <support/system_fixture.hpp>

#include <array>
#include <cstring>

#include <qm/test/seed.hpp>

namespace alloc_cache_random_test {

using namespace qm;

constexpr std::size_t kRam = 1 << 20;
constexpr std::size_t kMostOut = 160;  // live objects of a cache at a time, unless memory ends first
constexpr std::size_t kMostBulk = 40;
constexpr std::uint32_t kMade = 0x600d0b1e;

/// The constructions that no destructor has undone yet, and whether constructions fail.
struct Constructions {
  std::size_t live = 0;
  bool failing = false;
};

bool construct(void* object, void* context) noexcept {
  auto& all = *static_cast<Constructions*>(context);
  if (all.failing) return false;
  ++all.live;
  std::memcpy(object, &kMade, sizeof kMade);
  return true;
}
void destruct(void*, void* context) noexcept { --static_cast<Constructions*>(context)->live; }

/// A kind of cache to test.
struct Kind {
  const char* name;
  std::size_t size;
  std::size_t alignment;
  std::uint32_t flags;
  bool constructed;
  std::size_t limit;
};
constexpr Kind kKinds[] = {
    {"small", 40, 0, 0, false, 0},
    {"aligned", 200, 128, 0, false, 0},
    {"large", 5000, 0, 0, false, 0},
    {"made", 96, 0, 0, true, 0},
    {"single", 60 * 1024, 0, 0, false, 0},
    {"limited", 24, 0, 0, false, 50},
    {"ids", 14, 1, cache_flags::kNoTouch, false, 0},
};
constexpr unsigned kCaches = sizeof kKinds / sizeof kKinds[0];

/// A cache and its model.
struct Subject {
  Cache* cache = nullptr;
  std::array<void*, kMostOut + kMostBulk> out{};
  std::size_t count = 0;  ///< live objects
  std::size_t limit = 0;
  std::size_t reserve = 0;  ///< granted
  std::uint64_t allocations = 0;
  std::size_t failures = 0;
};

class CacheRandom : public qm::test::SystemTest {
 protected:
  void SetUp() override { start(kRam); }

  [[nodiscard]] static bool is_memory(unsigned which) { return (kKinds[which].flags & cache_flags::kNoTouch) == 0; }

  void make(unsigned which) {
    const Kind& kind = kKinds[which];
    CacheConfig config;
    config.name = kind.name;
    config.object_size = kind.size;
    config.alignment = kind.alignment;
    config.flags = kind.flags;
    config.limit = kind.limit;
    config.context = &constructions_;
    if (!is_memory(which)) config.source = &ids_;
    if (kind.constructed) {
      config.constructor = construct;
      config.destructor = destruct;
    }
    Subject& one = subjects_[which];
    one = {};
    one.limit = kind.limit;
    one.cache = Cache::create(config);
  }

  /// Adds an object to the model.
  void enter(unsigned which, void* object) {
    Subject& one = subjects_[which];
    const auto address = reinterpret_cast<std::uintptr_t>(object);
    const std::size_t size = kKinds[which].size;
    ASSERT_EQ(address % one.cache->alignment(), 0U);
    if (is_memory(which)) {
      const auto low = reinterpret_cast<std::uintptr_t>(test::pool());
      ASSERT_TRUE(address >= low && address + size <= low + kRam);
    } else {
      ASSERT_TRUE(address >= 7 && address + size <= 7 * 2000 && address % 7 == 0);
    }
    for (unsigned other = 0; other < kCaches; ++other) {
      if (is_memory(other) != is_memory(which)) continue;
      for (std::size_t i = 0; i < subjects_[other].count; ++i) {
        const auto theirs = reinterpret_cast<std::uintptr_t>(subjects_[other].out[i]);
        ASSERT_TRUE(address + size <= theirs || theirs + kKinds[other].size <= address)
            << "overlaps an object of " << kKinds[other].name;
      }
    }
    if (kKinds[which].constructed) {
      std::uint32_t made = 0;
      std::memcpy(&made, object, sizeof made);
      ASSERT_EQ(made, kMade);
    }
    if (is_memory(which)) std::memset(object, fill_of(object), size);
    one.out[one.count++] = object;
    ++one.allocations;
  }

  static int fill_of(const void* object) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(object) >> 3 & 0xff);
  }

  /// Removes object @p index from the model.
  void* leave(unsigned which, std::size_t index) {
    Subject& one = subjects_[which];
    void* object = one.out[index];
    if (is_memory(which)) {
      const auto* bytes = static_cast<const unsigned char*>(object);
      EXPECT_EQ(bytes[0], fill_of(object)) << "somebody else has written to it";
      EXPECT_EQ(bytes[kKinds[which].size / 2], fill_of(object));
      EXPECT_EQ(bytes[kKinds[which].size - 1], fill_of(object));
    }
    if (kKinds[which].constructed) std::memcpy(object, &kMade, sizeof kMade);
    one.out[index] = one.out[--one.count];
    return object;
  }

  /// After the failure of an allocation that may reclaim: no idle memory could have served it.
  void look_into_failure(unsigned which) {
    ++failures_;
    Subject& one = subjects_[which];
    const CacheStats stats = one.cache->stats();
    if (constructions_.failing && kKinds[which].constructed) return;
    if (one.limit != 0 && stats.in_use + stats.reserved >= one.limit) return;
    ASSERT_EQ(stats.in_magazines + stats.in_depot + stats.in_slabs, 0U) << kKinds[which].name;
    ASSERT_TRUE(one.limit == 0 || stats.in_use + stats.reserved <= one.limit);
  }

  void allocate(unsigned which, test::Random& random) {
    Subject& one = subjects_[which];
    if (one.count >= kMostOut) return;
    const bool atomic = random.chance(30);
    const std::size_t reserved = one.cache->stats().reserved;
    void* object = one.cache->allocate_at(nullptr, 0, atomic ? WaitPolicy::kAtomic : WaitPolicy::kReclaim);
    if (object != nullptr) return enter(which, object);
    ++one.failures;
    if (!atomic) return look_into_failure(which);
    ASSERT_EQ(reserved, 0U) << "the reserve is for it";
  }

  void allocate_bulk(unsigned which, test::Random& random) {
    Subject& one = subjects_[which];
    if (one.count >= kMostOut) return;
    std::array<void*, kMostBulk> objects;
    const std::size_t wanted = random.below(kMostBulk + 1);
    const std::size_t got = one.cache->allocate_bulk(objects.data(), wanted, WaitPolicy::kReclaim);
    ASSERT_LE(got, wanted);
    if (got != wanted) {
      ++one.failures;
      look_into_failure(which);
    }
    for (std::size_t i = 0; i < got && !HasFatalFailure(); ++i) enter(which, objects[i]);
  }

  void free_bulk(unsigned which, test::Random& random) {
    std::array<void*, kMostBulk> objects;
    std::size_t count = 0;
    while (count < kMostBulk && subjects_[which].count != 0 && random.chance(90)) {
      objects[count++] = leave(which, random.below(subjects_[which].count));
    }
    subjects_[which].cache->free_bulk(objects.data(), count);
  }

  void reserve(unsigned which, test::Random& random) {
    Subject& one = subjects_[which];
    const std::size_t wanted = random.chance(50) ? 0 : random.below(20);
    const Status status = one.cache->reserve(wanted);
    if constexpr (!kMagazines) {
      ASSERT_EQ(status, Status::kRefused);
      return;
    }
    if (status == Status::kOk) one.reserve = wanted;
    ASSERT_TRUE(status == Status::kOk || status == Status::kNoMemory);
    if (status == Status::kOk) {
      ASSERT_EQ(one.cache->stats().reserved, wanted);
    }
  }

  void recreate(unsigned which) {
    Subject& one = subjects_[which];
    const Status expected = one.count == 0 ? Status::kOk : Status::kBusy;
    ASSERT_EQ(Cache::destroy(one.cache), expected);
    if (expected != Status::kOk) return;
    if (kKinds[which].constructed) {
      ASSERT_EQ(constructions_.live, 0U);
    }
    make(which);
    while (one.cache == nullptr) {  // memory is exhausted: another cache is emptied
      const unsigned other = largest();
      ASSERT_NE(subjects_[other].count, 0U);
      subjects_[other].cache->free(leave(other, 0));
      make(which);
    }
  }

  [[nodiscard]] unsigned largest() const {
    unsigned most = 0;
    for (unsigned i = 0; i < kCaches; ++i) {
      if (is_memory(i) && subjects_[i].count * kKinds[i].size > subjects_[most].count * kKinds[most].size) most = i;
    }
    return most;
  }

  void step(test::Random& random) {
    const auto which = static_cast<unsigned>(random.below(kCaches));
    Subject& one = subjects_[which];
    const std::uint64_t kind = random.below(1000);
    if (kind < 420) return allocate(which, random);
    if (kind < 860) {
      if (one.count != 0) one.cache->free(leave(which, random.below(one.count)));
      return;
    }
    if (kind < 910) return allocate_bulk(which, random);
    if (kind < 970) return free_bulk(which, random);
    if (kind < 976) return reserve(which, random);
    if (kind < 982) return static_cast<void>(one.cache->reap());
    if (kind < 990) return static_cast<void>(one.cache->trim());
    if (kind < 992) return static_cast<void>(reclaim());
    if (kind < 994) constructions_.failing = !constructions_.failing;
    if (kind >= 994) recreate(which);
  }

  /// Compares a cache with its model.
  void compare(unsigned which) {
    Subject& one = subjects_[which];
    ASSERT_TRUE(one.cache->validate()) << kKinds[which].name;
    const CacheStats stats = one.cache->stats();
    ASSERT_EQ(stats.in_use, one.count) << kKinds[which].name;
    ASSERT_EQ(stats.objects, stats.in_use + stats.in_magazines + stats.in_depot + stats.reserved + stats.in_slabs);
    ASSERT_LE(stats.reserved, one.reserve);
    ASSERT_EQ(stats.reserve, one.reserve);
    ASSERT_EQ(stats.misuses, 0U);
    ASSERT_EQ(stats.failures, one.failures);
    if (kCounted) {
      ASSERT_EQ(stats.allocations, one.allocations);
    }
    if (one.limit != 0) {
      ASSERT_LE(stats.objects - stats.in_slabs, one.limit);
    }
    if (kKinds[which].constructed) {
      ASSERT_EQ(constructions_.live, stats.objects - stats.in_slabs);  // C3
    }
  }

  std::uint64_t failures_ = 0;
  Subject subjects_[kCaches];
  Constructions constructions_;
  Arena ids_;
};

TEST_F(CacheRandom, seven_caches_agree_with_a_table_of_what_is_out) {
  ASSERT_EQ(ids_.initialize({.name = "numbers", .start = 7, .size = 7 * 1999, .quantum = 7}), Status::kOk);
  for (unsigned i = 0; i < kCaches; ++i) {
    make(i);
    ASSERT_NE(subjects_[i].cache, nullptr);
  }
  test::Random random;
  const std::uint64_t steps = test::steps(1'000'000);
  for (std::uint64_t number = 0; number < steps; ++number) {
    step(random);
    const auto which = static_cast<unsigned>(number % kCaches);
    if (!HasFatalFailure()) compare(which);
    ASSERT_FALSE(HasFatalFailure()) << "step " << number;
    if (number % 4096 == 0) {
      ASSERT_TRUE(base_arena().validate() && page_arena().validate() && ids_.validate()) << "step " << number;
    }
  }
  EXPECT_GT(failures_, steps / 1000) << "too few to look into";
  for (unsigned i = 0; i < kCaches; ++i) {
    while (subjects_[i].count != 0) subjects_[i].cache->free(leave(i, subjects_[i].count - 1));
    EXPECT_EQ(Cache::destroy(subjects_[i].cache), Status::kOk);
  }
  EXPECT_EQ(constructions_.live, 0U);
  EXPECT_EQ(ids_.destroy(), Status::kOk);
}

}  // namespace alloc_cache_random_test
