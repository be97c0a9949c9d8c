#include <qm/exhaustion.hpp>

#include <qm/lock.hpp>

#include "drain.hpp"
#include "exhaustion_report.hpp"

namespace qm {
namespace exhaustion {
namespace {

/// Most drains before the reclaimers are asked: an allocation elsewhere may take what the first has found.
constexpr unsigned kDrains = 3;
/// How long a waiting allocation sleeps before it drains again: twice as long each time, from the first to the last of
/// these.
constexpr std::uint32_t kFirstPollMs = 1;
constexpr std::uint32_t kLastPollMs = 16;
/// Least time between two posts while nobody finishes the drain.
constexpr std::uint32_t kPostIntervalMs = 10;

constinit Lock lock;  // guards what follows; a leaf
constinit List<Reclaimer> reclaimers;

constinit ExhaustionConfig config;
constinit std::atomic<const ReportCalls*> reporting{nullptr};  // until somebody configures reports
constinit std::atomic<std::uint32_t> failure_count{0};
constinit std::atomic<std::uint32_t> atomic_count{0};
constinit std::atomic<std::uint32_t> frees{0};     // note_free() so far, while somebody waits
constinit std::atomic<hal::HartMask> sleepers{0};  // harts that sleep until the next, which clears it
constinit std::atomic<std::uint32_t> rescued_count{0};
constinit std::atomic<std::uint32_t> wait_count{0};

/// What finish_drain() has to do, for failures that could not do it.
enum Duty : std::uint32_t { kNone = 0, kTell = 1, kDrain = 2 };
constinit std::atomic<std::uint32_t> duties{kNone};
constinit std::atomic<std::uint32_t> last_post{0};  // ticks, their lower half

/// Counts a failure, and reports it if anybody wants to know.
void note_failure(const Want& want, Effort done, hal::HartMask silent, Deliver when) noexcept {
  const std::uint32_t failures = failure_count.fetch_add(1, std::memory_order_relaxed) + 1;
  if (done == Effort::kAtomic) atomic_count.fetch_add(1, std::memory_order_relaxed);
  // acquire: pairs with the release in configure_exhaustion().
  const ReportCalls* calls = reporting.load(std::memory_order_acquire);
  if (calls != nullptr) calls->note(want, done, silent, when, failures, config);
}

/// Enters the first reclaimer: until it is left, it cannot be removed.
Reclaimer* first_reclaimer() noexcept {
  const LockGuard hold(lock);
  Reclaimer* first = reclaimers.front();
  if (first != nullptr) ++first->running;
  return first;
}

/// Leaves @p one and, unless there is @p enough, enters the next.
Reclaimer* leave_reclaimer(Reclaimer* one, bool enough) noexcept {
  const LockGuard hold(lock);
  Reclaimer* next = enough ? nullptr : reclaimers.next(one);
  --one->running;
  if (next != nullptr) ++next->running;
  return next;
}

class Pursuit;
/// Asks them all, one after the other, each followed by drain and allocation. Null until there is one: an image that
/// adds none does not link it.
constinit std::atomic<bool (*)(Pursuit&) noexcept> ask_reclaimers{nullptr};

/// One allocation on its way to memory. While it lives, memory is scarce().
class Pursuit {
 public:
  Pursuit(const Want& want, Attempt attempt, void* argument) noexcept
      : want_(want), attempt_(attempt), argument_(argument), begun_(hal::Port::ticks()) {
    internal::shortages.fetch_add(1, std::memory_order_seq_cst);
    enter();
  }
  ~Pursuit() {
    leave();
    internal::shortages.fetch_sub(1, std::memory_order_seq_cst);
  }
  Pursuit(const Pursuit&) = delete;
  Pursuit& operator=(const Pursuit&) = delete;

  std::uintptr_t run() noexcept {
    if (drain_and_try()) return result_;
    // acquire: pairs with the release in add_reclaimer().
    auto* const ask = ask_reclaimers.load(std::memory_order_acquire);
    if (ask != nullptr && ask(*this)) return result_;
    if (kind_of(want_.effort) == Effort::kWait && hal::may_wait()) wait();
    return result_;
  }
  [[nodiscard]] hal::HartMask silent() const noexcept { return silent_; }

