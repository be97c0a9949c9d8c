#pragma once
/// A target for tools and tests: booted in QEMU or attached over a line, with its console and a transcript. The
/// transcript begins when QEMU runs or the line is open; every failure names its file.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <qm/host/console.hpp>
#include <qm/host/error.hpp>
#include <qm/host/qemu.hpp>
#include <qm/host/transcript.hpp>

namespace qm::host {

struct TargetTimeouts {
  Milliseconds start{20'000};     ///< until QEMU has opened its line
  Milliseconds boot{60'000};      ///< longest silence until the first prompt
  Milliseconds hello{5'000};      ///< until a running target has answered a hello
  Milliseconds command{300'000};  ///< longest silence while a command runs
  Milliseconds end{20'000};       ///< until QEMU has ended after `poweroff`
  Milliseconds connect{10'000};   ///< until a TCP connection is made
};

/// Whether the bytes of the line are kept in a transcript.
enum class Keeps { kTranscript, kNothing };

class Target {
 public:
  /// Boots the image in QEMU and waits for the prompt and the answer to a hello.
  /// @throws Error as Qemu, Console::wait_for_prompt and Console::hello; every message says how QEMU ended, if it
  ///          ended, and names the transcript.
  static Target boot(const QemuOptions& options, const TargetTimeouts& timeouts = {});

  /// As boot(), but returns as soon as QEMU has opened the line: nothing has been read yet.
  /// @param[in] started called when QEMU's process and its directory exist, and its line does not yet.
  static Target power_on(const QemuOptions& options, const TargetTimeouts& timeouts = {},
                         const std::function<void(const Qemu&)>& started = {});

  /// As attach(), but returns as soon as the line is open: nothing has been read or sent yet.
  static Target open(const std::string& place, unsigned baud = 115200, const TargetTimeouts& timeouts = {},
                     Keeps keeps = Keeps::kTranscript);

  /// Does the rest of boot() after power_on(), or of attach() after open().
  void greet();

  /// Does the work of greet() for a target that boots again, after it has promised that in its answer to `reboot`.
  /// Clear the console's text before sending `reboot`: a fast boot's output may arrive together with the answer.
  void greet_again();

  /// Attaches to a running target, and waits for the answer to a hello.
  /// @throws Error as Transport::open and Console::hello.
  static Target attach(const std::string& place, unsigned baud = 115200, const TargetTimeouts& timeouts = {});

  /// Runs a command as a request; see Console::execute. For a target that gets its commands at the start
  /// (QemuOptions::commands), waits for the next answer; @p line must be that command.
  /// @throws Error as Console::execute; the message has the command, how QEMU ended, the last lines of text and the
  ///          transcript.
  CommandResult execute(std::string_view line, const Console::Listener& on_output = {});

  /// Runs a command as a request for rows; see Console::execute_for_rows. Not for a target with its own commands.
  /// @throws Error as execute().
  CommandResult execute_for_rows(std::string_view line, const Console::RowListener& on_row);

  /// Types a command; see Console::type_command.
  std::string type_command(std::string_view line);

  /// Sends `poweroff STATUS` and waits until QEMU has ended. Not for an attached target. A board that only sends is
  /// ended at once.
  /// @returns QEMU's exit status.
  /// @throws Error kTimedOut if it has not ended in time; it is then killed.
  ExitStatus power_off(int status = 0);

  /// Waits for QEMU's end, which the caller has requested.
  /// @throws Error as power_off().
  ExitStatus wait_for_end();

  [[nodiscard]] Console& console() noexcept { return *console_; }
  [[nodiscard]] Transcript& transcript() noexcept { return *transcript_; }
  /// Whether nothing can be sent to the target (QemuOptions::commands).
  [[nodiscard]] bool only_sends() const noexcept { return only_sends_; }
  /// @returns QEMU; nullptr for an attached target.
  [[nodiscard]] Qemu* qemu() noexcept { return qemu_.get(); }
  [[nodiscard]] const Identity& identity() const noexcept { return identity_; }

  /// @returns @p error with all that is known about the target's end, and the name of the transcript.
  [[nodiscard]] Error explained(const Error& error);

 private:
  enum class Beginning { kBoots, kRuns };
  void greet(Beginning beginning);

  explicit Target(const TargetTimeouts& timeouts)
      : timeouts_(timeouts), transcript_(std::make_unique<Transcript>(Transcript::none())) {}

  TargetTimeouts timeouts_;
  std::unique_ptr<Transcript> transcript_;
  std::unique_ptr<Qemu> qemu_;
  std::unique_ptr<Console> console_;
  Identity identity_;
  bool only_sends_ = false;  // QemuOptions::commands
};

}  // namespace qm::host
