/// The smoke image: prints a line for each part of boot that works, and at the end "smoke: passed" with status 0. It
/// ends with status 1 if a part does not work. A word of /chosen/bootargs adds a test:
///
///     fault=NAME   end with that fault (faults.cpp), status 101
///     input        report each line received, until the line "end"
///     names        look up every address; print each function's first address found, and its size
///     exit=N       end with status N, a digit

#include <atomic>

#include <qm/firmware/boot.hpp>
#include <qm/firmware/console_io.hpp>
#include <qm/firmware/interrupt.hpp>
#include <qm/firmware/symbols.hpp>
#include <qm/firmware/task.hpp>
#include <qm/firmware/text.hpp>
#include <qm/hal/broadcast.hpp>

#include "faults.hpp"

extern "C" const char __text_start[], __text_end[];

namespace qm::smoke {
namespace {

using firmware::Event;
using firmware::Text;
using hal::Port;

constexpr unsigned kOuterLine = firmware::kSoftwareLine, kInnerLine = firmware::kSoftwareLine + 1;
constexpr unsigned kRounds = 100, kLines = 40, kPasses = 20000;

unsigned harts = 1;
std::uint64_t ms() { return Port::tick_rate() / 1000; }

template <class Fill>
void say(Fill fill) {
  char buffer[160];
  Text text(buffer);
  fill(text);
  text << "\r\n";
  firmware::console_write(text.view());
}

void require(bool ok, std::string_view what) {
  say([&](Text& text) { text << (ok ? "ok: " : "FAILED: ") << what; });
  if (!ok) firmware::exit(1);
}

/// Polls until @p done returns true, for at most 5 s. @returns whether it did.
template <class Done>
bool eventually(Done done) {
  const std::uint64_t end = Port::ticks() + 5000 * ms();
  while (!done()) {
    if (Port::ticks() > end) return false;
    firmware::sleep_until(Port::ticks() + ms() / 4);
  }
  return true;
}

void show_board(const firmware::BootInfo& info) {
  say([&](Text& text) {
    (text << "harts ").decimal(info.hart_count) << ", online ";
    text.decimal(static_cast<unsigned>(__builtin_popcount(hal::online_harts())));
    (text << ", left out ").decimal(info.harts_left_out);
    (text << ", timebase ").decimal(info.timebase_hz);
    (text << ", ram ").decimal(info.ram_bytes >> 20) << " MiB";
  });
  for (const hal::MemoryRange& range : info.memory) {
    say([&](Text& text) {
      (text << "memory ").hex(range.low, 16) << " ";
      text.hex(range.high, 16);
    });
  }
  say([&](Text& text) { text << "bootargs " << info.bootargs; });
  require(info.build_id.size() == 20, "build id");
  require(hal::online_harts() == (1u << info.hart_count) - 1, "all harts online");
}

/// Keeps each hart awake while it is 1: a hart that sleeps has no ticks.
std::atomic<std::uint32_t> awake{0};
void stay_awake(void*) {
  while (awake.load() != 0) firmware::yield();
}

void check_ticks() {
  if (harts > 1) {
    // The hart may still be awake from its start, or be woken by another cause: eventually it sleeps through 20 ticks.
    const auto sleeps = [] {
      const std::uint32_t before = firmware::hart_report(harts - 1).ticks;
      firmware::sleep_until(Port::ticks() + 20 * ms());
      return firmware::hart_report(harts - 1).ticks == before;
    };
    require(eventually(sleeps), "no tick wakes an idle hart");
  }
  awake = 1;
  for (unsigned hart = 0; hart < harts; ++hart) firmware::spawn(hart, "awake", stay_awake, nullptr);
  for (unsigned hart = 0; hart < harts; ++hart) {
    const std::uint32_t before = firmware::hart_report(hart).ticks;
    require(eventually([&] { return firmware::hart_report(hart).ticks - before >= 10; }), "ticks");
  }
  firmware::set_tick_period(harts - 1, 0);
  const auto silent = [] { return firmware::hart_report(harts - 1).period_ticks == 0; };
  require(eventually(silent), "tick period set to none");
  const std::uint32_t stopped = firmware::hart_report(harts - 1).ticks;
  firmware::sleep_until(Port::ticks() + 5 * ms());
  require(firmware::hart_report(harts - 1).ticks == stopped, "no tick without a period");
  firmware::set_tick_period(harts - 1, static_cast<std::uint32_t>(ms()));
  require(eventually([&] { return firmware::hart_report(harts - 1).ticks - stopped >= 5; }), "ticks again");
  awake = 0;
}

/// Ticks do not drift: due times stay multiples of the period after the first one.
void check_no_drift() {
  const auto period = static_cast<std::uint32_t>(ms() / 2);
  firmware::set_tick_period(0, period);
  const std::uint64_t start = Port::ticks();
  const firmware::HartReport before = firmware::hart_report(0);
  while (Port::ticks() < start + 200 * period) Port::relax();  // awake: a hart that sleeps has no ticks
  // A busy host may delay the hart anywhere here. Then a due tick is served a moment later; if due times have drifted,
  // the count stays wrong.
  const auto is_on_raster = [&] {
    const std::uint64_t least = (Port::ticks() - start) / period;
    const firmware::HartReport after = firmware::hart_report(0);
    const std::uint64_t most = (Port::ticks() - start) / period;
    const std::uint64_t seen = after.ticks - before.ticks + (after.missed_ticks - before.missed_ticks);
    return seen + 2 >= least && seen <= most + 2;
  };
  const std::uint64_t end = Port::ticks() + 5000 * ms();
  bool is_there = is_on_raster();
  while (!is_there && Port::ticks() < end) is_there = is_on_raster();  // still awake
  require(is_there, "ticks do not drift");
  firmware::set_tick_period(0, static_cast<std::uint32_t>(ms()));
  firmware::reset_worst_lateness(0);
}

/// Counts the instructions of one task switch, under icount. The counter counts all harts; the others are in `wfi`.
std::atomic<std::uint32_t> partner_runs{0};
void measure_yield() {
  firmware::spawn(
      0, "partner",
      [](void*) {
        for (unsigned i = 0; i < 1200; ++i) partner_runs.fetch_add(1), firmware::yield();
      },
      nullptr);
  for (unsigned i = 0; i < 100; ++i) firmware::yield();
  std::uintptr_t before, after;
  asm volatile("rdinstret %0" : "=r"(before));
  for (unsigned i = 0; i < 1000; ++i) firmware::yield();
  asm volatile("rdinstret %0" : "=r"(after));
  say([&](Text& text) { (text << "yield ").decimal((after - before) / 2000) << " instructions (if counted)"; });
  require(partner_runs.load() >= 1000, "tasks take turns");
  while (partner_runs.load() < 1200) firmware::yield();
}

void check_sleep() {
  const std::uint64_t due = Port::ticks() + ms() / 3;
  firmware::sleep_until(due);
  require(Port::ticks() >= due, "sleep reaches its deadline");
}

std::atomic<std::uint32_t> outer_calls{0}, inner_calls{0};
char inner_label[60];
std::size_t inner_length = 0;

/// Enables interrupts and raises the inner line, whose handler runs nested in this one.
void outer(void*) {
  const unsigned self = Port::hart_index();
  const std::uint32_t before = inner_calls.load();
  Port::restore_interrupts(Port::InterruptState::kEnabled);
  firmware::raise_interrupt(self, kInnerLine);
  while (inner_calls.load() == before) Port::relax();
  outer_calls.fetch_add(1);
}
void inner(void*) {
  inner_length = Port::context_label(inner_label);
  inner_calls.fetch_add(1);
}

void check_interrupts() {
  require(firmware::register_interrupt(kOuterLine, outer, nullptr), "software line registered");
  require(!firmware::register_interrupt(kOuterLine, outer, nullptr), "a second handler is refused");
  require(firmware::register_interrupt(kInnerLine, inner, nullptr), "inner line registered");
  for (unsigned hart = 0; hart < harts; ++hart) {
    const std::uint32_t before = outer_calls.load();
    firmware::raise_interrupt(hart, kOuterLine);
    require(eventually([&] { return outer_calls.load() == before + 1; }), "nested software interrupt");
    say([&](Text& text) {
      (text << "label on hart ").decimal(hart) << ": " << std::string_view(inner_label, inner_length);
    });
  }
  require(hal::hart_local().trap_depth == 0 && hal::may_wait(), "trap depth back to 0");
}

void check_rounds() {
  static std::atomic<std::uint32_t> visits{0};
  bool ok = true;
  for (unsigned i = 0; i < kRounds; ++i) {
    const hal::BroadcastResult result = hal::run_on_harts(
        ~hal::HartMask{0}, [](unsigned, void*) noexcept { visits.fetch_add(1, std::memory_order_relaxed); }, nullptr);
    ok = ok && result.ok();
  }
  require(ok && visits.load() == kRounds * harts, "100 rounds over all harts");
}

/// Passes a turn from hart to hart: each waits for its number, then signals the next.
struct Relay {
  Event moved;
  std::atomic<std::uint32_t> turn{0}, finished{0};
} relay;
constexpr std::uint32_t kLaps = 50;

void run_relay(void* argument) {
  const auto self = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(argument));
  for (std::uint32_t lap = 0; lap < kLaps; ++lap) {
    for (;;) {
      const std::uint32_t seen = relay.moved.sequence();
      if (relay.turn.load() == lap * harts + self) break;
      firmware::wait_event(relay.moved, seen);
    }
    relay.turn.fetch_add(1);
    relay.moved.signal();
  }
  relay.finished.fetch_add(1);
}

/// All harts write lines at once; the test that reads them checks that each line is whole.
std::atomic<std::uint32_t> writers_done{0};
void write_lines(void*) {
  for (unsigned i = 0; i < kLines; ++i) {
    say([&](Text& text) {
      (text << "line ").decimal(i) << " of hart ";
      text.decimal(Port::hart_index()) << " abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789 end";
    });
  }
  writers_done.fetch_add(1);
}

/// A token that a task of each hart takes and gives back. A task that finds it taken waits for the event. The signal
/// may be an earlier one, so the task waits again; it must miss no signal.
struct Token {
  firmware::Event given_back;
  std::atomic<std::uint32_t> taken{0}, finished{0};
} token;
void pass_token(void*) {
  for (unsigned i = 0; i < kPasses; ++i) {
    for (;;) {
      const std::uint32_t seen = token.given_back.sequence();
      if (token.taken.exchange(1) == 0) break;
      firmware::wait_event(token.given_back, seen);
    }
    for (unsigned spin = 0; spin < (i & 63); ++spin) hal::Port::relax();
    token.taken.store(0);
    token.given_back.signal();
  }
  token.finished.fetch_add(1);
}

void check_tasks() {
  for (unsigned hart = 0; hart < harts; ++hart) {
    require(firmware::spawn(hart, "relay", run_relay, reinterpret_cast<void*>(std::uintptr_t{hart})), "spawn");
  }
  require(eventually([] { return relay.finished.load() == harts; }), "relay over all harts");
  for (unsigned hart = 0; hart < harts; ++hart) firmware::spawn(hart, "writer", write_lines, nullptr);
  require(eventually([] { return writers_done.load() == harts; }), "lines of all harts");
  for (unsigned hart = 0; hart < harts; ++hart) firmware::spawn(hart, "token", pass_token, nullptr);
  require(eventually([] { return token.finished.load() == harts; }), "a token among all harts");
  const auto ended = [] {
    for (unsigned hart = 0; hart < harts; ++hart) {
      if (firmware::task_count(hart) != (hart == 0 ? 1u : 0u)) return false;
    }
    return true;
  };
  require(eventually(ended), "ended tasks are freed");
  require(!firmware::spawn(harts, "nowhere", run_relay, nullptr), "no task on a hart that is not there");
}

void check_symbols() {
  firmware::SymbolName name;
  const bool found = firmware::symbol(reinterpret_cast<std::uintptr_t>(&run_fault) + 2, name);
  say([&](Text& text) {
    (text << "symbols ").decimal(firmware::symbol_count()) << ", bytes ";
    text.decimal(firmware::symbol_table_bytes());
    if (found) ((text << ", " << name.name() << "+").hex(name.offset, 1) << "/").hex(name.size, 1);
  });
  if (firmware::symbol_count() != 0)
    require(found && name.name() == "qm::smoke::run_fault" && name.offset == 2, "own name");
  require(!firmware::symbol(0x1000, name), "no name outside the image");
  static char tail[3];
  if (firmware::symbol_count() != 0) {
    require(firmware::symbol(reinterpret_cast<std::uintptr_t>(&tail[1]), name) && !name.is_function &&
                name.offset == 1 && name.size == sizeof tail && name.name() == "qm::smoke::check_symbols::tail",
            "a variable's name");
  }
}

void print_names() {
  const auto end = reinterpret_cast<std::uintptr_t>(__text_end);
  std::uintptr_t last = 0;
  for (auto pc = reinterpret_cast<std::uintptr_t>(__text_start); pc < end; pc += 2) {
    firmware::SymbolName name;
    if (!firmware::symbol(pc, name) || pc - name.offset == last) continue;
    last = pc - name.offset;
    say([&](Text& text) {
      (text << "function ").hex(pc, 16) << " ";
      text.hex(name.size, 1) << " " << name.name();
    });
  }
}

/// Reads nothing for 2 s, so that the ring fills up; then drops the input up to the Ctrl-C.
void be_deaf() {
  firmware::sleep_until(Port::ticks() + 2000 * ms());
  say([](Text& text) { text << "woke, interrupted " << (firmware::console_interrupted() ? "yes" : "no"); });
  firmware::console_drop_to_interrupt();
}

void echo_lines() {
  char line[300];
  std::size_t length = 0;
  for (;;) {
    char byte;
    if (firmware::console_read_wait({&byte, 1}) == 0) continue;
    if (byte != '\n' && byte != '\r') {
      if (length < sizeof line) line[length++] = byte;
      continue;
    }
    const std::string_view text(line, length);
    say([&](Text& out) {
      (out << "got ").decimal(text.size()) << " bytes, lost ";
      out.decimal(firmware::console_lost()) << ": " << text.substr(0, 40);
    });
    if (text == "end") return;
    if (text == "sleep") be_deaf();
    length = 0;
  }
}

/// @returns the value of the word NAME= in the boot arguments; "" if there is none.
std::string_view option(std::string_view arguments, std::string_view name) {
  const std::size_t at = arguments.find(name);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = arguments.substr(at + name.size());
  return rest.substr(0, rest.find(' '));
}

}  // namespace
}  // namespace qm::smoke

void qm::firmware::main(const BootInfo& info) {
  using namespace qm::smoke;
  harts = info.hart_count;
  show_board(info);
  check_symbols();
  check_ticks();
  check_no_drift();
  check_sleep();
  measure_yield();
  check_interrupts();
  check_rounds();
  check_tasks();
  if (info.bootargs.find("input") != std::string_view::npos) echo_lines();
  if (info.bootargs.find("names") != std::string_view::npos) print_names();
  run_fault(option(info.bootargs, "fault="));
  console_write("smoke: passed\r\n");
  const std::string_view status = option(info.bootargs, "exit=");
  if (!status.empty()) exit(static_cast<unsigned>(status[0] - '0'));
}
