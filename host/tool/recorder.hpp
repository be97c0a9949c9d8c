#pragma once
/// Records a target's line into a capture while it is used, and watches the event stream that passes.

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
  std::filesystem::path image;  ///< the target's ELF file, to be put into the capture; empty: none is known
  std::string command;          ///< the recorder's command line
  std::string line;             ///< where the target is attached
  unsigned baud = 0;            ///< 0: no serial device
};

class Recorder {
 public:
  /// Begins the file and records everything from the console's next byte on.
  /// @throws host::Error kInput if the image cannot be read, kOpen if the file cannot be written.
  Recorder(host::Console& console, const RecordTo& to);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();

  /// Notes who the target is. @throws host::Error kInput if it runs another image than the one that is recorded with
  /// it.
  void identify(const host::Identity& identity, bool force);

  /// Whether a stream has begun and not ended.
  [[nodiscard]] bool stream_runs() const noexcept { return streams_.running(); }

  /// Waits until the stream that is running has ended, at most until nothing has come for 3 s.
  void await_end_of_stream();

  /// Asks the target again for definitions that were lost, at most once a second. To be called now and then.
  void ask_for_what_is_missing();

  /// Ends the file and says on standard error what is in it.
  void end(const std::string& why);

  /// One line: how long, how much, what was lost.
  [[nodiscard]] std::string figures() const;

 private:
  /// Counts what passes.
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

/// While it lives Ctrl-C, SIGTERM and SIGHUP interrupt what waits for the line (host::Fault::kInterrupted), and nothing
/// else.
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

/// Asks the target for the header and the definitions that @p streams lacks.
void ask_for_definitions(host::Console& console, host::StreamReader& streams);

/// Starts the event stream with @p command. @returns whether it has; if not, the target's answer is on standard error.
bool start_stream(host::Target& target, const std::string& command);

/// Stops the target's stream and waits for its end, so that the capture has it; says so on standard error if it cannot.
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
