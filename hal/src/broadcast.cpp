#include <qm/config.h>
#include <qm/hal/broadcast.hpp>

#include <array>
#include <type_traits>

#include <qm/hal/turn.hpp>

namespace qm::hal {
namespace {

enum Box : std::uint32_t { kNone, kPending, kRunning };

struct alignas(64) Slot {
  std::atomic<std::uint32_t> box{kNone};
  std::atomic<std::uint32_t> posted{0};
};

std::array<Slot, Port::kMaxHarts> slots;
constinit Turn broadcast_turn;
// Written by the initiator that holds the turn, before it publishes PENDING (release); read after the hart's CAS
// (acquire).
BroadcastFunction broadcast_function = nullptr;
void* broadcast_argument = nullptr;
std::atomic<std::uint32_t> broadcast_initiator{0};  // the hart that waits for the answers
std::array<std::atomic<PostFunction>, kPosts> post_functions{};

std::atomic<void (*)() noexcept> ipi_pause{nullptr};

std::atomic<HartMask> online{0};
std::atomic<std::uint32_t> panic{0};

constexpr HartMask bit(unsigned hart) { return HartMask{1} << hart; }

/// Whether the caller is the only allocator code that is running on this hart. Masked.
bool is_outermost() noexcept {
  const HartLocal& local = hart_local();
  return local.lock_depth == 0 && local.trap_depth == 0 && !in_panic();
}

/// Masked, because it reads the hart index.
bool is_alone() noexcept { return !kManyHarts || (online_harts() & ~bit(Port::hart_index())) == 0; }

class Deadline {
 public:
  explicit Deadline(std::uint32_t ms) noexcept : start_(Port::ticks()), ticks_(ticks_of(ms)) {}
  [[nodiscard]] bool passed() const noexcept { return Port::ticks() - start_ > ticks_; }

