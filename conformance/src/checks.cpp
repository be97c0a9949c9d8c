/// The checks, in the order of their dependencies.

#include <qm/config.h>
#include <qm/hal/broadcast.hpp>
#include <qm/system.hpp>

#include "board.hpp"

namespace qm::conformance {
namespace {

using hal::Port;

constexpr unsigned kReadings = 1'000'000;
#if defined(QM_TARGET)
constexpr bool kTraps = true;
#else
constexpr bool kTraps = false;  // a thread that stands for a hart has no trap handlers
#endif
#if defined(QM_FAST_PATH_SECTIONS)
constexpr bool kSections = true;
#else
constexpr bool kSections = false;
#endif

/// Data shared by hart 0's own interrupts and the checks.
struct Own {
  void (*interrupt_in)(std::uint32_t ticks) = nullptr;
  std::atomic<std::uint32_t> count{0};
  std::uint32_t twice = 0;
  bool in_trap = false;
};
constinit Own own;

bool ticks(const PortCheck&, const Line& line) {
  const std::uint64_t rate = Port::tick_rate(), first = Port::ticks();
  if (rate < 1000) {
    line << "FAILED: tick_rate() is " << rate << ": a millisecond has no tick";
    return false;
  }
  std::uint64_t last = first;
  for (unsigned i = 0; i < kReadings && last - first < rate / 1000; ++i) {
    const std::uint64_t now = Port::ticks();
    if (now < last) {
      line << "FAILED: they run backwards: " << last << ", then " << now;
      return false;
    }
    last = now;
  }
  if (last == first) line << "FAILED: they stand still: " << std::uint64_t{kReadings} << " readings are all " << first;
  return last != first;
}

bool masking(const PortCheck&, const Line& line) {
  const Port::InterruptState outer = Port::mask_interrupts();
  const Port::InterruptState inner = Port::mask_interrupts();
  Port::restore_interrupts(inner);
  const Port::InterruptState still = Port::mask_interrupts();
  Port::restore_interrupts(outer);
  const Port::InterruptState after = Port::mask_interrupts();
  Port::restore_interrupts(after);
  const auto enabled = [](Port::InterruptState state) { return state == Port::InterruptState::kEnabled; };
  const char* found = nullptr;
  if (!enabled(outer))
    found = "FAILED: mask_interrupts() says that they were masked; the check begins with interrupts enabled";
  else if (enabled(inner))
    found = "FAILED: after mask_interrupts() interrupts are still enabled, or it does not say how they were";
  else if (enabled(still)) found = "FAILED: restore_interrupts() of a masked state enables them: masking does not nest";
  else if (!enabled(after)) found = "FAILED: restore_interrupts() does not restore: interrupts stay masked";
  if (found != nullptr) line << found;
  return found == nullptr;
}

/// The number of harts to check. For a port with one hart it is a constant, so the checks of other harts are not
/// compiled.
unsigned harts_of(const PortCheck& check) noexcept { return hal::kManyHarts ? check.harts : 1; }

bool attendance(const PortCheck& check, const Line& line) {
  own.interrupt_in = nullptr;
  if (check.harts == 0 || check.harts > Port::kMaxHarts) {
    line << "FAILED: " << std::uint64_t{check.harts} << " harts are to take part, kMaxHarts is "
         << std::uint64_t{Port::kMaxHarts};
    return false;
  }
  const auto all_came = [](unsigned others) { return board.arrived.load(std::memory_order_acquire) >= others; };
  const unsigned others = check.harts - 1;
  if (wait_until(check.wait_ms, all_came, others)) return true;
  line << "FAILED: " << std::uint64_t{board.arrived.load()} << " of " << std::uint64_t{others}
       << " other harts have come to attend_port_check() in " << std::uint64_t{check.wait_ms} << " ms";
  return false;
}

bool hart_index(const PortCheck& check, const Line& line) {
  if (Port::hart_index() != 0) {
    line << "FAILED: it is " << std::uint64_t{Port::hart_index()} << " where check_port() runs: hart 0 is to";
    return false;
  }
  board.desks[0].locals = &hal::hart_local();
  for (unsigned hart = 0; hart < harts_of(check); ++hart) {
    const std::uint32_t claims = board.desks[hart].claims.load(std::memory_order_acquire) + (hart == 0 ? 1 : 0);
    if (claims == 1) continue;
    line << "FAILED: " << std::uint64_t{claims} << " harts say that they are hart " << std::uint64_t{hart} << " of "
         << std::uint64_t{check.harts};
    return false;
  }
  return true;
}

bool hart_locals(const PortCheck& check, const Line& line) {
  for (unsigned a = 0; a < harts_of(check); ++a) {
    for (unsigned b = 0; b < a; ++b) {
      if (board.desks[a].locals != board.desks[b].locals) continue;
      line << "FAILED: harts " << std::uint64_t{b} << " and " << std::uint64_t{a}
           << " have the same hart-locals: tp is to point to a block of the hart's own";
      return false;
    }
  }
  return true;
}

bool ticks_agree(const PortCheck& check, const Line& line) {
  const std::uint64_t slack = Port::tick_rate() / 100'000 + 10;
  for (unsigned hart = 1; hart < harts_of(check); ++hart) {
    const std::uint64_t before = Port::ticks();
    if (!carry_out(hart, Order::kReadTicks)) {
      line << "FAILED: hart " << std::uint64_t{hart} << " does nothing any more";
      return false;
    }
    const std::uint64_t there = board.desks[hart].ticks, after = Port::ticks();
    if (there + slack >= before && there <= after + slack) continue;
    line << "FAILED: hart " << std::uint64_t{hart} << " has " << there << " where hart 0 has " << before << " to "
         << after;
    return false;
  }
  return true;
}

bool allocator(const PortCheck& check, const Line& line) {
  const MemoryRange range{reinterpret_cast<std::uintptr_t>(check.memory.data()), check.memory.size()};
  if (check.memory.size() < kCheckBytes || initialize({&range, 1}, check.harts) != Status::kOk) {
    line << "FAILED: initialize() refuses the memory, " << std::uint64_t{check.memory.size()}
         << " bytes, or is done already";
    return false;
  }
  attach_hart(0);
  for (unsigned hart = 1; hart < harts_of(check); ++hart) {
    if (carry_out(hart, Order::kAttach)) continue;
    line << "FAILED: attach_hart() does not return on hart " << std::uint64_t{hart};
    return false;
  }
  board.cache = create_cache("port_check");
  void* const object = board.cache != nullptr ? board.cache->allocate() : nullptr;
  if (object == nullptr) {
    line << "FAILED: no cache, or no object of it";
    return false;
  }
  board.cache->free(object);
  return true;
}

/// What a handler observes about its own context.
struct Visit {
  std::atomic<std::uint32_t> count{0};
  unsigned hart = 0;
  bool masked = false, in_trap = false;

