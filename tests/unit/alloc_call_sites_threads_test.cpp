/// Call sites on several harts: when no hart allocates, the sums are exact.

#define QM_MODULE "test"

#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include <qm/detail/call_sites.hpp>
#include <qm/heap.hpp>
#include <qm/test/harts.hpp>
#include <qm/test/seed.hpp>

#include <support/system_fixture.hpp>

namespace alloc_call_sites_threads_test {

using qm::Cache;
using qm::call_sites::Row;

class CallSitesThreads : public qm::test::SystemTest {
 protected:
  void SetUp() override { start(qm::test::kPoolBytes, qm::test::harts()); }

  static Row users() {
    Row sum;
    for (std::size_t i = 0; i < qm::call_sites::count(); ++i) {
      const Row row = qm::call_sites::row(i);
      if (row.site->module != nullptr && __builtin_strcmp(row.site->module, "qm") == 0) continue;
      sum.bytes += row.bytes;
      sum.calls += row.calls;
      sum.is_accurate = sum.is_accurate && row.is_accurate;
    }
    return sum;
  }
  /// @returns the live bytes of caches and of the heap's large blocks, by the allocator's own statistics.
  static std::size_t held() {
    std::size_t bytes = 0;
    qm::RegistryCursor<Cache> caches;
    while (Cache* cache = caches.next()) {
      const bool own = (cache->flags() &
                        (qm::cache_flags::kNoTouch | qm::cache_flags::kNoTrace | qm::cache_flags::kNoMagazines)) != 0;
      if (!own) bytes += cache->stats().in_use * cache->object_size();
    }
    qm::RegistryCursor<qm::Arena> arenas;
    return bytes + arenas.find("kheap")->stats().allocated;
  }
};

TEST_F(CallSitesThreads, once_quiet_the_rows_add_up_to_what_users_hold) {
  const unsigned harts = qm::test::harts();
  qm::CacheConfig config;
  config.name = "packets";
  config.object_size = 72;
  Cache* cache = Cache::create(config);
  ASSERT_NE(cache, nullptr);
  static std::array<std::atomic<void*>, 64> objects;
  static std::array<std::atomic<void*>, 64> blocks;
  qm::test::on_each_hart(harts, [&](unsigned hart) {
    if (hart != 0) qm::attach_hart(hart);
    qm::test::Random random(qm::test::seed() + hart);
    for (unsigned i = 0; i < 4000; ++i) {
      std::atomic<void*>& slot = objects[random.below(objects.size())];
      void* object = i % 3 == 0 ? cache->allocate() : QM_ALLOC(cache->allocate);
      object = slot.exchange(object);
      if (object != nullptr) cache->free(object);
      const std::size_t size = 1 + random.below(i % 16 == 0 ? 6000 : 600);
      void* block = i % 5 == 0 ? qm::heap::allocate(size) : QM_ALLOC(qm::heap::allocate, size);
      if (i % 7 == 0) block = QM_ALLOC(qm::heap::reallocate, block, 1 + random.below(1200));
      block = blocks[random.below(blocks.size())].exchange(block);
      if (block != nullptr) qm::heap::free(block);
    }
    if (hart != 0) qm::detach_hart(hart);
  });
  EXPECT_EQ(users().bytes, held());
  EXPECT_GT(users().bytes, 0U);
  for (std::atomic<void*>& slot : objects) cache->free(slot.exchange(nullptr));
  for (std::atomic<void*>& slot : blocks) qm::heap::free(slot.exchange(nullptr));
  EXPECT_EQ(users().bytes, 0U);
  EXPECT_EQ(users().calls, 0U);
}

TEST_F(CallSitesThreads, turning_accounting_off_and_on_loses_nothing) {
  const unsigned harts = qm::test::harts();
  std::atomic<unsigned> running{harts};
  qm::test::on_each_hart(harts, [&](unsigned hart) {
    if (hart != 0) qm::attach_hart(hart);
    qm::test::Random random(qm::test::seed() + 100 + hart);
    for (unsigned i = 0; i < 2000; ++i) {
      if (hart == 0 && i % 50 == 0) qm::call_sites::set_on(i % 100 != 0);
      void* block = QM_ALLOC(qm::heap::allocate, 1 + random.below(2000));
      if (i % 3 == 0) block = QM_ALLOC(qm::heap::reallocate, block, 1 + random.below(2000));
      qm::heap::free(block);
    }
    if (hart != 0) qm::detach_hart(hart);
    --running;
  });
  qm::call_sites::set_on(true);
  EXPECT_EQ(users().bytes, 0U);
  EXPECT_EQ(users().calls, 0U);
  EXPECT_TRUE(users().is_accurate);
}

}  // namespace alloc_call_sites_threads_test
