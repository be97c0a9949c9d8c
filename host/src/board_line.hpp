#pragma once
/// The serial line of a QEMU board whose chip drops bytes that the other side does not take at once: `sifive_u` drops
/// output, `spike` drops output and input. Pipes lie in between, which hold a megabyte of output, and a thread moves
/// the bytes between them and a socket. The line is read and written at this socket like any other line.
///
/// Input of `spike` is sent byte by byte, because its HTIF holds one byte. The firmware (hal/chip/htif.hpp) leaves
/// there the number of bytes that it has taken. The thread reads this number over QEMU's monitor, and sends an
/// overwritten byte again.

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <thread>

#include <qm/host/transport.hpp>

namespace qm::host {

class BoardLine {
 public:
  /// Creates the pipes @p path.in and @p path.out, for QEMU's `-chardev pipe`. @throws Error kOpen if that fails.
  /// @param[in] monitor the socket of QEMU's monitor, for input that is acknowledged; empty: input is not acknowledged.
  BoardLine(const std::filesystem::path& path, std::filesystem::path monitor);
  BoardLine(const BoardLine&) = delete;
  BoardLine& operator=(const BoardLine&) = delete;
  /// Closes the line; later output of QEMU is lost.
  ~BoardLine();

  /// Starts moving bytes. Call it once, after QEMU was started. @returns the line. @throws Error kOpen.
  [[nodiscard]] Transport connect();

 private:
  void move();
  bool move_output();
  bool move_input();
  /// @returns the word with the number of bytes that the firmware has taken; 0 if the monitor does not answer.
  [[nodiscard]] std::uint32_t acknowledged();
  bool open_monitor();

  std::filesystem::path path_, monitor_path_;
  int in_ = -1, out_ = -1;    // the pipes
  int near_ = -1, far_ = -1;  // the ends of the socket; far_ becomes the line
  int monitor_ = -1;
  std::string outgoing_;            // output that the line's reader has not taken
  std::string pending_;             // input that the pipe has not taken, or that is not acknowledged
  bool in_flight_ = false;          // pending_'s first byte was sent and is not acknowledged
  std::uint32_t acknowledged_ = 0;  // number of bytes, as the firmware counts them
  std::thread thread_;
};

}  // namespace qm::host