 private:
  std::uint64_t start_;
  std::uint64_t ticks_;
};

/// The reason to end a wait early; kDone: no reason.
BroadcastStatus interruption(const Deadline& deadline, AbortTest abort) noexcept {
  if (in_panic()) return BroadcastStatus::kUnsafe;
  if (abort != nullptr && abort()) return BroadcastStatus::kAborted;
  if (deadline.passed()) return BroadcastStatus::kTimedOut;
  return BroadcastStatus::kDone;
}

/// Reads the hart's box with interrupts masked, and waits if it is not empty: an IPI that arrives between the read and
/// the wait stays pending and ends the wait.
bool answered(unsigned hart) noexcept {
  InterruptGuard masked;
  // Stores the waiting hart before the read, since a thread may have moved here from another hart. Pairs with
  // serve_box(), which clears the box before it reads the hart: either this hart finds the box empty, or the interrupt
  // comes here.
  broadcast_initiator.store(Port::hart_index(), std::memory_order_seq_cst);
  // acquire: pairs with the release in serve_box(): the effects of the function there are visible here.
  if (slots[hart].box.load(std::memory_order_seq_cst) == kNone) return true;
  Port::wait_for_interrupt();
  return false;
}

/// Withdraws every request that has not started, and waits for those that have started: they are O(1).
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
// used: the assembly in hart_local() names it, which link-time optimisation does not see.
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
  slots[hart].posted.store(0, std::memory_order_relaxed);  // earlier posts have nothing to drain on this hart
  online.fetch_or(bit(hart), std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void hart_offline(unsigned hart) noexcept {
  const InterruptGuard masked;
  // The set is changed before the box is read. Pairs with the fence in run_on_harts(), where the box is written before
  // the set is read: either this hart finds the request here, or the initiator finds that this hart has gone.
  online.fetch_and(~bit(hart), std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  on_ipi(hart);
}

HartMask online_harts() noexcept { return online.load(std::memory_order_seq_cst); }

void enter_panic() noexcept { panic.store(1, std::memory_order_seq_cst); }

bool in_panic() noexcept { return panic.load(std::memory_order_relaxed) != 0; }

bool may_wait() noexcept {
  const InterruptGuard masked;  // the values read belong to one hart
  return masked.were_enabled() && is_outermost();
}

bool may_ask_harts() noexcept {
  const InterruptGuard masked;
  return is_outermost() && (masked.were_enabled() || is_alone());
}

void set_ipi_pause(void (*pause)() noexcept) noexcept { ipi_pause.store(pause, std::memory_order_relaxed); }

BroadcastResult run_on_harts(HartMask harts, BroadcastFunction function, void* argument, std::uint32_t deadline_ms,
                             AbortTest abort) noexcept {
  {
    const InterruptGuard masked;
    if (!is_outermost()) return {BroadcastStatus::kUnsafe, BroadcastResult::kNobody};
    // As below: the data that the initiator has published precedes its read of the set of harts.
    if constexpr (kManyHarts) std::atomic_thread_fence(std::memory_order_seq_cst);
    if (is_alone()) {
      const unsigned self = Port::hart_index();
      if ((harts & online_harts()) != 0) function(self, argument);
      return {};
    }
    if (!masked.were_enabled()) return {BroadcastStatus::kUnsafe, BroadcastResult::kNobody};
  }
  const Deadline deadline(deadline_ms);
  while (!broadcast_turn.take_or_wait()) {
    const BroadcastStatus why = interruption(deadline, abort);
    if (why != BroadcastStatus::kDone) return {why, BroadcastResult::kNobody};
  }
  broadcast_function = function;
  broadcast_argument = argument;

  HartMask asked = 0;
  {
    const InterruptGuard masked;
    const unsigned self = Port::hart_index();
    broadcast_initiator.store(self, std::memory_order_relaxed);
    // The initiator has published its state word; this fence and the one in hart_online() order that against the set of
    // harts.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    harts &= online_harts();
    asked = harts & ~bit(self);
    for (unsigned hart = 0; hart < Port::kMaxHarts; ++hart) {
      if ((asked & bit(hart)) != 0) slots[hart].box.store(kPending, std::memory_order_release);
    }
    if ((harts & bit(self)) != 0) function(self, argument);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);  // the boxes precede the interrupts and the second read
  if (const HartMask gone = asked & ~online_harts(); gone != 0) {
    withdraw(gone);  // a hart that has gone offline since has served its box already, or never will
    asked &= ~gone;
  }
  for (unsigned hart = 0; hart < Port::kMaxHarts; ++hart) {
    if ((asked & bit(hart)) == 0) continue;
    if (auto* const pause = ipi_pause.load(std::memory_order_relaxed)) pause();
    Port::send_ipi(hart);
  }

  BroadcastResult result;
  for (unsigned hart = 0; hart < Port::kMaxHarts && result.ok(); ++hart) {
    if ((asked & bit(hart)) == 0) continue;
    while (!answered(hart)) {
      const BroadcastStatus why = interruption(deadline, abort);
      if (why != BroadcastStatus::kDone) {
        result = {why, hart};
        withdraw(asked);
        break;
      }
    }
  }
  broadcast_turn.give_back();
  return result;
}

namespace {

void serve_box(unsigned hart) noexcept {
  std::uint32_t expected = kPending;
  // acquire: pairs with the initiator's release of PENDING; release: a withdrawal that fails must see RUNNING in order.
  if (!slots[hart].box.compare_exchange_strong(expected, kRunning, std::memory_order_acq_rel)) return;
  broadcast_function(hart, broadcast_argument);
  slots[hart].box.store(kNone, std::memory_order_seq_cst);
  const unsigned initiator = broadcast_initiator.load(std::memory_order_seq_cst);
  if (initiator != hart) Port::send_ipi(initiator);  // ends the initiator's wait
}

/// A stop of harts: which of them stand still, and whether they may continue.
struct Stop {
  BroadcastFunction on_each;
  void* argument;
  unsigned initiator = 0;
  std::atomic<HartMask> still{0};
  std::atomic<std::uint32_t> over{0};
};

[[maybe_unused]] void stand_still(unsigned hart, void* argument) noexcept {
  Stop& stop = *static_cast<Stop*>(argument);
  if (stop.on_each != nullptr) stop.on_each(hart, stop.argument);
  stop.still.fetch_or(bit(hart), std::memory_order_release);  // pairs with the acquire in all_still()
  Port::send_ipi(stop.initiator);
  // acquire: pairs with the release in run_while_still(). Masked: an interrupt after the read stays pending and ends
  // the wait.
  while (stop.over.load(std::memory_order_acquire) == 0 && !in_panic()) Port::wait_for_interrupt();
}

void work_here(const Stop& stop, StillFunction work) noexcept {
  if (stop.on_each != nullptr) stop.on_each(Port::hart_index(), stop.argument);
  work(stop.argument);
}

/// A port whose threads serve each other's boxes, such as the host's: other threads hold a hart masked to make it stand
/// still.
template <class P>
concept HoldsHarts = requires(HartMask harts) {
  P::hold_harts(harts);
  P::let_go_harts(harts);
};

struct NotMasked {
  NotMasked() noexcept {}
};

template <class P>
void work_held(const Stop& stop, StillFunction work) noexcept {
  if constexpr (HoldsHarts<P>) {
    const HartMask others = ~bit(P::hart_index());  // another hart may come online meanwhile
    P::hold_harts(others);
    {
      const InterruptGuard masked;
      work_here(stop, work);
    }
    P::let_go_harts(others);
  }
}

/// Asks all harts but the running one to stand still, as run_on_harts() does. @returns those harts. It is a function of
/// its own, so that images that stop no hart do not contain it.
[[maybe_unused]] HartMask ask_to_stand_still(Stop& stop) noexcept {
  broadcast_function = stand_still;
  broadcast_argument = &stop;
  HartMask asked = 0;
  {
    const InterruptGuard masked;
    stop.initiator = Port::hart_index();
    broadcast_initiator.store(stop.initiator, std::memory_order_relaxed);
    asked = online_harts() & ~bit(stop.initiator);
    for (unsigned hart = 0; hart < Port::kMaxHarts; ++hart) {
      if ((asked & bit(hart)) != 0) slots[hart].box.store(kPending, std::memory_order_release);
    }
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);  // the boxes precede the interrupts and the second read
  if (const HartMask gone = asked & ~online_harts(); gone != 0) {
    withdraw(gone);
    asked &= ~gone;
  }
  for (unsigned hart = 0; hart < Port::kMaxHarts; ++hart) {
    if ((asked & bit(hart)) != 0) Port::send_ipi(hart);
  }
  return asked;
}

/// Whether the harts of @p asked stand still; if not, waits for an interrupt, as answered() does.
/// @param[out] missing the harts that do not stand still.
[[maybe_unused]] bool all_still(const Stop& stop, HartMask asked, HartMask& missing) noexcept {
  const InterruptGuard masked;
  missing = asked & ~stop.still.load(std::memory_order_acquire);
  if (missing == 0) return true;
  Port::wait_for_interrupt();
  return false;
}

[[maybe_unused]] BroadcastResult await_still(const Stop& stop, HartMask asked, const Deadline& deadline,
                                             AbortTest abort) noexcept {
  HartMask missing = 0;
  while (!all_still(stop, asked, missing)) {
    const BroadcastStatus why = interruption(deadline, abort);
    unsigned first = 0;
    while ((missing & bit(first)) == 0) ++first;
    if (why != BroadcastStatus::kDone) return {why, first};
  }
  return {};
}

}  // namespace

BroadcastResult run_while_still(BroadcastFunction on_each, StillFunction work, void* argument,
                                std::uint32_t deadline_ms, AbortTest abort) noexcept {
  Stop stop{on_each, argument};
  {
    const InterruptGuard masked;
    if (!is_outermost()) return {BroadcastStatus::kUnsafe, BroadcastResult::kNobody};
    if (!kManyHarts || (online_harts() & ~bit(Port::hart_index())) == 0) {
      work_here(stop, work);
      return {};
    }
    if (!masked.were_enabled()) return {BroadcastStatus::kUnsafe, BroadcastResult::kNobody};
  }
  const Deadline deadline(deadline_ms);
  while (!broadcast_turn.take_or_wait()) {
    const BroadcastStatus why = interruption(deadline, abort);
    if (why != BroadcastStatus::kDone) return {why, BroadcastResult::kNobody};
  }
  BroadcastResult result;
  if constexpr (HoldsHarts<Port>) {
    work_held<Port>(stop, work);
  } else {
    // If a scheduler moved this thread to a hart that it has asked, it would wait for itself.
    [[maybe_unused]] const std::conditional_t<kThreads, InterruptGuard, NotMasked> pinned;
    const HartMask asked = ask_to_stand_still(stop);
    result = await_still(stop, asked, deadline, abort);
    if (result.ok()) {
      const InterruptGuard masked;
      // A hart that came online since does not stand still: the next attempt asks it.
      if ((online_harts() & ~asked & ~bit(stop.initiator)) == 0) {
        work_here(stop, work);
      } else {
        result = {BroadcastStatus::kTimedOut, BroadcastResult::kNobody};
      }
    }
    stop.over.store(1, std::memory_order_release);
    for (unsigned hart = 0; hart < Port::kMaxHarts; ++hart) {
      if ((asked & bit(hart)) != 0) Port::send_ipi(hart);
    }
    withdraw(asked);  // waits for the harts that stood still and are about to continue
  }
  broadcast_turn.give_back();
  return result;
}

void set_post_function(PostFunction function, Post kind) noexcept {
  post_functions[static_cast<unsigned>(kind)].store(function, std::memory_order_release);
}

void post(HartMask harts, Post kind) noexcept {
  if constexpr (!kManyHarts) return;
  const std::uint32_t flag = 1U << static_cast<unsigned>(kind);
  const InterruptGuard masked;
  harts &= online_harts() & ~bit(Port::hart_index());
  for (unsigned hart = 0; hart < Port::kMaxHarts && harts >> hart != 0; ++hart) {
    // release: pairs with the acquire in on_ipi(). If an earlier post has not been served, its interrupt is still on
    // the way.
    if ((harts & bit(hart)) != 0 && slots[hart].posted.fetch_or(flag, std::memory_order_acq_rel) == 0)
      Port::send_ipi(hart);
  }
}

void on_ipi(unsigned hart) noexcept {
  serve_box(hart);
  if (slots[hart].posted.load(std::memory_order_relaxed) == 0) return;
  // acquire: pairs with post(). Cleared before the posts are served, so a later post is served again.
  const std::uint32_t flags = slots[hart].posted.exchange(0, std::memory_order_acq_rel);
  for (unsigned kind = 0; kind < kPosts; ++kind) {
    const PostFunction function =
        (flags >> kind & 1) != 0 ? post_functions[kind].load(std::memory_order_acquire) : nullptr;
    if (function != nullptr) function(hart);
  }
}

}  // namespace qm::hal
