#include <qm/exhaustion.hpp>

#include <qm/detail/lock.hpp>

#include "pressure/drain.hpp"
#include "pressure/exhaustion_report.hpp"

namespace qm {
namespace exhaustion {
namespace {

/// Most drains before the reclaimers are asked: another allocation may take the memory that the first one found.
constexpr unsigned kDrains = 3;
/// How long a waiting allocation sleeps before it drains again: from the first to the last of these, twice as long each
/// time.
constexpr std::uint32_t kFirstPollMs = 1;
constexpr std::uint32_t kLastPollMs = 16;
/// Least time between two posts while finish_drain() has not been called.
constexpr std::uint32_t kPostIntervalMs = 10;

constinit Lock lock;  // guards what follows; a leaf
constinit List<Reclaimer> reclaimers;

constinit ExhaustionConfig config;
constinit std::atomic<const ReportCalls*> reporting{nullptr};  // null until reports are configured
constinit std::atomic<std::uint32_t> failure_count{0};
constinit std::atomic<std::uint32_t> atomic_count{0};
constinit std::atomic<std::uint32_t> frees{0};     // calls of note_free(), made only under pressure
constinit std::atomic<hal::HartMask> sleepers{0};  // harts that sleep until the next call, which clears it
constinit std::atomic<std::uint32_t> rescued_count{0};
constinit std::atomic<std::uint32_t> wait_count{0};

/// What is left to finish_drain() by failures that could not do it.
enum Duty : std::uint32_t { kNone = 0, kTell = 1, kDrain = 2 };
constinit std::atomic<std::uint32_t> duties{kNone};
constinit std::atomic<std::uint32_t> last_post{0};  // ticks, their lower half

/// Counts a failure, and reports it if reports are configured.
void note_failure(const Request& request, WaitPolicy done, hal::HartMask silent, Deliver when) noexcept {
  const std::uint32_t failures = failure_count.fetch_add(1, std::memory_order_relaxed) + 1;
  if (done == WaitPolicy::kAtomic) atomic_count.fetch_add(1, std::memory_order_relaxed);
  // acquire: pairs with the release in configure_exhaustion().
  const ReportCalls* calls = reporting.load(std::memory_order_acquire);
  if (calls != nullptr) calls->note(request, done, silent, when, failures, config);
}

/// Enters the first reclaimer: it cannot be removed until leave_reclaimer().
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

class ReclaimLoop;
/// Asks all reclaimers, one after the other, each followed by a drain and an allocation. Null until one is added: an
/// image that adds none does not link it.
constinit std::atomic<bool (*)(ReclaimLoop&) noexcept> ask_reclaimers{nullptr};

/// One allocation that reclaims. While it lives, memory is under pressure: under_pressure().
class ReclaimLoop {
 public:
  ReclaimLoop(const Request& request, Attempt attempt, void* argument) noexcept
      : request_(request), attempt_(attempt), argument_(argument), begun_(hal::Port::ticks()) {
    internal::shortages.fetch_add(1, std::memory_order_seq_cst);
    enter();
  }
  ~ReclaimLoop() {
    leave();
    internal::shortages.fetch_sub(1, std::memory_order_seq_cst);
  }
  ReclaimLoop(const ReclaimLoop&) = delete;
  ReclaimLoop& operator=(const ReclaimLoop&) = delete;

  std::uintptr_t run() noexcept {
    if (drain_and_try()) return result_;
    // acquire: pairs with the release in add_reclaimer().
    auto* const ask = ask_reclaimers.load(std::memory_order_acquire);
    if (ask != nullptr && ask(*this)) return result_;
    if (kind_of(request_.wait_policy) == WaitPolicy::kWait && hal::may_wait()) wait();
    return result_;
  }
  [[nodiscard]] hal::HartMask silent() const noexcept { return silent_; }

  static bool ask_all(ReclaimLoop& self) noexcept {
    for (Reclaimer* one = first_reclaimer(); one != nullptr; one = leave_reclaimer(one, self.result_ != 0)) {
      if (one->function(self.request_.size, one->context) != 0) self.drain_and_try();
    }
    return self.result_ != 0;
  }

