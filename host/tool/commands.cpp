#include "commands.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <sstream>

#include "cleanup.hpp"
#include "terminal.hpp"

namespace qm::tool {
namespace {

void show(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Copies text that the target prints unasked while commands run as requests, such as a warning or a panic, to standard
/// error, without prompts.
class Asides {
 public:
  explicit Asides(host::Console& console) : console_(console) {
    console_.on_text([this](std::string_view text) { take(text); });
  }
  Asides(const Asides&) = delete;
  Asides& operator=(const Asides&) = delete;
  ~Asides() { console_.on_text({}); }

 private:
  void take(std::string_view text) {
    for (const char character : text) {
      if (character != '\n') {
        if (character != '\r') line_ += character;
        continue;
      }
      while (line_.starts_with("qm> ")) line_.erase(0, 4);
      if (!line_.empty()) fmt::print(stderr, "{}\n", line_);
      line_.clear();
    }
  }

  host::Console& console_;
  std::string line_;
};

/// Shows the target's warnings from its boot, for example about an unknown boot option.
void show_boot_warnings(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.starts_with("warning") || line.starts_with("error")) fmt::print(stderr, "{}\n", line);
  }
}

/// @returns the status that a `poweroff` command gives QEMU; nothing if @p command is another command.
std::optional<int> poweroff_status(const std::string& command) {
  std::istringstream words(command);
  std::string word, number, rest;
  if (!(words >> word) || word != "poweroff") return std::nullopt;
  if (!(words >> number)) return 0;
  const bool hex = number.starts_with("0x") || number.starts_with("0X");
  int status = 0;
  const char* const end = number.data() + number.size();
  const auto result = std::from_chars(number.data() + (hex ? 2 : 0), end, status, hex ? 16 : 10);
  if (result.ec != std::errc{} || result.ptr != end || status < 0 || status > 255 || (words >> rest))
    return std::nullopt;
  return status;
}

bool is_blank(const std::string& command) { return command.find_first_not_of(' ') == std::string::npos; }

/// Whether @p command restarts the board if it succeeds.
bool is_reboot(const std::string& command) {
  std::string word;
  return (std::istringstream(command) >> word) && word == "reboot";
}

/// Waits for the end that a `poweroff` causes.
int expect_end(host::Target& target, int status) {
  if (target.qemu() == nullptr) return status;
  const host::ExitStatus ended = target.wait_for_end();
  if (!ended.by_signal && ended.number == status) return status;
  throw target.explained(host::Error(host::Fault::kDied, "poweroff " + std::to_string(status) + " was asked for"));
}

/// Runs a command, and prints its rows and then its status as JSON, one object on each line.
host::CommandResult execute_as_json(host::Target& target, const std::string& command) {
  host::JsonRows json;
  const auto print = [](const std::string& lines) {
    fmt::print("{}", lines);
    std::fflush(stdout);
  };
  host::CommandResult result =
      target.execute_for_rows(command, [&](const host::ReportRow& row) { print(json.add(row)); });
  using Type = wire::FieldType;
  if (!result.text.empty()) print(json.add({"text", {{"line", Type::kText, 0, result.text}}}));
  print(json.add({"status",
                  {{"command", Type::kText, 0, command},
                   {"status", Type::kText, 0, std::string(name(result.status))},
                   {"number", Type::kNumber, static_cast<std::uint64_t>(result.status), {}}}}));
  print(json.finish());
  return result;
}

/// Prints the place in the script of a failed command. @returns whether the script ends there.
bool ends(const Script& script, std::size_t index, const std::string& command) {
  if (script.file.empty()) return false;
  std::fflush(stdout);
  fmt::print(stderr, "qm: {}:{}: failed: {}\n", script.file, script.lines[index], command);
  return true;
}

/// Runs the commands one after another; stops a script at the first command that fails.
/// @returns the status of the program; sets @p off if the target has powered off.
int run_commands(host::Target& target, const std::vector<std::string>& commands, const Script& script, Answers answers,
                 bool& off) {
  std::optional<Asides> asides(std::in_place, target.console());
  int status = kOk;
  for (std::size_t index = 0; index < commands.size(); ++index) {
    const std::string& command = commands[index];
    if (is_blank(command)) continue;
    const auto end = poweroff_status(command);
    const bool boots = is_reboot(command);
    if (boots) {
      asides.reset();  // the banner of the boot is not printed
      target.console().clear_text();
    }
    try {
      const host::CommandResult result =
          answers == Answers::kJson ? execute_as_json(target, command) : target.execute(command, show);
      if (!result.ok()) status = kCommandFailed;
      if (result.output_dropped)
        fmt::print(stderr, "qm: part of the output of \"{}\" was lost on the target\n", command);
      if (boots && result.ok()) {
        target.greet_again();
        show_boot_warnings(target.console().text());
      }
      if (boots) asides.emplace(target.console());
      if (!result.ok() && ends(script, index, command)) break;
      if (!end || !result.ok()) continue;
    } catch (const host::Error& error) {
      if (error.fault() == host::Fault::kUsage) {
        fmt::print(stderr, "qm: {}\n", error.what());
        status = kCommandFailed;
        if (ends(script, index, command)) break;
        continue;
      }
      if (!end || error.fault() != host::Fault::kDied) throw;
    }
    off = true;
    return expect_end(target, *end);
  }
  return status;
}

/// Whether the last line typed at the terminal was a `poweroff`.
bool powered_off_by_hand(const std::string& text) {
  const std::size_t prompt = text.rfind("qm> ");
  return prompt != std::string::npos && text.find("poweroff", prompt) != std::string::npos;
}

int run_terminal(host::Target& target, const RunOptions& options) {
  fmt::print(stderr, "{}; Ctrl-A x leaves\n",
             target.qemu() != nullptr ? fmt::format("QEMU runs as process {}", target.qemu()->pid())
                                      : fmt::format("attached to {}", options.serial));
  Left left = Left::kByKey;
  try {
    const RawTerminal terminal;
    left = converse(target.console(), target.qemu() != nullptr ? options.timeouts.boot : host::Milliseconds(0));
  } catch (const host::Error& error) {
    throw target.explained(error);
  }
  fmt::print(stderr, "\n");
  if (left == Left::kByKey) return kOk;
  const host::Error closed(host::Fault::kDied, "the line was closed");
  const auto ended =
      target.qemu() != nullptr ? target.qemu()->wait(host::Clock::now() + options.timeouts.end) : std::nullopt;
  if (!powered_off_by_hand(target.console().text())) throw target.explained(closed);
  if (target.qemu() == nullptr) return kOk;
  if (!ended || ended->by_signal) throw target.explained(closed);
  return ended->number;
}

void require_terminal() {
  if (isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0) return;
  throw host::Error(host::Fault::kOpen,
                    "standard input and output are not a terminal; without one, give commands with -c 'COMMAND'");
}

/// The recorder of a run, if the run has one. A run that fails completes the file as well.
class Recording {
 public:
  Recording(host::Target& target, const RunOptions& options) {
    if (options.record.file.empty()) return;
    recorder_.emplace(target.console(), options.record);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    try {
      end("the run has failed");
    } catch (const host::Error&) {  // the disk is full: the file is cut short, and a reader will report that
    }
  }

