#include <qm/replay/replay.hpp>

#include <cstring>

namespace qm::replay {
namespace {

constexpr std::uint32_t kWordBytes = sizeof(std::uint32_t);

constexpr std::uint32_t word_of(std::uint32_t seed, std::uint32_t at) { return seed + at * 0x01000193U; }

}  // namespace

void fill(unsigned char* block, std::uint32_t size, std::uint32_t seed) noexcept {
  std::uint32_t at = 0;
  for (; size - at >= kWordBytes; at += kWordBytes) {
    const std::uint32_t word = word_of(seed, at);
    std::memcpy(block + at, &word, kWordBytes);
  }
  for (const std::uint32_t last = word_of(seed, at); at < size; ++at) {
    block[at] = static_cast<unsigned char>(last >> (at % kWordBytes * 8));
  }
}

bool holds(const unsigned char* block, std::uint32_t size, std::uint32_t seed) noexcept {
  std::uint32_t at = 0;
  for (; size - at >= kWordBytes; at += kWordBytes) {
    std::uint32_t word = 0;
    std::memcpy(&word, block + at, kWordBytes);
    if (word != word_of(seed, at)) return false;
  }
  for (const std::uint32_t last = word_of(seed, at); at < size; ++at) {
    if (block[at] != static_cast<unsigned char>(last >> (at % kWordBytes * 8))) return false;
  }
  return true;
}

}  // namespace qm::replay
