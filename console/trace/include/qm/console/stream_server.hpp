#pragma once
/// Sends the event stream over the serial line: it empties the rings of trace/event_stream.hpp into frames, and sends
/// the definitions that events refer to before the events.
///
///     header ─▶ sources ─▶ [definitions] events ... statistics ... ─▶ final statistics ─▶ end
///
/// Invariants
///  1. The definition of a number is sent before the first event with that number.
///  2. An operation never waits for the serial line: an event that finds its ring full is dropped. If more events were
///     dropped than sent in a second, the stream changes from all events to a sample of them, then to counters only.
///     After kPatience snapshots (one a second) without a drop it goes back one step. Each time that it has to reduce
///     again, this number doubles, up to kMostPatience. The stream has a note of each change.
///  3. One call sends at most a few frames, so that the console reads input in between.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <qm/hal/port.hpp>
#include <qm/trace/event_ring.hpp>
#include <qm/trace/event_stream.hpp>
#include <qm/wire/event.hpp>
#include <qm/wire/frame.hpp>
#include <qm/wire/stream.hpp>

namespace qm::console {

class StreamServer {
 public:
  static constexpr std::uint64_t kStatisticsMs = 1000;
  /// The number of snapshots without a drop after which the stream goes back one step: its initial and largest value.
  static constexpr unsigned kPatience = 4;
  static constexpr unsigned kMostPatience = 64;
  /// Longest time that a hart's events wait for further events.
  static constexpr std::uint64_t kDelayMs = 50;
  static constexpr std::uint32_t kBatch = 64;
  static constexpr unsigned kFramesAtOnce = 4;

  using Send = void (*)(void* context, wire::FrameType type, std::span<const std::uint8_t> payload) noexcept;

  /// @param[in] build_id the build id of the image, in hexadecimal digits.
  StreamServer(Send sender, void* context, std::string_view build_id) noexcept;
  StreamServer(const StreamServer&) = delete;
  StreamServer& operator=(const StreamServer&) = delete;

  /// Sends at most a few frames. @returns whether there was anything to send. Context: the console's task, with no lock
  /// and without the turn of the trace commands.
  bool pump(std::uint64_t now_ms) noexcept;

  /// Whether a stream is on, or has stopped and is not sent completely. Complexity: O(1).
  [[nodiscard]] bool busy() const noexcept { return trace::stream_state() != trace::StreamState::kOff; }

  /// Sends again the definitions that a host asks for. Does nothing without a stream.
  void answer(const wire::Ask& ask) noexcept;

 private:
  void begin(std::uint64_t now_ms) noexcept;
  void send_header() noexcept;
  void send_all(wire::DefinitionKind kind) noexcept;
  void define(wire::DefinitionKind kind, std::uint32_t number) noexcept;
  void define_for(const wire::Event& event) noexcept;
  void flush_definitions() noexcept;
  void flush_events() noexcept;
  bool send_hart(unsigned hart, std::uint64_t now_ms, bool ending) noexcept;
  void add_event(const wire::Event& event) noexcept;
  void send_statistics(bool final) noexcept;
  void add_statistic(const wire::Statistic& statistic, wire::StatisticsHead& head) noexcept;
  void judge_losses() noexcept;
  void send_end() noexcept;
  void send(wire::FrameType type, std::span<const std::uint8_t> payload) noexcept;
  wire::StreamPrefix next_prefix() noexcept { return {stream_, frames_}; }

  Send send_;
  void* context_;
  std::uint8_t build_id_[wire::StreamHeader::kMaxBuildIdBytes] = {};
  std::size_t build_id_bytes_ = 0;

  std::uint16_t stream_ = 0;  // number of the stream; 0: none has begun
  std::uint32_t frames_ = 0;  // frames sent of this stream
  std::uint32_t snapshots_ = 0;
  std::uint32_t batch_ = kBatch;
  std::uint64_t statistics_ms_ = 0;
  std::uint64_t judged_events_ = 0;
  std::uint64_t judged_lost_ = 0;
  unsigned quiet_ = 0;     // snapshots without a drop
  unsigned patience_ = 0;  // snapshots without a drop that the next step back needs
  std::uint64_t sent_ms_[hal::Port::kMaxHarts] = {};

  wire::EventEncoder events_;
  bool events_begun_ = false;
  wire::DefinitionEncoder definitions_;
  bool definitions_begun_ = false;
  wire::Definition definition_;
  wire::StatisticsEncoder statistics_;
  wire::StreamHeader header_;
  std::uint8_t event_bytes_[wire::kMaxPayloadBytes];
  std::uint8_t other_bytes_[wire::kMaxPayloadBytes];
};

}  // namespace qm::console
