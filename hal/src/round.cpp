#include <qm/hal/round.hpp>

#include <array>

namespace qm::hal {
namespace {

enum Box : std::uint32_t { kNone, kPending, kRunning };

struct alignas(64) Slot {
  std::atomic<std::uint32_t> box{kNone};
};

std::array<Slot, Port::kMaxHarts> slots;
std::atomic<std::uint32_t> round_lock{0};
// Written by the initiator that holds round_lock, before it publishes PENDING (release); read after the hart's CAS (acquire).
RoundFunction round_function = nullptr;
void* round_argument = nullptr;
std::atomic<std::uint32_t> round_initiator{0};
std::atomic<HartMask> round_waiting{0};  // harts that wait for round_lock: they are woken when it is free

std::atomic<void (*)() noexcept> ipi_pause{nullptr};

std::atomic<HartMask> online{0};
std::atomic<std::uint32_t> panic{0};

constexpr HartMask bit(unsigned hart) { return HartMask{1} << hart; }

class Deadline {
 public:
  explicit Deadline(std::uint32_t ms) noexcept : start_(Port::ticks()), ticks_(Port::tick_rate() / 1000 * ms) {}
  [[nodiscard]] bool passed() const noexcept { return Port::ticks() - start_ > ticks_; }

 private:
  std::uint64_t start_;
  std::uint64_t ticks_;
};

/// Why a wait ends early; kDone means that it does not.
RoundStatus interruption(const Deadline& deadline, AbortTest abort) noexcept {
  if (in_panic()) return RoundStatus::kUnsafe;
  if (abort != nullptr && abort()) return RoundStatus::kAborted;
  if (deadline.passed()) return RoundStatus::kTimedOut;
  return RoundStatus::kDone;
}

/// Looks at hart's box with interrupts masked and waits if it is not empty: an IPI that arrives between the look and the
/// wait stays pending and ends it.
bool answered(unsigned hart) noexcept {
  InterruptGuard masked;
  // acquire: pairs with the release in on_ipi, so that what the function did there is visible here.
  if (slots[hart].box.load(std::memory_order_acquire) == kNone) return true;
  Port::wait_for_interrupt();
  return false;
}

/// Takes round_lock, or waits with interrupts masked and lets them in on return, so that this hart serves its own box.
bool acquired_round_lock() noexcept {
  const InterruptGuard masked;
  round_waiting.fetch_or(bit(Port::hart_index()), std::memory_order_seq_cst);
  // acquire: pairs with the release in release_round_lock(). The bit before the look: a release in between wakes this hart.
  if (round_lock.load(std::memory_order_seq_cst) == 0 && round_lock.exchange(1, std::memory_order_acquire) == 0) {
    round_waiting.fetch_and(~bit(Port::hart_index()), std::memory_order_relaxed);
    return true;
  }
  Port::wait_for_interrupt();
  return false;
}

void release_round_lock() noexcept {
  round_lock.store(0, std::memory_order_seq_cst);
  const HartMask waiting = round_waiting.exchange(0, std::memory_order_seq_cst);
  for (unsigned hart = 0; hart < Port::kMaxHarts; ++hart) {
    if ((waiting & bit(hart)) != 0 && hart != Port::hart_index()) Port::send_ipi(hart);
  }
}

/// Withdraws every request that has not started, and waits for those that have: they are O(1).
void withdraw(HartMask asked) noexcept {
  for (unsigned hart = 0; hart < Port::kMaxHarts; ++hart) {
    if ((asked & bit(hart)) == 0) continue;
    std::uint32_t expected = kPending;
    slots[hart].box.compare_exchange_strong(expected, kNone, std::memory_order_acq_rel);
    while (slots[hart].box.load(std::memory_order_acquire) == kRunning && !in_panic()) Port::relax();
  }
}

}  // namespace

#if defined(QM_TARGET)
constinit thread_local HartLocal hart_local_block;
#else
HartLocal& hart_local() noexcept {
  static thread_local HartLocal block;
  return block;
}
#endif

void hart_online(unsigned hart) noexcept {
  online.fetch_or(bit(hart), std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void hart_offline(unsigned hart) noexcept { online.fetch_and(~bit(hart), std::memory_order_seq_cst); }

HartMask online_harts() noexcept { return online.load(std::memory_order_seq_cst); }

void enter_panic() noexcept { panic.store(1, std::memory_order_seq_cst); }

bool in_panic() noexcept { return panic.load(std::memory_order_relaxed) != 0; }

bool may_wait() noexcept {
  const HartLocal& local = hart_local();
  if (local.lock_depth != 0 || local.trap_depth != 0 || in_panic()) return false;
  const InterruptGuard masked;
  return masked.were_enabled();
}

void set_ipi_pause(void (*pause)() noexcept) noexcept { ipi_pause.store(pause, std::memory_order_relaxed); }

RoundResult run_on_harts(HartMask harts, RoundFunction function, void* argument, std::uint32_t deadline_ms,
                         AbortTest abort) noexcept {
  if (!may_wait()) return {RoundStatus::kUnsafe, Port::hart_index()};
  const Deadline deadline(deadline_ms);
  while (!acquired_round_lock()) {
    const RoundStatus why = interruption(deadline, abort);
    if (why != RoundStatus::kDone) return {why, round_initiator.load(std::memory_order_relaxed)};
  }
  round_function = function;
  round_argument = argument;

  HartMask asked = 0;
  {
    const InterruptGuard masked;
    const unsigned self = Port::hart_index();
    round_initiator.store(self, std::memory_order_relaxed);
    // The initiator has published its state word; this fence and the one in hart_online() order it against the set of harts.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    harts &= online_harts();
    asked = harts & ~bit(self);
    for (unsigned hart = 0; hart < Port::kMaxHarts; ++hart) {
      if ((asked & bit(hart)) != 0) slots[hart].box.store(kPending, std::memory_order_release);
    }
    if ((harts & bit(self)) != 0) function(self, argument);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);  // the boxes before the interrupts
  for (unsigned hart = 0; hart < Port::kMaxHarts; ++hart) {
    if ((asked & bit(hart)) == 0) continue;
    if (auto* const pause = ipi_pause.load(std::memory_order_relaxed)) pause();
    Port::send_ipi(hart);
  }

  RoundResult result;
  for (unsigned hart = 0; hart < Port::kMaxHarts && result.ok(); ++hart) {
    if ((asked & bit(hart)) == 0) continue;
    while (!answered(hart)) {
      const RoundStatus why = interruption(deadline, abort);
      if (why != RoundStatus::kDone) {
        result = {why, hart};
        withdraw(asked);
        break;
      }
    }
  }
  release_round_lock();
  return result;
}

void on_ipi(unsigned hart) noexcept {
  std::uint32_t expected = kPending;
  // acquire: pairs with the initiator's release of PENDING; release: a withdrawal that fails must see RUNNING in order.
  if (!slots[hart].box.compare_exchange_strong(expected, kRunning, std::memory_order_acq_rel)) return;
  round_function(hart, round_argument);
  slots[hart].box.store(kNone, std::memory_order_release);
  const unsigned initiator = round_initiator.load(std::memory_order_relaxed);
  if (initiator != hart) Port::send_ipi(initiator);  // ends the initiator's wait
}

}  // namespace qm::hal
