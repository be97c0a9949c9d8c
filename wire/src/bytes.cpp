#include <qm/wire/bytes.hpp>

namespace qm::wire {

// ---- writer ---------------------------------------------------------------------------------------------------------

void ByteWriter::byte(std::uint8_t value) noexcept {
  if (used_ < out_.size()) {
    out_[used_++] = value;
  } else {
    fits_ = false;
  }
}

void ByteWriter::fixed(std::uint64_t value, unsigned count) noexcept {
  for (unsigned i = 0; i < count; ++i) byte(static_cast<std::uint8_t>(value >> (8 * i)));
}

void ByteWriter::varint(std::uint64_t value) noexcept {
  for (; value > 127; value >>= 7) byte(static_cast<std::uint8_t>(value | 128));
  byte(static_cast<std::uint8_t>(value));
}

void ByteWriter::bytes(std::span<const std::uint8_t> value) noexcept {
  for (const std::uint8_t each : value) byte(each);
}

void ByteWriter::text(std::string_view value) noexcept {
  varint(value.size());
  for (const char each : value) byte(static_cast<std::uint8_t>(each));
}

// ---- reader ---------------------------------------------------------------------------------------------------------

std::uint8_t ByteReader::byte() noexcept {
  if (next_ < in_.size()) return in_[next_++];
  fail();
  return 0;
}

std::uint64_t ByteReader::fixed(unsigned count) noexcept {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < count; ++i) value |= static_cast<std::uint64_t>(byte()) << (8 * i);
  return good_ ? value : 0;
}

std::uint64_t ByteReader::varint() noexcept {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const std::uint8_t next = byte();
    value |= static_cast<std::uint64_t>(next & 127) << shift;
    if ((next & 128) != 0) continue;
    if ((next == 0 && shift != 0) || (shift == 63 && next > 1)) fail();
    return good_ ? value : 0;
  }
  fail();
  return 0;
}

std::uint64_t ByteReader::varint(std::uint64_t most) noexcept {
  const std::uint64_t value = varint();
  if (value <= most) return value;
  fail();
  return 0;
}

std::span<const std::uint8_t> ByteReader::bytes(std::uint64_t count) noexcept {
  if (count > left()) {
    fail();
    return {};
  }
  next_ += static_cast<std::size_t>(count);
  return in_.subspan(next_ - static_cast<std::size_t>(count), static_cast<std::size_t>(count));
}

std::string_view ByteReader::text() noexcept {
  const auto value = bytes(varint());
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

}  // namespace qm::wire
