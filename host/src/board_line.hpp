#pragma once
/// The serial line of a QEMU board whose chip drops what its other side does not take at once: `sifive_u` drops output,
/// `spike` output and input. In between stand pipes, which hold a megabyte of output, and a thread that moves the bytes
/// between these and a socket, from which the line is read and written as any other.
///
/// The input of `spike` is given byte by byte: its HTIF holds one, and the firmware (hal/chip/htif.hpp) says there how
/// many bytes it has taken. The thread reads that over QEMU's monitor, and sends a byte again that was overwritten.

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <thread>

#include <qm/host/transport.hpp>

namespace qm::host {

class BoardLine {
 public:
  /// Makes the pipes @p path.in and @p path.out, for QEMU's `-chardev pipe`. @throws Error kOpen if it cannot.
  /// @param[in] monitor the socket of QEMU's monitor, for input that is acknowledged; empty: input flows.
  BoardLine(const std::filesystem::path& path, std::filesystem::path monitor);
  BoardLine(const BoardLine&) = delete;
  BoardLine& operator=(const BoardLine&) = delete;
  /// The line is closed; what QEMU sends from then on is lost.
  ~BoardLine();

  /// Begins to move bytes. Once, after QEMU was started. @returns the line. @throws Error kOpen.
  [[nodiscard]] Transport connect();

 private:
  void move();
  bool move_output();
  bool move_input();
  /// @returns the word in which the firmware says what it has taken; 0 where the monitor does not answer.
  [[nodiscard]] std::uint32_t acknowledged();
  bool open_monitor();

  std::filesystem::path path_, monitor_path_;
  int in_ = -1, out_ = -1;    // the pipes
  int near_ = -1, far_ = -1;  // the socket's ends: far_ is the line's
  int monitor_ = -1;
  std::string outgoing_;            // output that the line's reader has not taken
  std::string pending_;             // input that no pipe has taken
  bool in_flight_ = false;          // pending_'s first byte was sent, and is not acknowledged
  std::uint32_t acknowledged_ = 0;  // bytes, as the firmware counts
  std::thread thread_;
};

}  // namespace qm::host
