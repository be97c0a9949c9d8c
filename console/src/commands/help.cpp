/// help and version.

#include "commands.hpp"

#include <qm/console/console.hpp>
#include <qm/console/row.hpp>
#include <qm/hal/hart.hpp>

namespace qm::console::commands {
namespace {

constexpr std::size_t kUsageColumns = 20;

void print_entry(Invocation& call, const Command& command) noexcept {
  Row row(call, "command");
  row.text("name", command.name);
  call.out().hang(kUsageColumns + 2);
  if (command.usage.size() > kUsageColumns) {
    row.print("{usage}\n", command.usage);
    call.out().hang(kUsageColumns + 2);
    row.print("{:20}  {summary}\n", "", command.summary);
  } else {
    row.print("{usage:<20}  {summary}\n", command.usage, command.summary);
  }
}

/// Removes the first line of @p text. @returns the line, without its end.
std::string_view next_line(std::string_view& text) noexcept {
  const std::size_t end = find(text, '\n');
  const std::string_view line = part(text, 0, end);
  text = end == kNowhere ? std::string_view() : part(text, end + 1);
  return line;
}

CommandStatus run_help(Invocation& call) noexcept {
  if (call.arguments() == 0) {
    for (const Command* c = CommandTable::after({}); c != nullptr; c = CommandTable::after(c->name)) {
      if (hal::in_panic() && !c->in_panic) continue;
      print_entry(call, *c);
      if (!call.yield()) return call.aborted();
    }
    return call.ok();
  }
  const std::string_view name = call.words()[1];
  const Command* command = CommandTable::find(name);
  if (command == nullptr) return call.fail("unknown command \"{}\" (try help)", name);
  print_entry(call, *command);
  std::string_view forms = command->forms;
  while (!forms.empty()) {
    call.out().hang(6);
    call.row("form", "    {form}\n", next_line(forms));
  }
  const char* label = "example:";
  for (std::string_view examples = command->example; !examples.empty(); label = "        ") {
    call.out().hang(15);
    call.row("example", "    {} {line}\n", label, next_line(examples));
  }
  return call.ok();
}

void complete_help(Completion& completion) noexcept {
  if (completion.index() != 1) return;
  for (const Command* c = CommandTable::after({}); c != nullptr; c = CommandTable::after(c->name))
    completion.offer(c->name);
}

CommandStatus run_version(Invocation& call) noexcept {
  call.console().print_banner(call.out());
  return call.ok();
}

}  // namespace

constinit const Command help = {.name = "help",
                                .usage = "help [COMMAND]",
                                .summary = "this list, or one command in full",
                                .run = run_help,
                                .max_arguments = 1,
                                .complete = complete_help,
                                .example = "help slab_trace",
                                .in_panic = true,
                                .wrap = Output::Wrap::kYes};

constinit const Command version = {.name = "version",
                                   .usage = "version",
                                   .summary = "version, build, harts, memory, number of the formats",
                                   .run = run_version,
                                   .example = "version",
                                   .in_panic = true,
                                   .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
