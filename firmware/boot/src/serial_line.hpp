#pragma once
/// The board's serial line over any of the supported chips. Code that depends on the chip is here, so that the rest of
/// the firmware uses one interface.

#include <atomic>

#include <qm/hal/chip/board.hpp>
#include <qm/hal/chip/htif.hpp>
#include <qm/hal/chip/mmio.hpp>
#include <qm/hal/chip/uart16550.hpp>
#include <qm/hal/chip/uart_sifive.hpp>
#include <qm/hal/hart.hpp>

namespace qm::firmware {

class SerialLine {
 public:
  using Kind = hal::Board::UartKind;

  constexpr SerialLine(Kind kind, std::uintptr_t base, unsigned shift) noexcept
      : kind_(kind),
        uart16550_(hal::Mmio<std::uint8_t>(base, shift)),
        sifive_(hal::Mmio<std::uint32_t>(base)),
        htif_(hal::Mmio<std::uint32_t>(base)) {}

  /// @returns whether the chip keeps bytes that it received before initialise().
  [[nodiscard]] bool keeps_received() const noexcept { return kind_ != Kind::kHtif; }

  void initialise(bool receive_interrupt) noexcept {
    switch (kind_) {
      case Kind::k16550: return uart16550_.initialise(receive_interrupt);
      case Kind::kSifive: return sifive_.initialise(receive_interrupt);
      case Kind::kHtif: return htif_.initialise();
    }
  }

  /// Transmits one byte if the chip has room. @returns whether it was transmitted.
  bool try_put(std::uint8_t byte) noexcept {
    switch (kind_) {
      case Kind::k16550: return uart16550_.try_put(byte);
      case Kind::kSifive: return sifive_.try_put(byte);
      default: return alone([&] { htif_.put(byte); });
    }
  }

  /// Transmits @p bytes. Waits, without bound, until the chip has room for each.
  void write(std::span<const char> bytes) noexcept {
    for (const char byte : bytes) {
      while (!try_put(static_cast<std::uint8_t>(byte))) hal::Port::relax();
    }
  }

  [[nodiscard]] bool idle() const noexcept {
    switch (kind_) {
      case Kind::k16550: return uart16550_.idle();
      case Kind::kSifive: return sifive_.idle();
      default: return true;
    }
  }

  /// Passes every byte that the chip holds to @p sink. @returns how often the chip reported that bytes were lost.
  template <class Sink>
  unsigned receive(Sink sink) noexcept {
    switch (kind_) {
      case Kind::k16550: return uart16550_.receive(sink);
      case Kind::kSifive: return sifive_.receive(sink);
      default: alone([&] { htif_.receive(sink); }); return 0;
    }
  }

 private:
  /// Runs @p act if no other hart runs one. Both directions of an HTIF use one register, so one hart uses it at a time,
  /// with interrupts masked, so that it is not halted in between.
  template <class Act>
  bool alone(Act act) noexcept {
    const hal::InterruptGuard masked;
    if (busy_.exchange(1, std::memory_order_acquire) != 0) return false;  // pairs with the release below
    act();
    busy_.store(0, std::memory_order_release);
    return true;
  }

  Kind kind_;
  hal::Uart16550<hal::Mmio<std::uint8_t>> uart16550_;
  hal::UartSifive<hal::Mmio<std::uint32_t>> sifive_;
  hal::Htif<hal::Mmio<std::uint32_t>> htif_;
  static inline constinit std::atomic<std::uint32_t> busy_{0};
};

}  // namespace qm::firmware
