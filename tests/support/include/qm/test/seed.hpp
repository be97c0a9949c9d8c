#pragma once
/// Random numbers for tests, the same for the same seed; a failure prints the seed.

#include <cstdint>

namespace qm::test {

/// @returns the seed of this run: QM_SEED in the environment on the host, `seed=N` in the boot arguments on the target, or 1.
/// The runner prints it after a failure, with the command that repeats the run.
[[nodiscard]] std::uint64_t seed() noexcept;

/// @returns the number of steps of a long random test: QM_STEPS in the environment, `steps=N` in the boot arguments on
///          the target; else @p wanted in an optimised host build, and a twentieth of it (a fiftieth on the target)
///          where a step takes much longer.
[[nodiscard]] std::uint64_t steps(std::uint64_t wanted) noexcept;

/// A small generator (splitmix64), the same on host and target. One per hart or thread; not synchronised.
class Random {
 public:
  explicit Random(std::uint64_t start = seed()) noexcept : state_(start) {}

  std::uint64_t next() noexcept {
    state_ += 0x9E37'79B9'7F4A'7C15;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58'476D'1CE4'E5B9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D0'49BB'1331'11EB;
    return mixed ^ (mixed >> 31);
  }
  /// @returns a number in [0, limit); 0 for limit 0.
  std::uint64_t below(std::uint64_t limit) noexcept { return limit == 0 ? 0 : next() % limit; }
  /// @returns a number in [low, high].
  std::uint64_t between(std::uint64_t low, std::uint64_t high) noexcept { return low + below(high - low + 1); }
  /// @returns true in @p of_hundred of a hundred cases.
  bool chance(unsigned of_hundred) noexcept { return below(100) < of_hundred; }

 private:
  std::uint64_t state_;
};

}  // namespace qm::test
