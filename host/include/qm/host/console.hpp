#pragma once
/// The console of a target, used from the host's end of the line: commands as request frames, and as a person types
/// them.
///
/// It splits all received bytes into text and frames. It keeps text (text(), at least its last 8 MiB) and passes it to
/// a listener as it arrives; frames answer requests. The transcript has both directions.

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <qm/host/error.hpp>
#include <qm/host/report_row.hpp>
#include <qm/host/transcript.hpp>
#include <qm/host/transport.hpp>
#include <qm/wire/demultiplexer.hpp>
#include <qm/wire/frame.hpp>

namespace qm::host {

/// The result of a command.
struct CommandResult {
  std::string text;  ///< its output; lines end with LF
  wire::CommandStatus status = wire::CommandStatus::kOk;
  bool output_dropped = false;  ///< the target could not send all of its output
  [[nodiscard]] bool ok() const noexcept { return status == wire::CommandStatus::kOk && !output_dropped; }
};

/// The target's answer to a hello.
struct Identity {
  std::string text;      ///< name, version and build, for people to read
  std::string build_id;  ///< build id of the image; empty: not known
};

enum class Direction : std::uint8_t { kReceived, kSent };

class Console {
 public:
  using Listener = std::function<void(std::string_view)>;
  using LineListener = std::function<void(Direction, std::string_view)>;
  using FrameListener = std::function<void(const wire::Frame&)>;

  /// @param[in] transcript must outlive this object.
  Console(Transport transport, Transcript& transcript);
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Runs @p line on the target as a request. If it is interrupted, it sends Ctrl-C and waits for a short time for the
  /// end of the command, so that the next client finds the line free.
  /// @param[in] timeout the longest silence: a target that sends nothing at all for this long counts as hung.
  /// @param[in] on_output if set, receives each piece of the output as it arrives.
  /// @returns text and status. If the target refuses the request (too long, malformed, busy), the status is kFailed
  ///          (kBusy) and the text is `error: REASON`.
  /// @throws Error kUsage if the line does not fit into a frame, kTimedOut, kDied, kInterrupted, kProtocol (lost or
  ///          broken frames, another version).
  CommandResult execute(std::string_view line, Milliseconds timeout, const Listener& on_output = {});

  using RowListener = std::function<void(const ReportRow&)>;
  /// As execute(), but requests the report as rows, and passes each row to @p on_row as it arrives. Other output of the
  /// command arrives as rows of the kind `text`. The result's text is empty, or says why the target refused the
  /// request.
  CommandResult execute_for_rows(std::string_view line, Milliseconds timeout, const RowListener& on_row);

  /// Declares that the target runs @p count commands by itself, as the requests 1, 2, ...; see QemuOptions::commands.
  /// To be called before anything is received.
  void expect_answers(std::size_t count);
  /// Whether next_answer() has not yet returned all answers.
  [[nodiscard]] bool answers_left() const noexcept { return !expected_.empty(); }
  /// Waits for the answer to the next of these commands, @p line. Parameters, result and errors are those of execute().
  CommandResult next_answer(std::string_view line, Milliseconds timeout, const Listener& on_output = {});

  /// Sends a hello, and repeats it every half second until the target answers.
  /// @throws Error kNoAnswer if no answer has come within @p timeout; kDied, kProtocol.
  Identity hello(Milliseconds timeout);

  /// Asks the target for raw frames, which need three quarters of the bytes. Afterwards pump(), while it is called,
  /// tells the target every second that a program is here to read them.
  /// @returns false if the target supports only armoured frames.
  /// @throws Error kTimedOut, kDied, kProtocol.
  bool use_raw_frames(Milliseconds timeout);

  /// Prepares for a new boot of the target, which counts its frames from 0.
  void expect_boot() noexcept { sequence_check_ = {}; }

  /// Waits until the text ends with the prompt.
  /// @param[in] timeout longest silence.
  /// @throws Error kTimedOut, kDied.
  void wait_for_prompt(Milliseconds timeout);

  /// Waits until the text since the last clear_text() contains @p needle.
  /// @returns the position after it in text().
  /// @throws Error kTimedOut after @p timeout in total, kDied.
  std::size_t wait_for_text(std::string_view needle, Milliseconds timeout);

