/// Each hart's timer: a periodic tick without drift, and the wake-ups of its tasks. Ticks do not wake a hart that
/// sleeps. Ticks that fell due while it slept are served as one tick when it wakes.

#include <algorithm>
#include <utility>

#include <qm/firmware/boot.hpp>

#include "hart_state.hpp"

// Of <qm/guards.h>, which is not included, since an image need not have the allocator. Null without guards.
extern "C" [[gnu::weak]] void qm_guard_tick() noexcept;

namespace qm::firmware {
namespace {

struct TickHandler {
  InterruptHandler function = nullptr;
  void* argument = nullptr;
};
TickHandler tick_handlers[2];
std::atomic<std::uint32_t> tick_handler_slot{0};  // the slot in use

void start_period(HartState& hart, std::uint32_t period) noexcept {
  hart.period.store(period, std::memory_order_relaxed);
  hart.next_tick = period == 0 ? kForever : hal::Port::ticks() + period;
  hart.slept_over_tick = false;
  arm_timer(hart);
}

/// Serves all due ticks by one call of the handler, and sets the next due time. Due times stay multiples of the period
/// after the first one.
void serve_ticks(HartState& hart, std::uint64_t now) noexcept {
  const std::uint32_t period = hart.period.load(std::memory_order_relaxed);
  const std::uint64_t late = now - hart.next_tick;
  const bool slept = std::exchange(hart.slept_over_tick, false);
  if (!slept && late > hart.worst_lateness.load(std::memory_order_relaxed)) {
    hart.worst_lateness.store(late > ~std::uint32_t{0} ? ~std::uint32_t{0} : static_cast<std::uint32_t>(late),
                              std::memory_order_relaxed);
  }
  count(hart.ticks);
  const std::uint64_t skipped = late / period;
  hart.missed.store(hart.missed.load(std::memory_order_relaxed) + static_cast<std::uint32_t>(skipped),
                    std::memory_order_relaxed);
  hart.next_tick += (skipped + 1) * period;
  arm_timer(hart);  // before the handler, which may enable interrupts
  if (qm_guard_tick != nullptr) qm_guard_tick();
  // acquire: pairs with the release in set_tick_handler().
  const TickHandler handler = tick_handlers[tick_handler_slot.load(std::memory_order_acquire)];
  if (handler.function != nullptr) handler.function(handler.argument);
}

}  // namespace

void arm_timer(HartState& hart) noexcept {
  hal::Port::set_timer(std::min({hart.asleep ? kForever : hart.next_tick, hart.next_wake, hart.next_cut}));
}

void sleep_until_interrupt(HartState& hart) noexcept {
  hart.asleep = true;
  arm_timer(hart);
  hal::Port::wait_for_interrupt();
  hart.asleep = false;
  const std::uint64_t now = hal::Port::ticks();
  if (now >= hart.next_tick) {
    const std::uint32_t period = hart.period.load(std::memory_order_relaxed);
    hart.next_tick += (now - hart.next_tick) / period * period;  // the last due time
    hart.slept_over_tick = true;
  }
  // Else the timer's interrupt is pending, and its handler arms the timer.
  if (now < std::min(hart.next_wake, hart.next_cut)) arm_timer(hart);
}

void start_ticks() noexcept {
  const auto period = static_cast<std::uint32_t>(hal::Port::tick_rate() / kTickHz);
  HartState& hart = this_hart();
  cut_slice(hart, hal::Port::ticks());
  hart.requested_period.store(period, std::memory_order_relaxed);
  start_period(hart, period);
}

void serve_timer(HartState& hart) noexcept {
  const std::uint64_t now = hal::Port::ticks();
  if (now >= hart.next_cut) cut_slice(hart, now);
  if (now >= hart.next_wake) hart.next_wake = kForever;  // the scheduler checks waiting tasks after every trap
  if (now >= hart.next_tick) {
    serve_ticks(hart, now);
  } else {
    arm_timer(hart);
  }
}

void serve_period_request(HartState& hart) noexcept {
  const std::uint32_t wanted = hart.requested_period.load(std::memory_order_acquire);
  if (wanted != hart.period.load(std::memory_order_relaxed)) start_period(hart, wanted);
}

void set_tick_period(unsigned hart, std::uint32_t period_ticks) noexcept {
  if (hart >= hart_states.size()) return;
  hart_states[hart].requested_period.store(period_ticks, std::memory_order_release);
  if (hart == hal::Port::hart_index()) {
    const hal::InterruptGuard masked;
    serve_period_request(hart_states[hart]);
  } else {
    hal::Port::send_ipi(hart);
  }
}

void set_tick_handler(InterruptHandler handler, void* argument) noexcept {
  const std::uint32_t other = 1 - tick_handler_slot.load(std::memory_order_relaxed);
  tick_handlers[other] = {handler, argument};
  tick_handler_slot.store(other, std::memory_order_release);  // pairs with the acquire in serve_ticks()
}

void reset_worst_lateness(unsigned hart) noexcept {
  if (hart < hart_states.size()) hart_states[hart].worst_lateness.store(0, std::memory_order_relaxed);
}

}  // namespace qm::firmware
