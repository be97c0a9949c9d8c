#include <qm/config.h>
#include <qm/hal/round.hpp>

#include <array>

#include <qm/hal/turn.hpp>

namespace qm::hal {
namespace {

enum Box : std::uint32_t { kNone, kPending, kRunning };

struct alignas(64) Slot {
  std::atomic<std::uint32_t> box{kNone};
  std::atomic<std::uint32_t> posted{0};
};

std::array<Slot, Port::kMaxHarts> slots;
constinit Turn round_turn;
// Written by the initiator whose turn it is, before it publishes PENDING (release); read after the hart's CAS
// (acquire).
RoundFunction round_function = nullptr;
void* round_argument = nullptr;
std::atomic<std::uint32_t> round_initiator{0};  // the hart that waits for the answers
std::atomic<PostFunction> post_function{nullptr};

std::atomic<void (*)() noexcept> ipi_pause{nullptr};

std::atomic<HartMask> online{0};
std::atomic<std::uint32_t> panic{0};

constexpr HartMask bit(unsigned hart) { return HartMask{1} << hart; }

/// Whether nothing of the allocator is under way on this hart but the caller. Masked.
bool is_outermost() noexcept {
  const HartLocal& local = hart_local();
  return local.lock_depth == 0 && local.trap_depth == 0 && !in_panic();
}

/// Masked, as the index that it looks at.
bool is_alone() noexcept { return !kManyHarts || (online_harts() & ~bit(Port::hart_index())) == 0; }

class Deadline {
 public:
  explicit Deadline(std::uint32_t ms) noexcept : start_(Port::ticks()), ticks_(ticks_of(ms)) {}
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

/// Looks at hart's box with interrupts masked and waits if it is not empty: an IPI that arrives between the look and
/// the wait stays pending and ends it.
bool answered(unsigned hart) noexcept {
  InterruptGuard masked;
  // The hart that waits before the look, since a thread may have come from another: pairs with serve_box(), where the
  // box comes before the hart. Either the box is found empty, or the interrupt comes here.
  round_initiator.store(Port::hart_index(), std::memory_order_seq_cst);
  // acquire: pairs with the release in serve_box(), so that what the function did there is visible here.
  if (slots[hart].box.load(std::memory_order_seq_cst) == kNone) return true;
  Port::wait_for_interrupt();
  return false;
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

#if defined(QM_TP)
// used: hart_local() names it where link-time optimisation does not look.
[[gnu::used]] constinit thread_local HartLocal hart_local_block;
#elif defined(QM_TARGET)
constinit HartLocal hart_local_blocks[Port::kMaxHarts];
#else
HartLocal& hart_local() noexcept {
  static thread_local HartLocal block;
  return block;
}
#endif

void hart_online(unsigned hart) noexcept {
  slots[hart].posted.store(0, std::memory_order_relaxed);  // what was posted before it went has nothing to find
  online.fetch_or(bit(hart), std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void hart_offline(unsigned hart) noexcept {
  const InterruptGuard masked;
  // The set before the boxes. Pairs with the fence in run_on_harts(), where the boxes come before a look at the set:
  // either the request is found here, or its initiator finds that this hart has gone.
  online.fetch_and(~bit(hart), std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  on_ipi(hart);
}

HartMask online_harts() noexcept { return online.load(std::memory_order_seq_cst); }

void enter_panic() noexcept { panic.store(1, std::memory_order_seq_cst); }

bool in_panic() noexcept { return panic.load(std::memory_order_relaxed) != 0; }

bool may_wait() noexcept {
  const InterruptGuard masked;  // what is looked at is of one hart
  return masked.were_enabled() && is_outermost();
}

bool may_ask_harts() noexcept {
  const InterruptGuard masked;
  return is_outermost() && (masked.were_enabled() || is_alone());
}

void set_ipi_pause(void (*pause)() noexcept) noexcept { ipi_pause.store(pause, std::memory_order_relaxed); }

RoundResult run_on_harts(HartMask harts, RoundFunction function, void* argument, std::uint32_t deadline_ms,
                         AbortTest abort) noexcept {
  {
    const InterruptGuard masked;
    if (!is_outermost()) return {RoundStatus::kUnsafe, RoundResult::kNobody};
    // As below: what the initiator has published comes before its look at the set of harts.
    if constexpr (kManyHarts) std::atomic_thread_fence(std::memory_order_seq_cst);
    if (is_alone()) {
      const unsigned self = Port::hart_index();
      if ((harts & online_harts()) != 0) function(self, argument);
      return {};
    }
    if (!masked.were_enabled()) return {RoundStatus::kUnsafe, RoundResult::kNobody};
  }
  const Deadline deadline(deadline_ms);
  while (!round_turn.take_or_wait()) {
    const RoundStatus why = interruption(deadline, abort);
    if (why != RoundStatus::kDone) return {why, RoundResult::kNobody};
  }
  round_function = function;
  round_argument = argument;

  HartMask asked = 0;
  {
    const InterruptGuard masked;
    const unsigned self = Port::hart_index();
    round_initiator.store(self, std::memory_order_relaxed);
    // The initiator has published its state word; this fence and the one in hart_online() order it against the set of
    // harts.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    harts &= online_harts();
    asked = harts & ~bit(self);
    for (unsigned hart = 0; hart < Port::kMaxHarts; ++hart) {
      if ((asked & bit(hart)) != 0) slots[hart].box.store(kPending, std::memory_order_release);
    }
    if ((harts & bit(self)) != 0) function(self, argument);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);  // the boxes before the interrupts, and before the set again
  if (const HartMask gone = asked & ~online_harts(); gone != 0) {
    withdraw(gone);  // a hart that has gone since serves its box then, or not at all
    asked &= ~gone;
  }
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
  round_turn.give_back();
  return result;
}

namespace {

void serve_box(unsigned hart) noexcept {
  std::uint32_t expected = kPending;
  // acquire: pairs with the initiator's release of PENDING; release: a withdrawal that fails must see RUNNING in order.
  if (!slots[hart].box.compare_exchange_strong(expected, kRunning, std::memory_order_acq_rel)) return;
  round_function(hart, round_argument);
  slots[hart].box.store(kNone, std::memory_order_seq_cst);
  const unsigned initiator = round_initiator.load(std::memory_order_seq_cst);
  if (initiator != hart) Port::send_ipi(initiator);  // ends the initiator's wait
}

}  // namespace

void set_post_function(PostFunction function) noexcept { post_function.store(function, std::memory_order_release); }

void post(HartMask harts) noexcept {
  if constexpr (!kManyHarts) return;
  const InterruptGuard masked;
  harts &= online_harts() & ~bit(Port::hart_index());
  for (unsigned hart = 0; hart < Port::kMaxHarts; ++hart) {
    // release: pairs with the acquire in on_ipi(). A post that has not been served yet has its interrupt on the way.
    if ((harts & bit(hart)) != 0 && slots[hart].posted.exchange(1, std::memory_order_acq_rel) == 0)
      Port::send_ipi(hart);
  }
}

void on_ipi(unsigned hart) noexcept {
  serve_box(hart);
  if (slots[hart].posted.load(std::memory_order_relaxed) == 0) return;
  // acquire: pairs with post(). Taken before it is served: what is posted from here on is served again.
  slots[hart].posted.exchange(0, std::memory_order_acq_rel);
  if (const PostFunction function = post_function.load(std::memory_order_acquire); function != nullptr) function(hart);
}

}  // namespace qm::hal
