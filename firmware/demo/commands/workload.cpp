/// workload list|run|start|stop

#include <bit>

#include <qm/console/command.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/hal/port.hpp>

#include "../workload.hpp"

namespace qm::demo {
namespace {

using console::CommandStatus;
using console::Invocation;

/// @returns the time at which a waiting command next polls the serial line: in 10 ms.
std::uint64_t next_look() noexcept { return hal::Port::ticks() + hal::Port::tick_rate() / 100; }

CommandStatus list(Invocation& call) noexcept {
  for (const Workload* workload : workloads()) {
    call.out().hang(17);
    call.row("workload", "{usage:<16} {summary}\n", workload->usage, workload->summary);
  }
  call.row("end", "workloads {workloads}: {verdict}\n", workloads().size(), console::closing_word(false));
  return Invocation::ok();
}

CommandStatus wrong_arguments(Invocation& call, const Workload& workload) noexcept {
  call.fail("usage: workload {} {} [hart H] [seed S]", call.words()[1], workload.usage);
  return CommandStatus::kUsage;
}

/// Reads `N|NAME [option] [hart H] [seed S]` into @p run.
CommandStatus parse(Invocation& call, const Workload& workload, WorkloadRun& run) noexcept {
  const console::Words& words = call.words();
  std::size_t at = 3;
  std::uint64_t value = 0;
  if (workload.counted) {
    const std::string_view text = words[at++];
    if (text.empty()) return wrong_arguments(call, workload);
    const console::Number number = console::parse_number(text, UINT32_MAX, value);
    if (number != console::Number::kOk) return call.fail_number(text, number);
    run.count = static_cast<std::uint32_t>(value);
  }
  if (workload.named && (run.text = words[at++]).empty()) return wrong_arguments(call, workload);
  for (; at < words.size(); ++at) {
    const std::string_view word = words[at];
    if (!workload.option.empty() && word == workload.option && !run.option) {
      run.option = true;
      continue;
    }
    if (word != "hart" && word != "seed") return wrong_arguments(call, workload);
    const std::string_view text = words[++at];
    if (text.empty()) return wrong_arguments(call, workload);
    const console::Number number = console::parse_number(text, UINT32_MAX, value);
    if (number != console::Number::kOk) return call.fail_number(text, number);
    if (word == "seed") {
      run.seed = static_cast<std::uint32_t>(value);
    } else if (value >= hal::Port::kMaxHarts || (hal::online_harts() >> value & 1) == 0) {
      return call.fail("no hart {}", value);
    } else {
      run.harts = hal::HartMask{1} << value;
    }
  }
  return Invocation::ok();
}

CommandStatus start(Invocation& call, bool wait) noexcept {
  const Workload* workload = find_workload(call.words()[2]);
  if (workload == nullptr) return call.fail("no workload {} (try workload list)", call.words()[2]);
  WorkloadRun* run = WorkloadRunner::reserve();
  if (run == nullptr)
    return call.fail("{} workloads run or hold objects: workload stop first", WorkloadRunner::kMaxRuns);
  run->workload = workload;
  const CommandStatus status = parse(call, *workload, *run);
  if (status != CommandStatus::kOk) {
    WorkloadRunner::cancel(*run);
    return status;
  }
  const char* wrong = WorkloadRunner::start(*run);
  if (wrong != nullptr) return call.fail("{}", wrong);
  if (!wait) return Invocation::ok();
  while (!WorkloadRunner::done(*run)) {
    if (!call.yield()) run->stop();
    WorkloadRunner::wait(*run, next_look());
  }
  WorkloadRunner::finish(*run, call.out());
  return call.abort_requested() ? Invocation::aborted() : Invocation::ok();
}

CommandStatus stop(Invocation& call) noexcept {
  const unsigned stopped = WorkloadRunner::stop_all();
  call.row("end", "workload: stopped {stopped}\n", stopped);
  return Invocation::ok();
}

CommandStatus run_workload(Invocation& call) noexcept {
  const std::string_view verb = call.words()[1];
  if (verb == "list" && call.arguments() == 1) return list(call);
  if (verb == "stop" && call.arguments() == 1) return stop(call);
  if ((verb == "run" || verb == "start") && call.arguments() >= 2) return start(call, verb == "run");
  return call.usage();
}

/// Completes the words after the workload's name: its arguments, then `hart H` and `seed S`.
void complete_arguments(console::Completion& completion, const Workload& workload) noexcept {
  const std::size_t arguments = (workload.counted ? 1 : 0) + (workload.named ? 1 : 0);
  if (completion.index() < 3 + arguments) {
    if (!workload.named || completion.index() + 1 < 3 + arguments) return;
    for (std::string_view names = workload.names; !names.empty();) completion.offer(console::next_item(names));
    return;
  }
  const std::string_view before = completion.words()[completion.index() - 1];
  if (before == "seed") return;
  if (before == "hart") {
    for (unsigned hart = 0; hart < hal::Port::kMaxHarts && hart < 10; ++hart) {
      const char digit = static_cast<char>('0' + hart);
      if ((hal::online_harts() >> hart & 1) != 0) completion.offer({&digit, 1});
    }
    return;
  }
  if (!workload.option.empty()) completion.offer(workload.option);
  completion.offer("hart");
  completion.offer("seed");
}

void complete(console::Completion& completion) noexcept {
  if (completion.index() >= 3 && (completion.words()[1] == "run" || completion.words()[1] == "start")) {
    const Workload* workload = find_workload(completion.words()[2]);
    if (workload != nullptr) complete_arguments(completion, *workload);
  } else if (completion.index() == 1) {
    for (const std::string_view verb : {"list", "run", "start", "stop"}) completion.offer(verb);
  } else if (completion.index() == 2 && (completion.words()[1] == "run" || completion.words()[1] == "start")) {
    for (const Workload* workload : workloads()) completion.offer(workload->name);
  }
}

QM_CONSOLE_COMMAND(workload, {.name = "workload",
                              .usage = "workload list|run NAME [ARG...]|start NAME [ARG...]|stop",
                              .summary = "give the allocator something to do",
                              .run = run_workload,
                              .min_arguments = 1,
                              .max_arguments = 8,
                              .complete = complete,
                              .forms = "workload list\n"
                                       "workload run NAME [ARG...] [hart H] [seed S]\n"
                                       "workload start NAME [ARG...] [hart H] [seed S]\n"
                                       "workload stop\n",
                              .example = "workload list\n"
                                         "workload run leak 500 list hart 1 seed 7\n"
                                         "workload start stacks 100\n"
                                         "workload stop",
                              .wrap = console::Output::Wrap::kYes});

}  // namespace
}  // namespace qm::demo
