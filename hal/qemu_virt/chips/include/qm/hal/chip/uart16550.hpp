#pragma once
/// The 16550 UART: transmit by polling, receive by interrupt.
///
///     0 RBR/THR (DLL)   1 IER (DLM)   2 IIR/FCR   3 LCR   4 MCR   5 LSR
///
/// Every write of a byte waits for LSR.THRE: without that, an emulator whose reader is slow loses bytes silently. No
/// function takes a lock; code that shares the transmitter serialises its writers itself.

#include <cstdint>
#include <span>

namespace qm::hal {

template <class Registers>
class Uart16550 {
 public:
  constexpr explicit Uart16550(Registers registers) noexcept : registers_(registers) {}

  /// Sets 8 data bits, no parity, one stop bit, FIFOs on, and the receive interrupt to @p receive_interrupt. Empties
  /// the transmitter's FIFO. The receiver keeps its bytes, unless its FIFO was off: a chip empties a FIFO when it is
  /// switched on, so call receive() first.
  /// @param[in] divisor clock divisor of the rate; 0 keeps the rate that the boot loader has set.
  void initialise(bool receive_interrupt, std::uint16_t divisor = 0) const noexcept {
    registers_.write(kIer, 0);
    if (divisor != 0) {
      registers_.write(kLcr, kDivisorAccess | kEightBits);
      registers_.write(kData, static_cast<std::uint8_t>(divisor & 0xff));
      registers_.write(kIer, static_cast<std::uint8_t>(divisor >> 8));
    }
    registers_.write(kLcr, kEightBits);
    registers_.write(kFcr, kFifoEnable | kFifoClearTransmit);
    registers_.write(kMcr, kDtr | kRts | kOut2);
    if (receive_interrupt) registers_.write(kIer, kReceiveInterrupt);
  }

  /// Transmits one byte if the transmitter has room. @returns whether it had room.
  bool try_put(std::uint8_t byte) const noexcept {
    if ((registers_.read(kLsr) & kTransmitEmpty) == 0) return false;
    registers_.write(kData, byte);
    return true;
  }

  /// Transmits one byte. Waits, without bound, until the transmitter has room.
  void put(std::uint8_t byte) const noexcept {
    while (!try_put(byte)) {
    }
  }

  /// Transmits @p bytes.
  void write(std::span<const char> bytes) const noexcept {
    for (const char byte : bytes) put(static_cast<std::uint8_t>(byte));
  }

  /// Whether the last byte has left the chip.
  [[nodiscard]] bool idle() const noexcept { return (registers_.read(kLsr) & kTransmitterIdle) != 0; }

  /// Takes every byte in the receiver and passes it to @p sink (`void(std::uint8_t)`).
  /// @returns the number of overruns that the receiver reported: at least that many bytes were lost in the chip.
  template <class Sink>
  unsigned receive(Sink sink) const noexcept {
    unsigned overruns = 0;
    for (;;) {
      const std::uint8_t status = registers_.read(kLsr);
      if ((status & kOverrun) != 0) ++overruns;
      if ((status & kDataReady) == 0) return overruns;
      sink(registers_.read(kData));
    }
  }

 private:
  static constexpr unsigned kData = 0, kIer = 1, kFcr = 2, kLcr = 3, kMcr = 4, kLsr = 5;
  static constexpr std::uint8_t kReceiveInterrupt = 0x01;
  static constexpr std::uint8_t kFifoEnable = 0x01, kFifoClearTransmit = 0x04;
  static constexpr std::uint8_t kEightBits = 0x03, kDivisorAccess = 0x80;
  static constexpr std::uint8_t kDtr = 0x01, kRts = 0x02, kOut2 = 0x08;
  static constexpr std::uint8_t kDataReady = 0x01, kOverrun = 0x02, kTransmitEmpty = 0x20, kTransmitterIdle = 0x40;

  Registers registers_;
};

}  // namespace qm::hal
