#pragma once
// Commands for the console's tests, registered in the way of an embedder's commands.

#include "console_fixture.hpp"

namespace qm::test {

using console::CommandStatus;
using console::Completion;
using console::Invocation;
using console::Number;
using console::parse_number;

inline unsigned runs = 0;
inline std::string last_words;

inline CommandStatus run_echo(Invocation& call) noexcept {
  ++runs;
  last_words.clear();
  for (std::size_t i = 1; i < call.words().size(); ++i) last_words += std::string(call.words()[i]) + "|";
  if (call.words()[1] == "fail") return call.fail("{} went wrong", call.words()[1]);
  if (call.words()[1] == "half") {
    call.print("half a line");
    return call.fail("the rest is missing");
  }
  if (call.words()[1] == "usage") return call.usage();
  call.print("{}\n", last_words.c_str());
  return call.ok();
}

/// Prints a line and yields, as many times as its argument says.
inline CommandStatus run_lines(Invocation& call) noexcept {
  std::uint64_t count = 0;
  const Number read = parse_number(call.words()[1], 1'000'000, count);
  if (read != Number::kOk) return call.fail_number(call.words()[1], read);
  for (std::uint64_t i = 0; i < count; ++i) {
    call.print("line {}\n", i);
    if (!call.yield()) {
      call.print("lines {}: aborted\n", i + 1);
      return call.aborted();
    }
  }
  call.print("lines {}: complete\n", count);
  return call.ok();
}

/// Yields before it reads its words.
inline CommandStatus run_late(Invocation& call) noexcept {
  if (!call.yield()) return call.aborted();
  call.print("{}\n", call.words()[1]);
  return call.ok();
}

inline CommandStatus run_depart(Invocation& call) noexcept {
  call.print("going\n");
  call.answer(CommandStatus::kOk);
  call.print("too late\n");
  return CommandStatus::kFailed;
}

inline void complete_echo(Completion& completion) noexcept {
  for (const char* name : {"packet", "packet_small", "inode"}) completion.offer(name);
}

QM_CONSOLE_COMMAND(echo, {.name = "echo",
                          .usage = "echo WORD...",
                          .summary = "says it",
                          .run = run_echo,
                          .min_arguments = 1,
                          .max_arguments = 5,
                          .complete = complete_echo});
QM_CONSOLE_COMMAND(lines, {.name = "lines",
                           .usage = "lines N",
                           .summary = "N lines",
                           .run = run_lines,
                           .min_arguments = 1,
                           .max_arguments = 1});
QM_CONSOLE_COMMAND(late, {.name = "late",
                          .usage = "late WORD",
                          .summary = "says it later",
                          .run = run_late,
                          .min_arguments = 1,
                          .max_arguments = 1});
QM_CONSOLE_COMMAND(depart, {.name = "depart", .usage = "depart", .summary = "answers first", .run = run_depart});

}  // namespace qm::test
