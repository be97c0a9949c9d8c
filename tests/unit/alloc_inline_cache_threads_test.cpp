/// Inlined caches on several harts: each hart has its own pointer to its per-hart cache, and loses it when it must.

#include <qm/inline_cache.hpp>
#include <qm/test/harts.hpp>
#include <qm/test/seed.hpp>

#include <array>
#include <atomic>

#include <support/system_fixture.hpp>

namespace alloc_inline_cache_threads_test {

QM_INLINE_CACHE(Shared);
QM_DEFINE_INLINE_CACHE(Shared);

struct Object {
  std::atomic<std::uint32_t> holder{0};  // 0: none
  std::uint32_t rest[15];
};

bool construct(void* object, void*) noexcept {
  new (object) Object;
  return true;
}

class InlineCacheThreads : public qm::test::SystemTest {
 protected:
  void SetUp() override {
    start(qm::test::kPoolBytes, qm::test::harts());
    create();
  }
  void TearDown() override {
    EXPECT_EQ(Shared::destroy(), qm::Status::kOk);
    SystemTest::TearDown();
  }
  static void create() {
    qm::CacheConfig config;
    config.name = "shared";
    config.object_size = sizeof(Object);
    config.constructor = &construct;
    ASSERT_EQ(Shared::create(config), qm::Status::kOk);
  }
};

/// Runs on each hart, which is attached to the allocator for that time.
template <class Callable>
void on_each_attached_hart(Callable&& callable) {
  qm::test::on_each_hart(qm::test::harts(), [&](unsigned hart) {
    qm::attach_hart(hart);
    callable(hart);
    if (hart != 0) qm::detach_hart(hart);
  });
}

/// Allocates and frees in both forms at random; an object has one holder at a time.
void use(unsigned hart, int steps, std::atomic<std::uint32_t>& violations) {
  qm::test::Random random(qm::test::seed() + hart);
  std::array<Object*, 20> held{};
  const auto give = [&](Object*& object) {
    if (object->holder.exchange(0) != hart + 1) violations.fetch_add(1);
    random.chance(50) ? Shared::free(object) : Shared::cache()->free(object);
    object = nullptr;
  };
  for (int step = 0; step < steps; ++step) {
    Object*& slot = held[random.below(held.size())];
    if (slot != nullptr) {
      give(slot);
      continue;
    }
    slot = static_cast<Object*>(random.chance(50) ? Shared::allocate() : Shared::cache()->allocate());
    if (slot != nullptr && slot->holder.exchange(hart + 1) != 0) violations.fetch_add(1);
  }
  for (Object*& object : held) {
    if (object != nullptr) give(object);
  }
}

TEST_F(InlineCacheThreads, hand_each_object_to_one_holder) {
  std::atomic<std::uint32_t> violations{0};
  on_each_attached_hart([&](unsigned hart) { use(hart, 2000, violations); });
  EXPECT_EQ(violations.load(), 0U);
  EXPECT_EQ(Shared::cache()->stats().in_use, 0U);
  EXPECT_TRUE(Shared::cache()->validate());
}

TEST_F(InlineCacheThreads, lose_their_hart_caches_when_the_cache_is_destroyed_and_find_those_of_the_next) {
  std::atomic<std::uint32_t> violations{0};
  std::atomic<std::uint32_t> leftovers{0};
  qm::test::Barrier all(qm::test::harts());
  on_each_attached_hart([&](unsigned hart) {
    for (int life = 0; life < 20; ++life) {
      use(hart, 50, violations);
      all.arrive();
      if (hart == 0 && Shared::destroy() != qm::Status::kOk) violations.fetch_add(1);
      all.arrive();
      if (Shared::allocate() != nullptr) leftovers.fetch_add(1);
      all.arrive();
      if (hart == 0) create();
      all.arrive();
    }
  });
  EXPECT_EQ(violations.load(), 0U);
  EXPECT_EQ(leftovers.load(), 0U);
}

TEST_F(InlineCacheThreads, give_their_magazines_back_when_another_hart_reclaims) {
  std::atomic<std::uint32_t> violations{0};
  qm::test::Barrier all(qm::test::harts());
  on_each_attached_hart([&](unsigned hart) {
    for (int round = 0; round < 10; ++round) {
      use(hart, 50, violations);
      all.arrive();
      if (hart == 0) {
        qm::reclaim();
        if (Shared::cache()->stats().objects != 0) violations.fetch_add(1);
      }
      all.arrive();
    }
  });
  EXPECT_EQ(violations.load(), 0U);
}

}  // namespace alloc_inline_cache_threads_test
