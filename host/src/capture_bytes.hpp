#pragma once
/// Functions that the writer and the reader of captures share. See docs/capture-format.md.

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace qm::host {

inline constexpr std::string_view kCaptureSignature{"\x89QMC\r\n\x1a\n", 8};
inline constexpr std::uint8_t kCaptureMajor = 1;
inline constexpr std::uint8_t kCaptureMinor = 0;
inline constexpr std::uint8_t kChunkMark = 0xc7;

/// Appends @p value as @p bytes bytes, little endian.
inline void append(std::string& out, std::uint64_t value, unsigned bytes) {
  for (; bytes != 0; --bytes, value >>= 8) out += static_cast<char>(value & 0xff);
}

/// @returns the number in the @p bytes bytes at position @p at.
inline std::uint64_t number_at(std::string_view from, std::size_t at, unsigned bytes) noexcept {
  std::uint64_t value = 0;
  while (bytes != 0) value = value << 8 | static_cast<std::uint8_t>(from[at + --bytes]);
  return value;
}

/// CRC-32/ISO-HDLC, the same as in wire/, but five times as fast.
inline std::uint32_t crc_of(std::string_view bytes, std::uint32_t before = 0) {
  return static_cast<std::uint32_t>(
      crc32(before, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

/// @returns the CRC of @p chunk, which does not include its CRC, in the capture @p id.
inline std::uint32_t chunk_crc(std::uint64_t id, std::string_view chunk) {
  std::string seed;
  append(seed, id, 8);
  return crc_of(chunk, crc_of(seed));
}

}  // namespace qm::host
