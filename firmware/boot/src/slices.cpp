/// Slices: additional timer interrupts at random times that depend on a seed.
///
/// An emulator that counts instructions runs one hart until the timer of any hart is due, then the next hart. With
/// ticks alone, a hart's turn lasts a millisecond and always begins and ends at the same instructions. Additional
/// interrupts (cuts) make turns short, fair, and different for each seed, so that races appear and can be repeated with
/// the seed.
///
///     boot options:  slices=TICKS   mean time between two cuts of a hart; without this option there are no cuts
///                    seed=N

#include <charconv>

#include <qm/firmware/boot.hpp>

#include "hart_state.hpp"

namespace qm::firmware {
namespace {

constinit std::uint32_t mean_ticks = 0;
constinit std::uint32_t seed = 1;

/// Reads the number if @p word is `name=number`.
void read_number(std::string_view word, std::string_view name, std::uint32_t& number) noexcept {
  if (word.starts_with(name)) std::from_chars(word.data() + name.size(), word.data() + word.size(), number);
}

}  // namespace

void read_slices(std::string_view bootargs) noexcept {
  while (!bootargs.empty()) {
    const std::size_t end = std::min(bootargs.find(' '), bootargs.size());
    const std::string_view word(bootargs.data(), end);
    read_number(word, "slices=", mean_ticks);
    read_number(word, "seed=", seed);
    bootargs.remove_prefix(std::min(end + 1, bootargs.size()));
  }
  for (unsigned hart = 0; hart < hart_states.size(); ++hart) {
    hart_states[hart].cut_random = (seed * 64 + hart + 1) * 0x9e3779b9U | 1;  // never 0, as the generator would stay 0
  }
}

void cut_slice(HartState& hart, std::uint64_t now) noexcept {
  if (mean_ticks == 0) return;
  std::uint32_t random = hart.cut_random;
  random ^= random << 13;
  random ^= random >> 17;
  random ^= random << 5;
  hart.cut_random = random;
  hart.next_cut = now + 1 + (random >> 8) % (2 * mean_ticks);
}

}  // namespace qm::firmware
