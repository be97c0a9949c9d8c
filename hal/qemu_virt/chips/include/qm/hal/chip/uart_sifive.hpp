#pragma once
/// SiFive's UART ("sifive,uart0"): transmit by polling, receive by interrupt.
///
///     0x00 transmit (bit 31: full)    0x04 receive (bit 31: empty)    0x08, 0x0c their controls
///     0x10 interrupts enabled         0x14 interrupts pending         0x18 divisor
///
/// No function takes a lock; code that shares the transmitter serialises its writers itself.

#include <cstdint>

namespace qm::hal {

template <class Registers>
class UartSifive {
 public:
  /// @param[in] registers 32-bit registers, indexed by byte offset.
  constexpr explicit UartSifive(Registers registers) noexcept : registers_(registers) {}

  /// Switches the transmitter and the receiver on, and sets the receive interrupt to @p receive_interrupt. The rate
  /// stays as the boot loader has set it.
  void initialise(bool receive_interrupt) const noexcept {
    registers_.write(kTransmitControl, kOn | kWatermarkOfOne);
    registers_.write(kReceiveControl, kOn);
    registers_.write(kInterrupts, receive_interrupt ? kReceive : 0);
  }

  /// Transmits one byte if the transmitter has room. @returns whether it had room.
  bool try_put(std::uint8_t byte) const noexcept {
    if ((registers_.read(kTransmit) & kFlag) != 0) return false;
    registers_.write(kTransmit, byte);
    return true;
  }

  /// Whether no byte waits for the transmitter.
  [[nodiscard]] bool idle() const noexcept { return (registers_.read(kPending) & kTransmitEmpty) != 0; }

  /// Takes every byte in the receiver and passes it to @p sink (`void(std::uint8_t)`).
  /// @returns 0: this chip does not report overruns.
  template <class Sink>
  unsigned receive(Sink sink) const noexcept {
    for (;;) {
      const std::uint32_t value = registers_.read(kReceived);
      if ((value & kFlag) != 0) return 0;
      sink(static_cast<std::uint8_t>(value));
    }
  }

 private:
  static constexpr std::uintptr_t kTransmit = 0x00, kReceived = 0x04, kTransmitControl = 0x08, kReceiveControl = 0x0c,
                                  kInterrupts = 0x10, kPending = 0x14;
  static constexpr std::uint32_t kFlag = 1u << 31, kOn = 1, kWatermarkOfOne = 1u << 16, kTransmitEmpty = 1,
                                 kReceive = 2;
  Registers registers_;
};

}  // namespace qm::hal
