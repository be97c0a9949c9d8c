#include <qm/wire/frame.hpp>

#include <qm/wire/crc32.hpp>

namespace qm::wire {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Collects characters and passes them on in pieces of 64.
class Pieces {
 public:
  Pieces(PieceSink sink, void* context) noexcept : sink_(sink), context_(context) {}

  void put(char character) noexcept {
    buffer_[count_++] = character;
    if (count_ == sizeof buffer_) flush();
  }
  void flush() noexcept {
    if (count_ != 0) sink_(context_, {buffer_, count_});
    count_ = 0;
  }

 private:
  PieceSink sink_;
  void* context_;
  std::size_t count_ = 0;
  char buffer_[64];
};

/// Base64, three bytes at a time.
class Armour {
 public:
  explicit Armour(Pieces& out) noexcept : out_(out) {}

  void put(std::uint8_t byte) noexcept {
    group_ = group_ << 8 | byte;
    if (++count_ == 3) finish();
  }
  /// Writes the remaining bytes, padded; writes nothing if there are none.
  void finish() noexcept {
    if (count_ == 0) return;
    const std::uint32_t group = group_ << (8 * (3 - count_));
    for (unsigned i = 0; i < 4; ++i) out_.put(i <= count_ ? kAlphabet[group >> (18 - 6 * i) & 63] : '=');
    group_ = count_ = 0;
  }

 private:
  Pieces& out_;
  std::uint32_t group_ = 0;
  unsigned count_ = 0;
};

/// COBS: runs of bytes other than 0, each preceded by its length + 1. A 0 is implied after each run shorter than 254
/// bytes, except the last run.
class Stuffing {
 public:
  explicit Stuffing(std::span<char> out) noexcept : out_(out) {}

  void put(std::uint8_t byte) noexcept {
    // A run of 254 bytes ends by itself; another run begins only if a byte follows.
    if (used_ - code_at_ == 255) end_run();
    if (byte != 0) {
      out_[used_++] = static_cast<char>(byte);
    } else {
      end_run();
    }
  }
  /// @returns the number of bytes written.
  [[nodiscard]] std::size_t finish() noexcept {
    out_[code_at_] = static_cast<char>(used_ - code_at_);
    return used_;
  }

 private:
  void end_run() noexcept {
    out_[code_at_] = static_cast<char>(used_ - code_at_);
    code_at_ = used_++;
  }

  std::span<char> out_;
  std::size_t code_at_ = 0;
  std::size_t used_ = 1;
};

void store16(std::uint8_t* at, std::uint32_t value) noexcept {
  at[0] = static_cast<std::uint8_t>(value);
  at[1] = static_cast<std::uint8_t>(value >> 8);
}
void store32(std::uint8_t* at, std::uint32_t value) noexcept {
  store16(at, value);
  store16(at + 2, value >> 16);
}
std::uint16_t load16(const std::uint8_t* at) noexcept { return static_cast<std::uint16_t>(at[0] | at[1] << 8); }
std::uint32_t load32(const std::uint8_t* at) noexcept {
  return load16(at) | static_cast<std::uint32_t>(load16(at + 2)) << 16;
}

std::span<const std::uint8_t> pack_text(std::span<std::uint8_t> out, std::size_t fixed,
                                        std::string_view text) noexcept {
  const std::size_t room = out.size() - fixed;
  const std::size_t length = text.size() < room ? text.size() : room;
  for (std::size_t i = 0; i < length; ++i) out[fixed + i] = static_cast<std::uint8_t>(text[i]);
  return out.first(fixed + length);
}

/// Passes the bytes of the inner frame to @p out.
template <class Out>
void put_inner(const Frame& frame, Out& out) noexcept {
  std::uint8_t header[kHeaderBytes];
  header[0] = kProtocolVersion;
  header[1] = static_cast<std::uint8_t>(frame.type);
  store16(header + 2, frame.sequence);
  store32(header + 4, frame.request);
  store16(header + 8, static_cast<std::uint32_t>(frame.payload.size()));
  Crc32 crc;
  crc.add(header);
  crc.add(frame.payload);
  std::uint8_t trailer[kCrcBytes];
  store32(trailer, crc.value());
  for (const std::uint8_t byte : header) out.put(byte);
  for (const std::uint8_t byte : frame.payload) out.put(byte);
  for (const std::uint8_t byte : trailer) out.put(byte);
}

}  // namespace

bool emit(const Frame& frame, PieceSink sink, void* context) noexcept {
  if (frame.payload.size() > kMaxPayloadBytes) return false;
  Pieces out(sink, context);
  for (const char character : std::string_view("\x1bPm")) out.put(character);
  Armour armour(out);
  put_inner(frame, armour);
  armour.finish();
  for (const char character : std::string_view("\x1b\\")) out.put(character);
  out.flush();
  return true;
}

