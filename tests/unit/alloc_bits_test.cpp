// Bit scans and rounding, against counting.

#include <gtest/gtest.h>

#include <cstddef>

#include <qm/detail/bits.hpp>

namespace qm {
namespace alloc_bits_test {

/// Hides the value from the compiler, so that the code runs as with a program's variable.
std::size_t opaque(std::size_t word) {
  asm volatile("" : "+r"(word));
  return word;
}

TEST(Bits, the_lowest_and_the_highest_of_a_word_are_found_at_each_place) {
  for (unsigned low = 0; low < kWordBits; ++low) {
    for (unsigned high = low; high < kWordBits; ++high) {
      const std::size_t bits = std::size_t{1} << high | std::size_t{1} << low;
      EXPECT_EQ(lowest_bit(opaque(bits)), low);
      EXPECT_EQ(floor_log2(opaque(bits)), high);
      // The same with other bits in between.
      const std::size_t run = (std::size_t{1} << high) - (std::size_t{1} << low) + (std::size_t{1} << high);
      EXPECT_EQ(lowest_bit(opaque(run)), low);
      EXPECT_EQ(floor_log2(opaque(run)), high);
    }
  }
}

TEST(Bits, a_power_of_two_is_told_from_its_neighbours) {
  for (unsigned bit = 1; bit < kWordBits; ++bit) {
    const std::size_t power = std::size_t{1} << bit;
    EXPECT_TRUE(is_power_of_two(opaque(power)));
    EXPECT_FALSE(is_power_of_two(opaque(power + 1)));
  }
  EXPECT_FALSE(is_power_of_two(opaque(0)));
}

}  // namespace alloc_bits_test
}  // namespace qm
