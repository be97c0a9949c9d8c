#pragma once
/// Writes and reads payloads: fixed little-endian numbers, numbers of variable length, and texts with their length in
/// front.
///
/// A *varint* has seven bits a byte, the least significant first; the top bit is set in all bytes but the last. It
/// takes 1 byte up to 127, and 10 for the largest number. It has only one encoding: a last byte of 0 after other bytes
/// is malformed. A *zigzag* is a signed number as a varint: 0, -1, 1, -2, ... are 0, 1, 2, 3, ...
///
/// Invariants
///  1. Neither class goes beyond its span. Each remembers whether a value did not fit or was malformed, so one test at
///     the end is enough.
///  2. After such a failure a writer writes nothing, and a reader returns zeros.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace qm::wire {

/// Most bytes of a varint.
inline constexpr std::size_t kMaxVarintBytes = 10;

constexpr std::uint64_t to_zigzag(std::int64_t value) noexcept {
  return static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr std::int64_t from_zigzag(std::uint64_t value) noexcept {
  return static_cast<std::int64_t>(value >> 1 ^ (0 - (value & 1)));
}

class ByteWriter {
 public:
  explicit constexpr ByteWriter(std::span<std::uint8_t> out) noexcept : out_(out) {}

  void byte(std::uint8_t value) noexcept;
  /// The lowest @p count bytes of @p value, the least significant first.
  void fixed(std::uint64_t value, unsigned count) noexcept;
  void varint(std::uint64_t value) noexcept;
  void zigzag(std::int64_t value) noexcept { varint(to_zigzag(value)); }
  void bytes(std::span<const std::uint8_t> value) noexcept;
  /// The length as a varint, then the characters.
  void text(std::string_view value) noexcept;

  /// @returns whether all values fitted.
  [[nodiscard]] bool fits() const noexcept { return fits_; }
  [[nodiscard]] std::size_t room() const noexcept { return out_.size() - used_; }
  [[nodiscard]] std::span<const std::uint8_t> written() const noexcept { return out_.first(used_); }
  /// Returns to the state in which written() had @p size bytes and all values fitted.
  void rewind(std::size_t size) noexcept {
    used_ = size;
    fits_ = true;
  }

 private:
  std::span<std::uint8_t> out_;
  std::size_t used_ = 0;
  bool fits_ = true;
};

class ByteReader {
 public:
  constexpr ByteReader() noexcept = default;
  explicit ByteReader(std::span<const std::uint8_t> in) noexcept : in_(in) {}

  std::uint8_t byte() noexcept;
  std::uint64_t fixed(unsigned count) noexcept;
  std::uint64_t varint() noexcept;
  /// Reads a varint; one above @p most is malformed.
  std::uint64_t varint(std::uint64_t most) noexcept;
  std::uint32_t varint32() noexcept { return static_cast<std::uint32_t>(varint(UINT32_MAX)); }
  std::int64_t zigzag() noexcept { return from_zigzag(varint()); }
  std::span<const std::uint8_t> bytes(std::uint64_t count) noexcept;
  /// Reads what ByteWriter::text() wrote. The result refers to the payload.
  std::string_view text() noexcept;

  /// @returns whether all values read were present and well formed.
  [[nodiscard]] bool good() const noexcept { return good_; }
  [[nodiscard]] std::size_t left() const noexcept { return in_.size() - next_; }
  void fail() noexcept {
    good_ = false;
    next_ = in_.size();
  }

 private:
  std::span<const std::uint8_t> in_;
  std::size_t next_ = 0;
  bool good_ = true;
};

}  // namespace qm::wire
