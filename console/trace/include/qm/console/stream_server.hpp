#pragma once
/// Sends the event stream over the line: empties the rings of trace/event_stream.hpp into frames, with what the events
/// refer to in front of them.
///
///     header ─▶ sources ─▶ [definitions] events ... statistics ... ─▶ final statistics ─▶ end
///
/// Invariants
///  1. What a number means is sent before the first event that has it.
///  2. An operation never waits for the line: what finds no room in its ring is dropped there. If in a second more was
///     dropped than sent, the stream goes over from all events to a sample of them, then to counters only. After some
///     seconds without a drop it goes back a step, after twice as many each time that this was too soon. Each change is
///     a note in the stream.
///  3. One call sends a few frames at most, so that input is seen in between.

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
  /// Snapshots without a drop after which the stream goes back a step: at first, and at most.
  static constexpr unsigned kPatience = 4;
  static constexpr unsigned kMostPatience = 64;
  /// Events of a hart wait for more so long.
  static constexpr std::uint64_t kDelayMs = 50;
  static constexpr std::uint32_t kBatch = 64;
  static constexpr unsigned kFramesAtOnce = 4;

  using Send = void (*)(void* context, wire::FrameType type, std::span<const std::uint8_t> payload) noexcept;

  /// @param[in] build_id the image's, as text of hexadecimal digits.
  StreamServer(Send sender, void* context, std::string_view build_id) noexcept;
  StreamServer(const StreamServer&) = delete;
  StreamServer& operator=(const StreamServer&) = delete;

  /// Sends what there is to send, a few frames at most. @returns whether there was anything. Context: the console's
  /// task, no lock held, no command token.
  bool pump(std::uint64_t now_ms) noexcept;

  /// Whether a stream is on or has to be sent to its end. O(1).
  [[nodiscard]] bool busy() const noexcept { return trace::stream_state() != trace::StreamState::kOff; }

  /// Sends again what a host asks for. Without a stream there is nothing.
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

  std::uint16_t stream_ = 0;  // 0: none begun
  std::uint32_t frames_ = 0;  // sent of this stream
  std::uint32_t snapshots_ = 0;
  std::uint32_t batch_ = kBatch;
  std::uint64_t statistics_ms_ = 0;
  std::uint64_t judged_events_ = 0;
  std::uint64_t judged_lost_ = 0;
  unsigned quiet_ = 0;     // snapshots without a drop
  unsigned patience_ = 0;  // how many of them the next step back takes
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
