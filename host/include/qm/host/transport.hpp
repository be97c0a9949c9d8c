#pragma once
/// A byte stream to a target: a serial device, a pty, a Unix socket or TCP. Each is one file descriptor; they differ
/// only in how they are opened.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <qm/host/error.hpp>

namespace qm::host {

class Transport {
 public:
  /// Opens `unix:PATH`, `tcp:HOST:PORT` or the path of a serial device.
  /// A serial device keeps DTR and RTS when it is closed, because a change of DTR resets many boards.
  /// @param[in] baud bits per second of a serial device, with 8 bits, no parity, one stop bit and no flow control;
  ///          ignored for other places.
  /// @param[in] patience time in which any address of a TCP host must answer; looking up the name does not count.
  /// @throws Error kUsage for an impossible place or baud rate, kBusy for a device that another program has locked or a
  ///          socket that accepts no further client, kOpen for every other failure. The message names the place.
  static Transport open(const std::string& place, unsigned baud = 115200, Milliseconds patience = Milliseconds(10'000));

  /// Takes ownership of @p descriptor, and makes it non-blocking. @p place is used only in messages.
  Transport(int descriptor, std::string place);

  Transport(Transport&& other) noexcept;
  Transport& operator=(Transport&& other) noexcept;
  ~Transport();

  /// Waits for bytes until @p deadline and reads those that are available.
  /// @returns the number of bytes read; 0 if the deadline passed; nothing if the other side has closed the stream.
  /// @throws Error kDied on any other failure of the stream; kInterrupted once after interrupt().
  [[nodiscard]] std::optional<std::size_t> read(std::span<char> into, Clock::time_point deadline);

  /// Writes all of @p bytes.
  /// @throws Error kTimedOut if the other side has not accepted them by @p deadline, kDied if it has closed the stream.
  void write(std::string_view bytes, Clock::time_point deadline);

  /// Makes a read() that waits, of any transport, or the next read(), fail within a quarter of a second.
  /// Context: a signal handler.
  static void interrupt() noexcept;

  /// Makes each later read() wait for @p time after its first byte, so that it returns more bytes in one piece.
  void gather(std::chrono::microseconds time) noexcept { gather_ = time; }

  /// Limits each later read() to the rate of a line of @p baud, ten bits a byte, for any kind of transport: an
  /// emulator's line then takes as much time as a real one. Time in which no byte came is lost, except kPaceSlack. 0:
  /// no limit.
  void pace(unsigned baud) noexcept;
  /// The time that a sleeping receiver may catch up on: a real device's FIFO holds the bytes of about this time.
  static constexpr std::chrono::milliseconds kPaceSlack{20};

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] const std::string& place() const noexcept { return place_; }

 private:
  int descriptor_ = -1;
  std::string place_;
  [[nodiscard]] std::size_t await_pace(std::size_t room, Clock::time_point deadline);

  std::chrono::microseconds gather_{0};
  std::chrono::nanoseconds byte_time_{0};  // 0: no limit
  Clock::time_point next_byte_{};          // earliest time of the next byte
};

}  // namespace qm::host
