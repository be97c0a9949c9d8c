#pragma once
/// The host-target interface of QEMU's board `spike` ("ucb,htif0"): console and end of the emulator, in two registers
/// of 64 bits. The halves are written in this order:
///
///     0x0 from host:  the answer, here a byte received (0x100 | byte)
///     0x8 to host:    device << 56 | command << 48 | payload, processed when the upper half is written
///
/// The register from the host holds one byte. It is overwritten by the next received byte, and by the answer to a
/// transmitted byte. So while no byte waits, its lower half has a mark with the number of bytes taken so far: a sending
/// program waits for the next number and repeats lost bytes. A person who types is slow enough without this.

#include <cstdint>

namespace qm::hal {

template <class Registers>
class Htif {
 public:
  /// @param[in] registers 32-bit registers, indexed by byte offset.
  constexpr explicit Htif(Registers registers) noexcept : registers_(registers) {}

  /// Drops the received byte.
  void initialise() noexcept { registers_.write(kFromHost, kMark | taken_); }

  /// Transmits one byte. Context: not concurrently with receive().
  void put(std::uint8_t byte) noexcept {
    registers_.write(kToHost, byte);
    registers_.write(kToHost + 4, kPutByte);
    registers_.write(kFromHost, kMark | taken_);  // replaces the answer
  }

  /// Passes the received byte, if there is one, to @p sink (`void(std::uint8_t)`). Context: not concurrently with
  /// put().
  /// @returns 0: it cannot detect an overwritten byte.
  template <class Sink>
  unsigned receive(Sink sink) noexcept {
    const std::uint32_t value = registers_.read(kFromHost);
    if ((value & (kMark | kHasByte)) != kHasByte) return 0;
    taken_ = (taken_ + 1) & kCountBits;
    registers_.write(kFromHost, kMark | taken_);
    sink(static_cast<std::uint8_t>(value));
    return 0;
  }

  /// Ends the emulator with the lower 8 bits of @p status.
  void exit(unsigned status) const noexcept {
    registers_.write(kToHost, (status & 0xff) << 1 | 1);
    registers_.write(kToHost + 4, 0);
  }

 private:
  static constexpr std::uintptr_t kFromHost = 0, kToHost = 8;
  static constexpr std::uint32_t kPutByte = 0x0101'0000;  // device 1, command 1
  static constexpr std::uint32_t kHasByte = 0x100, kMark = 1u << 31, kCountBits = 0xffff;
  Registers registers_;
  std::uint32_t taken_ = 0;
};

}  // namespace qm::hal
