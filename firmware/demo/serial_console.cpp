#include "serial_console.hpp"

#include <algorithm>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/console/announcement.hpp>
#include <qm/console/findleaks.hpp>
#include <qm/console/guard.hpp>
#include <qm/console/trace.hpp>
#include <qm/firmware/app.hpp>
#include <qm/firmware/board_terminal.hpp>
#include <qm/firmware/console_io.hpp>
#include <qm/firmware/scan_roots.hpp>
#include <qm/firmware/task.hpp>
#include <qm/scan.hpp>
#include <qm/system.hpp>

#include "background.hpp"
#include "exhaustion.hpp"
#include "panic_shell.hpp"
#include "version.hpp"
#include "workload.hpp"

namespace qm::demo {
namespace {

console::Console* the_console = nullptr;

void report_misuse(const MisuseReport& report) noexcept {
  if (the_console != nullptr) the_console->notify(report);
}

void report_exhaustion(const ExhaustionReport& report) noexcept { the_console->notify(report); }

void warn_of_options(console::Console& console, const console::BootOptions& options) noexcept {
  for (std::size_t i = 0; i < std::min(options.rejected_count, console::BootOptions::kMaxRejected); ++i) {
    console::Announcement announcement(console);
    announcement.out().print("warning: boot option {} {}\n", options.rejected[i].option,
                             console::describe(options.rejected[i].reason));
  }
  if (!boot_warning.empty()) console::Announcement(console).out().print("warning: {}\n", boot_warning);
}

/// The text before the commands in the boot options. The host searches the image for it (qm::host::takes_commands).
[[gnu::used]] constexpr char kCommandsFollow[] = " -- commands\n";

/// @returns the commands after the boot options, one a line; empty: there are none. A board with such commands needs no
///          input, so that its run under QEMU's -icount is repeatable.
std::string_view boot_commands(std::string_view bootargs) noexcept {
  const std::size_t at = bootargs.find(kCommandsFollow);
  if (at == std::string_view::npos) return {};
  return console::part(bootargs, at + sizeof kCommandsFollow - 1);
}

/// Queues the next line of @p commands at @p console as the request after @p last. @returns whether it was queued.
bool request_next(console::Console& console, std::string_view& commands, std::uint32_t& last) noexcept {
  if (commands.empty()) return false;
  const std::size_t end = std::min(commands.find('\n'), commands.size());
  if (!console.request(console::part(commands, 0, end), last + 1)) return false;
  commands.remove_prefix(std::min(end + 1, commands.size()));
  ++last;
  return true;
}

/// Sets memory aside for a leak scan that runs when there is none.
void reserve_scan_memory() noexcept {
  constexpr std::size_t kBytes = 1 << 20;
  const std::uintptr_t start = base_arena().allocate(kBytes);
  if (start != 0) static_cast<void>(scan::set_memory({start, kBytes}));
}

}  // namespace

constinit std::string_view boot_warning;

void run_console(const firmware::BootInfo& info) noexcept {
  static firmware::BoardTerminal terminal;
  console::ConsoleConfig config;
  config.version = kVersion;
  const console::BootOptions options = console::parse_boot_options(info.bootargs);
  config.baud = options.baud;
  config.on_exhaustion = options.exhausted;
  if (!options.exhausted.empty()) reserve_scan_memory();
  config.background = kBackground;
  static console::Console console(terminal, firmware::of_this_boot(config));
  static console::Trace trace(console);
  console::add_findleaks();
  console::add_guard();
  firmware::name_scan_roots();
  the_console = &console;
  enable_panic_shell(console, options.panic_seconds);
  set_misuse_handler(report_misuse);
  start_exhaustion(report_exhaustion);
  console.start();
  warn_of_options(console, options);
  const std::uint64_t millisecond = hal::Port::tick_rate() / 1000;
  std::string_view commands = boot_commands(info.bootargs);
  std::uint32_t request = 0;
  for (;;) {
    const std::uint32_t seen = firmware::console_input().sequence();
    while (WorkloadRun* run = WorkloadRunner::finished()) {
      console::Announcement announcement(console);
      WorkloadRunner::finish(*run, announcement.out());
    }
    const bool requested = request_next(console, commands, request);
    if (console.poll() || requested) continue;
    const std::uint64_t end =
        console.needs_poll() ? hal::Port::ticks() + console.poll_ms() * millisecond : firmware::kForever;
    firmware::wait_event(firmware::console_input(), seen, firmware::console_wait_end(end));
  }
}

}  // namespace qm::demo
