#include <qm/conformance/port_check.hpp>

#include <qm/hal/broadcast.hpp>
#include <qm/system.hpp>

#include "board.hpp"

namespace qm::conformance {
namespace {

void hold_masked(Desk& desk) noexcept {
  const hal::InterruptGuard masked;
  desk.held.store(1, std::memory_order_release);
  while (desk.held.load(std::memory_order_acquire) != 2 && board.over.load(std::memory_order_relaxed) == 0)
    hal::Port::relax();
}

void call_hart0(Desk& desk) noexcept {
  const auto nothing = [](unsigned, void*) noexcept {};
  desk.answered = hal::run_on_harts(1, nothing, nullptr, 1000).ok();
}

void churn_until_told(Desk& desk) noexcept {
  desk.twice = 0;
  desk.churning.store(1, std::memory_order_release);
  while (desk.churning.load(std::memory_order_acquire) != 2 && board.over.load(std::memory_order_relaxed) == 0) {
    desk.twice += churn(16);
  }
}

void obey(unsigned hart, Desk& desk, Order order) noexcept {
  switch (order) {
    case Order::kNone: return;
    case Order::kAttach: attach_hart(hart); return;
    case Order::kReadTicks: desk.ticks = hal::Port::ticks(); return;
    case Order::kHoldMasked: return hold_masked(desk);
    case Order::kCallHart0: return call_hart0(desk);
    case Order::kStayInSection: return stay_in_section(desk);
    case Order::kChurn: return churn_until_told(desk);
    case Order::kDetach: detach_hart(hart); return;
  }
}

/// Makes all harts leave. A hart that arrives only now waits for the next check.
void end_attendance() noexcept {
  board.over.store(1, std::memory_order_release);
  wait_until(2000, [](unsigned) { return board.arrived.load(std::memory_order_acquire) == 0; });
  for (Desk& desk : board.desks) desk.order.store(0, std::memory_order_relaxed);
  board.over.store(0, std::memory_order_relaxed);
}

}  // namespace

void attend_port_check() noexcept {
  const unsigned hart = hal::Port::hart_index() % hal::Port::kMaxHarts;
  Desk& desk = board.desks[hart];
  desk.locals = &hal::hart_local();
  desk.claims.fetch_add(1, std::memory_order_acq_rel);
  board.arrived.fetch_add(1, std::memory_order_acq_rel);  // pairs with the acquire in "attendance"
  while (board.over.load(std::memory_order_acquire) == 0) {
    const std::uint32_t order = desk.order.load(std::memory_order_acquire);  // pairs with begin_order()
    if (order == 0) {
      hal::Port::relax();
      continue;
    }
    obey(hart, desk, static_cast<Order>(order));
    desk.order.store(0, std::memory_order_release);  // pairs with order_done()
  }
  desk.claims.fetch_sub(1, std::memory_order_acq_rel);
  board.arrived.fetch_sub(1, std::memory_order_acq_rel);
}

void on_interrupt() noexcept {
  if (hal::Port::hart_index() != 0) return;  // another hart's timer
  if (auto* const what = board.on_interrupt.load(std::memory_order_relaxed); what != nullptr) what();
}

bool check_port(const PortCheck& check) noexcept {
  const Line line(check.write);
  unsigned done = 0, failed = 0;
  for (const Check& one : checks()) {
    if (one.applies != nullptr && !one.applies(check)) continue;
    line << "port: " << one.name << ": ";
    ++done;
    if (one.run(check, line)) {
      line << "ok\n";
      continue;
    }
    line << "\n";
    ++failed;
    if (one.needed) {
      line << "port: the other checks need " << one.name << "\n";
      break;
    }
  }
  board.on_interrupt.store(nullptr, std::memory_order_relaxed);
  end_attendance();
  if (failed == 0) line << "port: conforms: " << done << " checks, " << check.harts << " harts\n";
  else line << "port: does not conform: " << failed << " of " << done << " checks failed\n";
  return failed == 0;
}

}  // namespace qm::conformance
