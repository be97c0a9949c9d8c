#pragma once
/// A small set of address ranges: the RAM minus the parts in use.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace qm::hal {

/// The range [low, high).
struct MemoryRange {
  std::uintptr_t low = 0;
  std::uintptr_t high = 0;
  [[nodiscard]] std::size_t bytes() const noexcept { return high - low; }
};

class MemoryMap {
 public:
  static constexpr std::size_t kMaxRanges = 16;

  /// Adds a range that does not overlap another; an empty one is ignored.
  /// @returns false if there are kMaxRanges ranges already: the range is then left out.
  bool add(MemoryRange range) noexcept;

  /// Removes @p range. A hole in the last of kMaxRanges ranges drops the part behind the hole.
  /// @returns false in that case.
  bool remove(MemoryRange range) noexcept;

  /// Rounds every range inwards to multiples of @p alignment, a power of two, and drops ranges that become empty.
  void trim(std::size_t alignment) noexcept;

  [[nodiscard]] std::span<const MemoryRange> ranges() const noexcept { return {ranges_.data(), count_}; }
  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  void erase(std::size_t index) noexcept;

  std::array<MemoryRange, kMaxRanges> ranges_{};
  std::size_t count_ = 0;
};

}  // namespace qm::hal
