#pragma once
/// A command: what it is called, what it takes, and what it does. There is one table; it is what `help` prints, what
/// completion offers and what runs.
///
/// A command anywhere in the firmware is one static entry:
///
///     qm::wire::CommandStatus run_led(qm::console::Invocation& call) noexcept {
///       if (call.words()[1] != "on" && call.words()[1] != "off") return call.usage();
///       ...
///       return call.ok();
///     }
///     QM_CONSOLE_COMMAND(led, {.name = "led", .usage = "led on|off", .summary = "switch the light", .run = run_led,
///                              .min_arguments = 1, .max_arguments = 1, .example = "led on"});
///
/// The entries are gathered in a linker section named `qm_commands`. It needs no line in a linker script, as it is an
/// orphan whose start and end the linker names; a script that names it keeps it with KEEP(*(qm_commands)). An entry in
/// a static library counts only if something else of its object file is used.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <qm/console/output.hpp>
#include <qm/console/words.hpp>
#include <qm/wire/status.hpp>

namespace qm::console {

class Console;
class Completion;
class Invocation;

using CommandStatus = wire::CommandStatus;

struct Command {
  std::string_view name = {};     ///< one word
  std::string_view usage = {};    ///< as it stands in `help` and after `error: usage: `
  std::string_view summary = {};  ///< one line for `help`
  /// Does it. The number of words is right. Prints `error: ...` itself iff it returns kFailed or kUsage, best by
  /// returning call.fail() or call.usage().
  CommandStatus (*run)(Invocation& call) noexcept = nullptr;
  std::uint8_t min_arguments = 0;
  std::uint8_t max_arguments = 0;
  /// Offers what may stand for the word that is being completed; null: nothing.
  void (*complete)(Completion& completion) noexcept = nullptr;
  /// For `help NAME`: the forms in full, one a line, where usage does not say all. Lines end in LF.
  std::string_view forms = {};
  /// For `help NAME`: lines to type, in which each option stands once. Separated by LF.
  std::string_view example = {};
  /// Whether it only looks, at what every state of the system leaves readable, and asks no other hart: then it runs
  /// after a panic.
  bool in_panic = false;
  /// Whether its lines are broken at kColumns columns, but for those of a fixed format (Output::whole_line()).
  Output::Wrap wrap = Output::Wrap::kNo;
};

/// One run of a command.
class Invocation {
 public:
  Invocation(Console& console, const Command& command, const Words& words, Output& out) noexcept
      : console_(console), command_(command), words_(words), out_(out) {}
  Invocation(const Invocation&) = delete;
  Invocation& operator=(const Invocation&) = delete;

  /// The command's words; the first is its name.
  [[nodiscard]] const Words& words() const noexcept { return words_; }
  [[nodiscard]] std::size_t arguments() const noexcept { return words_.size() - 1; }
  [[nodiscard]] const Command& command() const noexcept { return command_; }
  [[nodiscard]] Console& console() noexcept { return console_; }
  [[nodiscard]] Output& out() noexcept { return out_; }

  template <class... Arguments>
  void print(Format<std::type_identity_t<Arguments>...> format, const Arguments&... arguments) noexcept {
    out_.print<Arguments...>(format, arguments...);
  }

  /// Prints a line of a report, or a part of one; a program gets the placeholders with names as the fields of a row. With
  /// row.hpp.
  template <class... Arguments>
  void row(std::string_view kind, Format<std::type_identity_t<Arguments>...> format,
           const Arguments&... arguments) noexcept;
  void vrow(std::string_view kind, std::string_view format, std::span<const Argument> arguments) noexcept;

  /// Prints what only people need: a table's head, a rule.
  template <class... Arguments>
  void head(Format<std::type_identity_t<Arguments>...> format, const Arguments&... arguments) noexcept {
    if (!out_.rows()) out_.print<Arguments...>(format, arguments...);
  }

  /// Prints `note: ` and the rest of the line, which ends in LF.
  template <class... Arguments>
  void note(Format<std::type_identity_t<Arguments>...> format, const Arguments&... arguments) noexcept {
    out_.begin_line("note");
    out_.print<Arguments...>(format, arguments...);
  }

