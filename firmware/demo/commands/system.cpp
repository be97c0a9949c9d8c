/// harts, reboot, poweroff

#include <qm/cache.hpp>
#include <qm/console/command.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/firmware/interrupt.hpp>
#include <qm/firmware/task.hpp>

namespace qm::demo {
namespace {

using console::CommandStatus;
using console::Invocation;

std::uint64_t magazine_misses(unsigned hart) noexcept {
  std::uint64_t misses = 0;
  RegistryCursor<Cache> caches;
  while (Cache* cache = caches.next()) misses += cache->counts(hart).misses.load(std::memory_order_relaxed);
  return misses;
}

CommandStatus harts(Invocation& call) noexcept {
  const bool reset = call.words()[1] == "reset";
  if (call.arguments() == 1 && !reset) return call.usage();
  const std::uint64_t ticks_a_microsecond = hal::Port::tick_rate() / 1000000;
  const unsigned count = firmware::boot_info().hart_count;
  unsigned online = 0;
  for (unsigned hart = 0; hart < count; ++hart) {
    if (reset) {
      firmware::reset_worst_lateness(hart);
      continue;
    }
    const firmware::HartReport report = firmware::hart_report(hart);
    online += report.online ? 1 : 0;
    call.row(
        "hart",
        "hart {hart} id {id} {state:<7} runs {task}\n"
        "  tick {tick_us} us, worst lateness {worst_ticks} ticks ({worst_us} us), missed {missed}, misses {misses}\n",
        hart, report.hart_id,
        !report.online ? "offline"
        : report.idle  ? "idle"
                       : "running",
        report.task, report.period_ticks / ticks_a_microsecond, report.worst_lateness,
        report.worst_lateness / ticks_a_microsecond, report.missed_ticks, magazine_misses(hart));
    if (!call.yield()) {
      call.row("end", "harts {harts} of {all_harts}: {verdict}\n", hart + 1, count, console::closing_word(true));
      return Invocation::aborted();
    }
  }
  if (!reset)
    call.row("end", "harts {harts} of {all_harts} online: {verdict}\n", online, count, console::closing_word(false));
  return Invocation::ok();
}

CommandStatus reboot(Invocation& call) noexcept {
  call.answer(CommandStatus::kOk);
  firmware::reboot();
}

CommandStatus poweroff(Invocation& call) noexcept {
  std::uint64_t status = 0;
  if (call.arguments() == 1) {
    const console::Number number = console::parse_number(call.words()[1], 255, status);
    if (number != console::Number::kOk) return call.fail_number(call.words()[1], number);
  }
  call.answer(CommandStatus::kOk);
  firmware::exit(static_cast<unsigned>(status));
}

void complete_harts(console::Completion& completion) noexcept {
  if (completion.index() == 1) completion.offer("reset");
}

QM_CONSOLE_COMMAND(harts, {.name = "harts",
                           .usage = "harts [reset]",
                           .summary = "the harts, their tasks, how late their ticks came; reset forgets the lateness",
                           .run = harts,
                           .min_arguments = 0,
                           .max_arguments = 1,
                           .complete = complete_harts,
                           .example = "harts\nharts reset",
                           .in_panic = true,
                           .wrap = console::Output::Wrap::kYes});
QM_CONSOLE_COMMAND(reboot, {.name = "reboot",
                            .usage = "reboot",
                            .summary = "restart the board",
                            .run = reboot,
                            .example = "reboot",
                            .in_panic = true});
QM_CONSOLE_COMMAND(poweroff, {.name = "poweroff",
                              .usage = "poweroff [STATUS]",
                              .summary = "end the emulator with exit status STATUS, 0 to 255",
                              .run = poweroff,
                              .min_arguments = 0,
                              .max_arguments = 1,
                              .example = "poweroff 3",
                              .in_panic = true});

}  // namespace
}  // namespace qm::demo
