#pragma once
/// A machine for console tests: the demo image in QEMU, and direct access to the host's end of its line. It shows
/// frames unchanged, including broken answers and error frames, which a normal client would hide or react to.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <qm/host/qemu.hpp>
#include <qm/host/report_row.hpp>
#include <qm/host/transcript.hpp>
#include <qm/host/transport.hpp>
#include <qm/wire/demultiplexer.hpp>
#include <qm/wire/frame.hpp>

namespace qm::test {

/// @returns options for QEMU with the demo image (QM_IMAGE in the environment, else the one of this build's sibling
///          target-release) and QM_HARTS harts.
[[nodiscard]] host::QemuOptions demo();

/// @returns the addresses of the rows of the kind @p kind, in order.
[[nodiscard]] std::vector<std::uint64_t> addresses(const std::vector<host::ReportRow>& rows, std::string_view kind);

class Machine {
 public:
  struct Received {
    wire::FrameType type{};
    std::uint16_t sequence = 0;
    std::uint32_t request = 0;
    std::string payload;
  };
  /// The answer to a request.
  struct Answer {
    bool answered = false;
    std::string text;
    wire::CommandStatus status{};
  };

  /// Boots and waits for the first prompt. @throws host::Error, which names the transcript.
  /// @param[in] early bytes that are sent @p delay after the board was switched on, without waiting for the prompt.
  explicit Machine(const host::QemuOptions& options = demo(), std::string_view early = {},
                   std::chrono::milliseconds delay = {});

  /// Sends bytes unchanged.
  void send(std::string_view bytes);
  /// Types a line and Enter, and waits for the prompt. @returns the output between the echo and the prompt; lines end
  /// with LF.
  /// @throws host::Error if no prompt comes.
  std::string type_line(std::string_view line);
  /// Sends a request frame and waits for its status. A frame that the target reports as damaged is sent again.
  /// @throws host::Error if no status comes.
  Answer request(std::string_view line);
  /// Requests the report as rows, like request().
  std::vector<host::ReportRow> rows(std::string_view line);
  /// Receives input until @p done returns true. @returns whether it did within @p limit.
  bool wait(const std::function<bool()>& done, std::chrono::milliseconds limit = std::chrono::seconds(60));
  bool wait_for_text(std::string_view needle, std::chrono::milliseconds limit = std::chrono::seconds(60));
  /// Receives input until the line has been silent for @p silence.
  void settle(std::chrono::milliseconds silence = std::chrono::milliseconds(400));
  /// @returns the frame's bytes on the line, with the next sequence number.
  [[nodiscard]] std::string frame(wire::FrameType type, std::uint32_t number, std::string_view payload);
  /// @returns the error frames received, oldest first.
  [[nodiscard]] std::vector<wire::ProtocolError> errors() const;
  /// @returns the answers to request @p number so far.
  [[nodiscard]] Answer answer_to(std::uint32_t number) const;
  /// Waits for QEMU's end. @returns its exit status, -1 if it did not end or was killed.
  int wait_for_end();
  /// Discards the received input.
  void clear();

  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] const std::vector<Received>& frames() const noexcept { return frames_; }
  [[nodiscard]] std::uint32_t broken_frames() const noexcept { return demultiplexer_.broken(); }
  [[nodiscard]] std::string transcript() const { return transcript_.path().string(); }
  /// The process of QEMU.
  [[nodiscard]] pid_t process() const noexcept { return qemu_.pid(); }
  [[nodiscard]] std::uint32_t next_request() noexcept { return ++last_request_; }

 private:
  /// @returns the number of the request, which is answered.
  std::uint32_t ask(wire::FrameType type, std::string_view line);
  bool pump(host::Clock::time_point deadline);
  void take(const wire::Demultiplexer::Step& step);
  [[noreturn]] void fail(const std::string& what);

  host::Transcript transcript_;
  host::Qemu qemu_;
  std::unique_ptr<host::Transport> line_;
  std::vector<std::uint8_t> buffer_;
  wire::Demultiplexer demultiplexer_;
  std::string text_;
  std::vector<Received> frames_;
  std::uint16_t next_sequence_ = 0;
  std::uint32_t last_request_ = 0;
};

/// One machine for all tests of a suite. After a test that fails or uses up the machine, the next test gets a new one.
/// A failure prints the name of the transcript.
class MachineTest : public ::testing::Test {
 protected:
  static Machine& machine();
  /// Discards the shared machine: the next machine() boots.
  static void discard();
  /// Expects both interfaces to work: typed lines, after Ctrl-C has ended any unfinished line, and requests.
  static void expect_it_still_works();
  void TearDown() override;
  static void TearDownTestSuite() { discard(); }

 private:
  static std::unique_ptr<Machine> shared_;
};

}  // namespace qm::test
