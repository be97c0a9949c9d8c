#pragma once
/// The frame and its forms on the line. docs/protocol.md has every byte, with worked examples.
///
///     inner frame, little endian                          on the line
///      0  u8   version (1)                                armoured: ESC P m <base64 of the inner frame> ESC \ .
///      1  u8   type                                       raw, if asked for: FF <COBS of the inner frame> 00
///      2  u16  sequence: +1 with each frame of a sender
///      4  u32  request: chosen by the host, repeated in each answer; 0: belongs to none
///      8  u16  payload bytes
///     10  payload
///     ..  u32  CRC-32 of all bytes before it
///
/// Invariants
///  1. The header, the CRC and both forms are the same in every version; a version changes types and payloads only.
///  2. An armoured frame is one DCS string, which terminals swallow; no byte of it is a control character but its two
///     ESC.
///  3. The base64 is padded and canonical (unused bits are zero), so that an inner frame has exactly one armoured form,
///     and one raw form: COBS as short as it can be.
///  4. Only a target sends raw frames, and only to a host that has asked for them and goes on saying so: see LineForm.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include <qm/wire/status.hpp>

namespace qm::wire {

inline constexpr std::uint8_t kProtocolVersion = 2;

/// What a frame is. Types below 16 belong to commands, 16 to 31 to the event stream. A target answers a type it does
/// not know with an error frame; a host ignores and counts it.
enum class FrameType : std::uint8_t {
  kHello = 1,       ///< both ways: who is there; see HelloPayload
  kRequest = 2,     ///< to the target: a command line, without line end
  kOutput = 3,      ///< to the host: the next piece of the command's text, lines ended by LF
  kStatus = 4,      ///< to the host: the command has ended; see StatusPayload
  kError = 5,       ///< to the host: no command ran; see ErrorPayload
  kAskForm = 6,     ///< to the target: send frames in this form from now on, and I am still here; see LineForm
  kForm = 7,        ///< to the host, always armoured: frames come in this form from now on; see LineForm
  kRowRequest = 8,  ///< to the target: as kRequest, and the answer is to come as rows
  kRow = 9,         ///< to the host: the next row of the command's report; see row.hpp