  /// Whether a program gets rows.
  [[nodiscard]] bool rows() const noexcept { return out_.rows(); }

  /// Lets other tasks of this hart run, takes input in, and prints what arrived asynchronously. Between two records of
  /// a report, with no lock held and nothing masked.
  /// @returns false once Ctrl-C was seen: the command ends soon, with aborted().
  [[nodiscard]] bool yield() noexcept;

  /// Whether Ctrl-C was seen. Looks at no new input.
  [[nodiscard]] bool abort_requested() const noexcept;

  [[nodiscard]] static constexpr CommandStatus ok() noexcept { return CommandStatus::kOk; }
  [[nodiscard]] static constexpr CommandStatus aborted() noexcept { return CommandStatus::kAborted; }

  /// Prints `error: ` and the rest of the line.
  template <class... Arguments>
  CommandStatus fail(Format<std::type_identity_t<Arguments>...> format, const Arguments&... arguments) noexcept {
    begin_error();
    out_.print<Arguments...>(format, arguments...);
    out_.put('\n');
    return CommandStatus::kFailed;
  }

  /// Prints `error: usage: ` and the usage.
  CommandStatus usage() noexcept;

  /// Prints why @p text is no number. @returns kFailed. Precondition: @p why is not kOk.
  CommandStatus fail_number(std::string_view text, Number why) noexcept;

  /// Sends all output and, to a program, the status, before the command acts: for what does not return, as a reboot.
  void answer(CommandStatus status) noexcept;

 private:
  void begin_error() noexcept;

  Console& console_;
  const Command& command_;
  const Words& words_;
  Output& out_;
};

/// The commands that are linked in.
class CommandTable {
 public:
  /// @returns the command called @p name; nullptr if there is none.
  [[nodiscard]] static const Command* find(std::string_view name) noexcept;
  /// @returns the command that follows @p name in alphabetical order ("" for the first); nullptr at the end.
  /// Complexity: O(commands).
  [[nodiscard]] static const Command* after(std::string_view name) noexcept;
};

/// Where a command's complete() puts what may stand.
class Completion {
 public:
  static constexpr std::size_t kMaxCandidate = 64;

  /// @param[in] before the words before the one that is completed.
  /// @param[in] prefix what of that word is there.
  /// @param[in] list   null: find out what is common to all; else: print all there.
  Completion(const Words& before, std::string_view prefix, Output* list) noexcept
      : before_(before), prefix_(prefix), list_(list) {}
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  /// The words before; the first is the command's name.
  [[nodiscard]] const Words& words() const noexcept { return before_; }
  /// Which word is completed: 1 for the first argument.
  [[nodiscard]] std::size_t index() const noexcept { return before_.size(); }
  /// Offers @p candidate; ignored unless it begins with what is there.
  void offer(std::string_view candidate) noexcept;
  /// Where the word begins with `-`, candidates are names to be left out from here on: `-` and the name.
  void leave_out() noexcept { leaves_out_ = starts_with(prefix_, "-"); }

  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// What all candidates have in common, from their first character on.
  [[nodiscard]] std::string_view common() const noexcept { return {common_, common_length_}; }

 private:
  const Words& before_;
  std::string_view prefix_;
  Output* list_;
  bool leaves_out_ = false;
  std::size_t count_ = 0;
  std::size_t common_length_ = 0;
  char common_[kMaxCandidate];
};

/// Offers the names of all caches, or of those that can be traced; of arenas and caches that can; of all arenas.
void offer_caches(Completion& completion) noexcept;
void offer_traceable_caches(Completion& completion) noexcept;
void offer_traceable(Completion& completion) noexcept;
void offer_arenas(Completion& completion) noexcept;

}  // namespace qm::console

/// Enters a command in the table; see the head of this file. @p identifier is any name not used otherwise in the
/// namespace.
#define QM_CONSOLE_COMMAND(identifier, ...)                                                          \
  static constinit const ::qm::console::Command qm_command_##identifier __VA_ARGS__;                 \
  [[gnu::section("qm_commands"),                                                                     \
    gnu::used]] static constinit const ::qm::console::Command* const qm_command_entry_##identifier = \
      &qm_command_##identifier
