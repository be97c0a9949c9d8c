// Dumps while every other hart allocates and frees from the dumped cache: each record that is live all the time is
// shown exactly once, in order, and no record that is newer than the dump.

#include "trace_fixture.hpp"

#include <atomic>

#include <qm/config.h>
#include <qm/test/harts.hpp>
#include <qm/test/seed.hpp>

namespace trace_dump_threads_test {

using namespace qm;

constexpr unsigned kPermanent = 1000;
#if defined(QM_TARGET)
constexpr unsigned kDumps = 12;  // the harts of an emulator share one or two cores
#else
constexpr unsigned kDumps = 40;
#endif
constexpr unsigned kHeld = 100;

void* permanent[kPermanent];
std::uint8_t shown[kPermanent];
std::atomic<std::uint32_t> running{0};
std::atomic<std::uint32_t> churned{0};
Cache* cache = nullptr;
trace::Dump dump;
trace::DumpEntry entry;

void churn(unsigned hart) {
  qm::test::Random random(qm::test::seed() * 64 + hart);
  void* held[kHeld] = {};
  while (running.load(std::memory_order_acquire) != 0) {
    void*& place = held[random.below(kHeld)];
    if (place != nullptr) cache->free(place);
    place = cache->allocate();
    churned.fetch_add(1, std::memory_order_relaxed);
    if (random.chance(2)) hal::Port::relax();
  }
  for (void* object : held) {
    if (object != nullptr) cache->free(object);
  }
}

/// @returns the index of an object in the sorted table `permanent`; kPermanent if it is not there.
unsigned index_of(std::uintptr_t object) {
  unsigned low = 0;
  unsigned high = kPermanent;
  while (low < high) {
    const unsigned middle = (low + high) / 2;
    if (reinterpret_cast<std::uintptr_t>(permanent[middle]) < object) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < kPermanent && reinterpret_cast<std::uintptr_t>(permanent[low]) == object ? low : kPermanent;
}

void sort_permanent() {
  for (unsigned i = 1; i < kPermanent; ++i) {
    void* object = permanent[i];
    unsigned at = i;
    for (; at != 0 && permanent[at - 1] > object; --at) permanent[at] = permanent[at - 1];
    permanent[at] = object;
  }
}

class DumpThreads : public qm::test::TraceTest {
 protected:
  unsigned harts = 0;

  /// Waits until the others have done a few operations, so that a dump spans many of them.
  void let_churn() const {
    const std::uint32_t begin = churned.load(std::memory_order_relaxed);
    while (harts > 1 && churned.load(std::memory_order_relaxed) - begin < 100) hal::Port::relax();
  }
  void one_dump() {
    for (std::uint8_t& one : shown) one = 0;
    dump.begin(*cache);
    // Every later allocation has a higher sequence number than this one.
    void* marker = cache->allocate();
    trace::DumpEntry young;
    ASSERT_TRUE(trace::find(*cache, marker, young));
    std::uint64_t last = 0;
    unsigned all = 0;
    while (dump.next(entry)) {
      ASSERT_GT(entry.sequence, last);
      ASSERT_LT(entry.sequence, young.sequence);
      last = entry.sequence;
      if (++all % 32 == 0) let_churn();
      const unsigned index = index_of(entry.object);
      if (index < kPermanent) ++shown[index];
    }
    const trace::DumpSummary summary = dump.finish();
    EXPECT_EQ(summary.outstanding, all);
    EXPECT_TRUE(summary.ended);
    EXPECT_EQ(summary.figures.all_dropped(), 0U);
    for (unsigned i = 0; i < kPermanent; ++i) ASSERT_EQ(shown[i], 1) << "object " << i;
    cache->free(marker);
  }
};

TEST_F(DumpThreads, each_record_that_stays_is_shown_exactly_once) {
  harts = qm::test::harts();
  begin_again({}, harts);
  cache = make("packet");
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  for (void*& object : permanent) object = cache->allocate();
  sort_permanent();
  running = 1;
  qm::test::on_each_hart(harts, [&](unsigned hart) {
    attach_hart(hart);
    if (hart != 0) return churn(hart);
    let_churn();
    for (unsigned i = 0; i < kDumps && !HasFatalFailure(); ++i) one_dump();
    running.store(0, std::memory_order_release);
  });
  for (void* object : permanent) cache->free(object);
  EXPECT_EQ(trace::cache_trace(*cache).live, 0U);
  EXPECT_TRUE(trace::validate());
}

}  // namespace trace_dump_threads_test