  // The event stream. To the host, in stream.hpp and event.hpp:
  kStreamHeader = 16,  ///< see StreamHeader
  kDefinitions = 17,   ///< what numbers in events mean; see Definition
  kEvents = 18,        ///< see EventDecoder
  kStatistics = 19,    ///< the target's own counters; see Statistic
  kStreamEnd = 20,     ///< see StreamEnd
  // To the target:
  kAsk = 24,  ///< for definitions again; see Ask
};

inline constexpr std::size_t kHeaderBytes = 10;
inline constexpr std::size_t kCrcBytes = 4;
inline constexpr std::size_t kMaxPayloadBytes = 1024;
inline constexpr std::size_t kMaxFrameBytes = kHeaderBytes + kMaxPayloadBytes + kCrcBytes;

/// Longest command line, typed or in a request frame.
inline constexpr std::size_t kMaxCommandBytes = 255;

/// How long a receiver waits for the next byte inside `ESC P ...` before it takes the string for unterminated.
inline constexpr unsigned kSilenceMs = 200;

/// A frame without its version, length and CRC, which the encoder supplies and the decoder has checked. The payload is
/// the caller's, or the demultiplexer's until its next push().
struct Frame {
  FrameType type = FrameType::kHello;
  std::uint16_t sequence = 0;
  std::uint32_t request = 0;
  std::span<const std::uint8_t> payload;
};

/// @returns the length on the line of a frame with @p payload_bytes, armour included.
constexpr std::size_t armoured_size(std::size_t payload_bytes) noexcept {
  return 3 + (kHeaderBytes + payload_bytes + kCrcBytes + 2) / 3 * 4 + 2;
}

/// What a raw frame begins and ends with. FF is in no UTF-8 text, 00 in no COBS.
inline constexpr std::uint8_t kRawBegin = 0xff;
inline constexpr std::uint8_t kRawEnd = 0x00;

/// @returns the most that a raw frame with @p payload_bytes takes on the line.
constexpr std::size_t raw_size(std::size_t payload_bytes) noexcept {
  const std::size_t inner = kHeaderBytes + payload_bytes + kCrcBytes;
  return 1 + inner + inner / 254 + 1 + 1;
}

/// How often a host that gets raw frames says that it is there, and after how long a silence its target takes it for
/// gone.
inline constexpr unsigned kHeartbeatMs = 1000;
inline constexpr unsigned kHeartbeatLostMs = 3000;

/// Receives the armoured frame in pieces, in order: @p context is what the caller gave to emit().
using PieceSink = void (*)(void* context, std::string_view piece);

/// Sends @p frame, armoured, to @p sink in pieces of at most 64 characters. Nothing is kept after it returns.
/// @returns false, with nothing sent, iff the payload is longer than kMaxPayloadBytes.
/// Complexity: O(payload). Context: whatever @p sink allows; the caller keeps other output off the line meanwhile.
[[nodiscard]] bool emit(const Frame& frame, PieceSink sink, void* context) noexcept;

/// As above, for a callable that takes a std::string_view.
template <class Sink>
[[nodiscard]] bool emit(const Frame& frame, Sink&& sink) noexcept {
  return emit(
      frame,
      [](void* context, std::string_view piece) { (*static_cast<std::remove_reference_t<Sink>*>(context))(piece); },
      &sink);
}

/// Writes @p frame, armoured, into @p out.
/// @returns the characters written; 0, with @p out untouched, iff @p out is shorter than armoured_size() or the payload
///          is longer than kMaxPayloadBytes.
[[nodiscard]] std::size_t encode(const Frame& frame, std::span<char> out) noexcept;

/// Writes @p frame, raw, into @p out. @returns as encode(), with raw_size().
[[nodiscard]] std::size_t encode_raw(const Frame& frame, std::span<char> out) noexcept;

/// Payload of kAskForm and kForm: u8 0 armoured, 1 raw.
struct LineForm {
  static constexpr std::size_t kFixedBytes = 1;
  bool raw = false;
};

/// Payload of a hello: u8 version spoken, u8 0 from a host and 1 from a target, u16 longest payload taken, u8 length of the
/// build id, the build id in hexadecimal digits, then text: who it is.
struct HelloPayload {
  static constexpr std::size_t kFixedBytes = 5;
  static constexpr std::size_t kMaxBuildId = 64;
  std::uint8_t version = kProtocolVersion;
  bool from_target = false;
  std::uint16_t max_payload_bytes = 0;
  std::string_view build_id;  ///< empty: not known; cut at kMaxBuildId
  std::string_view text;
};

/// Payload of a status: u32 status, u32 flags.
struct StatusPayload {
  static constexpr std::size_t kFixedBytes = 8;
  CommandStatus status = CommandStatus::kOk;
  std::uint32_t flags = 0;  ///< StatusFlag
};

/// Payload of an error: u16 error, u8 version spoken, u8 0, then text.
struct ErrorPayload {
  static constexpr std::size_t kFixedBytes = 4;
  ProtocolError error = ProtocolError::kDamaged;
  std::uint8_t version = kProtocolVersion;
  std::string_view text;
};

/// The encoded form of a payload whose length is fixed.
[[nodiscard]] std::array<std::uint8_t, StatusPayload::kFixedBytes> pack(const StatusPayload& payload) noexcept;

[[nodiscard]] std::array<std::uint8_t, LineForm::kFixedBytes> pack(const LineForm& payload) noexcept;

/// Writes the payload into @p out, its text cut where @p out ends.
/// @returns the part of @p out that was written; empty iff @p out is shorter than the fixed part.
[[nodiscard]] std::span<const std::uint8_t> pack(const HelloPayload& payload, std::span<std::uint8_t> out) noexcept;
[[nodiscard]] std::span<const std::uint8_t> pack(const ErrorPayload& payload, std::span<std::uint8_t> out) noexcept;

/// Reads a payload; its text stays where @p bytes are. Longer ones than this version knows are accepted.
/// @returns false, with @p payload untouched, iff @p bytes are shorter than the fixed part.
[[nodiscard]] bool unpack(std::span<const std::uint8_t> bytes, HelloPayload& payload) noexcept;
[[nodiscard]] bool unpack(std::span<const std::uint8_t> bytes, StatusPayload& payload) noexcept;
[[nodiscard]] bool unpack(std::span<const std::uint8_t> bytes, ErrorPayload& payload) noexcept;
/// @returns false also for a form that is not known here.
[[nodiscard]] bool unpack(std::span<const std::uint8_t> bytes, LineForm& payload) noexcept;

/// The same bytes as text, and text as bytes.
inline std::string_view as_text(std::span<const std::uint8_t> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::uint8_t> as_bytes(std::string_view text) noexcept {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// @returns whether @p text can be a command: 1 to kMaxCommandBytes characters, none a control character.
[[nodiscard]] bool is_command(std::string_view text) noexcept;

}  // namespace qm::wire