  static bool ask_all(Pursuit& self) noexcept {
    for (Reclaimer* one = first_reclaimer(); one != nullptr; one = leave_reclaimer(one, self.result_ != 0)) {
      if (one->function(self.want_.size, one->context) != 0) self.drain_and_try();
    }
    return self.result_ != 0;
  }

 private:
  // X4
  void enter() noexcept { thread_.reclaiming = true; }
  void leave() noexcept { thread_.reclaiming = false; }

  bool try_again() noexcept { return (result_ = attempt_(argument_)) != 0; }

  [[gnu::noinline]] bool drain_and_try() noexcept {
    if (!want_.drains) return try_again();
    for (unsigned i = 0; i < kDrains; ++i) {
      const Drained drained = drain();
      silent_ = drained.silent;
      if (try_again()) return true;
      if (!drained.shared && !drained.moved()) return false;
    }
    return false;
  }

  [[gnu::noinline]] void wait() noexcept {
    wait_count.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t deadline = begun_ + hal::ticks_of(wait_bound_ms(want_.effort));
    std::uint32_t poll_ms = kFirstPollMs;
    std::uint64_t next_drain = hal::Port::ticks() + hal::ticks_of(poll_ms);
    for (std::uint64_t now = hal::Port::ticks(); now < deadline && !hal::in_panic(); now = hal::Port::ticks()) {
      const std::uint32_t seen = frees.load(std::memory_order_acquire);
      if (now < next_drain) {
        if (try_again()) return;
        pause(next_drain < deadline ? next_drain : deadline, seen);
        continue;
      }
      if (drain_and_try()) return;
      if (poll_ms < kLastPollMs) poll_ms *= 2;
      next_drain = hal::Port::ticks() + hal::ticks_of(poll_ms);
    }
    drain_and_try();
  }

  /// Sleeps until @p until or the first note_free() after @p seen, or not that long.
  void pause(std::uint64_t until, std::uint32_t seen) noexcept {
    leave();
    // The bit before the look: a free in between finds it and ends the sleep. Masked from the bit on, an interrupt that
    // tells of it stays pending, and this is still the hart of the bit; a `pause` looks after itself.
    if (config.pause != nullptr) {
      sleepers.fetch_or(1, std::memory_order_seq_cst);
      if (frees.load(std::memory_order_seq_cst) == seen) config.pause(until);
    } else {
      const hal::InterruptGuard masked;
      sleepers.fetch_or(hal::HartMask{1} << hal::Port::hart_index(), std::memory_order_seq_cst);
      if (frees.load(std::memory_order_seq_cst) == seen && hal::Port::ticks() < until) hal::Port::wait_for_interrupt();
    }
    enter();
  }

  const Want& want_;
  Attempt attempt_;
  void* argument_;
  std::uint64_t begun_;
  std::uintptr_t result_ = 0;
  hal::HartMask silent_ = 0;
  hal::ThreadState& thread_ = hal::thread_state();
};

/// Leaves @p more to finish_drain(), and begins with what needs no waiting. While a drain is on its way another is not
/// started: a storm of failures is not a storm of interrupts.
void leave_to_finish(std::uint32_t more) noexcept {
  const auto now = static_cast<std::uint32_t>(hal::Port::ticks());
  const bool known = (duties.fetch_or(more, std::memory_order_acq_rel) & more) == more;
  if (known && now - last_post.load(std::memory_order_relaxed) < hal::ticks_of(kPostIntervalMs)) return;
  last_post.store(now, std::memory_order_relaxed);
  if ((more & kDrain) != 0) post_drain();
  if (config.drain_wanted != nullptr) config.drain_wanted();
}

/// An allocation that could not wait.
void fail_atomically(const Want& want) noexcept {
  note_failure(want, Effort::kAtomic, 0, config.drain_wanted != nullptr ? Deliver::kLater : Deliver::kNow);
  leave_to_finish(want.drains ? kTell | kDrain : kTell);
}

}  // namespace

std::uintptr_t pursue(const Want& want, Attempt attempt, void* argument) noexcept {
  const Effort kind = kind_of(want.effort);
  if (kind == Effort::kQuiet) return 0;
  if (kind == Effort::kAtomic || !hal::may_ask_harts()) {
    fail_atomically(want);
    return 0;
  }
  if (hal::thread_state().reclaiming) return 0;  // X4
  std::uintptr_t result = 0;
  hal::HartMask silent = 0;
  {
    Pursuit pursuit(want, attempt, argument);
    result = pursuit.run();
    silent = pursuit.silent();
  }
  if (result != 0) {
    rescued_count.fetch_add(1, std::memory_order_relaxed);
  } else {
    note_failure(want, kind == Effort::kWait ? kind : Effort::kReclaim, silent, Deliver::kNow);
  }
  return result;
}

void start_drain() noexcept { leave_to_finish(kDrain); }

void note_free() noexcept {
  frees.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) == 0) return;
  const hal::InterruptGuard masked;
  const hal::HartMask asleep = sleepers.exchange(0, std::memory_order_seq_cst);
  if (config.pause != nullptr) {
    if (asleep != 0 && config.wake != nullptr) config.wake();
    return;
  }
  for (unsigned hart = 0; hart < hal::Port::kMaxHarts; ++hart) {
    if ((asleep >> hart & 1) != 0 && hart != hal::Port::hart_index()) hal::Port::send_ipi(hart);
  }
}

