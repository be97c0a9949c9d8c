#pragma once
/// CRC-32/ISO-HDLC, the one of Ethernet and zlib: polynomial 0x04c11db7 reflected, start and final value inverted.
/// The check value of "123456789" is 0xcbf43926. Sixteen table entries: two steps a byte, 64 bytes of table.

#include <cstdint>
#include <span>

namespace qm::wire {

class Crc32 {
 public:
  /// Over a message that is followed by its own CRC, least significant byte first, value() is this number, and only
  /// then.
  static constexpr std::uint32_t kResidue = 0x2144df1c;

  /// Takes one more byte. Complexity: two table look-ups. Context: any.
  void add(std::uint8_t byte) noexcept;

  /// Takes @p bytes in order.
  void add(std::span<const std::uint8_t> bytes) noexcept;

  /// @returns the CRC of all bytes taken so far.
  [[nodiscard]] std::uint32_t value() const noexcept { return ~state_; }

 private:
  std::uint32_t state_ = 0xffffffff;
};

}  // namespace qm::wire
