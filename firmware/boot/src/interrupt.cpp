/// Interrupt lines: external ones through the PLIC, software ones through the IPI.

#include <qm/hal/chip/mmio.hpp>
#include <qm/hal/chip/plic.hpp>

#include <qm/firmware/boot.hpp>

#include "hart_state.hpp"

namespace qm::firmware {
namespace {

using Chip = hal::Plic<hal::Mmio<std::uint32_t>>;

struct Line {
  std::atomic<std::uint32_t> state{0};  // 0 free, 1 being set, 2 in use
  InterruptHandler handler = nullptr;
  void* argument = nullptr;
};
std::array<Line, kSoftwareLine + kSoftwareLines> lines;
std::uintptr_t plic_base = 0;
std::atomic<std::uint32_t> plic_lock{0};  // held while an enable register is read, changed and written

void call(unsigned line, TrapFrame& frame) noexcept {
  if (line >= lines.size() || lines[line].state.load(std::memory_order_acquire) != 2)
    return;  // acquire: pairs with the release in register_interrupt()
  frame.line = line;
  lines[line].handler(lines[line].argument);
  hal::Port::mask_interrupts();  // the handler may have enabled them
  frame.line = 0;
}

}  // namespace

void open_plic(std::uintptr_t base, unsigned context) noexcept {
  plic_base = base;
  this_hart().plic_context = context;
  if (base != 0 && context != ~0u) Chip(hal::Mmio<std::uint32_t>(base)).open_context(context);
}

bool register_interrupt(unsigned line, InterruptHandler handler, void* argument, unsigned hart) noexcept {
  if (line == 0 || line >= lines.size() || handler == nullptr || hart >= hart_states.size()) return false;
  const unsigned context = hart_states[hart].plic_context;
  if (line < kSoftwareLine && (plic_base == 0 || context == ~0u)) return false;
  std::uint32_t expected = 0;
  if (!lines[line].state.compare_exchange_strong(expected, 1, std::memory_order_relaxed)) return false;
  lines[line].handler = handler;
  lines[line].argument = argument;
  lines[line].state.store(2, std::memory_order_release);  // pairs with the acquire in call()
  if (line < kSoftwareLine) {
    const hal::InterruptGuard masked;
    while (plic_lock.exchange(1, std::memory_order_acquire) != 0) hal::Port::relax();
    Chip(hal::Mmio<std::uint32_t>(plic_base)).enable(context, line);
    plic_lock.store(0, std::memory_order_release);
  }
  return true;
}

void raise_interrupt(unsigned hart, unsigned line) noexcept {
  if (line < kSoftwareLine || line >= lines.size() || hart >= hart_states.size()) return;
  hart_states[hart].soft_lines.fetch_or(1u << (line - kSoftwareLine), std::memory_order_release);
  hal::Port::send_ipi(hart);
}

void serve_software_lines(HartState& hart, TrapFrame& frame) noexcept {
  // acquire: pairs with the release in raise_interrupt().
  std::uint32_t pending = hart.soft_lines.exchange(0, std::memory_order_acquire);
  for (; pending != 0; pending &= pending - 1) {
    call(kSoftwareLine + static_cast<unsigned>(__builtin_ctz(pending)), frame);
  }
}

void serve_external(HartState& hart, TrapFrame& frame) noexcept {
  const Chip plic{hal::Mmio<std::uint32_t>(plic_base)};
  while (const unsigned line = plic.claim(hart.plic_context)) {
    count(hart.external_count);
    call(line, frame);
    plic.complete(hart.plic_context, line);
  }
}

HartReport hart_report(unsigned index) noexcept {
  if (index >= hart_states.size()) return {};
  const HartState& hart = hart_states[index];
  const auto load = [](const std::atomic<std::uint32_t>& word) { return word.load(std::memory_order_relaxed); };
  HartReport report;
  report.hart_id = hal::port_state.hart_ids[index];
  report.online = (hal::online_harts() >> index & 1) != 0;
  if (!report.online) return report;
  const Task* const task = __atomic_load_n(&hart.current, __ATOMIC_RELAXED);
  report.idle = task == &hart.idle;
  report.task = task->name.data();
  report.period_ticks = load(hart.period);
  report.ticks = load(hart.ticks);
  report.missed_ticks = load(hart.missed);
  report.worst_lateness = load(hart.worst_lateness);
  report.external_interrupts = load(hart.external_count);
  report.ipis = load(hart.ipi_count);
  return report;
}

}  // namespace qm::firmware