void reset() noexcept {
  const LockGuard hold(lock);
  reclaimers.reset();
  config = {};
  rescued_count.store(0, std::memory_order_relaxed);
  wait_count.store(0, std::memory_order_relaxed);
  duties.store(kNone, std::memory_order_relaxed);
  reset_drains();
  failure_count.store(0, std::memory_order_relaxed);
  atomic_count.store(0, std::memory_order_relaxed);
  if (const ReportCalls* calls = reporting.load(std::memory_order_acquire); calls != nullptr) calls->reset();
}

}  // namespace exhaustion

Status add_reclaimer(Reclaimer& reclaimer) noexcept {
  using namespace exhaustion;
  if (reclaimer.function == nullptr) return Status::kInvalid;
  const LockGuard hold(lock);
  if (reclaimer.linked()) return Status::kBusy;
  reclaimers.push_back(&reclaimer);
  ask_reclaimers.store(&Pursuit::ask_all, std::memory_order_release);
  return Status::kOk;
}

Status remove_reclaimer(Reclaimer& reclaimer) noexcept {
  using namespace exhaustion;
  for (;;) {
    {
      const LockGuard hold(lock);
      if (!reclaimer.linked()) return Status::kNotFound;
      if (reclaimer.running == 0) {
        List<Reclaimer>::remove(&reclaimer);
        return Status::kOk;
      }
    }
    if (!hal::may_wait() || hal::thread_state().reclaiming) return Status::kBusy;
    hal::Port::relax();
  }
}

void configure_exhaustion(const ExhaustionConfig& given) noexcept {
  using namespace exhaustion;
  config = given;
  if (reporting.load(std::memory_order_relaxed) == nullptr) {
    reporting.store(report_calls(failure_count.load(std::memory_order_relaxed)), std::memory_order_release);
  }
  set_drain_deadline(given.deadline_ms);
}

bool finish_drain() noexcept {
  using namespace exhaustion;
  const bool may = hal::may_ask_harts();
  const std::uint32_t due = may ? duties.exchange(kNone, std::memory_order_acq_rel) : std::uint32_t{kNone};
  if (due == kNone) return false;
  const ReportCalls* calls = reporting.load(std::memory_order_acquire);
  if (calls != nullptr) calls->deliver_noted(failure_count.load(std::memory_order_relaxed), config);
  if ((due & kDrain) != 0) drain();
  return true;
}

ExhaustionStats exhaustion_stats() noexcept {
  using namespace exhaustion;
  ExhaustionStats stats;
  const DrainCounts drains = drain_counts();
  const ReportCalls* calls = reporting.load(std::memory_order_acquire);
  stats.failures = failure_count.load(std::memory_order_relaxed);
  stats.atomic_failures = atomic_count.load(std::memory_order_relaxed);
  stats.rescued = rescued_count.load(std::memory_order_relaxed);
  stats.drains = drains.drains;
  stats.shared = drains.shared;
  stats.rounds = drains.rounds;
  stats.posts = drains.posts;
  stats.missed = drains.missed;
  stats.waits = wait_count.load(std::memory_order_relaxed);
  stats.reports = calls != nullptr ? calls->reports() : 0;
  return stats;
}

}  // namespace qm
