#pragma once
/// A board of QEMU as a child process, with its serial line on a Unix socket in a private directory. QEMU waits for its
/// client before it starts the board, so no byte of the boot is lost. The line is a pipe for a board that gets its
/// commands at the start (QemuOptions::commands) and only sends. On boards other than `virt` it is a pipe in both
/// directions.

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
  std::string board = "virt";   ///< or spike, sifive_u: QEMU's name of the board
  unsigned harts = 4;           ///< 1 to 8, on sifive_u 1 to 4
  std::string ram = "128M";     ///< as QEMU's -m option takes it
  std::string append;           ///< boot options, for /chosen/bootargs
  /// Time is counted in instructions, and one host thread runs all harts. Time continues while the board waits for the
  /// host, so a run is repeatable only if nothing is sent to it: see commands.
  bool icount = false;
  /// Commands that an image gets with its boot options and runs as the requests 1, 2, ...; takes_commands() must hold
  /// for the image, as for the demo. Nothing can be sent to the board then. With icount each run is the same to the
  /// instruction, while at most one megabyte of the board's output waits for the host.
  std::vector<std::string> commands;
  /// one instruction per translation block, so an interrupt can occur at each instruction
  bool single_step = false;
  std::vector<std::string> extra;  ///< further arguments for QEMU
  std::string program;             ///< empty: the environment variable QM_QEMU, else qemu-system-riscv64
  Lifetime lifetime = Lifetime::kOwned;
};

/// Whether @p image supports QemuOptions::commands. @throws Error kInput if it cannot be read.
[[nodiscard]] bool takes_commands(const std::filesystem::path& image);

/// The way a process ended.
struct ExitStatus {
  bool by_signal = false;
  int number = 0;  ///< the exit status, or the signal
};

/// @returns "ended with status 3" or "was killed by signal 9 (Killed)".
[[nodiscard]] std::string describe(ExitStatus status);

class BoardLine;

class Qemu {
 public:
  /// Starts QEMU. An owned QEMU ends together with this object and with the thread that created it, however that thread
  /// ends.
  /// @throws Error kUsage for impossible options, kInput if the image is not for the machine in the program's name
  ///          (`riscv64`), kOpen if the image does not exist, the program cannot be started or the private directory
  ///          cannot be created.
  explicit Qemu(const QemuOptions& options);
  Qemu(const Qemu&) = delete;
  Qemu& operator=(const Qemu&) = delete;

  /// Kills an owned QEMU and removes its directory.
  ~Qemu();

  /// Attaches to the serial line. The board starts then, except a board with its own commands, which already runs.
  /// @throws Error kDied if QEMU has ended, with its output; kTimedOut if it has not opened its line by @p deadline.
  [[nodiscard]] Transport connect(Clock::time_point deadline);

  /// @returns how QEMU ended; nothing while it runs.
  [[nodiscard]] std::optional<ExitStatus> exit_status();

  /// As exit_status(), but waits for the end until @p deadline.
  [[nodiscard]] std::optional<ExitStatus> wait(Clock::time_point deadline);

  /// Ends QEMU at once, even if its lifetime is kKept.
  void kill();

  /// @returns QEMU's own output (standard output and error), at most the last 2000 characters.
  [[nodiscard]] std::string messages() const;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] const std::string& program() const noexcept { return program_; }
  [[nodiscard]] std::filesystem::path socket() const { return directory_ / "line"; }
  [[nodiscard]] const std::filesystem::path& directory() const noexcept { return directory_; }

  /// @returns the arguments that QEMU is started with, beginning with the program's name; the serial line is at @p
  ///          socket.
  [[nodiscard]] static std::vector<std::string> arguments(const QemuOptions& options,
                                                          const std::filesystem::path& socket);

 private:
  void start(const std::vector<std::string>& arguments);

  [[nodiscard]] Transport open_pipe(Clock::time_point deadline);

  std::string program_;
  Lifetime lifetime_;
  bool only_sends_;  // it has its own commands: the line is a pipe
  std::filesystem::path directory_;
  std::unique_ptr<BoardLine> line_;  // a thread moves its bytes; only for boards that need it
  pid_t pid_ = -1;
  std::optional<ExitStatus> exit_status_;
};

}  // namespace qm::host
