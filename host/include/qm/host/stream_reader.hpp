#pragma once
/// Turns the frames of event streams into events: merges the harts' events into one order, fills in the fields that the
/// stream omits, and detects missing events.
///
///     frames ─▶ one for each stream ─▶ a queue for each hart ─▶ merged by global number ─▶ EventHandler
///
/// Invariants
///  1. Each event is delivered once, in the order of global numbers. The numbers in a queue ascend, so the smallest
///     number at the head of a queue is next if it follows the one before it, or if no queue is empty. Otherwise it
///     waits while the queues hold no more than all rings of the device can hold, and at most 2^21 events.
///  2. Missing events are delivered as a Gap at their place, counted in events: overruns by the device's report, other
///     losses by the harts' own numbers.
///  3. Memory grows with definitions and the window of invariant 1, not with events, and not with sizes that a header
///     claims.

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <qm/host/events.hpp>
#include <qm/wire/event.hpp>
#include <qm/wire/frame.hpp>
#include <qm/wire/stream.hpp>

namespace qm::host {

class StreamReader {
 public:
  /// @p handler must outlive this object.
  explicit StreamReader(EventHandler& handler);
  StreamReader(const StreamReader&) = delete;
  StreamReader& operator=(const StreamReader&) = delete;
  ~StreamReader();

  /// Processes the next frame from the target, of any type. @returns whether it belongs to a stream.
  bool take(const wire::Frame& frame);

  /// Sets a function that is called when an event names a cache or arena that is not defined, at most once for each
  /// stream and 64 times in total. A caller that has the rest of the capture may adopt() later definitions.
  void on_unknown(std::function<void()> look_ahead) { look_ahead_ = std::move(look_ahead); }
  /// Adds the definitions in @p frame that the stream does not have yet, if the frame belongs to the current stream.
  void adopt(const wire::Frame& frame);

  /// Delivers the waiting events, then on_end() with @p end, to which it adds its findings.
  void finish(CaptureEnd end);

  /// For a live display: whether a stream is running, and how many of its frames were lost.
  [[nodiscard]] bool running() const noexcept;
  [[nodiscard]] std::uint64_t lost_frames() const noexcept { return lost_frames_; }
  /// Whether a header or definitions are missing, which the host can request from the target.
  [[nodiscard]] bool wants_definitions() const noexcept { return wants_definitions_; }
  void asked_for_definitions() noexcept { wants_definitions_ = false; }

 private:
  struct Stream;

  Stream& stream_of(const wire::StreamPrefix& prefix, bool is_header);
  void begin_stream(std::uint16_t number);
  void take_header(const wire::Frame& frame);
  void take_definitions(const wire::Frame& frame);
  void take_events(const wire::Frame& frame);
  void take_statistics(const wire::Frame& frame);
  void take_end(const wire::Frame& frame);
  void end_stream();
  [[nodiscard]] bool number(Stream& stream, std::uint32_t frame_number);
  void malformed(const char* what, const Stream* of = nullptr);
  /// @param[in] of nullptr: the problem concerns the whole capture.
  void problem(const Stream* of, std::string text);

  EventHandler& handler_;
  std::function<void()> look_ahead_;
  std::deque<std::unique_ptr<Stream>> streams_;  // the last one is the current one
  CaptureEnd end_;
  std::uint64_t lost_frames_ = 0;
  std::uint64_t more_problems_ = 0;
  unsigned looks_ahead_ = 0;
  bool wants_definitions_ = false;
};

struct ReadOptions {
  /// Called from time to time with the number of bytes read, and the total number (0: not known).
  std::function<void(std::uint64_t, std::uint64_t)> progress;
};

/// Reads a capture and delivers its contents to @p handler.
/// @throws Error kInput if the file is not a readable capture; damage within it is reported in CaptureEnd.
void read_events(const std::filesystem::path& capture, EventHandler& handler, const ReadOptions& options = {});

}  // namespace qm::host
