/// What the fast path costs, to the instruction. Under icount the counter of retired instructions is exact; in the other modes
/// it counts something else, and only the results are looked at.

#include <gtest/gtest.h>

#include <string_view>

#include <qm/cache.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/hal/port.hpp>
#include <qm/system.hpp>
#include <qm/trace/live_trace.hpp>

namespace {

bool counter_is_exact() {
  const std::string_view mode = qm::firmware::boot_info().bootargs;
  for (std::size_t at = 0; at + 11 <= mode.size(); ++at) {
    if (__builtin_memcmp(mode.data() + at, "mode=icount", 11) == 0) return true;
  }
  return false;
}

unsigned long instructions() {
  unsigned long count = 0;
  asm volatile("rdinstret %0" : "=r"(count));
  return count;
}

constexpr unsigned long kPairs = 1000;

/// Instructions of an allocation and a free with the loop around them, as a call site that does nothing else has them.
unsigned long pair_cost(qm::Cache* cache) {
  const qm::hal::InterruptGuard masked;
  unsigned long left = kPairs;
  const unsigned long before = instructions();
  asm volatile(
      "1:\n"
      "  mv a0, %[cache]\n"
      "  call qm_cache_allocate\n"
      "  mv a1, a0\n"
      "  mv a0, %[cache]\n"
      "  call qm_cache_free\n"
      "  addi %[left], %[left], -1\n"
      "  bnez %[left], 1b\n"
      : [left] "+r"(left)
      : [cache] "r"(cache)
      : "ra", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "memory");
  const unsigned long after = instructions();
  return (after - before - 1) / kPairs;
}

/// Seven of the loop and its calls, nine of the pop, nine of the push, three for the count.
constexpr unsigned long kPair = 7 + 9 + 9 + (qm::kCounted ? 3 : 0);

class FastPath : public testing::Test {
 protected:
  void SetUp() override {
    alignas(4096) static std::byte memory[2 << 20];
    const qm::MemoryRange range{reinterpret_cast<std::uintptr_t>(memory), sizeof memory};
    ASSERT_EQ(qm::initialize({&range, 1}, qm::firmware::boot_info().hart_count), qm::Status::kOk);
    qm::attach_hart(0);
    ASSERT_EQ(qm::trace::initialize({.object_base = reinterpret_cast<std::uintptr_t>(memory)}), qm::Status::kOk);
    qm::CacheConfig config;
    config.name = "hot";
    config.object_size = 64;
    cache_ = qm::Cache::create(config);
    ASSERT_NE(cache_, nullptr);
    cache_->free(cache_->allocate());
  }
  void TearDown() override {
    EXPECT_EQ(qm::Cache::destroy(cache_), qm::Status::kOk);
    qm::trace::shutdown();
    qm::shutdown();
  }
  qm::Cache* cache_ = nullptr;
};

TEST_F(FastPath, a_pair_costs_what_its_listing_says) {
  const unsigned long cost = pair_cost(cache_);
  if (counter_is_exact()) {
    EXPECT_EQ(cost, kPair);
  }
  EXPECT_EQ(cache_->stats().in_use, 0U);
}

TEST_F(FastPath, costs_the_same_after_tracing_was_on_and_its_records_are_gone) {
  ASSERT_EQ(qm::trace::start("hot").status, qm::Status::kOk);
  void* leaked = cache_->allocate();
  ASSERT_EQ(qm::trace::stop("hot").status, qm::Status::kOk);
  void* during = cache_->allocate();
  cache_->free(during);
  if (counter_is_exact()) {
    EXPECT_GT(pair_cost(cache_), kPair);  // a record is left: frees look for it
  }
  cache_->free(leaked);
  cache_->free(cache_->allocate());
  if (counter_is_exact()) {
    EXPECT_EQ(pair_cost(cache_), kPair);
  }
}

}  // namespace
