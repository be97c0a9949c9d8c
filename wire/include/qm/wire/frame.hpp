#pragma once
/// The frame and its forms on the line. docs/protocol.md has every byte, with worked examples.
///
///     inner frame, little endian                          on the line
///      0  u8   version (2)                                armoured: ESC P m <base64 of the inner frame> ESC \ .
///      1  u8   type                                       raw, if asked for: FF <COBS of the inner frame> 00
///      2  u16  sequence: +1 with each frame of a sender
///      4  u32  request: chosen by the host, repeated in each answer; 0: no request
///      8  u16  payload bytes
///     10  payload
///     ..  u32  CRC-32 of all bytes before it
///
/// Invariants
///  1. The header, the CRC and both forms are the same in every version; a version changes types and payloads only.
///  2. An armoured frame is one DCS string, which terminals do not show; it has no control characters except its two
///     ESC.
///  3. The base64 is padded and canonical (unused bits are zero), and the COBS is as short as possible. So an inner
///     frame has exactly one armoured form and one raw form.
///  4. Only a target sends raw frames, and only to a host that has asked for them and repeats the request: see
///     LineForm.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include <qm/wire/status.hpp>

namespace qm::wire {

inline constexpr std::uint8_t kProtocolVersion = 2;

/// The type of a frame. Types below 16 are for commands, 16 to 31 for the event stream. A target answers an unknown
/// type with an error frame; a host ignores it and counts it.
enum class FrameType : std::uint8_t {
  kHello = 1,       ///< both ways: introduces the sender; see HelloPayload
  kRequest = 2,     ///< to the target: a command line, without line end
  kOutput = 3,      ///< to the host: the next piece of the command's text, lines ended by LF
  kStatus = 4,      ///< to the host: the command ended; see StatusPayload
  kError = 5,       ///< to the host: no command ran; see ErrorPayload
  kAskForm = 6,     ///< to the target: send frames in this form from now on; also the host's heartbeat; see LineForm
  kForm = 7,        ///< to the host, always armoured: frames come in this form from now on; see LineForm
  kRowRequest = 8,  ///< to the target: as kRequest, but the answer shall be rows
  kRow = 9,         ///< to the host: the next row of the command's report; see row.hpp

  // The event stream. To the host, in stream.hpp and event.hpp:
  kStreamHeader = 16,  ///< see StreamHeader
  kDefinitions = 17,   ///< the meaning of numbers in events; see Definition
  kEvents = 18,        ///< see EventDecoder
  kStatistics = 19,    ///< the target's counters; see Statistic
  kStreamEnd = 20,     ///< see StreamEnd
  // To the target:
  kAsk = 24,  ///< asks for definitions again; see Ask
};

inline constexpr std::size_t kHeaderBytes = 10;
inline constexpr std::size_t kCrcBytes = 4;
inline constexpr std::size_t kMaxPayloadBytes = 1024;
inline constexpr std::size_t kMaxFrameBytes = kHeaderBytes + kMaxPayloadBytes + kCrcBytes;

/// Longest command line, typed or in a request frame.
inline constexpr std::size_t kMaxCommandBytes = 255;

/// The time in milliseconds that a receiver waits for the next byte inside `ESC P ...` before it treats the string as
/// unterminated.
inline constexpr unsigned kSilenceMs = 200;

/// A frame without version, length and CRC: the encoder adds them, and the decoder has checked them. The payload
/// belongs to the caller, or to the demultiplexer until its next push().
struct Frame {
  FrameType type = FrameType::kHello;
  std::uint16_t sequence = 0;
  std::uint32_t request = 0;
  std::span<const std::uint8_t> payload;
};

/// @returns the length on the line of a frame with @p payload_bytes, including the armour.
constexpr std::size_t armoured_size(std::size_t payload_bytes) noexcept {
  return 3 + (kHeaderBytes + payload_bytes + kCrcBytes + 2) / 3 * 4 + 2;
}

/// The first and the last byte of a raw frame. FF is in no UTF-8 text, 00 in no COBS.
inline constexpr std::uint8_t kRawBegin = 0xff;
inline constexpr std::uint8_t kRawEnd = 0x00;

/// @returns the maximum length on the line of a raw frame with @p payload_bytes.
constexpr std::size_t raw_size(std::size_t payload_bytes) noexcept {
  const std::size_t inner = kHeaderBytes + payload_bytes + kCrcBytes;
  return 1 + inner + inner / 254 + 1 + 1;
}

/// How often a host that receives raw frames sends its heartbeat, and the silence after which its target assumes that
/// the host is gone. In milliseconds.
inline constexpr unsigned kHeartbeatMs = 1000;
inline constexpr unsigned kHeartbeatLostMs = 3000;

/// Receives the armoured frame in pieces, in order. @p context is the argument of emit().
using PieceSink = void (*)(void* context, std::string_view piece);

/// Passes @p frame, armoured, to @p sink in pieces of at most 64 characters. It keeps no reference to the frame.
/// @returns false, with nothing sent, iff the payload is longer than kMaxPayloadBytes.
/// Complexity: O(payload). Context: as @p sink allows; the caller prevents other output on the line meanwhile.
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

/// Payload of a hello: u8 version spoken, u8 0 from a host and 1 from a target, u16 longest payload accepted, u8 length
/// of the build id, the build id in hexadecimal digits, then text: the sender's name.
struct HelloPayload {
  static constexpr std::size_t kFixedBytes = 5;
  static constexpr std::size_t kMaxBuildId = 64;
  std::uint8_t version = kProtocolVersion;
  bool from_target = false;
  std::uint16_t max_payload_bytes = 0;
  std::string_view build_id;  ///< empty: not known; cut after kMaxBuildId digits
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

/// Writes the payload into @p out; its text is cut at the end of @p out.
/// @returns the part of @p out that was written; empty iff @p out is shorter than the fixed part.
[[nodiscard]] std::span<const std::uint8_t> pack(const HelloPayload& payload, std::span<std::uint8_t> out) noexcept;
[[nodiscard]] std::span<const std::uint8_t> pack(const ErrorPayload& payload, std::span<std::uint8_t> out) noexcept;

/// Reads a payload; its text refers to @p bytes. Payloads longer than this version defines are accepted.
/// @returns false, with @p payload unchanged, iff @p bytes are shorter than the fixed part.
[[nodiscard]] bool unpack(std::span<const std::uint8_t> bytes, HelloPayload& payload) noexcept;
[[nodiscard]] bool unpack(std::span<const std::uint8_t> bytes, StatusPayload& payload) noexcept;
[[nodiscard]] bool unpack(std::span<const std::uint8_t> bytes, ErrorPayload& payload) noexcept;
/// @returns false also for an unknown form.
[[nodiscard]] bool unpack(std::span<const std::uint8_t> bytes, LineForm& payload) noexcept;

/// Views bytes as text, and text as bytes.
inline std::string_view as_text(std::span<const std::uint8_t> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::uint8_t> as_bytes(std::string_view text) noexcept {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// @returns whether @p text is a valid command: 1 to kMaxCommandBytes characters, no control characters.
[[nodiscard]] bool is_command(std::string_view text) noexcept;

}  // namespace qm::wire
