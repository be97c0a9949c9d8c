#include <qm/wire/crc32.hpp>

#include <array>

namespace qm::wire {
namespace {

constexpr std::uint32_t kPolynomial = 0xedb88320;  // 0x04c11db7 with its bits in reverse order

constexpr std::array<std::uint32_t, 16> make_table() noexcept {
  std::array<std::uint32_t, 16> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 4; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    table[i] = value;
  }
  return table;
}

constexpr std::array<std::uint32_t, 16> kTable = make_table();

}  // namespace

void Crc32::add(std::uint8_t byte) noexcept {
  state_ ^= byte;
  state_ = (state_ >> 4) ^ kTable[state_ & 15];
  state_ = (state_ >> 4) ^ kTable[state_ & 15];
}

void Crc32::add(std::span<const std::uint8_t> bytes) noexcept {
  for (const std::uint8_t byte : bytes) add(byte);
}

}  // namespace qm::wire