  void await_end_of_stream() {
    if (recorder_) recorder_->await_end_of_stream();
  }
  /// After Ctrl-C: ends the stream and the file as `qm record` does. A second Ctrl-C ends the file at once.
  void end_interrupted(host::Target& target) {
    try {
      if (recorder_ && recorder_->stream_runs() && !target.only_sends()) stop_stream(target, *recorder_);
    } catch (const host::Error&) {  // the target no longer answers: the file shows that the stream has no end
    }
    end("Ctrl-C");
  }
  void end(const std::string& why) {
    if (recorder_) recorder_->end(why);
  }

 private:
  std::optional<Recorder> recorder_;
};

/// Runs commands or the demonstration, which need no keys. @returns the status of the program; sets @p off if the
/// target has powered off.
int run_by_itself(host::Target& target, const RunOptions& options, bool& off) {
  show_boot_warnings(target.console().text());
  target.console().clear_text();
  if (options.raw) use_raw_frames(target, options.timeouts);
  return options.demo ? demo(target) : run_commands(target, options.commands, options.script, options.answers, off);
}

/// @returns QEMU's options. If time is counted in instructions, the board gets the commands at its start, so the run is
///          repeatable.
host::QemuOptions qemu_options(const RunOptions& options) {
  host::QemuOptions qemu = options.qemu;
  // Lets the console estimate the time of a report on such a line.
  if (options.pace != 0) qemu.append = fmt::format("baud={} {}", options.pace, qemu.append);
  if (!qemu.icount || options.commands.empty()) return qemu;
  if (!host::takes_commands(qemu.image)) {
    fmt::print(stderr, "qm: {} takes no commands with its boot options: they are sent to it, and runs differ\n",
               qemu.image.string());
    return qemu;
  }
  std::copy_if(options.commands.begin(), options.commands.end(), std::back_inserter(qemu.commands),
               [](const std::string& command) { return !is_blank(command); });
  return qemu;
}

}  // namespace

