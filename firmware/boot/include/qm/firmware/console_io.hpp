#pragma once
/// The serial line for the console: lines are written without interleaving, received bytes go through a ring.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <qm/firmware/task.hpp>

namespace qm::firmware {

/// Owns the transmitter for a scope: output written through it is not mixed with the output of other tasks or harts. It
/// waits with interrupts enabled. While bytes are sent, no lock is held and interrupts are not masked. Not recursive.
class ConsoleOwner {
 public:
  /// Waits until the transmitter is free. In a trap handler or with interrupts masked it does not wait.
  ConsoleOwner() noexcept;
  ~ConsoleOwner();
  ConsoleOwner(const ConsoleOwner&) = delete;
  ConsoleOwner& operator=(const ConsoleOwner&) = delete;
  /// Whether this object owns the transmitter; always true if the context may wait.
  explicit operator bool() const noexcept { return owned_; }
  void write(std::span<const char> bytes) const noexcept;

 private:
  bool owned_;
};

/// Writes @p text line by line, with its bytes unchanged. A line, up to and including its '\n', is never interleaved
/// with other output; between two lines other tasks may write.
/// @returns the number of bytes written; less than all only in a trap handler or with interrupts masked, if the
///          transmitter is owned by another task or hart.
std::size_t console_write(std::span<const char> text) noexcept;
inline std::size_t console_write(std::string_view text) noexcept { return console_write(std::span<const char>(text)); }
inline std::size_t console_write(const char* text) noexcept { return console_write(std::string_view(text)); }

/// Writes @p frame in one piece, also if it contains '\n'.
std::size_t console_write_frame(std::span<const char> frame) noexcept;

/// Reads up to out.size() received bytes, without waiting. @returns their number. Context: one consumer.
std::size_t console_read(std::span<char> out) noexcept;

/// The event that is signalled when bytes have arrived, if the serial line has an interrupt.
[[nodiscard]] Event& console_input() noexcept;

/// @returns how long to wait for console_input(), in ticks: @p deadline, or an earlier time at which console_read() has
///          to poll. Polling is needed if the boot hart gets no interrupt from the serial line: the line has none, or
///          it is connected to another socket's controller.
[[nodiscard]] std::uint64_t console_wait_end(std::uint64_t deadline) noexcept;

/// Waits for input, then reads it. @returns the number of bytes; 0 if none arrived before @p deadline.
std::size_t console_read_wait(std::span<char> out, std::uint64_t deadline = kForever) noexcept;

/// Whether a Ctrl-C has arrived that console_read() has not returned yet, even if it was lost because the ring was
/// full.
[[nodiscard]] bool console_interrupted() noexcept;

/// Drops the input up to and including the last Ctrl-C.
void console_drop_to_interrupt() noexcept;

/// Bytes lost since boot because the ring was full or the chip overran; wraps.
[[nodiscard]] std::uint32_t console_lost() noexcept;

/// Size of the receive ring.
inline constexpr std::size_t kConsoleRingBytes = 1024;

}  // namespace qm::firmware
