#pragma once
/// A small generator of pseudo-random numbers (xorshift32): the same seed gives the same run.

#include <cstddef>
#include <cstdint>

namespace qm::demo {

class Random {
 public:
  /// Consecutive seeds give unrelated sequences.
  explicit Random(std::uint32_t seed) noexcept : state_((seed + 1) * 0x9e3779b9U) {
    if (state_ == 0) state_ = 1;
    for (int i = 0; i < 4; ++i) next();
  }
  std::uint32_t next() noexcept {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    return state_;
  }
  /// @returns a number below @p bound, which is not 0.
  std::size_t below(std::size_t bound) noexcept { return next() % bound; }

 private:
  std::uint32_t state_;
};

}  // namespace qm::demo
