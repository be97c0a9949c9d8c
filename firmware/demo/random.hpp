#pragma once
/// A small generator of pseudo-random numbers (Lehmer's, modulus 2^31 - 1): the same seed gives the same run.

#include <cstddef>
#include <cstdint>

namespace qm::demo {

/// Its numbers are below 2^31. RAM begins there on the board, so a leak scan never takes one of them, left in a register
/// or on a stack, for the address of an object.
class Random {
 public:
  explicit Random(std::uint32_t seed) noexcept : state_((seed + 1) * 0x9e3779b9U % (kModulus - 1) + 1) {
    for (int i = 0; i < 4; ++i) next();
  }
  /// @returns a number from 1 to 2^31 - 2.
  std::uint32_t next() noexcept {
    const std::uint64_t product = std::uint64_t{state_} * 48271;
    // 2^31 is 1 modulo 2^31 - 1, so the two parts of the product can be added.
    state_ = static_cast<std::uint32_t>(product & kModulus) + static_cast<std::uint32_t>(product >> 31);
    if (state_ >= kModulus) state_ -= kModulus;
    return state_;
  }
  /// @returns a number below @p bound, which is not 0.
  std::size_t below(std::size_t bound) noexcept { return next() % bound; }

 private:
  static constexpr std::uint32_t kModulus = 0x7fffffff;
  std::uint32_t state_;
};

}  // namespace qm::demo
