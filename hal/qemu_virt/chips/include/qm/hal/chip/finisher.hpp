#pragma once
/// The test finisher ("sifive,test"): one register that ends the emulator with a status, or resets the board.

#include <cstdint>

namespace qm::hal {

template <class Registers>
class Finisher {
 public:
  constexpr explicit Finisher(Registers registers) noexcept : registers_(registers) {}

  /// Ends the emulator with the lower 8 bits of @p status. Returns if the register does not belong to such a chip.
  void exit(unsigned status) const noexcept {
    registers_.write(0, (status & 0xff) == 0 ? kPass : ((status & 0xff) << 16) | kFail);
  }

  /// Resets the board.
  void reset() const noexcept { registers_.write(0, kReset); }

 private:
  static constexpr std::uint32_t kPass = 0x5555, kFail = 0x3333, kReset = 0x7777;
  Registers registers_;
};

}  // namespace qm::hal
