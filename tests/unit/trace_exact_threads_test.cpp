// start, stop and reset are exact while every other hart allocates and frees without a pause.
//
// Conditions for detecting a defect (each was found by leaving it out):
// - Requests go out with delays of up to 400 us between them, so some harts are closed long before others; and the
//   observer delays inside its masked section, so that a section that has read the state word continues long after the
//   word has changed.
// - When a stop is near, harts hold almost nothing, so that the last record is soon gone.
// - Magazines are large, so that an open hart stays on its fast path for a long time.
// - The cache is completely open again in each cycle.
// - Objects always change hands: one hart allocates, another frees.
//
// An allocation is checked only if the published phase was the same before and after it; then the record of that object
// is looked up. With QM_TRACE_DEFECT the commands have a defect, and the test passes iff it detects a violation.

#include "trace_fixture.hpp"

#include <atomic>

#include <qm/config.h>
#include <qm/test/harts.hpp>
#include <qm/test/seed.hpp>

namespace trace_exact_threads_test {

using namespace qm;
using qm::test::Random;

#if defined(QM_TRACE_DEFECT)
constexpr bool kSound = QM_TRACE_DEFECT == 0;
#else
constexpr bool kSound = true;
#endif

/// true: every traced operation goes through the slow observer; else most take the traced path, with its own races.
#if defined(QM_TRACE_SHORT_WAY)
constexpr bool kSlow = false;
#else
constexpr bool kSlow = true;
#endif

/// Delays by up to 400 us.
void dawdle(Random& random) {
  const std::uint64_t begin = hal::Port::ticks();
  const std::uint64_t span = random.below(hal::Port::tick_rate() / 2500);
  while (hal::Port::ticks() - begin < span) hal::Port::relax();
}

Random& own_random() {
  static Random randoms[hal::Port::kMaxHarts];
  static bool seeded[hal::Port::kMaxHarts];
  const unsigned hart = hal::Port::hart_index();
  if (!seeded[hart]) randoms[hart] = Random(qm::test::seed() * 64 + hart);
  seeded[hart] = true;
  return randoms[hart];
}

/// Forwards to the trace, and sometimes delays in record(): interrupts are masked, and the state word has been read.
class SlowObserver final : public Observer {
 public:
  explicit SlowObserver(Observer& trace) : observer_(trace) {}
  void prepare(const Allocation& a, void* object, Prepared& p) noexcept override { observer_.prepare(a, object, p); }
  bool record(const Allocation& a, void* object, Prepared& p) noexcept override {
    if (own_random().below(200) == 0) dawdle(own_random());
    return observer_.record(a, object, p);
  }
  void release(Prepared& p) noexcept override { observer_.release(p); }
  void forget(Cache& cache, void* object) noexcept override { observer_.forget(cache, object); }
  void forget(Arena& arena, std::uintptr_t start) noexcept override { observer_.forget(arena, start); }
  void resized(Arena& arena, std::uintptr_t start, std::size_t size, std::size_t former) noexcept override {
    observer_.resized(arena, start, size, former);
  }
  void release_handles(std::uint32_t* handles, std::size_t count) noexcept override {
    observer_.release_handles(handles, count);
  }
  void created(Cache& cache) noexcept override { observer_.created(cache); }
  void destroyed(Cache& cache) noexcept override { observer_.destroyed(cache); }
  void destroyed(Arena& arena) noexcept override { observer_.destroyed(arena); }

