#pragma once
/// The console of a target, from the far end of its line: commands as request frames, and as a person types them.
///
/// Everything received is split into text and frames. Text is kept (text(), at least its last 8 MiB) and handed to a
/// listener as it comes; frames answer requests. Both directions are in the transcript.

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

/// What a command answered.
struct CommandResult {
  std::string text;  ///< its output, lines ended by LF
  wire::CommandStatus status = wire::CommandStatus::kOk;
  bool output_dropped = false;  ///< the target could not send all of it
  [[nodiscard]] bool ok() const noexcept { return status == wire::CommandStatus::kOk && !output_dropped; }
};

/// Who answers a hello.
struct Identity {
  std::string text;      ///< name, version, build: for people
  std::string build_id;  ///< of the image; empty: not known
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

  /// Runs @p line on the target as a request. Interrupted, it sends Ctrl-C and waits shortly for the end, so that the
  /// next client finds the line free.
  /// @param[in] timeout longest silence: how long the target may send nothing at all before it counts as hung.
  /// @param[in] on_output, if set, gets each piece of the output as it comes.
  /// @returns text and status. A request that the target refuses (too long, malformed, busy) gives the status kFailed
  ///          (kBusy) and a text `error: WHY`.
  /// @throws Error kUsage if the line does not fit a frame, kTimedOut, kDied, kInterrupted, kProtocol (lost or broken
  ///         frames, another version).
  CommandResult execute(std::string_view line, Milliseconds timeout, const Listener& on_output = {});

  using RowListener = std::function<void(const ReportRow&)>;
  /// As execute(), but asks for the report as rows, each of which @p on_row gets as it comes. What a command prints
  /// besides are rows of the kind `text`; the result's text is empty, or says why the target refused.
  CommandResult execute_for_rows(std::string_view line, Milliseconds timeout, const RowListener& on_row);

  /// Says that the target runs @p count commands by itself, as the requests 1, 2, ...: QemuOptions::commands. Before
  /// anything is received.
  void expect_answers(std::size_t count);
  /// Whether an answer is left that next_answer() has not returned.
  [[nodiscard]] bool answers_left() const noexcept { return !expected_.empty(); }
  /// Waits for the answer to the next of them, @p line. Parameters, result and errors are those of execute().
  CommandResult next_answer(std::string_view line, Milliseconds timeout, const Listener& on_output = {});

  /// Asks who is there, again every half second until an answer comes.
  /// @throws Error kNoAnswer if none has come within @p timeout; kDied, kProtocol.
  Identity hello(Milliseconds timeout);

  /// Asks the target for raw frames, which take three quarters of the line, and says every second that somebody is here
  /// to read them, for as long as pump() is called.
  /// @returns false if the target knows no other form than the armour.
  /// @throws Error kTimedOut, kDied, kProtocol.
  bool use_raw_frames(Milliseconds timeout);

  /// Says that the target boots again, and counts its frames from 0.
  void expect_boot() noexcept { sequence_check_ = {}; }

  /// Waits until the text ends with the prompt.
  /// @param[in] timeout longest silence.
  /// @throws Error kTimedOut, kDied.
  void wait_for_prompt(Milliseconds timeout);

  /// Waits until the text that came since the last clear_text() contains @p needle.
  /// @returns the place behind it in text().
  /// @throws Error kTimedOut after @p timeout in all, kDied.
  std::size_t wait_for_text(std::string_view needle, Milliseconds timeout);

  /// Types @p line and Enter, and waits for the next prompt.
  /// @param[in] timeout longest silence.
  /// @returns what was printed between the echo and the prompt, lines ended by LF.
  /// @throws Error kTimedOut, kDied.
  std::string type_command(std::string_view line, Milliseconds timeout);

  /// Sends bytes as they are: keys, control characters, half a frame.
  void type(std::string_view bytes);

  /// Sends a frame with the next sequence number.
  void send(wire::FrameType type, std::uint32_t request, std::string_view payload);

  /// Waits for bytes until @p deadline and takes in what has come.
  /// @returns false iff nothing came.
  /// @throws Error kDied, kProtocol.
  bool pump(Clock::time_point deadline);

  /// Whether pump() has something to do within 2 s even if nothing comes: a byte is held that may begin a frame, or a
  /// target that sends raw frames wants to hear of us.
  [[nodiscard]] bool holds_bytes() const noexcept { return demultiplexer_.waiting() || raw_; }

  /// The text received since the last clear_text().
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  void clear_text() noexcept { text_.clear(); }

  /// The listener gets the text as it comes, without frames.
  void on_text(Listener listener) { on_text_ = std::move(listener); }

  /// The listener gets every byte of the line as it passes, before anything is made of it.
  void on_line(LineListener listener) { on_line_ = std::move(listener); }

  /// The listener gets the frames of event streams.
  void on_stream(FrameListener listener) { on_stream_ = std::move(listener); }

  /// What was wrong with frames so far.
  [[nodiscard]] std::uint32_t broken_frames() const noexcept { return demultiplexer_.broken(); }
  [[nodiscard]] std::uint32_t lost_frames() const noexcept { return lost_frames_; }
  [[nodiscard]] std::uint32_t ignored_frames() const noexcept { return ignored_frames_; }

  [[nodiscard]] Transport& transport() noexcept { return transport_; }
  [[nodiscard]] Transcript& transcript() noexcept { return transcript_; }

 private:
  /// A request that waits for its answer.
  struct Pending {
    std::uint32_t request = 0;
    bool answered = false;
    CommandResult result;
    Identity hello;
    const Listener* on_output = nullptr;
    const RowListener* on_row = nullptr;
    std::optional<Error> failure;
    std::string damage;                 // the target has said that something arrived broken: perhaps this request
    Clock::time_point doubted_since{};  // when it said so
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
  std::string fresh_;  // text that the listener has not had
  Listener on_text_;
  LineListener on_line_;
  FrameListener on_stream_;
  Pending* pending_ = nullptr;
  std::deque<Pending> expected_;  // what the target runs by itself and next_answer() has not returned
  std::uint32_t next_request_;
  std::uint16_t next_sequence_ = 0;
  std::uint32_t lost_frames_ = 0;
  std::uint32_t ignored_frames_ = 0;
  bool raw_ = false;  // raw frames have been asked for, and granted
  Clock::time_point said_{};
};

}  // namespace qm::host
