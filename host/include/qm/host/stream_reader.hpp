#pragma once
/// Makes events out of the frames of event streams: puts the harts' events into one order, looks up what the stream
/// leaves out, and finds out what is missing.
///
///     frames ─▶ one stream each ─▶ a queue for each hart ─▶ merged by global number ─▶ EventHandler
///
/// Invariants
///  1. Each event is delivered once, in the order of global numbers. A queue's numbers ascend, so the least of the
///     heads is next if it follows the one before, or if no queue is empty; else it waits for at most what all rings of
///     the device can hold, and 2^21 events.
///  2. What is missing is delivered as a Gap where it is missing, in events: overruns as the device says, the rest by
///     the harts' own numbers.
///  3. Memory grows with definitions and the window of 1, not with events; nor with what a header claims.

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

  /// Takes the next frame from the target, of any type. @returns whether it belongs to a stream.
  bool take(const wire::Frame& frame);

  /// Called when an event names a cache or arena that has not been defined, at most once a stream and 64 times: who has
  /// the rest of the capture may adopt() what comes later.
  void on_unknown(std::function<void()> look_ahead) { look_ahead_ = std::move(look_ahead); }
  /// Takes the definitions in @p frame that the stream does not have yet, if it is one of the stream that is being
  /// read.
  void adopt(const wire::Frame& frame);

  /// Delivers what still waits, and on_end() with @p end, to which it adds what it has found.
  void finish(CaptureEnd end);

  /// What a live display shows: whether a stream is running, and how many of its frames were lost.
  [[nodiscard]] bool running() const noexcept;
  [[nodiscard]] std::uint64_t lost_frames() const noexcept { return lost_frames_; }
  /// Whether something that the host could ask for is missing: a header, or definitions.
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
  /// @param[in] of nullptr: of the capture.
  void problem(const Stream* of, std::string text);

  EventHandler& handler_;
  std::function<void()> look_ahead_;
  std::deque<std::unique_ptr<Stream>> streams_;  // the last one is being read
  CaptureEnd end_;
  std::uint64_t lost_frames_ = 0;
  std::uint64_t more_problems_ = 0;
  unsigned looks_ahead_ = 0;
  bool wants_definitions_ = false;
};

struct ReadOptions {
  /// Told now and then how much has been read: bytes, of so many (0: not known).
  std::function<void(std::uint64_t, std::uint64_t)> progress;
};

/// Reads a capture and delivers what it holds to @p handler.
/// @throws Error kInput if the file is no capture that can be read; damage within it is told in CaptureEnd.
void read_events(const std::filesystem::path& capture, EventHandler& handler, const ReadOptions& options = {});

}  // namespace qm::host
