#pragma once
/// The subcommands of qm, after their options have been read. Each returns the program's exit status:
/// 0 nothing failed, 1 a command failed, 2 wrong usage, 3 the target died, hung or never answered; after `poweroff S`,
/// S.

#include <string>
#include <vector>

#include <qm/host/target.hpp>

#include "recorder.hpp"

namespace qm::tool {

inline constexpr int kOk = 0;
inline constexpr int kCommandFailed = 1;  // also: a file is not what it should be
inline constexpr int kWrongUsage = 2;
inline constexpr int kTargetFailed = 3;
inline constexpr int kInterrupted = 130;

/// @returns the status for a failure.
int status_of(const host::Error& error);

/// What commands' answers are printed as: their text, or rows as JSON.
enum class Answers : std::uint8_t { kText, kJson };

/// Where commands come from that stand in a file; the first that fails is the last.
struct Script {
  std::string file;             ///< what it is called; empty: the commands come from the command line
  std::vector<unsigned> lines;  ///< of each command
};

/// Reads the commands of @p file, or of standard input (`-`), a line each; blank lines and those that begin with `#` are none.
/// @returns what is wrong; empty: nothing.
std::string read_script(const std::string& file, std::vector<std::string>& commands, Script& script);

struct RunOptions {
  host::QemuOptions qemu;  ///< without commands
  std::string serial;      ///< attach there instead of booting
  unsigned baud = 115200;
  std::vector<std::string> commands;  ///< empty: the terminal
  Answers answers = Answers::kText;
  Script script;
  bool demo = false;
  unsigned pace = 0;  ///< read no faster than a line of so many bits per second; 0: as fast as it goes
  bool raw = false;   ///< ask for raw frames
  RecordTo record;    ///< while it runs; no file: nothing is recorded
  host::TargetTimeouts timeouts;
};

/// Asks the target for raw frames; says so on standard error if it has none.
void use_raw_frames(host::Target& target, const host::TargetTimeouts& timeouts);

/// @returns why @p commands cannot be given to a board that is booted with QemuOptions::icount; empty: they can.
std::string unrepeatable(const std::vector<std::string>& commands);

/// `qm run`: boots or attaches, then runs the commands, the demonstration, or the terminal.
int run(const RunOptions& options);

/// `qm exec`: runs commands on a target that runs already.
int execute(const std::string& serial, unsigned baud, const std::vector<std::string>& commands, Answers answers,
            const host::TargetTimeouts& timeouts);

/// `qm run demo`, on a target that has booted: hunts a leak, tells what it does, and checks what it finds.
/// @returns kOk iff everything that was found is right.
int demo(host::Target& target);

}  // namespace qm::tool
