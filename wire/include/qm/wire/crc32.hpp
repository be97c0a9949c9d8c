#pragma once
/// CRC-32/ISO-HDLC, as in Ethernet and zlib: polynomial 0x04c11db7 reflected, initial and final value inverted. The
/// check value of "123456789" is 0xcbf43926. The table has sixteen entries (64 bytes), and a byte takes two steps.

#include <cstdint>
#include <span>

namespace qm::wire {

class Crc32 {
 public:
  /// value() over a message followed by its own CRC, least significant byte first, is this number, and only if the CRC
  /// is right.
  static constexpr std::uint32_t kResidue = 0x2144df1c;

  /// Adds one byte. Complexity: two table look-ups. Context: any.
  void add(std::uint8_t byte) noexcept;

  /// Adds @p bytes in order.
  void add(std::span<const std::uint8_t> bytes) noexcept;

  /// @returns the CRC of all bytes added so far.
  [[nodiscard]] std::uint32_t value() const noexcept { return ~state_; }

 private:
  std::uint32_t state_ = 0xffffffff;
};

}  // namespace qm::wire
