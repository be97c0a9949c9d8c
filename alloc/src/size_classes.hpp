#pragma once
/// The heap's size classes: their sizes, and the table that finds the class of a size.

#include <array>
#include <cstddef>
#include <cstdint>

#include <qm/heap.hpp>

namespace qm::heap {

/// Sizes of the classes in bytes, rising: steps of 16 to 256; above, the largest sizes of which a page holds 14, 13, ... 8, and 512.
inline constexpr std::uint16_t kClassBytes[] = {16,  32,  48,  64,  80,  96,  112, 128, 144, 160, 176, 192,
                                                208, 224, 240, 256, 288, 304, 336, 352, 400, 448, 496, 512};
inline constexpr unsigned kClasses = sizeof kClassBytes / sizeof kClassBytes[0];
static_assert(kClassBytes[kClasses - 1] == kMaxClassBytes);

inline constexpr std::size_t kClassStep = 16;

/// The class of a size, by the size in steps of kClassStep, rounded up; entry 0 is for size 0.
inline constexpr std::array<std::uint8_t, kMaxClassBytes / kClassStep + 1> kClassOf = [] {
  std::array<std::uint8_t, kMaxClassBytes / kClassStep + 1> table{};
  for (unsigned step = 1; step < table.size(); ++step) {
    while (kClassBytes[table[step]] < step * kClassStep) ++table[step];
  }
  return table;
}();

/// @param[in] size at most kMaxClassBytes.
constexpr unsigned class_of(std::size_t size) { return kClassOf[(size + kClassStep - 1) / kClassStep]; }

/// The class whose objects hold @p size bytes at multiples of @p alignment, a power of two: slabs begin at pages, and objects
/// lie at multiples of their size. @returns kClasses if there is none.
constexpr unsigned class_of(std::size_t size, std::size_t alignment) {
  if (size > kMaxClassBytes || alignment > kMaxClassBytes) return kClasses;
  unsigned number = class_of(size);
  while (number < kClasses && kClassBytes[number] % alignment != 0) ++number;
  return number;
}

}  // namespace qm::heap
