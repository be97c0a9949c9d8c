#pragma once
/// Records a target's line into a capture while it is used, and follows the event stream in it.

#include <signal.h>

#include <array>
#include <filesystem>
#include <string>

#include <qm/host/capture.hpp>
#include <qm/host/stream_reader.hpp>
#include <qm/host/target.hpp>

namespace qm::tool {

struct RecordTo {
  std::filesystem::path file;   ///< empty: nothing is recorded
  std::filesystem::path image;  ///< the target's ELF file, which is added to the capture; empty: not known
  std::string command;          ///< the recorder's command line
  std::string line;             ///< the line that the target is attached to
  unsigned baud = 0;            ///< 0: not a serial device
};

class Recorder {
 public:
  /// Creates the file and records everything from the console's next byte on.
  /// @throws host::Error kInput if the image cannot be read, kOpen if the file cannot be written.
  Recorder(host::Console& console, const RecordTo& to);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();

  /// Records the target's identity. @throws host::Error kInput if the target runs another image than the recorded one,
  /// unless forced.
  void identify(const host::Identity& identity, bool force);

  /// Whether a stream has begun and not ended.
  [[nodiscard]] bool stream_runs() const noexcept { return streams_.running(); }

  /// Waits until the current stream has ended, or until nothing has arrived for 3 s.
  void await_end_of_stream();

  /// Requests lost definitions from the target again, at most once a second. To be called regularly.
  void ask_for_what_is_missing();

  /// Completes the file and prints a summary of it on standard error.
  void end(const std::string& why);

  /// @returns one line: duration, amount of data, losses.
  [[nodiscard]] std::string figures() const;

 private:
  /// Counts the events in the stream.
  class Passing : public host::EventHandler {
   public:
    void on_event(const host::Event&) override { ++events; }
    void on_gap(const host::Gap& gap) override {
      (gap.why == host::Missing::kOverrun ? overruns : missing) += gap.events;
    }
    std::uint64_t events = 0, overruns = 0, missing = 0;
  };

  host::Console& console_;
  host::CaptureWriter writer_;
  std::string image_build_id_;
  Passing passing_;
  host::StreamReader streams_;
  host::Clock::time_point start_ = host::Clock::now();
  host::Clock::time_point asked_{};
  bool ended_ = false;
};

/// During its lifetime, Ctrl-C, SIGTERM and SIGHUP interrupt a wait for the line (host::Fault::kInterrupted) and do
/// nothing else.
class Interruptible {
 public:
  Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  ~Interruptible();

 private:
  static constexpr std::array<int, 3> kSignals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> before_{};
};

/// Requests from the target the header and the definitions that @p streams lacks.
void ask_for_definitions(host::Console& console, host::StreamReader& streams);

/// Starts the event stream with @p command. @returns whether it succeeded; if not, the target's answer is on standard
/// error.
bool start_stream(host::Target& target, const std::string& command);

/// Stops the target's stream and waits for its end, so that the capture has it; reports on standard error if that
/// fails.
void stop_stream(host::Target& target, Recorder& recorder);

/// `qm record`.
struct RecordOptions {
  RecordTo to;
  std::string serial;
  unsigned baud = 115200;
  double seconds = 0;                     ///< 0: until Ctrl-C
  std::string start = "kmemtrace start";  ///< the command that starts the stream; empty: none
  bool force = false;
  bool raw = false;  ///< ask for raw frames
  host::TargetTimeouts timeouts;
};
int record(const RecordOptions& options);

}  // namespace qm::tool
