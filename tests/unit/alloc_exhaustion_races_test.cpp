/// Exhaustion while everything else happens: every hart allocates and frees in a memory that is too small, with every
/// wait policy, while tracing starts, stops and resets, faults and reclaimers are set and removed, and caches and
/// arenas are created and destroyed.

#include "trace_fixture.hpp"

#include <array>
#include <atomic>

#include <qm/exhaustion.hpp>
#include <qm/fault.hpp>
#include <qm/test/harts.hpp>
#include <qm/test/seed.hpp>

namespace alloc_exhaustion_races_test {

using namespace qm;

constexpr std::size_t kRam = 1024 * 1024;
constexpr std::size_t kLeft = 64 * 1024;  // bytes; each hart's worker needs about 45 KiB, and sometimes 80
constexpr unsigned kSteps = 2000;

struct Object {
  std::atomic<std::uint32_t> holder;  // 0: none; else hart + 1
};

std::atomic<unsigned> violations;
std::atomic<unsigned> reports;

class ExhaustionRaces : public qm::test::TraceTest {
 protected:
  void SetUp() override {
    trace::Config config;
    config.record_bytes = 400 * trace::kBytesPerRecord;
    config.stack_bytes = 4096;
    config.caches = 64;
    begin(config, test::harts(), kRam);
    configure_exhaustion({.report = [](const ExhaustionReport&) noexcept { reports.fetch_add(1); }});
  }
  static std::size_t accounted_bytes() { return free_bytes() + boundary_tags_stats().pages * 4096; }
};

/// The work of one hart.
class Worker {
 public:
  Worker(Cache& shared, Cache& large, unsigned hart)
      : shared_(shared), large_(large), hart_(hart), random_(test::seed() + hart) {
    name_[4] = static_cast<char>('0' + hart);
  }

  void run() {
    for (unsigned step = 0; step < kSteps; ++step) {
      switch (random_.below(40)) {
        case 0: reclaim(); break;
        case 1: command(); break;
        case 2: come_and_go(); break;
        case 3: inject(); break;
        case 4: numbers(); break;
        case 5: finish_drain(); break;
        case 6: lend(); break;
        default: churn(); break;
      }
    }
    for (Object*& object : small_) give(shared_, object);
    for (Object*& object : big_) give(large_, object);
    heap::free(block_);
  }

 private:
  WaitPolicy wait_policy() {
    switch (random_.below(8)) {
      case 0: return WaitPolicy::kAtomic;
      case 1: return WaitPolicy::kQuiet;
      case 2: return wait_at_most(2);
      case 3: return WaitPolicy::kReclaim;
      default: return WaitPolicy::kAuto;
    }
  }

  void take(Cache& cache, Object*& object) {
    object = static_cast<Object*>(cache.allocate_at(nullptr, 0, wait_policy()));
    if (object == nullptr) return;
    if (object->holder.exchange(hart_ + 1, std::memory_order_relaxed) != 0) violations.fetch_add(1);
  }
  void give(Cache& cache, Object*& object) {
    if (object == nullptr) return;
    if (object->holder.exchange(0, std::memory_order_relaxed) != hart_ + 1) violations.fetch_add(1);
    cache.free(object);
    object = nullptr;
  }

  void churn() {
    Object*& object = small_[random_.below(small_.size())];
    object == nullptr ? take(shared_, object) : give(shared_, object);
    Object*& other = big_[random_.below(big_.size())];
    other == nullptr ? take(large_, other) : give(large_, other);
    if (random_.chance(10)) {
      heap::free(block_);
      block_ = heap::allocate_at(nullptr, 600 + random_.below(20000), wait_policy());
    }
  }

  void command() {
    switch (random_.below(3)) {
      case 0: trace::start("shared"); break;
      case 1: trace::stop("*"); break;
      default: trace::reset("shared"); break;
    }
  }

