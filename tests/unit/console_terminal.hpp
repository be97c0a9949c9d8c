#pragma once
/// A terminal whose bytes the test writes and reads.

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <qm/console/console.hpp>
#include <qm/wire/demultiplexer.hpp>
#include <qm/wire/frame.hpp>

namespace qm::test {

/// Keeps the console's output, separated into text and frames as a host does; feeds the input that the test has queued.
class FakeTerminal final : public console::Terminal {
 public:
  struct Received {
    wire::FrameType type;
    std::uint16_t sequence;
    std::uint32_t request;
    std::string payload;
  };

  void write(std::string_view bytes) noexcept override {
    ++writes;
    raw += bytes;
    for (const char c : bytes) {
      const auto step = demultiplexer_.push(static_cast<std::uint8_t>(c));
      if (step.frame) {
        const wire::Frame& frame = demultiplexer_.frame();
        frames.push_back({frame.type, frame.sequence, frame.request, std::string(wire::as_text(frame.payload))});
      }
      if (step.broken != wire::Broken::kNone) ++broken;
      for (std::uint8_t i = 0; i < step.text_count; ++i) text += static_cast<char>(step.text[i]);
    }
  }
  std::size_t read(std::span<char> bytes) noexcept override {
    if (trickle && std::exchange(paused_, !paused_)) return 0;
    const std::size_t count = std::min(trickle ? 1 : bytes.size(), input.size());
    input.copy(bytes.data(), count);
    input.erase(0, count);
    return count;
  }
  std::size_t take_lost() noexcept override { return std::exchange(lost, 0); }
  void yield() noexcept override {
    ++yields;
    if (on_yield) on_yield(*this);
  }
  std::uint64_t milliseconds() noexcept override { return now_ms; }

  /// Makes @p bytes arrive at the next read().
  void send(std::string_view bytes) { input.append(bytes); }

  std::string input;
  std::string raw;   ///< all bytes
  std::string text;  ///< bytes outside frames
  std::vector<Received> frames;
  bool trickle = false;  ///< input arrives one byte at a time
  std::size_t lost = 0;
  std::size_t broken = 0;
  std::size_t writes = 0;
  std::size_t yields = 0;
  std::uint64_t now_ms = 1000;
  void (*on_yield)(FakeTerminal&) = nullptr;

 private:
  bool paused_ = false;
  std::vector<std::uint8_t> buffer_ =
      std::vector<std::uint8_t>(wire::Demultiplexer::buffer_bytes(wire::kMaxPayloadBytes));
  wire::Demultiplexer demultiplexer_{buffer_};
};

inline console::ConsoleConfig test_config() {
  return {.version = "1.2.3", .build_id = "cafe0123", .harts = 4, .ram_bytes = std::uint64_t{128} << 20};
}

}  // namespace qm::test