 private:
  // X4
  void enter() noexcept { thread_.reclaiming = true; }
  void leave() noexcept { thread_.reclaiming = false; }

  bool try_again() noexcept { return (result_ = attempt_(argument_)) != 0; }

  [[gnu::noinline]] bool drain_and_try() noexcept {
    if (!request_.drains) return try_again();
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
    const std::uint64_t deadline = begun_ + hal::ticks_of(wait_bound_ms(request_.wait_policy));
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

  /// Sleeps until @p until or the first note_free() after @p seen, or shorter.
  void pause(std::uint64_t until, std::uint32_t seen) noexcept {
    leave();
    // Set the bit before reading the count: a free in between finds the bit and ends the sleep. Interrupts are masked
    // from the bit on, so the interrupt that reports the free stays pending, and the bit is still that of the running
    // hart. A configured `pause` takes care of this itself.
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

  const Request& request_;
  Attempt attempt_;
  void* argument_;
  std::uint64_t begun_;
  std::uintptr_t result_ = 0;
  hal::HartMask silent_ = 0;
  hal::ThreadState& thread_ = hal::thread_state();
};

/// Leaves @p more to finish_drain(), and starts the part that needs no waiting. It starts no second drain soon after
/// one that is not finished, so many failures do not cause many interrupts.
void leave_to_finish(std::uint32_t more) noexcept {
  const auto now = static_cast<std::uint32_t>(hal::Port::ticks());
  const bool known = (duties.fetch_or(more, std::memory_order_acq_rel) & more) == more;
  if (known && now - last_post.load(std::memory_order_relaxed) < hal::ticks_of(kPostIntervalMs)) return;
  last_post.store(now, std::memory_order_relaxed);
  if ((more & kDrain) != 0) post_drain();
  if (config.drain_wanted != nullptr) config.drain_wanted();
}

/// The failure of an allocation that may not wait.
void fail_atomically(const Request& request) noexcept {
  note_failure(request, WaitPolicy::kAtomic, 0, config.drain_wanted != nullptr ? Deliver::kLater : Deliver::kNow);
  leave_to_finish(request.drains ? kTell | kDrain : kTell);
}

}  // namespace

std::uintptr_t reclaim_and_retry(const Request& request, Attempt attempt, void* argument) noexcept {
  const WaitPolicy kind = kind_of(request.wait_policy);
  if (kind == WaitPolicy::kQuiet) return 0;
  if (kind == WaitPolicy::kAtomic || !hal::may_ask_harts()) {
    fail_atomically(request);
    return 0;
  }
  if (hal::thread_state().reclaiming) return 0;  // X4
  std::uintptr_t result = 0;
  hal::HartMask silent = 0;
  {
    ReclaimLoop loop(request, attempt, argument);
    result = loop.run();
    silent = loop.silent();
  }
  if (result != 0) {
    rescued_count.fetch_add(1, std::memory_order_relaxed);
  } else {
    note_failure(request, kind == WaitPolicy::kWait ? kind : WaitPolicy::kReclaim, silent, Deliver::kNow);
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

const Reclaimer* exhaustion::internal::first_in_line() noexcept {
  using namespace exhaustion;
  const LockGuard hold(lock);
  return reclaimers.front();
}

Status add_reclaimer(Reclaimer& reclaimer) noexcept {
  using namespace exhaustion;
  if (reclaimer.function == nullptr) return Status::kInvalid;
  const LockGuard hold(lock);
  if (reclaimer.linked()) return Status::kBusy;
  reclaimers.push_back(&reclaimer);
  ask_reclaimers.store(&ReclaimLoop::ask_all, std::memory_order_release);
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
  stats.broadcasts = drains.broadcasts;
  stats.posts = drains.posts;
  stats.missed = drains.missed;
  stats.waits = wait_count.load(std::memory_order_relaxed);
  stats.reports = calls != nullptr ? calls->reports() : 0;
  return stats;
}

}  // namespace qm
