#pragma once
/// A board of QEMU as a child process, with its serial line on a Unix socket in a private directory. QEMU waits for
/// its client before it starts the board, so that not one byte of the boot is lost. A board that has its commands from
/// the start (QemuOptions::commands) only sends: its line is a pipe. So it is on boards but `virt`, both ways.

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <qm/host/error.hpp>
#include <qm/host/transport.hpp>

namespace qm::host {

/// Whether a target outlives the program that started it.
enum class Lifetime { kOwned, kKept };

struct QemuOptions {
  std::filesystem::path image;  ///< the firmware, an ELF file
  std::string board = "virt";   ///< or spike, sifive_u: QEMU's name
  unsigned harts = 4;           ///< 1 to 8, on sifive_u 1 to 4
  std::string ram = "128M";     ///< as QEMU's -m takes it
  std::string append;           ///< boot options, for /chosen/bootargs
  /// Time is counted in instructions, one host thread for all harts. Time runs on while the board waits for the host, so
  /// that a run repeats only if nothing is sent to it: see commands.
  bool icount = false;
  /// Commands that an image of which takes_commands() holds, as the demo, gets with its boot options and runs as the requests 1, 2, ...: nothing can be sent to
  /// it then, and with icount each run is the same to the instruction, as long as no more than a megabyte of what the
  /// board has sent waits for the host.
  std::vector<std::string> commands;
  bool single_step = false;        ///< one instruction per translation block: interrupts can hit each of them
  std::vector<std::string> extra;  ///< further arguments for QEMU
  std::string program;             ///< empty: what the environment variable QM_QEMU names, else qemu-system-riscv64
  Lifetime lifetime = Lifetime::kOwned;
};

/// Whether @p image knows what QemuOptions::commands are. @throws Error kInput if it cannot be read.
[[nodiscard]] bool takes_commands(const std::filesystem::path& image);

/// How a process ended.
struct ExitStatus {
  bool by_signal = false;
  int number = 0;  ///< the status, or the signal
};

/// @returns "ended with status 3" or "was killed by signal 9 (Killed)".
[[nodiscard]] std::string describe(ExitStatus status);

class BoardLine;

class Qemu {
 public:
  /// Starts QEMU. An owned QEMU dies with this object, and with the thread that made it, however that ends.
  /// @throws Error kUsage for options that cannot be right, kInput if the image is not for the machine that the program's
  ///         name says (`riscv64`), kOpen if the image is not there, the program cannot be started or the private
  ///         directory cannot be made.
  explicit Qemu(const QemuOptions& options);
  Qemu(const Qemu&) = delete;
  Qemu& operator=(const Qemu&) = delete;

  /// Kills an owned QEMU and removes its directory.
  ~Qemu();

  /// Attaches to the serial line; the board starts, unless it has its commands: it runs already.
  /// @throws Error kDied if QEMU ended before, with what it wrote; kTimedOut if it has not opened its line by @p
  ///          deadline.
  [[nodiscard]] Transport connect(Clock::time_point deadline);

  /// @returns how QEMU ended; nothing while it runs.
  [[nodiscard]] std::optional<ExitStatus> exit_status();

  /// As exit_status(), after waiting for it until @p deadline.
  [[nodiscard]] std::optional<ExitStatus> wait(Clock::time_point deadline);

  /// Ends QEMU at once, also a kept one.
  void kill();

  /// @returns what QEMU itself wrote (its standard output and error), at most the last 2000 characters.
  [[nodiscard]] std::string messages() const;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] const std::string& program() const noexcept { return program_; }
  [[nodiscard]] std::filesystem::path socket() const { return directory_ / "line"; }
  [[nodiscard]] const std::filesystem::path& directory() const noexcept { return directory_; }

  /// @returns the arguments QEMU is started with, the program's name first, the serial line at @p socket.
  [[nodiscard]] static std::vector<std::string> arguments(const QemuOptions& options,
                                                          const std::filesystem::path& socket);

 private:
  void start(const std::vector<std::string>& arguments);

  [[nodiscard]] Transport open_pipe(Clock::time_point deadline);

  std::string program_;
  Lifetime lifetime_;
  bool only_sends_;  // it has its commands: the line is a pipe
  std::filesystem::path directory_;
  std::unique_ptr<BoardLine> line_;  // where a thread moves its bytes
  pid_t pid_ = -1;
  std::optional<ExitStatus> exit_status_;
};

}  // namespace qm::host
