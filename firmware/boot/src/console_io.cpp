/// The serial line: one transmitter, which one task owns at a time, and one receive ring, which the interrupt fills.

#include <qm/firmware/console_io.hpp>

#include <qm/hal/chip/byte_ring.hpp>

#include <qm/firmware/boot.hpp>

#include "hart_state.hpp"
#include "serial_line.hpp"

namespace qm::firmware {
namespace {

constexpr std::uint8_t kCtrlC = 3;
constexpr std::uint32_t kStuckMs = 1000;           // a panic drops the rest of a text if one byte waits this long
constexpr std::uintptr_t kUsualUart = 0x10000000;  // for a panic before the device tree is read

constinit SerialLine chip{SerialLine::Kind::k16550, kUsualUart, 0};
constinit hal::ByteRing<kConsoleRingBytes> received;
constinit std::atomic<std::uint32_t> overruns{0};
constinit Event input;
constinit bool has_interrupt = false;                   // false: readers poll the receiver
constexpr std::uint32_t kPollMs = 20, kPollSoonMs = 1;  // kPollSoonMs if a byte arrived less than kLivelyMs ago
constexpr std::uint32_t kLivelyMs = 100;
constinit std::atomic<std::uint32_t> last_byte{0};  // its arrival time, lower 32 bits of the ticks

constinit std::atomic<std::uint32_t> owner{0};  // 0 free, else 1 + the owner's hart index
constinit Event released;

void receive(void*) {
  console_receive_raw();
  input.signal();
}

bool try_own() noexcept {
  std::uint32_t expected = 0;
  // acquire: pairs with the release in ~ConsoleOwner.
  return owner.compare_exchange_strong(expected, 1 + hal::Port::hart_index(), std::memory_order_acquire);
}

/// Whether the caller may wait for the transmitter with interrupts enabled.
bool may_wait_for_owner() noexcept {
  if (this_hart().innermost != nullptr) return false;
  const hal::InterruptGuard masked;
  return masked.were_enabled();
}

}  // namespace

void start_console(const hal::Board& hardware) noexcept {
  if (hardware.uart.base != 0) chip = SerialLine(hardware.uart_kind, hardware.uart.base, hardware.uart.register_shift);
  has_interrupt = hardware.uart.interrupt != 0 && register_interrupt(hardware.uart.interrupt, receive, nullptr);
  // Keep the bytes that arrived during the boot: the console reports what it drops.
  if (chip.keeps_received()) console_receive_raw();
  chip.initialise(has_interrupt);
}

void console_put_raw(std::string_view text) noexcept {
  for (const char byte : text) {
    const std::uint64_t end = hal::Port::ticks() + hal::ticks_of(kStuckMs);
    while (!chip.try_put(static_cast<std::uint8_t>(byte))) {
      if (hal::Port::ticks() > end) return;
    }
  }
}

void console_receive_raw() noexcept {
  const unsigned lost = chip.receive([](std::uint8_t byte) {
    received.push(byte, kCtrlC);
    last_byte.store(static_cast<std::uint32_t>(hal::Port::ticks()), std::memory_order_relaxed);
  });
  if (lost != 0) overruns.store(overruns.load(std::memory_order_relaxed) + lost, std::memory_order_relaxed);
}

void console_flush() noexcept {
  const std::uint64_t end = hal::Port::ticks() + hal::ticks_of(kStuckMs);
  while (!chip.idle() && hal::Port::ticks() <= end) {
  }
}

ConsoleOwner::ConsoleOwner() noexcept : owned_(try_own()) {
  while (!owned_) {
    const std::uint32_t seen = released.sequence();
    owned_ = try_own();
    if (owned_ || !may_wait_for_owner()) return;
    wait_event(released, seen);
  }
}

ConsoleOwner::~ConsoleOwner() {
  if (!owned_) return;
  owner.store(0, std::memory_order_release);  // pairs with the acquire in try_own()
  released.signal();
}

void ConsoleOwner::write(std::span<const char> bytes) const noexcept {
  if (owned_) chip.write(bytes);
}

std::size_t console_write(std::span<const char> text) noexcept {
  std::size_t written = 0;
  while (written < text.size()) {
    std::size_t end = written;
    while (end < text.size() && text[end] != '\n') ++end;
    if (end < text.size()) ++end;
    const ConsoleOwner own;
    if (!own) break;
    own.write(text.subspan(written, end - written));
    written = end;
  }
  return written;
}

std::size_t console_write_frame(std::span<const char> frame) noexcept {
  const ConsoleOwner own;
  own.write(frame);
  return own ? frame.size() : 0;
}

std::size_t console_read(std::span<char> out) noexcept {
  if (!has_interrupt) console_receive_raw();
  return received.pop(out);
}

std::uint64_t console_wait_end(std::uint64_t deadline) noexcept {
  if (has_interrupt) return deadline;
  const std::uint64_t now = hal::Port::ticks();
  const std::uint32_t since = static_cast<std::uint32_t>(now) - last_byte.load(std::memory_order_relaxed);
  const std::uint64_t look = now + hal::ticks_of(since < hal::ticks_of(kLivelyMs) ? kPollSoonMs : kPollMs);
  return look < deadline ? look : deadline;
}

Event& console_input() noexcept { return input; }

std::size_t console_read_wait(std::span<char> out, std::uint64_t deadline) noexcept {
  for (;;) {
    const std::uint32_t seen = input.sequence();
    const std::size_t count = console_read(out);
    if (count != 0) return count;
    if (!wait_event(input, seen, console_wait_end(deadline)) && hal::Port::ticks() >= deadline)
      return console_read(out);
  }
}

bool console_interrupted() noexcept {
  if (!has_interrupt) console_receive_raw();
  return received.marked();
}

void console_drop_to_interrupt() noexcept { received.drop_to_mark(); }

std::uint32_t console_lost() noexcept { return received.lost() + overruns.load(std::memory_order_relaxed); }

}  // namespace qm::firmware
