/// A quarantine begins, changes its size and ends while all harts allocate and free.

#include "trace_fixture.hpp"

#include <array>
#include <atomic>
#include <cstring>

#include <qm/detail/poison.hpp>
#include <qm/misuse.hpp>
#include <qm/test/harts.hpp>
#include <qm/test/seed.hpp>

namespace alloc_quarantine_threads_test {

using namespace qm;

constexpr std::size_t kSize = 64;

std::atomic<unsigned> told;

class QuarantineThreads : public test::TraceTest {
 protected:
  void SetUp() override {
    begin({}, test::harts());
    told = 0;
    set_misuse_handler([](const MisuseReport&) noexcept { told.fetch_add(1); });
  }
  void TearDown() override {
    set_misuse_handler(nullptr);
    TraceTest::TearDown();
  }
};

/// Random allocations and frees on all harts, with a quarantine that begins and ends meanwhile.
void churn(unsigned harts) {
  Cache* cache = Cache::create({.name = "shared", .object_size = kSize});
  ASSERT_NE(cache, nullptr);
  test::Barrier barrier(harts);
  test::on_each_hart(harts, [&](unsigned hart) {
    attach_hart(hart);
    barrier.arrive();
    test::Random random(test::seed() + hart);
    std::array<void*, 20> mine{};
    for (unsigned step = 0; step < 4000; ++step) {
      void*& slot = mine[random.below(mine.size())];
      if (slot == nullptr) {
        slot = cache->allocate();
        if (slot != nullptr) std::memset(slot, static_cast<int>(hart), kSize);
      } else {
        EXPECT_EQ(poison::first_other(slot, 0, kSize, static_cast<unsigned char>(hart)), poison::kNone);
        cache->free(slot);
        slot = nullptr;
      }
      if (hart == 0 && step % 200 == 0) {
        EXPECT_EQ(cache->set_quarantine(step % 400 == 0 ? (1 + step % 70) * kSize : 0), Status::kOk);
      }
      if (hart == 1 && step % 300 == 0) cache->reap();
    }
    for (void* object : mine) {
      if (object != nullptr) cache->free(object);
    }
    barrier.arrive();
    if (hart != 0) detach_hart(hart);
  });
  EXPECT_EQ(told.load(), 0U);
  EXPECT_EQ(cache->stats().in_use, 0U);
  EXPECT_TRUE(cache->validate());
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(QuarantineThreads, nothing_is_lost_while_it_begins_and_ends) {
  churn(test::harts());  // gives the allocator's own caches, the page map and the trace their memory
  // The arenas keep the pages of their boundary tags, and the most tags at once depend on how the harts interleave: a
  // later round may need one page more than the first. What is lost is lost again in each round.
  constexpr unsigned kRounds = 10;
  std::size_t before = free_bytes();
  unsigned rounds_that_took = 0;
  for (unsigned round = 0; round < kRounds; ++round) {
    churn(test::harts());
    if (free_bytes() != before) {
      ++rounds_that_took;
      EXPECT_EQ(before - free_bytes(), 4096U);
      before = free_bytes();
    }
  }
  EXPECT_LE(rounds_that_took, 1U);
}

}  // namespace alloc_quarantine_threads_test
