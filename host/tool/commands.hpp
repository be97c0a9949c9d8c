#pragma once
/// The subcommands of qm, after their options were read. Each returns the program's exit status: 0 nothing failed, 1 a
/// command failed, 2 wrong usage, 3 the target died, hung or never answered; after `poweroff S`, S.

#include <string>
#include <string_view>
#include <vector>

#include <qm/host/target.hpp>

#include "recorder.hpp"

namespace qm::tool {

inline constexpr int kOk = 0;
inline constexpr int kCommandFailed = 1;  // also: a file has the wrong contents
inline constexpr int kWrongUsage = 2;
inline constexpr int kTargetFailed = 3;
inline constexpr int kInterrupted = 130;

/// @returns the exit status for a failure.
int status_of(const host::Error& error);

/// Prints a failure. @returns the exit status for it.
int report(const host::Error& error);

/// Boots QEMU. A signal at any time finds either no QEMU, or one that cleanup.hpp remembers. @throws Error as
/// Target::power_on.
host::Target power_on(const host::QemuOptions& options, const host::TargetTimeouts& timeouts);

/// @returns @p text quoted as one word of the shell.
std::string shell_word(std::string_view text);

/// The form in which answers of commands are printed: their text, or rows as JSON.
enum class Answers : std::uint8_t { kText, kJson };

/// The origin of commands that stand in a file. A script ends at the first command that fails.
struct Script {
  std::string file;             ///< name of the file; empty: the commands come from the command line
  std::vector<unsigned> lines;  ///< line number of each command
};

/// Reads the commands of @p file, or of standard input (`-`), one on each line; skips blank lines and lines that begin
/// with `#`.
/// @returns an error message; empty: success.
std::string read_script(const std::string& file, std::vector<std::string>& commands, Script& script);

struct RunOptions {
  host::QemuOptions qemu;  ///< without commands
  std::string serial;      ///< a line to attach to instead of booting
  unsigned baud = 115200;
  std::vector<std::string> commands;  ///< empty: the terminal
  Answers answers = Answers::kText;
  Script script;
  bool demo = false;
  unsigned pace = 0;  ///< reads at the rate of a line of this many bits per second; 0: no limit
  bool raw = false;   ///< ask for raw frames
  RecordTo record;    ///< capture of the whole run; no file: nothing is recorded
  host::TargetTimeouts timeouts;
};

/// Asks the target for raw frames; reports on standard error if it does not support them.
void use_raw_frames(host::Target& target, const host::TargetTimeouts& timeouts);

/// @returns why @p commands cannot be given to a board that is booted with QemuOptions::icount; empty: they can.
std::string unrepeatable(const std::vector<std::string>& commands);

/// `qm run`: boots or attaches, then runs the commands, the demonstration, or the terminal.
int run(const RunOptions& options);

/// `qm exec`: runs commands on a running target.
int execute(const std::string& serial, unsigned baud, const std::vector<std::string>& commands, Answers answers,
            const host::TargetTimeouts& timeouts);

/// `qm run demo`, on a target that has booted: finds a leak, explains its steps, and checks the results.
/// @returns kOk iff all results are correct.
int demo(host::Target& target);

}  // namespace qm::tool