  static void here(unsigned, void* argument) noexcept {
    auto& visit = *static_cast<Visit*>(argument);
    visit.hart = Port::hart_index();
    const hal::InterruptGuard guard;
    visit.masked = !guard.were_enabled();
    visit.in_trap = hal::hart_local().trap_depth != 0;
    visit.count.fetch_add(1, std::memory_order_release);
  }
};

bool visit_is_right(unsigned hart, const Visit& visit, const Line& line) {
  if (visit.hart != hart) {
    line << "FAILED: the IPI to hart " << std::uint64_t{hart} << " came to hart " << std::uint64_t{visit.hart};
  } else if (!visit.masked) {
    line << "FAILED: hart " << std::uint64_t{hart} << " calls on_ipi() with interrupts enabled";
  } else if (kTraps && !visit.in_trap) {
    line << "FAILED: trap_depth is 0 in hart " << std::uint64_t{hart} << "'s handler: the trap entry does not count";
  } else {
    return true;
  }
  return false;
}

bool ipi(const PortCheck& check, const Line& line) {
  for (unsigned hart = 1; hart < harts_of(check); ++hart) {
    Visit visit;
    if (!hal::run_on_harts(hal::HartMask{1} << hart, &Visit::here, &visit, 1000).ok()) {
      line << "FAILED: hart " << std::uint64_t{hart} << " does not call on_ipi() within a second of send_ipi()";
      return false;
    }
    if (!visit_is_right(hart, visit, line)) return false;
    if (!carry_out(hart, Order::kReadTicks)) {
      line << "FAILED: hart " << std::uint64_t{hart}
           << " does nothing after an IPI: its pending bit is not cleared before on_ipi()";
      return false;
    }
  }
  return true;
}

bool ipi_to_hart_0(const PortCheck& check, const Line& line) {
  for (unsigned hart = 1; hart < harts_of(check); ++hart) {
    if (carry_out(hart, Order::kCallHart0) && board.desks[hart].answered) continue;
    line << "FAILED: hart 0 does not answer hart " << std::uint64_t{hart};
    return false;
  }
  return true;
}

bool masked_hart(const PortCheck& check, const Line& line) {
  for (unsigned hart = 1; hart < harts_of(check); ++hart) {
    Desk& desk = board.desks[hart];
    Visit visit;
    desk.held.store(0, std::memory_order_relaxed);
    begin_order(hart, Order::kHoldMasked);
    wait_until(
        1000, [](unsigned of) { return board.desks[of].held.load(std::memory_order_acquire) == 1; }, hart);
    const bool served = hal::run_on_harts(hal::HartMask{1} << hart, &Visit::here, &visit, 20).ok();
    desk.held.store(2, std::memory_order_release);
    wait_until(1000, &order_done, hart);
    if (served) {
      line << "FAILED: hart " << std::uint64_t{hart} << " served an IPI while it masked interrupts";
      return false;
    }
    if (!hal::run_on_harts(hal::HartMask{1} << hart, &Visit::here, &visit, 1000).ok()) {
      line << "FAILED: hart " << std::uint64_t{hart} << " serves no IPI after restore_interrupts()";
      return false;
    }
  }
  return true;
}

/// From now on each of hart 0's interrupts runs @p what; the first comes in @p ticks.
void interrupt_for(void (*what)() noexcept, std::uint32_t ticks) noexcept {
  own.count.store(0, std::memory_order_relaxed);
  board.on_interrupt.store(what, std::memory_order_relaxed);
  own.interrupt_in(ticks);
}

bool own_interrupts(const PortCheck& check, const Line& line) {
  own.interrupt_in = check.interrupt_in;
  if (own.interrupt_in == nullptr) {
    line << "FAILED: nothing interrupts the sections of the only hart: set PortCheck::interrupt_in, or select "
            "QM_FAST_PATH=masked";
    return false;
  }
  const auto look = []() noexcept {
    own.in_trap = hal::hart_local().trap_depth != 0;
    own.count.fetch_add(1, std::memory_order_release);
  };
  interrupt_for(look, static_cast<std::uint32_t>(hal::ticks_of(1)));
  if (!wait_until(1000, [](unsigned) { return own.count.load(std::memory_order_acquire) != 0; })) {
    line << "FAILED: on_interrupt() is not called within a second of interrupt_in()";
    return false;
  }
  if (kTraps && !own.in_trap) line << "FAILED: trap_depth is 0 in its handler: the trap entry does not count";
  return !kTraps || own.in_trap;
}

/// Whether hart 0's section starts again after an interrupt.
bool rewinds_itself() noexcept {
  Desk& desk = board.desks[0];
  desk.begun.store(0, std::memory_order_relaxed);
  desk.go.store(0, std::memory_order_relaxed);
  const auto let_go = []() noexcept {
    const bool inside = board.desks[0].begun.load(std::memory_order_relaxed) != 0;
    if (inside) board.desks[0].go.store(1, std::memory_order_relaxed);
    else own.interrupt_in(static_cast<std::uint32_t>(hal::ticks_of(1)));
  };
  interrupt_for(let_go, static_cast<std::uint32_t>(hal::ticks_of(1)));
  stay_in_section(desk);
  board.on_interrupt.store(nullptr, std::memory_order_relaxed);
  return desk.begun.load(std::memory_order_relaxed) > 1;
}

bool rewind(const PortCheck& check, const Line& line) {
  if (own.interrupt_in != nullptr && !rewinds_itself()) {
    line
        << "FAILED: hart 0 goes on in the middle of a section: the trap entry is to resume at what qm_rewind() returns";
    return false;
  }
  const auto nothing = [](unsigned, void*) noexcept {};
  for (unsigned hart = 1; hart < harts_of(check); ++hart) {
    Desk& desk = board.desks[hart];
    desk.begun.store(0, std::memory_order_relaxed);
    desk.go.store(0, std::memory_order_relaxed);
    begin_order(hart, Order::kStayInSection);
    wait_until(
        1000, [](unsigned of) { return board.desks[of].begun.load(std::memory_order_acquire) != 0; }, hart);
    const bool answered = hal::run_on_harts(hal::HartMask{1} << hart, nothing, nullptr, 1000).ok();
    desk.go.store(1, std::memory_order_release);
    wait_until(1000, &order_done, hart);
    if (answered && desk.begun.load(std::memory_order_relaxed) > 1) continue;
    line << "FAILED: hart " << std::uint64_t{hart}
         << (answered ? " goes on in the middle of a section: the trap entry is to resume at what qm_rewind() returns"
                      : " does not answer from within a section");
    return false;
  }
  return true;
}

constinit std::array<std::atomic<std::uint32_t>*, Port::kMaxHarts> kept{};

/// The work of an interrupt in the midst of an allocation: it takes the object that the allocation was about to take.
void take_or_give(unsigned hart, void* argument) noexcept {
  auto& twice = *static_cast<std::uint32_t*>(argument);
  if (kept[hart] != nullptr) {
    kept[hart]->fetch_sub(1, std::memory_order_relaxed);
    board.cache->free(kept[hart]);
    kept[hart] = nullptr;
    return;
  }
  kept[hart] = static_cast<std::atomic<std::uint32_t>*>(board.cache->allocate());
  if (kept[hart] != nullptr && kept[hart]->fetch_add(1, std::memory_order_relaxed) != 0) ++twice;
}

/// Hart 0 allocates, and so do its own interrupts. They come at least 0.25 ms apart, so that a slow board has time for
/// the allocations, and never in step with them. @returns the number of objects that had two owners at a time.
std::uint32_t churn_interrupted() noexcept {
  own.twice = 0;
  const auto take = []() noexcept {
    take_or_give(0, &own.twice);
    own.count.fetch_add(1, std::memory_order_relaxed);
  };
  std::uint32_t twice = 0;
  const auto least = static_cast<std::uint32_t>(hal::ticks_of(1) / 4);
  const std::uint64_t start = Port::ticks(), enough = hal::ticks_of(300);
  for (std::uint32_t step = 1; Port::ticks() - start < enough; step = step * 5 % 257) {
    interrupt_for(take, least + step);
    for (std::uint64_t begun = Port::ticks(); own.count.load(std::memory_order_relaxed) == 0;) {
      twice += churn(8);
      if (Port::ticks() - begun > enough) break;  // the interrupt was lost
    }
  }
  board.on_interrupt.store(nullptr, std::memory_order_relaxed);
  return twice + own.twice;
}

bool interrupted_allocations(const PortCheck& check, const Line& line) {
  if (own.interrupt_in != nullptr && churn_interrupted() != 0) {
    line << "FAILED: hart 0 was handed objects that its handler had: the trap entry does not call qm_rewind(), or too "
            "late";
    return false;
  }
  for (unsigned hart = 1; hart < harts_of(check); ++hart) {
    Desk& desk = board.desks[hart];
    desk.churning.store(0, std::memory_order_relaxed);
    begin_order(hart, Order::kChurn);
    wait_until(
        1000, [](unsigned of) { return board.desks[of].churning.load(std::memory_order_acquire) == 1; }, hart);
    std::uint32_t twice = 0;
    const std::uint64_t start = Port::ticks(), enough = hal::ticks_of(300);
    bool answered = true;
    for (unsigned i = 0; answered && i < 2000 && (i < 500 || Port::ticks() - start < enough); ++i) {
      answered = hal::run_on_harts(hal::HartMask{1} << hart, &take_or_give, &twice, 1000).ok();
    }
    desk.churning.store(2, std::memory_order_release);
    wait_until(1000, &order_done, hart);
    if (answered && twice + desk.twice == 0) continue;
    line << "FAILED: hart " << std::uint64_t{hart}
         << (answered
                 ? " was handed objects that its handler had: the trap entry does not call qm_rewind(), or too late"
                 : " was asked during an allocation and does not answer");
    return false;
  }
  return true;
}

bool contexts(const PortCheck&, const Line& line) {
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  const hal::StackBounds stack = Port::stack_bounds(frame);
  if (stack.high == 0) {
    line << "(no stack bounds: a recorded stack has one address) ";
  } else if (frame < stack.low || frame > stack.high) {
    line << "FAILED: stack_bounds() of the running frame does not contain it";
    return false;
  }
  std::array<char, 8> label{};
  if (Port::context_label(label) > label.size()) {
    line << "FAILED: context_label() claims more characters than it was given room for";
    return false;
  }
  if (Port::context_key() != Port::context_key()) line << "(context_key() changes: labels are asked for each time) ";
  return true;
}

bool shutdown(const PortCheck& check, const Line& line) {
  for (auto& object : kept) {
    if (object != nullptr) board.cache->free(object);
    object = nullptr;
  }
  Cache::destroy(board.cache);
  for (unsigned hart = 1; hart < harts_of(check); ++hart) {
    if (carry_out(hart, Order::kDetach)) continue;
    line << "FAILED: detach_hart() does not return on hart " << std::uint64_t{hart};
    return false;
  }
  detach_hart(0);
  qm::shutdown();
  return true;
}

bool has_others(const PortCheck& check) { return check.harts > 1; }
bool is_interrupted(const PortCheck& check) { return check.harts > 1 || check.interrupt_in != nullptr; }
bool is_interrupted_in_sections(const PortCheck& check) { return is_interrupted(check) && can_probe_rewind(); }
bool interrupts_itself(const PortCheck& check) {
  return check.interrupt_in != nullptr || (kSections && check.harts == 1);
}

constexpr Check kChecks[] = {
    {"attendance", &attendance, nullptr, true},
    {"ticks", &ticks, nullptr, true},
    {"masking", &masking, nullptr, true},
    {"hart_index", &hart_index, nullptr, true},
    {"hart-locals", &hart_locals, &has_others, true},
    {"ticks agree", &ticks_agree, &has_others, false},
    {"allocator", &allocator, nullptr, true},
    {"IPI", &ipi, &has_others, true},
    {"IPI to hart 0", &ipi_to_hart_0, &has_others, true},
    {"IPI to a masked hart", &masked_hart, &has_others, false},
    {"own interrupts", &own_interrupts, &interrupts_itself, true},
    {"rewind", &rewind, &is_interrupted_in_sections, true},
    {"interrupted allocations", &interrupted_allocations, &is_interrupted, true},
    {"contexts", &contexts, nullptr, false},
    {"detach", &shutdown, nullptr, false},
};

}  // namespace

std::span<const Check> checks() noexcept { return kChecks; }

}  // namespace qm::conformance
