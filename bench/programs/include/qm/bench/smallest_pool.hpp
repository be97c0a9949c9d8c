#pragma once
/// The smallest pool in which a program runs to its end.

#include <cstddef>

namespace qm::bench {

inline constexpr std::size_t kPoolStep = 512;
inline constexpr std::size_t kPoolMost = std::size_t{64} << 20;

/// @param[in] live a lower bound of the pool in bytes; not 0
/// @param[in] passes whether the program runs to its end in a pool of this many bytes, a multiple of kPoolStep
/// @returns the smallest size of a pool, to kPoolStep; 0 if kPoolMost is not enough.
template <class Passes>
std::size_t smallest_pool(std::size_t live, Passes passes) {
  std::size_t fails = (live - 1) / kPoolStep * kPoolStep;
  std::size_t through = fails + fails / 2 / kPoolStep * kPoolStep + kPoolStep;
  while (!passes(through)) {
    fails = through;
    through *= 2;
    if (through > kPoolMost) return 0;
  }
  while (through - fails > kPoolStep) {
    const std::size_t middle = fails + (through - fails) / kPoolStep / 2 * kPoolStep;
    (passes(middle) ? through : fails) = middle;
  }
  return through;
}

}  // namespace qm::bench
