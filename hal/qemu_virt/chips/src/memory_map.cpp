#include <qm/hal/chip/memory_map.hpp>

namespace qm::hal {

bool MemoryMap::add(MemoryRange range) noexcept {
  if (range.low >= range.high) return true;
  if (count_ == kMaxRanges) return false;
  ranges_[count_++] = range;
  return true;
}

void MemoryMap::erase(std::size_t index) noexcept {
  --count_;
  for (std::size_t i = index; i < count_; ++i) ranges_[i] = ranges_[i + 1];
}

bool MemoryMap::remove(MemoryRange range) noexcept {
  if (range.low >= range.high) return true;
  bool whole = true;
  for (std::size_t i = count_; i-- > 0;) {
    MemoryRange& piece = ranges_[i];
    if (range.high <= piece.low || range.low >= piece.high) continue;
    const MemoryRange behind{range.high, piece.high};
    if (range.low > piece.low) {
      piece.high = range.low;
      if (!add(behind)) whole = false;
    } else if (behind.low < behind.high) {
      piece.low = behind.low;
    } else {
      erase(i);
    }
  }
  return whole;
}

void MemoryMap::trim(std::size_t alignment) noexcept {
  for (std::size_t i = count_; i-- > 0;) {
    MemoryRange& piece = ranges_[i];
    const std::uintptr_t low = (piece.low + alignment - 1) & ~(alignment - 1);
    const std::uintptr_t high = piece.high & ~(alignment - 1);
    if (low < piece.low || low >= high) {
      erase(i);
    } else {
      piece = {low, high};
    }
  }
}

std::size_t MemoryMap::bytes() const noexcept {
  std::size_t sum = 0;
  for (const MemoryRange& range : ranges()) sum += range.bytes();
  return sum;
}

}  // namespace qm::hal