 private:
  Observer& observer_;
};

enum Phase : std::uint32_t {
  kOpen,
  kDrain,
  kStarting,
  kOn,
  kResetting,
  kAfterReset,
  kStopping,
  kStopped,
  kEnd,
  kPhases
};

#if defined(QM_EXACT_CYCLES)
constexpr std::uint32_t kCycles = QM_EXACT_CYCLES;
#elif defined(QM_TARGET)
constexpr std::uint32_t kCycles = 60;  // 8 harts of an emulator share one or two cores
#else
constexpr std::uint32_t kCycles = kSound ? 250 : 1000;
#endif
constexpr unsigned kHeld = 24;  // objects that a worker keeps

struct alignas(64) Worker {
  std::atomic<std::uint32_t> operations{0};
  std::atomic<std::uint32_t> inside_on{0};           ///< allocations entirely inside this cycle's kOn
  std::atomic<std::uint32_t> inside_after_reset{0};  ///< allocations entirely inside its kAfterReset
  std::atomic<std::uint32_t> drained{0};             ///< the phase word in which no object was held
};

struct Violations {
  std::atomic<std::uint32_t> unrecorded{0};  ///< allocated while on, without a record
  std::atomic<std::uint32_t> recorded{0};    ///< allocated while stopped or open, with a record
  std::atomic<std::uint32_t> stale{0};       ///< allocated at any time, with an older record of another hart
  std::atomic<std::uint32_t> survived{0};    ///< records from before a reset
  std::atomic<std::uint32_t> stragglers{0};  ///< recorded after the answer of stop
  std::atomic<std::uint32_t> orphans{0};     ///< records without an object
  std::atomic<std::uint32_t> miscounted{0};  ///< allocations that the statistics lack
  [[nodiscard]] std::uint32_t all() const {
    return unrecorded + recorded + stale + survived + stragglers + orphans + miscounted;
  }
};

Worker workers[hal::Port::kMaxHarts];
Violations seen;
std::atomic<std::uint32_t> published{0};  // cycle * kPhases + phase
std::atomic<void*> mailbox[4];
std::atomic<std::uint32_t> open_hart_caches{0};  // workers that found their per-hart cache open in kOpen
Cache* cache = nullptr;

constexpr Phase phase_of(std::uint32_t word) { return static_cast<Phase>(word % kPhases); }

struct Held {
  void* object = nullptr;
  std::uint32_t word = 0;  ///< the phase of its allocation
};

/// Checks an allocation that was entirely inside the phase @p word.
void classify(bool found, std::uint32_t word, Worker& mine) {
  switch (phase_of(word)) {
    case kOn:
    case kAfterReset:
      if (!found) seen.unrecorded.fetch_add(1, std::memory_order_relaxed);
      (phase_of(word) == kOn ? mine.inside_on : mine.inside_after_reset).fetch_add(1, std::memory_order_relaxed);
      break;
    case kOpen:
    case kStopped:
      if (found) seen.recorded.fetch_add(1, std::memory_order_relaxed);
      break;
    default: break;
  }
}

void free_all(Held (&held)[kHeld]) {
  for (Held& one : held) {
    if (one.object != nullptr) cache->free(one.object);
    one = {};
  }
  for (std::atomic<void*>& box : mailbox) {
    void* object = box.exchange(nullptr, std::memory_order_acq_rel);
    if (object != nullptr) cache->free(object);
  }
}

/// Allocates one object, passes the previous one in its place to another hart, and frees one passed by another hart.
void exchange(Held& place, std::uint32_t before, Worker& mine) {
  if (place.object != nullptr) {
    // A reset after its allocation has removed its record.
    if (phase_of(before) == kAfterReset && place.word == before - kAfterReset + kOn) {
      trace::DumpEntry entry;
      if (trace::find(*cache, place.object, entry)) seen.survived.fetch_add(1, std::memory_order_relaxed);
    }
    void* given = mailbox[own_random().below(std::size(mailbox))].exchange(place.object, std::memory_order_acq_rel);
    if (given != nullptr) cache->free(given);
  }
  place.object = cache->allocate();
  place.word = 0;
  if (place.object == nullptr) return;
  trace::DumpEntry entry;
  const bool found = trace::find(*cache, place.object, entry);
  if (found && entry.hart != hal::Port::hart_index()) seen.stale.fetch_add(1, std::memory_order_relaxed);
  // After the lookup: a reset may remove the record as soon as the phase has changed.
  if (published.load(std::memory_order_seq_cst) != before) return;
  place.word = before;
  classify(found, before, mine);
}

void work(unsigned hart) {
  Worker& mine = workers[hart];
  Held held[kHeld];
  for (;;) {
    const std::uint32_t before = published.load(std::memory_order_seq_cst);
    const Phase phase = phase_of(before);
    if (phase == kEnd) break;
    if (phase == kDrain) {
      free_all(held);
      mine.drained.store(before, std::memory_order_release);
      hal::Port::relax();
      continue;
    }
    if (phase == kStopping) {
      for (unsigned i = 1; i < kHeld; ++i) {
        if (held[i].object != nullptr) cache->free(held[i].object);
        held[i] = {};
      }
    }
    exchange(held[phase == kStopping ? 0 : own_random().below(kHeld)], before, mine);
    if (kMagazines && phase == kOpen && cache->hart_cache(hart).limit.load(std::memory_order_relaxed) != nullptr) {
      open_hart_caches.fetch_or(1U << hart, std::memory_order_relaxed);
    }
    mine.operations.fetch_add(1, std::memory_order_release);
    if (own_random().chance(2)) hal::Port::relax();
  }
  free_all(held);
}

class Exact : public qm::test::TraceTest {
 protected:
  unsigned harts = 0;
  std::uint32_t cycle = 0;