  /// Types @p line and Enter, and waits for the next prompt.
  /// @param[in] timeout the longest silence.
  /// @returns the output between the echo and the prompt; lines end with LF.
  /// @throws Error kTimedOut, kDied.
  std::string type_command(std::string_view line, Milliseconds timeout);

  /// Sends bytes unchanged: keys, control characters, part of a frame.
  void type(std::string_view bytes);

  /// Sends a frame with the next sequence number.
  void send(wire::FrameType type, std::uint32_t request, std::string_view payload);

  /// Waits for bytes until @p deadline and processes those that arrived.
  /// @returns false iff no byte arrived.
  /// @throws Error kDied, kProtocol.
  bool pump(Clock::time_point deadline);

  /// Whether pump() has something to do within 2 s even if no byte arrives: it holds a byte that may begin a frame, or
  /// it must tell a target that sends raw frames that a program reads them.
  [[nodiscard]] bool holds_bytes() const noexcept { return demultiplexer_.waiting() || raw_; }

  /// The text since the last clear_text().
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  void clear_text() noexcept { text_.clear(); }

  /// Passes text to the listener as it arrives, without frames.
  void on_text(Listener listener) { on_text_ = std::move(listener); }

  /// Passes every byte of the line to the listener, before it is interpreted.
  void on_line(LineListener listener) { on_line_ = std::move(listener); }

  /// Passes the frames of event streams to the listener.
  void on_stream(FrameListener listener) { on_stream_ = std::move(listener); }

  /// The number of broken frames so far.
  [[nodiscard]] std::uint32_t broken_frames() const noexcept { return demultiplexer_.broken(); }
  [[nodiscard]] std::uint32_t lost_frames() const noexcept { return lost_frames_; }
  [[nodiscard]] std::uint32_t ignored_frames() const noexcept { return ignored_frames_; }

  [[nodiscard]] Transport& transport() noexcept { return transport_; }
  [[nodiscard]] Transcript& transcript() noexcept { return transcript_; }

 private:
  /// A request that has no answer yet.
  struct Pending {
    std::uint32_t request = 0;
    bool answered = false;
    CommandResult result;
    Identity hello;
    const Listener* on_output = nullptr;
    const RowListener* on_row = nullptr;
    std::optional<Error> failure;
    // set when the target reported that a frame arrived broken: perhaps this request
    std::string damage;
    Clock::time_point doubted_since{};  // time of that report
  };

  CommandResult ask(wire::FrameType type, std::string_view line, Milliseconds timeout, Pending& pending);
  void take_in(std::string_view received);
  void take(const wire::Demultiplexer::Step& step);
  void take_frame(const wire::Frame& frame);
  void take_error(const wire::Frame& frame);
  void answer(Pending& pending, const wire::Frame& frame);
  [[nodiscard]] Pending* asked(std::uint32_t request) noexcept;
  void fail_pending(const std::string& why, Fault fault = Fault::kProtocol);
  void fail_version(unsigned spoken);
  std::uint32_t new_request() noexcept;
  void take_broken(wire::Broken reason);
  void flush_text();
  void say_that_somebody_is_here();
  [[nodiscard]] bool given_up(const Pending& pending) const;
  void await(Pending& pending, Milliseconds silence, const std::string& what);
  void stop(const Pending& pending) noexcept;
  [[nodiscard]] bool at_prompt() const noexcept;

  Transport transport_;
  Transcript& transcript_;
  std::vector<std::uint8_t> frame_buffer_;
  wire::Demultiplexer demultiplexer_;
  wire::SequenceCheck sequence_check_;
  Clock::time_point last_byte_ = Clock::now();
  std::string text_;
  std::string fresh_;  // text not yet passed to the listener
  Listener on_text_;
  LineListener on_line_;
  FrameListener on_stream_;
  Pending* pending_ = nullptr;
  std::deque<Pending> expected_;  // the commands that the target runs by itself and next_answer() has not returned
  std::uint32_t next_request_;
  std::uint16_t next_sequence_ = 0;
  std::uint32_t lost_frames_ = 0;
  std::uint32_t ignored_frames_ = 0;
  bool raw_ = false;  // the target has granted raw frames
  Clock::time_point said_{};
};

}  // namespace qm::host