host::Target power_on(const host::QemuOptions& options, const host::TargetTimeouts& timeouts) {
  std::optional<SignalsHeld> held(std::in_place);
  return host::Target::power_on(options, timeouts, [&](const host::Qemu& qemu) {
    if (options.lifetime == host::Lifetime::kOwned) remember_qemu(&qemu);
    held.reset();
  });
}

int report(const host::Error& error) {
  std::fflush(stdout);
  fmt::print(stderr, "qm: {}\n", error.what());
  return status_of(error);
}

std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') word += "'\\''";
    else word += c;
  }
  return word + "'";
}

std::string read_script(const std::string& file, std::vector<std::string>& commands, Script& script) {
  std::ifstream opened;
  if (file != "-") {
    opened.open(file);
    if (!opened) return fmt::format("{}: {}", file, std::strerror(errno));
  }
  std::istream& in = file == "-" ? std::cin : opened;
  script.file = file == "-" ? "standard input" : file;
  unsigned number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos || line[begin] == '#') continue;
    commands.push_back(line);
    script.lines.push_back(number);
  }
  if (in.bad()) return fmt::format("{}: cannot be read", script.file);
  if (commands.empty() && file == "-")
    return "standard input is not a terminal and has no commands: give some with -c 'COMMAND' or -f FILE";
  if (commands.empty()) return fmt::format("{}: has no commands", file);
  return "";
}

std::string unrepeatable(const std::vector<std::string>& commands) {
  for (const std::string& command : commands) {
    if (is_reboot(command)) return "with --icount a reboot would run the commands again";
    if (!is_blank(command) && !wire::is_command(command))
      return fmt::format("with --icount a command is a line of at most {} characters", wire::kMaxCommandBytes);
  }
  return "";
}

int status_of(const host::Error& error) {
  switch (error.fault()) {
    case host::Fault::kUsage: return kWrongUsage;
    case host::Fault::kInput: return kCommandFailed;
    case host::Fault::kInterrupted: return kInterrupted;
    default: return kTargetFailed;
  }
}

void use_raw_frames(host::Target& target, const host::TargetTimeouts& timeouts) {
  if (!target.console().use_raw_frames(timeouts.command))
    fmt::print(stderr, "qm: the target has no raw frames: they come in armour\n");
}

int run(const RunOptions& options) {
  const bool interactive = options.commands.empty() && !options.demo;
  try {
    if (interactive) require_terminal();
    const bool owned = options.serial.empty() && options.qemu.lifetime == host::Lifetime::kOwned;
    host::Target target = options.serial.empty() ? power_on(qemu_options(options), options.timeouts)
                                                 : host::Target::open(options.serial, options.baud, options.timeouts);
    // Ctrl-C must not leave a running request behind on a target that keeps running. In the terminal, Ctrl-C is a key
    // for the target.
    std::optional<Interruptible> interruptible;
    if (!interactive && (!owned || !options.record.file.empty())) interruptible.emplace();
    Recording recording(target, options);
    target.console().transport().pace(options.pace);
    if (!interactive || target.qemu() == nullptr) target.greet();
    bool off = false;
    int status = kOk;
    if (interactive) {
      status = run_terminal(target, options);
    } else {
      try {
        status = run_by_itself(target, options, off);
        if (!off) recording.await_end_of_stream();
      } catch (const host::Error& error) {
        if (error.fault() == host::Fault::kInterrupted) recording.end_interrupted(target);
        throw;
      }
      if (owned && !off) (void)target.power_off();
    }
    if (target.qemu() != nullptr && !owned && !target.qemu()->exit_status()) {
      fmt::print(stderr, "QEMU is left running as process {}; its line is --serial unix:{}\n", target.qemu()->pid(),
                 target.qemu()->socket().string());
    }
    remember_qemu(nullptr);
    recording.end("done");
    return status;
  } catch (const host::Error& error) {
    remember_qemu(nullptr);
    return report(error);
  }
}

int execute(const std::string& serial, unsigned baud, const std::vector<std::string>& commands, Answers answers,
            const host::TargetTimeouts& timeouts) {
  try {
    const Interruptible interruptible;
    host::Target target = host::Target::attach(serial, baud, timeouts);
    bool off = false;
    return run_commands(target, commands, {}, answers, off);
  } catch (const host::Error& error) {
    return report(error);
  }
}

}  // namespace qm::tool