  void publish(Phase phase) {
    published.store(published.load(std::memory_order_relaxed) / kPhases * kPhases + phase, std::memory_order_seq_cst);
  }
  void publish_next(Phase phase) { published.store(++cycle * kPhases + phase, std::memory_order_seq_cst); }
  /// Waits until each worker has done @p count more operations.
  void let_work(std::uint32_t count) {
    std::uint32_t goals[hal::Port::kMaxHarts];
    for (unsigned hart = 1; hart < harts; ++hart) goals[hart] = workers[hart].operations.load() + count;
    for (unsigned hart = 1; hart < harts; ++hart) {
      while (static_cast<std::int32_t>(workers[hart].operations.load(std::memory_order_acquire) - goals[hart]) < 0) {
        hal::Port::relax();
      }
    }
  }
  /// All harts free everything; the watching ends with the last record.
  void drain() {
    publish(kDrain);
    const std::uint32_t word = published.load();
    for (unsigned hart = 1; hart < harts; ++hart) {
      while (workers[hart].drained.load(std::memory_order_acquire) != word) hal::Port::relax();
    }
    for (std::atomic<void*>& box : mailbox) EXPECT_EQ(box.load(), nullptr);
    if (cache->live_records.load() != 0 || cache->state().load() != 0 || dump_of(*cache).outstanding != 0)
      ++seen.orphans;
  }
  [[nodiscard]] std::uint64_t sum(std::atomic<std::uint32_t> Worker::*counter) const {
    std::uint64_t all = 0;
    for (unsigned hart = 1; hart < harts; ++hart) all += (workers[hart].*counter).load();
    return all;
  }

  void one_cycle() {
    publish_next(kOpen);
    let_work(60);
    publish(kStarting);
    let_work(2);
    for (Worker& one : workers) one.inside_on = one.inside_after_reset = 0;  // no hart counts between drain and start
    const std::uint64_t before = trace::cache_trace(*cache).figures.recorded;
    ASSERT_EQ(trace::start("exact").status, Status::kOk);
    publish(kOn);
    let_work(40);
    const bool with_reset = cycle % 2 == 0;
    if (with_reset) {
      publish(kResetting);
      ASSERT_EQ(trace::reset("exact").status, Status::kOk);
      publish(kAfterReset);
      let_work(40);
    }
    publish(kStopping);
    let_work(2);
    ASSERT_EQ(trace::stop("exact").status, Status::kOk);
    const trace::CacheTrace after = trace::cache_trace(*cache);
    publish(kStopped);
    const std::uint64_t least = with_reset ? sum(&Worker::inside_after_reset) : before + sum(&Worker::inside_on);
    if (after.figures.recorded < least || after.figures.all_dropped() != 0) ++seen.miscounted;
    let_work(40);
    if (trace::cache_trace(*cache).figures.recorded != after.figures.recorded) ++seen.stragglers;
    drain();
  }
};

TEST_F(Exact, no_record_is_too_early_too_late_or_missing) {
  if (kChecked) GTEST_SKIP() << "a checking build's per-hart caches stay closed";
  harts = qm::test::harts();
  if (harts < 2) GTEST_SKIP() << "one hart has nobody to race with";
  // If there are more harts than processors, they wait for each other most of the time.
  const std::uint32_t cycles = kSound && harts > 4 ? kCycles / 4 : kCycles;
  trace::Config config;
  begin_again(config, harts);
  CacheConfig cache_config;
  cache_config.name = "exact";
  cache_config.object_size = 64;
  cache_config.magazine_rounds = kMaxRounds;
  cache = Cache::create(cache_config);
  ASSERT_NE(cache, nullptr);
  SlowObserver slow(*observer());
  if (kSlow) set_observer(&slow);
  hal::set_ipi_pause([]() noexcept { dawdle(own_random()); });
  qm::test::on_each_hart(harts, [&](unsigned hart) {
    attach_hart(hart);
    if (hart != 0) return work(hart);
    while (cycle < cycles && seen.all() == 0 && !HasFatalFailure()) one_cycle();
    publish(kEnd);
  });
  for (std::atomic<void*>& box : mailbox) {
    if (void* object = box.exchange(nullptr)) cache->free(object);
  }
  hal::set_ipi_pause(nullptr);
  const std::uint32_t all_workers = (1U << harts) - 2;
  if (kSound) {
    EXPECT_EQ(cycle, cycles);
    EXPECT_EQ(open_hart_caches.load(), kMagazines ? all_workers : 0U);
    EXPECT_EQ(seen.unrecorded.load(), 0U);
    EXPECT_EQ(seen.recorded.load(), 0U);
    EXPECT_EQ(seen.stale.load(), 0U);
    EXPECT_EQ(seen.survived.load(), 0U);
    EXPECT_EQ(seen.stragglers.load(), 0U);
    EXPECT_EQ(seen.orphans.load(), 0U);
    EXPECT_EQ(seen.miscounted.load(), 0U);
    EXPECT_TRUE(trace::validate());
    EXPECT_TRUE(cache->validate());
    EXPECT_EQ(cache->stats().in_use, 0U);
  } else {
    EXPECT_NE(seen.all(), 0U) << "the defect was not seen in " << cycle << " cycles";
  }
}

}  // namespace trace_exact_threads_test
