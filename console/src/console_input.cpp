/// The console, second half: it separates received bytes into frames and text, and keeps text in the receive ring.

#include <algorithm>
#include <cstring>

#include <qm/console/console.hpp>
#include <qm/console/text.hpp>

namespace qm::console {
namespace {

constexpr std::uint8_t kCtrlC = 0x03;
constexpr std::uint8_t kEraseLine = 0x15;  // Ctrl-U: in the ring, it erases the text of an incomplete line before it

constexpr bool ends_line(std::uint8_t byte) noexcept { return byte == '\r' || byte == '\n'; }

}  // namespace

void Console::feed(std::span<const char> bytes) noexcept {
  if (bytes.empty()) return;
  for (const char c : bytes) take(demultiplexer_.push(static_cast<std::uint8_t>(c)));
  silence_ms_ = 0;
}

void Console::pump() noexcept {
  // If this function was not called for long, that does not count as silence: the sender may have paused as well.
  const std::uint64_t now = terminal_.milliseconds();
  silence_ms_ += std::min<std::uint64_t>(now - looked_ms_, kLookMs);
  looked_ms_ = now;
  char bytes[64];
  // The loop is bounded, so that a serial line with continuous input does not keep the console here.
  for (std::size_t rounds = 0; rounds < kReceiveBytes / sizeof bytes; ++rounds) {
    const std::size_t count = terminal_.read(bytes);
    if (count == 0) break;
    feed({bytes, count});
  }
  if (const std::size_t lost = terminal_.take_lost(); lost > 0) lose(lost);
  if (demultiplexer_.waiting() && silent()) take(demultiplexer_.timeout());
}

void Console::take(const wire::Demultiplexer::Step& step) noexcept {
  if (step.frame) take_frame(demultiplexer_.frame());
  if (step.broken != wire::Broken::kNone) take_broken(step.broken);
  for (std::uint8_t at = 0; at < step.text_count; ++at) take_text(step.text[at]);
}

// ---- text -----------------------------------------------------------------------------------------------------------

/// Adds a byte to the ring if more than @p reserve bytes are free. @returns whether it was added.
bool Console::ring_push(std::uint8_t byte, std::uint32_t reserve) noexcept {
  if (kReceiveBytes - (ring_head_ - ring_tail_) <= reserve) return false;
  ring_[ring_head_++ % kReceiveBytes] = byte;
  return true;
}

void Console::take_text(std::uint8_t byte) noexcept {
  if (byte == kCtrlC && running_) {
    abort_ = true;
    ring_tail_ = ring_head_;
    losing_ = false;
    clean_since_loss_ = true;
    return;
  }
  // One byte stays free for the mark that erases a line that lost a byte.
  if (losing_ || !ring_push(byte, 1)) {
    lose(1);
    if (ends_line(byte) || byte == kCtrlC) losing_ = false;
    return;
  }
  clean_since_loss_ = false;
}

void Console::lose(std::size_t bytes) noexcept {
  lost_ += bytes;
  losing_ = true;
  if (!clean_since_loss_) clean_since_loss_ = ring_push(kEraseLine, 0);
}

/// Reads the input that has arrived, and drops its first line, which may be incomplete.
void Console::lose_begun_line() noexcept {
  losing_ = true;
  pump();
  if (lost_ == 0) losing_ = false;
}

/// Removes the ring's contents up to and including its last Ctrl-C. @returns whether there was one.
bool Console::ring_drop_through_abort() noexcept {
  for (std::uint32_t at = ring_head_; at != ring_tail_; --at) {
    if (ring_[(at - 1) % kReceiveBytes] == kCtrlC) {
      ring_tail_ = at;
      return true;
    }
  }
  return false;
}

// ---- frames ---------------------------------------------------------------------------------------------------------

void Console::take_frame(const wire::Frame& frame) noexcept {
  switch (frame.type) {
    case wire::FrameType::kHello: {
      // A serial line with a loopback returns this console's own hello. To answer it would never end. Errors are not
      // answered either.
      wire::HelloPayload hello;
      if (!wire::unpack(frame.payload, hello)) {
        send_error(wire::ProtocolError::kMalformed, frame.request, name(wire::ProtocolError::kMalformed));
      } else if (!hello.from_target) {
        raw_ = false;  // the host that sends a hello need not be the host that asked for raw frames
        send_hello(frame.request);
      }
      return;
    }
    case wire::FrameType::kAskForm: take_form(frame); return;
    case wire::FrameType::kForm: return;  // this console's own frame, looped back
    case wire::FrameType::kRequest:
    case wire::FrameType::kRowRequest: take_request(frame); return;
    case wire::FrameType::kError: return;
    case wire::FrameType::kAsk: {
      wire::Ask ask;
      if (wire::unpack(frame.payload, ask) != wire::Decoded::kOk) {
        send_error(wire::ProtocolError::kMalformed, frame.request, name(wire::ProtocolError::kMalformed));
      } else {
        trace_->answer(ask);
      }
      return;
    }
    default:
      send_error(wire::ProtocolError::kUnknownType, frame.request, name(wire::ProtocolError::kUnknownType));
      return;
  }
}

void Console::take_request(const wire::Frame& frame) noexcept {
  const Answer answer = frame.type == wire::FrameType::kRowRequest ? Answer::kRows : Answer::kText;
  if (!request(wire::as_text(frame.payload), frame.request, answer))
    send_error(wire::ProtocolError::kBusy, frame.request, name(wire::ProtocolError::kBusy));
}

bool Console::request(std::string_view line, std::uint32_t number, Answer answer) noexcept {
  if (!wire::is_command(line) || number == 0) {
    send_error(wire::ProtocolError::kMalformed, number, name(wire::ProtocolError::kMalformed));
    return true;
  }
  if (request_waits_) return false;
  std::memcpy(request_line_.data(), line.data(), line.size());
  request_length_ = line.size();
  request_ = number;
  request_answer_ = answer;
  request_position_ = ring_head_;
  request_waits_ = true;
  return true;
}

void Console::take_broken(wire::Broken reason) noexcept {
  const auto& header = demultiplexer_.header();
  if (reason == wire::Broken::kVersion) {
    send_error(wire::ProtocolError::kVersion, header.request, name(wire::ProtocolError::kVersion));
    return;
  }
  if (reason == wire::Broken::kTooLong) {
    send_error(wire::ProtocolError::kTooLong, header.request, name(wire::ProtocolError::kTooLong));
    return;
  }
  // The text since the last line end may be the rest of a frame.
  if (reason == wire::Broken::kTail && !clean_since_loss_) clean_since_loss_ = ring_push(kEraseLine, 0);
  send_error(wire::ProtocolError::kDamaged, 0, name(reason));
}

void Console::take_form(const wire::Frame& frame) noexcept {
  wire::LineForm form;
  if (!wire::unpack(frame.payload, form)) {
    return send_error(wire::ProtocolError::kMalformed, frame.request, name(wire::ProtocolError::kMalformed));
  }
  raw_ = form.raw;
  asked_ms_ = terminal_.milliseconds();
  send_form(frame.request);
}

void Console::send_form(std::uint32_t request) noexcept {
  send_frame(wire::FrameType::kForm, request, wire::pack(wire::LineForm{raw_}));
}

void Console::send_frame(wire::FrameType type, std::uint32_t request, std::span<const std::uint8_t> payload) noexcept {
  if (raw_ && terminal_.milliseconds() - asked_ms_ > wire::kHeartbeatLostMs) {
    raw_ = false;
    send_form(0);
  }
  const wire::Frame frame{.type = type, .sequence = sequence_++, .request = request, .payload = payload};
  const bool armoured = !raw_ || type == wire::FrameType::kForm;
  const std::size_t length = armoured ? wire::encode(frame, frame_out_) : wire::encode_raw(frame, frame_out_);
  terminal_.write({frame_out_.data(), length});
}

void Console::send_status(CommandStatus status) noexcept {
  send_frame(wire::FrameType::kStatus, running_request_, wire::pack(wire::StatusPayload{.status = status}));
}

void Console::send_error(wire::ProtocolError error, std::uint32_t request, std::string_view text) noexcept {
  std::uint8_t payload[wire::ErrorPayload::kFixedBytes + 64];
  send_frame(wire::FrameType::kError, request, wire::pack(wire::ErrorPayload{.error = error, .text = text}, payload));
}

void Console::send_hello(std::uint32_t request) noexcept {
  char text[96];
  std::size_t length = 0;
  struct Cut {
    char* at;
    std::size_t* length;
  } cut{text, &length};
  const Output::Sink keep = [](void* context, std::string_view bytes) noexcept {
    const Cut& into = *static_cast<Cut*>(context);
    for (const char c : bytes) {
      if (c != '\n' && *into.length < sizeof text) into.at[(*into.length)++] = c;
    }
  };
  char buffer[32];
  Output out(buffer, Output::Target::kFrames, keep, &cut);
  print_banner(out);
  out.flush();
  const wire::HelloPayload hello{
      .from_target = true, .max_payload_bytes = kMaxLine, .build_id = config_.build_id, .text = {text, length}};
  std::uint8_t payload[wire::HelloPayload::kFixedBytes + wire::HelloPayload::kMaxBuildId + sizeof text];
  send_frame(wire::FrameType::kHello, request, wire::pack(hello, payload));
}

}  // namespace qm::console
