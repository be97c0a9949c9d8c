#pragma once
/// A small set of address ranges: what RAM there is, less what is taken.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace qm::hal {

/// [low, high).
struct MemoryRange {
  std::uintptr_t low = 0;
  std::uintptr_t high = 0;
  [[nodiscard]] std::size_t bytes() const noexcept { return high - low; }
};

class MemoryMap {
 public:
  static constexpr std::size_t kMaxRanges = 16;

  /// Adds a range that does not overlap another; an empty one is ignored.
  /// @returns false when there are kMaxRanges already: the range is then left out.
  bool add(MemoryRange range) noexcept;

  /// Takes @p range out. Cutting a hole into the last of kMaxRanges ranges drops the part behind the hole.
  /// @returns false in that case.
  bool remove(MemoryRange range) noexcept;

  /// Rounds every range inwards to multiples of @p alignment, a power of two, and drops those that vanish.
  void trim(std::size_t alignment) noexcept;

  [[nodiscard]] std::span<const MemoryRange> ranges() const noexcept { return {ranges_.data(), count_}; }
  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  void erase(std::size_t index) noexcept;

  std::array<MemoryRange, kMaxRanges> ranges_{};
  std::size_t count_ = 0;
};

}  // namespace qm::hal
