#include "fake_console.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

namespace qm::test {

using wire::as_text;
using wire::CommandStatus;
using wire::FrameType;
using wire::ProtocolError;

void FakeConsole::boot() {
  print("\r\nQuartermaster 0.0.0 build fake, 1 harts, 1 MiB, formats 2\r\nwarning: this is no target\r\nqm> ");
}

int FakeConsole::serve() {
  try {
    for (;;) {
      char bytes[256];
      const ssize_t count = read(descriptor_, bytes, sizeof bytes);
      if (count <= 0) return -1;
      for (ssize_t i = 0; i < count; ++i) take(static_cast<std::uint8_t>(bytes[i]));
    }
  } catch (const Ended& ended) {
    return ended.status;
  }
}

void FakeConsole::take(std::uint8_t byte) {
  const auto step = demultiplexer_.push(byte);
  if (step.frame) take_frame(demultiplexer_.frame());
  switch (step.broken) {
    case wire::Broken::kNone:
    case wire::Broken::kTail: break;
    case wire::Broken::kVersion:
      refuse(demultiplexer_.header().request, ProtocolError::kVersion, name(ProtocolError::kVersion));
      break;
    case wire::Broken::kTooLong:
      refuse(demultiplexer_.header().request, ProtocolError::kTooLong, name(ProtocolError::kTooLong));
      break;
    default: refuse(0, ProtocolError::kDamaged, name(step.broken)); break;
  }
  for (unsigned i = 0; i < step.text_count; ++i) type(step.text[i]);
}

void FakeConsole::type(std::uint8_t byte) {
  if (byte == 3 && running_ != 0) return end(std::exchange(running_, 0), CommandStatus::kAborted);
  if (byte != '\r') {
    line_ += static_cast<char>(byte);
    print({reinterpret_cast<const char*>(&byte), 1});
    return;
  }
  print("\r\n");
  const std::string line = std::exchange(line_, {});
  run(line, 0);
  print("qm> ");
}

void FakeConsole::take_frame(const wire::Frame& frame) {
  const std::string line(as_text(frame.payload));
  switch (frame.type) {
    case FrameType::kHello: {
      std::uint8_t room[64];
      return send(
          FrameType::kHello, frame.request,
          as_text(pack(
              wire::HelloPayload{.from_target = true, .max_payload_bytes = 255, .build_id = "", .text = "fake console"},
              room)));
    }
    case FrameType::kAskForm: {
      wire::LineForm form;
      if (!unpack(frame.payload, form))
        return refuse(frame.request, ProtocolError::kMalformed, name(ProtocolError::kMalformed));
      ++forms_;
      raw_ = form.raw;
      return send(FrameType::kForm, frame.request, as_text(wire::pack(form)));
    }
    case FrameType::kAsk: ++asks_; return;
    case FrameType::kRequest:
      if (!wire::is_command(line))
        return refuse(frame.request, ProtocolError::kMalformed, name(ProtocolError::kMalformed));
      if (running_ != 0) return refuse(frame.request, ProtocolError::kBusy, name(ProtocolError::kBusy));
      return run(line, frame.request);
    default: return refuse(frame.request, ProtocolError::kUnknownType, name(ProtocolError::kUnknownType));
  }
}

/// Output goes into frames if there is a request, and directly onto the line if there is none.
void FakeConsole::run(std::string_view line, std::uint32_t request) {
  const auto say = [&](std::string_view text) {
    if (request != 0) return send(FrameType::kOutput, request, text);
    for (const char character : text) print(character == '\n' ? "\r\n" : std::string_view(&character, 1));
  };
  if (request != 0 && misbehave(line, request)) return;
  if (line.starts_with("echo ")) {
    say(line.substr(5, 3));
    say(std::string(line.substr(line.size() < 8 ? line.size() : 8)) + "\n");
    return end(request, CommandStatus::kOk);
  }
  if (line.starts_with("poweroff")) {
    end(request, CommandStatus::kOk);
    throw Ended{line.size() > 9 ? static_cast<int>(std::strtol(std::string(line.substr(9)).c_str(), nullptr, 0)) : 0};
  }
  if (line == "reboot") {
    end(request, CommandStatus::kOk);
    sequence_ = 0;
    return boot();
  }
  if (line == "run") {
    running_ = request;
    return say("runs\n");
  }
  if (line.starts_with("send ")) {
    end(request, CommandStatus::kOk);
    std::ifstream file(std::string(line.substr(5)), std::ios::binary);
    std::vector<std::uint8_t> room(wire::Demultiplexer::buffer_bytes(wire::kMaxPayloadBytes));
    wire::Demultiplexer frames(room);
    const std::uint16_t first = sequence_;
    for (std::istreambuf_iterator<char> byte(file), end; byte != end; ++byte) {
      if (!frames.push(static_cast<std::uint8_t>(*byte)).frame) continue;
      const wire::Frame& frame = frames.frame();
      sequence_ = static_cast<std::uint16_t>(first + frame.sequence);
      send(frame.type, frame.request, as_text(frame.payload));
    }
    return;
  }
  if (line == "forms") {
    say(std::to_string(forms_) + "\n");
    return end(request, CommandStatus::kOk);
  }
  if (line == "fail") {
    say("error: it was to fail\n");
    return end(request, CommandStatus::kFailed);
  }
  if (line.empty()) return;
  say("error: unknown command \"" + std::string(line) + "\" (try help)\n");
  end(request, CommandStatus::kUnknownCommand);
}

bool FakeConsole::misbehave(std::string_view line, std::uint32_t request) {
  const auto some_output = [&] { return encoded(FrameType::kOutput, request, "some output\n"); };
  if (line == "die") {
    print("panic: it was to die\r\n");
    const std::string frame = some_output();
    print(frame.substr(0, frame.size() / 2));
    throw Ended{9};
  }
  if (line == "hang") return true;
  if (line == "slow") {
    const std::string frame = some_output();
    print(frame.substr(0, frame.size() / 2));
    poll(nullptr, 0, 100);  // shorter than the silence that ends a frame
    print(frame.substr(frame.size() / 2));
    end(request, CommandStatus::kOk);
    return true;
  }
  if (line == "garbage") {
    print("noise \x1b[31m \x1bPqforeign\x1b\\ more\r\n");
    print(some_output() + "and ");
    print(encoded(static_cast<FrameType>(40), 0, "a type of tomorrow") + "text\r\n");
    print("\x1b\\");
    end(request, CommandStatus::kOk);
    return true;
  }
  if (line == "lose" || line == "corrupt") {
    std::string frame = some_output();
    if (line == "corrupt") {
      frame[10] = frame[10] == 'A' ? 'B' : 'A';
      print(frame);
    }
    end(request, CommandStatus::kOk);
    return true;
  }
  if (line == "version") {
    // A status frame of an older version with a correct CRC, made by hand.
    wire::Crc32 crc;
    std::string inner("\x01\x04\x00\x00", 4);
    for (unsigned shift = 0; shift < 32; shift += 8) inner += static_cast<char>(request >> shift & 255);
    inner += std::string(2, '\0');
    crc.add(wire::as_bytes(inner));
    for (unsigned shift = 0; shift < 32; shift += 8) inner += static_cast<char>(crc.value() >> shift & 255);
    static constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string armoured = "\x1bPm";
    for (std::size_t i = 0; i < inner.size(); i += 3) {
      std::uint32_t group = 0;
      for (std::size_t k = 0; k < 3; ++k)
        group = group << 8 | (i + k < inner.size() ? static_cast<std::uint8_t>(inner[i + k]) : 0);
      for (std::size_t k = 0; k < 4; ++k)
        armoured += i + k <= inner.size() ? kAlphabet[group >> (18 - 6 * k) & 63] : '=';
    }
    print(armoured + "\x1b\\");
    return true;
  }
  if (line == "deaf") {
    refuse(0, ProtocolError::kDamaged, "wrong checksum");
    return true;
  }
  if (line == "busy") {
    refuse(request, ProtocolError::kBusy, name(ProtocolError::kBusy));
    return true;
  }
  if (line == "stale") {
    send(FrameType::kOutput, request + 1000, "not yours\n");
    end(request + 1000, CommandStatus::kFailed);
    print(some_output());
    end(request, CommandStatus::kOk);
    return true;
  }
  return false;
}

void FakeConsole::print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL);  // the client may be gone
    if (count <= 0) throw Ended{-1};
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

void FakeConsole::send(FrameType type, std::uint32_t request, std::string_view payload) {
  print(encoded(type, request, payload));
}

void FakeConsole::end(std::uint32_t request, CommandStatus status) {
  if (request != 0) send(FrameType::kStatus, request, as_text(pack(wire::StatusPayload{status, 0})));
}

void FakeConsole::refuse(std::uint32_t request, ProtocolError error, std::string_view text) {
  std::uint8_t room[128];
  send(FrameType::kError, request, as_text(pack(wire::ErrorPayload{error, 1, text}, room)));
}

std::string FakeConsole::encoded(FrameType type, std::uint32_t request, std::string_view payload) {
  std::string line(wire::armoured_size(payload.size()), ' ');
  const wire::Frame frame{type, sequence_++, request, wire::as_bytes(payload)};
  line.resize(raw_ && type != FrameType::kForm ? wire::encode_raw(frame, line) : wire::encode(frame, line));
  return line;
}

}  // namespace qm::test
