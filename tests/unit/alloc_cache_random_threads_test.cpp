/// Caches used by all harts at once, against a model on each hart of the objects that it holds. Between phases no hart
/// runs, and the caches' own counts must agree with the sum of all models.

#include <support/system_fixture.hpp>

#include <array>
#include <atomic>
#include <cstring>

#include <qm/test/harts.hpp>
#include <qm/test/seed.hpp>

namespace alloc_cache_random_threads_test {

using namespace qm;

constexpr unsigned kCaches = 3;
constexpr std::size_t kSizes[kCaches] = {48, 700, 3000};
constexpr std::size_t kHeld = 60;  // objects of a cache that a hart holds
constexpr std::size_t kPhases = 8;

/// The first word of an object is its holder, a hart counted from 1; 0: none.
std::atomic<std::uint32_t>& holder_of(void* object) { return *static_cast<std::atomic<std::uint32_t>*>(object); }

struct Model {
  std::array<std::array<void*, kHeld + SlabLayer::kBatch>, kCaches> held{};
  std::array<std::size_t, kCaches> count{};
};

class CacheRandomThreads : public qm::test::SystemTest {
 protected:
  void SetUp() override {
    start(1 << 20, test::harts());
    for (unsigned i = 0; i < kCaches; ++i) {
      static char names[kCaches][3];
      char(&name)[3] = names[i];
      name[0] = 'r';
      name[1] = static_cast<char>('0' + i);
      CacheConfig config;
      config.name = name;
      config.object_size = kSizes[i];
      config.limit = i == 1 ? 100 : 0;
      config.constructor = [](void* object, void*) noexcept {
        new (object) std::atomic<std::uint32_t>(0);
        return true;
      };
      caches_[i] = Cache::create(config);
      ASSERT_NE(caches_[i], nullptr);
    }
  }

  void enter(Model& model, unsigned which, void* object, unsigned hart) {
    if (holder_of(object).exchange(hart + 1, std::memory_order_relaxed) != 0) violations_.fetch_add(1);
    model.held[which][model.count[which]++] = object;
  }
  void* leave(Model& model, unsigned which, std::size_t index, unsigned hart) {
    void* object = model.held[which][index];
    model.held[which][index] = model.held[which][--model.count[which]];
    if (holder_of(object).exchange(0, std::memory_order_relaxed) != hart + 1) violations_.fetch_add(1);
    return object;
  }

  void step(Model& model, unsigned hart, test::Random& random) {
    const auto which = static_cast<unsigned>(random.below(kCaches));
    Cache& cache = *caches_[which];
    std::size_t& count = model.count[which];
    const std::uint64_t kind = random.below(1000);
    std::array<void*, SlabLayer::kBatch> objects;
    if (kind < 470) {
      if (count >= kHeld) return;
      void* object = cache.allocate_at(nullptr, 0, random.chance(50) ? WaitPolicy::kAtomic : WaitPolicy::kReclaim);
      if (object != nullptr) enter(model, which, object, hart);
    } else if (kind < 920) {
      if (count != 0) cache.free(leave(model, which, random.below(count), hart));
    } else if (kind < 955) {
      if (count >= kHeld) return;
      const std::size_t got =
          cache.allocate_bulk(objects.data(), random.below(objects.size() + 1), WaitPolicy::kAtomic);
      for (std::size_t i = 0; i < got; ++i) enter(model, which, objects[i], hart);
    } else if (kind < 992) {
      std::size_t taken = 0;
      while (taken < objects.size() && count != 0) objects[taken++] = leave(model, which, count - 1, hart);
      cache.free_bulk(objects.data(), taken);
    } else if (kind < 995) {
      cache.trim();
    } else if (kind < 997) {
      cache.reap();
    } else if (hart == 0) {
      const Status status = cache.reserve(random.below(8));
      if (status != Status::kOk && status != Status::kNoMemory) violations_.fetch_add(1);
    }
  }

  void compare() {
    for (unsigned i = 0; i < kCaches; ++i) {
      std::size_t held = 0;
      for (const Model& model : models_) held += model.count[i];
      EXPECT_TRUE(caches_[i]->validate()) << kSizes[i];
      const CacheStats stats = caches_[i]->stats();
      EXPECT_EQ(stats.in_use, held) << kSizes[i];
      EXPECT_EQ(stats.misuses, 0U);
      if (stats.limit != 0) {
        EXPECT_LE(stats.objects - stats.in_slabs, stats.limit);
      }
    }
    EXPECT_EQ(violations_.load(), 0U);
  }

  std::array<Cache*, kCaches> caches_{};
  std::array<Model, hal::Port::kMaxHarts> models_{};
  std::atomic<unsigned> violations_{0};
};

TEST_F(CacheRandomThreads, the_counts_agree_with_what_all_harts_hold) {
  const unsigned harts = test::harts();
  const std::uint64_t steps = test::steps(1'000'000) / kPhases / harts;
  test::Barrier barrier(harts);
  test::on_each_hart(harts, [&](unsigned hart) {
    attach_hart(hart);
    test::Random random(test::seed() * 64 + hart);
    for (std::size_t phase = 0; phase < kPhases; ++phase) {
      for (std::uint64_t i = 0; i < steps; ++i) step(models_[hart], hart, random);
      barrier.arrive();
      if (hart == 0) compare();
      barrier.arrive();
    }
    if (hart != 0) detach_hart(hart);
  });
  for (unsigned hart = 0; hart < harts; ++hart) {
    for (unsigned i = 0; i < kCaches; ++i) {
      while (models_[hart].count[i] != 0) caches_[i]->free(leave(models_[hart], i, 0, hart));
    }
  }
  compare();
  for (Cache* cache : caches_) EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

}  // namespace alloc_cache_random_threads_test
