#pragma once
/// A command: its name, its arguments and its function. There is one table of commands; `help`, completion and
/// execution use it.
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
/// The entries lie in a linker section named `qm_commands`. A linker script need not name the section: the linker
/// places it as an orphan and defines symbols for its start and end. A script that names it must keep it with
/// KEEP(*(qm_commands)). An entry in a static library is linked only if the image uses something else of its object
/// file.

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
  std::string_view usage = {};    ///< as `help` prints it, and as it follows `error: usage: `
  std::string_view summary = {};  ///< one line for `help`
  /// Runs the command. The number of arguments has been checked. Prints `error: ...` itself iff it returns kFailed or
  /// kUsage; `return call.fail()` and `return call.usage()` do both.
  CommandStatus (*run)(Invocation& call) noexcept = nullptr;
  std::uint8_t min_arguments = 0;
  std::uint8_t max_arguments = 0;
  /// Offers candidates for the word that is being completed; null: there are none.
  void (*complete)(Completion& completion) noexcept = nullptr;
  /// For `help NAME`: all forms of the command, one a line, if usage does not show them all. Lines end in LF.
  std::string_view forms = {};
  /// For `help NAME`: example lines in which each option occurs once. Separated by LF.
  std::string_view example = {};
  /// Whether the command may run after a panic: it is read-only, reads only data that is readable in every state of the
  /// system, and asks no other hart.
  bool in_panic = false;
  /// Whether the command's lines are broken at kColumns columns. Lines of a fixed format are not
  /// (Output::whole_line()).
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

  /// Prints a line of a report, or a part of one. A program gets a row whose fields are the placeholders with names.
  /// Defined in row.hpp.
  template <class... Arguments>
  void row(std::string_view kind, Format<std::type_identity_t<Arguments>...> format,
           const Arguments&... arguments) noexcept;
  void vrow(std::string_view kind, std::string_view format, std::span<const Argument> arguments) noexcept;

  /// Prints text for people only, such as a table's head or a rule.
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

  /// Lets other tasks of this hart run, reads input, and prints notices that have arrived. A command calls it between
  /// two records of a report, with no lock held and interrupts enabled.
  /// @returns false once Ctrl-C was seen: the command then returns aborted() soon.
  [[nodiscard]] bool yield() noexcept;

  /// Whether Ctrl-C was seen. Reads no new input.
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

  /// Sends all output and, to a program, the status, before the command has returned. It is for commands that do not
  /// return, such as a reboot.
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

class Completion;
/// Offers names to completion. Must not allocate.
using Completer = void (*)(Completion& completion) noexcept;

/// Collects the candidates that a command's complete() offers.
class Completion {
 public:
  static constexpr std::size_t kMaxCandidate = 96;
  static constexpr std::size_t kMaxListed = 64;  ///< a list shows at most this many, and counts the rest

  /// @param[in] before  the words before the one that is completed.
  /// @param[in] prefix  the part of that word that has been typed.
  /// @param[in] list    null: only compute the common beginning of all candidates; else: print all candidates there.
  /// @param[in] symbols offers the names of the image's functions and variables; null: there are none.
  Completion(const Words& before, std::string_view prefix, Output* list, Completer symbols) noexcept
      : before_(before), prefix_(prefix), list_(list), symbols_(symbols) {}
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  /// The words before the one that is completed; the first is the command's name.
  [[nodiscard]] const Words& words() const noexcept { return before_; }
  /// The index of the word that is completed: 1 for the first argument.
  [[nodiscard]] std::size_t index() const noexcept { return before_.size(); }
  /// Offers @p candidate. It is ignored unless it begins with the typed prefix.
  void offer(std::string_view candidate) noexcept;
  /// If the typed prefix begins with `-`, candidates offered from here on are completed as `-` and the name: names that
  /// the command leaves out.
  void leave_out() noexcept { leaves_out_ = starts_with(prefix_, "-"); }
  /// Offers the symbols of the image whose names begin with the typed prefix; none if the prefix is empty.
  void offer_symbols() noexcept {
    if (symbols_ != nullptr && !prefix_.empty()) symbols_(*this);
  }

  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// The longest common beginning of all candidates.
  [[nodiscard]] std::string_view common() const noexcept { return {common_, common_length_}; }

 private:
  const Words& before_;
  std::string_view prefix_;
  Output* list_;
  Completer symbols_;
  bool leaves_out_ = false;
  std::size_t count_ = 0;
  std::size_t common_length_ = 0;
  char common_[kMaxCandidate];
};

/// Offer, in this order, the names of all caches, of traceable caches, of traceable caches and arenas, of all arenas.
void offer_caches(Completion& completion) noexcept;
void offer_traceable_caches(Completion& completion) noexcept;
void offer_traceable(Completion& completion) noexcept;
void offer_arenas(Completion& completion) noexcept;

}  // namespace qm::console

/// Adds a command to the table; see the head of this file. @p identifier is any name that is unused in the namespace.
#define QM_CONSOLE_COMMAND(identifier, ...)                                                          \
  static constinit const ::qm::console::Command qm_command_##identifier __VA_ARGS__;                 \
  [[gnu::section("qm_commands"),                                                                     \
    gnu::used]] static constinit const ::qm::console::Command* const qm_command_entry_##identifier = \
      &qm_command_##identifier
