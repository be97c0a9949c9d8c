#pragma once
/// A byte stream to a target: a serial device, a pty, a Unix socket or TCP. Each is one file descriptor; they differ in
/// how they are opened.

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
  /// A serial device keeps DTR and RTS when it is closed: a change of DTR resets many boards.
  /// @param[in] baud bits per second of a serial device, 8 bits, no parity, one stop bit, no flow control; ignored
  ///          elsewhere.
  /// @param[in] patience how long all addresses of a TCP host may take to answer; its name is looked up before.
  /// @throws Error kUsage for a place or baud rate that makes no sense, kBusy for a device that another program has
  ///         locked or a socket that takes no further client, kOpen for everything else. The message names the place.
  static Transport open(const std::string& place, unsigned baud = 115200, Milliseconds patience = Milliseconds(10'000));

  /// Takes over @p descriptor, which it makes non-blocking. @p place is used in messages only.
  Transport(int descriptor, std::string place);

  Transport(Transport&& other) noexcept;
  Transport& operator=(Transport&& other) noexcept;
  ~Transport();

  /// Waits for bytes until @p deadline and reads what there is.
  /// @returns the number of bytes read; 0 when the deadline passed; nothing when the other side has closed the stream.
  /// @throws Error kDied on any other failure of the stream; kInterrupted once after interrupt().
  [[nodiscard]] std::optional<std::size_t> read(std::span<char> into, Clock::time_point deadline);

  /// Writes all of @p bytes.
  /// @throws Error kTimedOut if the other side has not taken them by @p deadline, kDied if it has gone.
  void write(std::string_view bytes, Clock::time_point deadline);

  /// Makes the read() that waits, of whatever transport, or the next one, fail within a quarter of a second.
  /// Context: a signal handler.
  static void interrupt() noexcept;

  /// From here on a read() waits for @p time after the first byte has come, so that it gets more of them in one piece.
  void gather(std::chrono::microseconds time) noexcept { gather_ = time; }

  /// From here on read() takes no more than a line of @p baud carries, ten bits a byte, whatever this is: an emulator's
  /// line then costs what a real one does. Time in which nothing came is lost, but for kPaceSlack. 0: as fast as it
  /// goes.
  void pace(unsigned baud) noexcept;
  /// What a receiver that naps may catch up on, as the FIFO of its device holds it.
  static constexpr std::chrono::milliseconds kPaceSlack{20};

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] const std::string& place() const noexcept { return place_; }

 private:
  int descriptor_ = -1;
  std::string place_;
  [[nodiscard]] std::size_t await_pace(std::size_t room, Clock::time_point deadline);

  std::chrono::microseconds gather_{0};
  std::chrono::nanoseconds byte_time_{0};  // 0: no pace
  Clock::time_point next_byte_{};          // when the line may bring one
};

}  // namespace qm::host
