#pragma once
/// The sequence: a number for each recorded allocation, mark and dump, in the order in which they happened.
///
/// It orders records ("oldest first"), bounds a dump ("no younger records") and selects the records that a reset
/// removes ("older than"). 43 bits last 100 days at a million numbers a second; 32 bits would wrap within 72 minutes.
/// On targets without 8-byte atomics, such as RV32, the sequence consists of two 4-byte atomics: the low word counts,
/// and the second word counts the half turns of the low word. So a reader can determine on which side of a wrap the low
/// word is.

#include <atomic>
#include <cstdint>
#include <type_traits>

namespace qm::trace {

template <class Counter>
class BasicSequence {
 public:
  static constexpr unsigned kBits = 43;
  static constexpr std::uint64_t kMask = (std::uint64_t{1} << kBits) - 1;

  constexpr BasicSequence() noexcept = default;
  /// For tests: the next number is @p first.
  explicit constexpr BasicSequence(std::uint64_t first) noexcept
      : low_(static_cast<Counter>(first)), half_turns_(static_cast<std::uint32_t>(first >> 31)) {}

  /// @returns the next number; each number is returned once. If hart A takes a number and then causes an effect, and
  ///          hart B sees the effect and then takes a number, then B's number is higher.
  /// Complexity: one atomic addition. Context: any.
  std::uint64_t next() noexcept {
    if constexpr (sizeof(Counter) == 8) {
      return raw_next() & kMask;
    } else {
      return raw_next();
    }
  }
  /// The next number whose low word is not 0, for a record. A record keeps kBits of it.
  std::uint64_t next_for_record() noexcept {
    std::uint64_t number = raw_next();
    while (static_cast<std::uint32_t>(number) == 0) number = raw_next();
    return number;
  }

 private:
  static constexpr std::uint32_t kHalf = std::uint32_t{1} << 31;

  std::uint64_t raw_next() noexcept {
    // relaxed: all harts see one order of the changes of one word, whatever the order of other accesses.
    if constexpr (sizeof(Counter) == 8) {
      return low_.fetch_add(1, std::memory_order_relaxed);
    } else {
      // acq_rel: a number taken after another hart's number is seen as later.
      return complete(low_.fetch_add(1, std::memory_order_acq_rel));
    }
  }

  std::uint64_t complete(std::uint32_t low) noexcept {
    if ((low & (kHalf - 1)) == kHalf - 1) half_turns_.fetch_add(1, std::memory_order_acq_rel);
    std::uint32_t turns = half_turns_.load(std::memory_order_acquire);
    const std::uint32_t half = low >> 31;
    if ((turns & 1) != half) {
      // Either the other hart's addition is late (the low word has just crossed), or this hart's is (it is about to do
      // it).
      turns = (low & (kHalf - 1)) < kHalf / 2 ? turns + 1 : turns - 1;
    }
    return ((std::uint64_t{turns >> 1} << 32) | low) & kMask;
  }

  std::atomic<Counter> low_{1};
  std::atomic<std::uint32_t> half_turns_{0};
};

using Sequence = BasicSequence<std::conditional_t<sizeof(void*) == 8, std::uint64_t, std::uint32_t>>;

}  // namespace qm::trace
