#pragma once
/// Writes events into a capture in the form in which a device sends them: the counterpart of StreamReader. It can add
/// defects, to show that they are detected.

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include <qm/host/capture.hpp>
#include <qm/host/events.hpp>
#include <qm/wire/event.hpp>
#include <qm/wire/frame.hpp>
#include <qm/wire/stream.hpp>

namespace qm::test {

/// The defects. Events are counted over all harts from 0; frames have their numbers in the stream.
struct Defects {
  /// Events that are left out; everything else is adapted as if they had never happened.
  std::function<bool(std::uint64_t)> omit = {};
  std::function<bool(std::uint64_t)> overrun = {};  ///< events that the device drops
  std::function<bool(std::uint32_t)> lose = {};     ///< frames that the line loses
  bool unended = false;                             ///< the stream has no end
  std::uint64_t too_much = 0;                       ///< added to each counter of a source
};

class CaptureEncoder : public host::EventHandler {
 public:
  CaptureEncoder(host::CaptureWriter& writer, Defects defects = {}) : writer_(writer), defects_(std::move(defects)) {}

  void on_header(const host::Definitions& definitions) override;
  void on_event(const host::Event& event) override;
  void on_statistics(const host::Statistics& statistics) override;
  void on_stream_end(std::uint64_t stop_ticks) override;

 private:
  struct Hart {
    std::vector<wire::Event> waiting;
    std::uint64_t number = 0;    // number of its next event
    std::uint64_t overruns = 0;  // not reported yet
    std::uint64_t all_overruns = 0;
  };

  void send(wire::FrameType type, std::span<const std::uint8_t> payload);
  void define(const host::Definitions& definitions);
  void flush(Hart& hart);
  [[nodiscard]] wire::StreamPrefix prefix() noexcept { return {stream_, frame_number_}; }

  host::CaptureWriter& writer_;
  Defects defects_;
  const host::Definitions* definitions_ = nullptr;
  std::map<std::uint16_t, Hart> harts_;
  std::uint16_t stream_ = 1;
  std::uint32_t frame_number_ = 0;
  std::uint16_t sequence_ = 0;
  std::uint32_t snapshot_ = 0;
  std::uint64_t counted_ = 0;
};

}  // namespace qm::test