std::size_t encode(const Frame& frame, std::span<char> out) noexcept {
  if (frame.payload.size() > kMaxPayloadBytes || out.size() < armoured_size(frame.payload.size())) return 0;
  std::size_t used = 0;
  const bool sent = emit(frame, [&](std::string_view piece) {
    for (const char character : piece) out[used++] = character;
  });
  return sent ? used : 0;
}

std::size_t encode_raw(const Frame& frame, std::span<char> out) noexcept {
  if (frame.payload.size() > kMaxPayloadBytes || out.size() < raw_size(frame.payload.size())) return 0;
  out[0] = static_cast<char>(kRawBegin);
  Stuffing stuffing(out.subspan(1));
  put_inner(frame, stuffing);
  const std::size_t used = 1 + stuffing.finish();
  out[used] = static_cast<char>(kRawEnd);
  return used + 1;
}

std::array<std::uint8_t, LineForm::kFixedBytes> pack(const LineForm& payload) noexcept {
  return {static_cast<std::uint8_t>(payload.raw ? 1 : 0)};
}

std::array<std::uint8_t, StatusPayload::kFixedBytes> pack(const StatusPayload& payload) noexcept {
  std::array<std::uint8_t, StatusPayload::kFixedBytes> bytes;
  store32(bytes.data(), static_cast<std::uint32_t>(payload.status));
  store32(bytes.data() + 4, payload.flags);
  return bytes;
}

std::span<const std::uint8_t> pack(const HelloPayload& payload, std::span<std::uint8_t> out) noexcept {
  const std::size_t length =
      payload.build_id.size() < HelloPayload::kMaxBuildId ? payload.build_id.size() : HelloPayload::kMaxBuildId;
  const std::size_t text = HelloPayload::kFixedBytes + length;
  if (out.size() < text) return {};
  out[0] = payload.version;
  out[1] = payload.from_target ? 1 : 0;
  store16(&out[2], payload.max_payload_bytes);
  out[4] = static_cast<std::uint8_t>(length);
  for (std::size_t at = 0; at < length; ++at)
    out[HelloPayload::kFixedBytes + at] = static_cast<std::uint8_t>(payload.build_id[at]);
  return pack_text(out, text, payload.text);
}

std::span<const std::uint8_t> pack(const ErrorPayload& payload, std::span<std::uint8_t> out) noexcept {
  if (out.size() < ErrorPayload::kFixedBytes) return {};
  store16(out.data(), static_cast<std::uint16_t>(payload.error));
  out[2] = payload.version;
  out[3] = 0;
  return pack_text(out, ErrorPayload::kFixedBytes, payload.text);
}

bool unpack(std::span<const std::uint8_t> bytes, HelloPayload& payload) noexcept {
  if (bytes.size() < HelloPayload::kFixedBytes) return false;
  const std::size_t text = HelloPayload::kFixedBytes + bytes[4];
  if (bytes.size() < text) return false;
  payload.version = bytes[0];
  payload.from_target = bytes[1] != 0;
  payload.max_payload_bytes = load16(&bytes[2]);
  payload.build_id = as_text(bytes.subspan(HelloPayload::kFixedBytes, bytes[4]));
  payload.text = as_text(bytes.subspan(text));
  return true;
}

bool unpack(std::span<const std::uint8_t> bytes, StatusPayload& payload) noexcept {
  if (bytes.size() < StatusPayload::kFixedBytes) return false;
  payload.status = static_cast<CommandStatus>(load32(bytes.data()));
  payload.flags = load32(&bytes[4]);
  return true;
}

bool unpack(std::span<const std::uint8_t> bytes, ErrorPayload& payload) noexcept {
  if (bytes.size() < ErrorPayload::kFixedBytes) return false;
  payload.error = static_cast<ProtocolError>(load16(bytes.data()));
  payload.version = bytes[2];
  payload.text = as_text(bytes.subspan(ErrorPayload::kFixedBytes));
  return true;
}

bool unpack(std::span<const std::uint8_t> bytes, LineForm& payload) noexcept {
  if (bytes.size() < LineForm::kFixedBytes || bytes[0] > 1) return false;
  payload.raw = bytes[0] == 1;
  return true;
}

bool is_command(std::string_view text) noexcept {
  if (text.empty() || text.size() > kMaxCommandBytes) return false;
  for (const char character : text) {
    const auto code = static_cast<unsigned char>(character);
    if (code < 0x20 || code == 0x7f) return false;
  }
  return true;
}

}  // namespace qm::wire