  void come_and_go() {
    Cache* cache = Cache::create({.name = name_, .object_size = 200});
    if (cache == nullptr) return;
    void* object = cache->allocate_at(nullptr, 0, wait_policy());
    if (object != nullptr) cache->free(object);
    EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  }

  void inject() {
    if (random_.chance(50)) {
      fault::clear();
    } else {
      fault::set(shared_, random_.chance(50) ? fault::Mode::kNth : fault::Mode::kEvery,
                 static_cast<std::uint32_t>(1 + random_.below(20)));
    }
  }

  /// During a few allocations, any hart that runs out of memory may reclaim a block of this hart.
  void lend() {
    std::atomic<void*> block{heap::allocate(3000)};
    Reclaimer lender(
        [](std::size_t, void* context) noexcept -> std::size_t {
          void* lent = static_cast<std::atomic<void*>*>(context)->exchange(nullptr);
          heap::free(lent);
          return lent != nullptr ? 3000 : 0;
        },
        &block);
    EXPECT_EQ(add_reclaimer(lender), Status::kOk);
    for (int i = 0; i < 4; ++i) churn();
    EXPECT_EQ(remove_reclaimer(lender), Status::kOk);
    heap::free(block.exchange(nullptr));
  }

  void numbers() {
    Arena ids;
    const ArenaConfig config{.name = name_, .start = 1, .size = 64, .quantum = 1, .quantum_cache_max = 1};
    if (ids.initialize(config) != Status::kOk) return;
    const std::uintptr_t number = ids.allocate(1, Fit::kInstant, nullptr, wait_policy());
    if (number != 0) {
      EXPECT_EQ(ids.free(number, 1), Status::kOk);
    }
    EXPECT_EQ(ids.destroy(), Status::kOk);
  }

  Cache& shared_;
  Cache& large_;
  unsigned hart_;
  test::Random random_;
  char name_[6] = "hart?";
  std::array<Object*, 160> small_{};
  std::array<Object*, 24> big_{};
  void* block_ = nullptr;
};

bool forget_holder(void* object, void*) noexcept {
  static_cast<Object*>(object)->holder.store(0, std::memory_order_relaxed);
  return true;
}

TEST_F(ExhaustionRaces, nothing_is_lost_corrupted_or_stuck) {
  violations = 0;
  const unsigned harts = test::harts();
  Cache* shared = Cache::create({.name = "shared", .object_size = 96, .constructor = forget_holder});
  Cache* large = Cache::create({.name = "large", .object_size = 2000, .constructor = forget_holder});
  ASSERT_TRUE(shared != nullptr && large != nullptr);
  const std::size_t ballast_bytes = base_arena().stats().largest_free - kLeft;
  const std::uintptr_t ballast = base_arena().allocate(ballast_bytes);
  ASSERT_NE(ballast, 0U);
  test::Barrier barrier(harts);
  test::on_each_hart(harts, [&](unsigned hart) {
    attach_hart(hart);
    barrier.arrive();
    Worker worker(*shared, *large, hart);
    worker.run();
    if (hart != 0) detach_hart(hart);
  });
  fault::clear();
  EXPECT_EQ(trace::stop("*").status, Status::kOk);
  EXPECT_EQ(violations.load(), 0U);
  EXPECT_FALSE(exhaustion::under_pressure());
  for (Cache* cache : {shared, large}) {
    EXPECT_TRUE(cache->validate());
    EXPECT_EQ(cache->stats().in_use, 0U);
    EXPECT_EQ(cache->stats().misuses, 0U);
  }
  const ExhaustionStats stats = exhaustion_stats();
  EXPECT_GT(stats.failures, 0U);  // memory was indeed exhausted
  EXPECT_EQ(stats.missed, 0U);
  EXPECT_EQ(base_arena().free(ballast, ballast_bytes), Status::kOk);
  EXPECT_EQ(Cache::destroy(shared), Status::kOk);
  EXPECT_EQ(Cache::destroy(large), Status::kOk);
}

}  // namespace alloc_exhaustion_races_test
