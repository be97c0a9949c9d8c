#pragma once
/// The serial line as the console uses it: lines out without interleaving, bytes in through a ring.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <qm/firmware/task.hpp>

namespace qm::firmware {

/// Owns the transmitter for a scope: what is written through it is not mixed with another task's or hart's output.
/// Waiting is done with interrupts enabled; no lock is held and nothing is masked while bytes are sent. Not recursive.
class ConsoleOwner {
 public:
  /// Waits in a task or with interrupts enabled. In a trap handler or with interrupts masked it does not wait.
  ConsoleOwner() noexcept;
  ~ConsoleOwner();
  ConsoleOwner(const ConsoleOwner&) = delete;
  ConsoleOwner& operator=(const ConsoleOwner&) = delete;
  /// Whether the transmitter was got; always, where waiting is allowed.
  explicit operator bool() const noexcept { return owned_; }
  void write(std::span<const char> bytes) const noexcept;

 private:
  bool owned_;
};

/// Writes @p text line by line: a line, up to and including its '\n', is never interleaved with another's; between two
/// lines another may write. The bytes go out as they are.
/// @returns the bytes written; less than all only in a trap handler or with interrupts masked, when the transmitter is
///          taken.
std::size_t console_write(std::span<const char> text) noexcept;
inline std::size_t console_write(std::string_view text) noexcept { return console_write(std::span<const char>(text)); }
inline std::size_t console_write(const char* text) noexcept { return console_write(std::string_view(text)); }

/// Writes @p frame in one piece, whatever bytes it has.
std::size_t console_write_frame(std::span<const char> frame) noexcept;

/// Takes up to out.size() received bytes. Does not wait. One consumer.
std::size_t console_read(std::span<char> out) noexcept;

/// Signalled when bytes have arrived, if there is an interrupt for them.
[[nodiscard]] Event& console_input() noexcept;

/// How long to wait for console_input(): until @p deadline (ticks), or until somebody has to look with console_read()
/// because the boot hart gets no interrupt of the line - it has none, or hangs on another socket's controller.
[[nodiscard]] std::uint64_t console_wait_end(std::uint64_t deadline) noexcept;

/// Waits for input, then reads. @returns 0 if none came before @p deadline.
std::size_t console_read_wait(std::span<char> out, std::uint64_t deadline = kForever) noexcept;

/// Whether a Ctrl-C has arrived that console_read() has not passed yet; also when it was lost to a full ring.
[[nodiscard]] bool console_interrupted() noexcept;

/// Drops the input up to and including the last Ctrl-C.
void console_drop_to_interrupt() noexcept;

/// Bytes lost since boot because the ring was full or the chip overran; wraps.
[[nodiscard]] std::uint32_t console_lost() noexcept;

/// Size of the receive ring.
inline constexpr std::size_t kConsoleRingBytes = 1024;

}  // namespace qm::firmware
