/// The pass over a layer's slabs visits every slab once, whatever other operations run.

#include <support/system_fixture.hpp>

#include <array>
#include <atomic>

#include <qm/hal/broadcast.hpp>
#include <qm/detail/slab_pass.hpp>
#include <qm/test/harts.hpp>

namespace alloc_slab_pass_test {

using namespace qm;

class SlabPassTest : public test::SystemTest {
 protected:
  static Cache* make(const char* name, std::size_t size) {
    CacheConfig config;
    config.name = name;
    config.object_size = size;
    return Cache::create(config);
  }
};

std::array<void*, 3000> objects;

struct Look {
  std::size_t slabs = 0;
  std::size_t in_use = 0;
  bool sound = true;
  std::array<std::uintptr_t, 1000> starts{};
};

void look_at(SlabLayer& layer, Slab& slab, void* argument) noexcept {
  auto& look = *static_cast<Look*>(argument);
  for (std::size_t i = 0; i < look.slabs && i < look.starts.size(); ++i)
    look.sound = look.sound && look.starts[i] != slab.start;
  if (look.slabs < look.starts.size()) look.starts[look.slabs] = slab.start;
  ++look.slabs;
  look.in_use += slab.in_use;
  look.sound = look.sound && layer.is_sound(slab);
}

TEST_F(SlabPassTest, shows_each_slab_once) {
  Cache* cache = make("packet", 500);
  for (unsigned i = 0; i < 1000; ++i) objects[i] = cache->allocate();
  for (unsigned i = 0; i < 1000; i += 3) cache->free(objects[i]);
  for (int round = 0; round < 3; ++round) {
    static Look look;
    look = {};
    SlabPass pass(cache->slabs());
    while (pass.step(look_at, &look)) {
    }
    EXPECT_TRUE(pass.complete());
    EXPECT_TRUE(look.sound);
    EXPECT_EQ(look.slabs, cache->stats().slabs);
    EXPECT_EQ(look.slabs, pass.shown());
    EXPECT_EQ(look.in_use, cache->slabs().stats().objects_out);
  }
  for (unsigned i = 0; i < 1000; ++i) {
    if (i % 3 != 0) cache->free(objects[i]);
  }
  cache->reap();
  SlabPass empty(cache->slabs());
  EXPECT_FALSE(empty.step(look_at, nullptr));
  EXPECT_TRUE(empty.complete());
}

TEST_F(SlabPassTest, goes_on_where_the_slab_it_stood_on_has_gone_or_changed_lists) {
  Cache* cache = make("packet", 500);
  for (unsigned i = 0; i < 700; ++i) objects[i] = cache->allocate();
  static Look look;
  look = {};
  SlabPass pass(cache->slabs());
  unsigned freed = 0;
  while (pass.step(look_at, &look)) {
    // Objects in the order of their slabs: the slab at which the pass stands becomes partial, then empty, and is freed.
    for (unsigned i = 0; i < 9 && freed < 350; ++i) cache->free(objects[freed++]);
    cache->reap();
  }
  EXPECT_TRUE(pass.complete());
  EXPECT_TRUE(look.sound);
  for (unsigned i = freed; i < 700; ++i) {
    const auto start = reinterpret_cast<std::uintptr_t>(objects[i]);
    bool shown = false;
    for (std::size_t j = 0; j < look.slabs; ++j)
      shown = shown || (start >= look.starts[j] && start - look.starts[j] < 4096);
    EXPECT_TRUE(shown) << "an object that was there all the time";
    cache->free(objects[i]);
  }
}

TEST_F(SlabPassTest, a_second_one_at_the_same_time_shows_nothing_and_says_so) {
  Cache* cache = make("packet", 500);
  objects[0] = cache->allocate();
  static Look look;
  look = {};
  {
    SlabPass first(cache->slabs());
    SlabPass second(cache->slabs());
    EXPECT_FALSE(second.step(look_at, &look));
    EXPECT_FALSE(second.complete());
    EXPECT_TRUE(first.step(look_at, &look));
    EXPECT_FALSE(first.step(look_at, &look));
    EXPECT_TRUE(first.complete());
  }
  SlabPass third(cache->slabs());
  EXPECT_TRUE(third.step(look_at, &look));
  cache->free(objects[0]);
}

TEST_F(SlabPassTest, while_all_harts_allocate_every_slab_is_sound) {
  const unsigned harts = test::harts();
  restart(test::kPoolBytes, harts);
  Cache* cache = make("packet", 500);
  std::atomic<bool> done{false};
  test::on_each_hart(harts, [&](unsigned hart) {
    if (hart != 0) attach_hart(hart);
    if (hart == 0) {
      for (int round = 0; round < 20; ++round) {
        struct Sums {
          bool sound = true;
        } sums;
        SlabPass pass(cache->slabs());
        while (pass.step(
            [](SlabLayer& layer, Slab& slab, void* argument) noexcept {
              auto& to = *static_cast<Sums*>(argument);
              to.sound = to.sound && layer.is_sound(slab);
            },
            &sums)) {
        }
        EXPECT_TRUE(sums.sound);
        EXPECT_EQ(cache->verify_hart_caches(), Status::kOk);
      }
      done = true;
      return;
    }
    std::array<void*, 100> mine{};
    for (unsigned turn = 0; !done.load(std::memory_order_relaxed); ++turn) {
      void*& slot = mine[turn * 7 % mine.size()];
      if (slot != nullptr) cache->free(slot);
      slot = turn % 3 != 0 ? cache->allocate() : nullptr;
      if (turn % 1000 == 0) cache->reap();
    }
    for (void* object : mine) {
      if (object != nullptr) cache->free(object);
    }
  });
  EXPECT_TRUE(cache->validate());
}

}  // namespace alloc_slab_pass_test
