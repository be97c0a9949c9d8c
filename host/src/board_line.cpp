#include "board_line.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace qm::host {
namespace {

constexpr int kFifoBytes = 1 << 20;
/// The values of hal/chip/htif.hpp.
constexpr std::uint32_t kMark = 1u << 31, kCountBits = 0xffff;

int open_fifo(const std::filesystem::path& path, int flags) {
  const int fifo = mkfifo(path.c_str(), 0600) == 0 ? open(path.c_str(), flags | O_NONBLOCK | O_CLOEXEC) : -1;
  if (fifo < 0) throw Error(Fault::kOpen, "cannot make the pipe " + path.string() + ": " + std::strerror(errno));
  fcntl(fifo, F_SETPIPE_SZ, kFifoBytes);  // if this fails, the pipe keeps its size
  return fifo;
}

void close_if_open(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

}  // namespace

BoardLine::BoardLine(const std::filesystem::path& path, std::filesystem::path monitor)
    : path_(path), monitor_path_(std::move(monitor)) {
  in_ = open_fifo(path_.string() + ".in", O_RDWR);
  out_ = open_fifo(path_.string() + ".out", O_RDONLY);
}

BoardLine::~BoardLine() {
  if (near_ >= 0) shutdown(near_, SHUT_RDWR);
  if (thread_.joinable()) thread_.join();
  for (int* descriptor : {&in_, &out_, &near_, &far_, &monitor_}) close_if_open(*descriptor);
}

Transport BoardLine::connect() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(Fault::kOpen, std::string("cannot make a pair of sockets: ") + std::strerror(errno));
  near_ = ends[0];
  Transport line(ends[1], "pipe:" + path_.string());
  // This thread blocks all signals, so that the thread that waits for the line receives them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { move(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return line;
}

bool BoardLine::move_output() {
  if (outgoing_.empty()) {
    char bytes[4096];
    const ssize_t count = read(out_, bytes, sizeof bytes);
    if (count > 0) outgoing_.assign(bytes, static_cast<std::size_t>(count));
  }
  if (outgoing_.empty()) return true;
  const ssize_t sent = ::send(near_, outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) outgoing_.erase(0, static_cast<std::size_t>(sent));
  return sent >= 0 || errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

bool BoardLine::move_input() {
  if (monitor_path_.empty()) {
    const ssize_t written = write(in_, pending_.data(), pending_.size());
    if (written > 0) pending_.erase(0, static_cast<std::size_t>(written));
    return true;
  }
  if (!in_flight_) {
    in_flight_ = write(in_, pending_.data(), 1) == 1;
    return true;
  }
  // QEMU puts a byte that it has read from the pipe into the register before it next serves the monitor.
  int waiting = 0;
  if (ioctl(in_, FIONREAD, &waiting) != 0 || waiting != 0) return true;
  const std::uint32_t word = acknowledged();
  if ((word & kMark) == 0) return monitor_ >= 0;  // the byte is still in the register
  const std::uint32_t count = word & kCountBits;
  if (count == ((acknowledged_ + 1) & kCountBits)) pending_.erase(0, 1);
  acknowledged_ = count;  // any other count comes from a board that has booted again
  in_flight_ = false;
  return true;
}

void BoardLine::move() {
  for (;;) {
    // While the line's reader does not take output, further output stays in the pipe, and input is still moved.
    const bool waits = !outgoing_.empty();
    pollfd watched[] = {{waits ? -1 : out_, POLLIN, 0},
                        {near_, static_cast<short>((pending_.empty() ? POLLIN : 0) | (waits ? POLLOUT : 0)), 0}};
    // While input waits, this polls every millisecond; the monitor's answer takes longer.
    if (poll(watched, 2, pending_.empty() ? -1 : 1) < 0 && errno != EINTR) break;
    if (((watched[0].revents & POLLIN) != 0 || (watched[1].revents & POLLOUT) != 0) && !move_output()) break;
    if ((watched[0].revents & (POLLIN | POLLHUP)) == POLLHUP) break;  // QEMU has ended
    if ((watched[1].revents & POLLIN) != 0) {
      char bytes[4096];
      const ssize_t count = read(near_, bytes, sizeof bytes);
      if (count <= 0) break;
      pending_.append(bytes, static_cast<std::size_t>(count));
    } else if ((watched[1].revents & (POLLHUP | POLLERR)) != 0) {
      break;
    }
    if (!pending_.empty() && !move_input()) pending_.clear();  // QEMU is ending
  }
  shutdown(near_, SHUT_RDWR);  // the line's reader sees the end of the stream
}

bool BoardLine::open_monitor() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, monitor_path_.c_str(), sizeof address.sun_path - 1);
  monitor_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  constexpr char kReady[] = "{\"execute\":\"qmp_capabilities\"}\n";
  if (::connect(monitor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::send(monitor_, kReady, sizeof kReady - 1, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof kReady - 1))
    return true;
  close_if_open(monitor_);
  return false;
}

std::uint32_t BoardLine::acknowledged() {
  constexpr char kQuestion[] =
      "{\"execute\":\"human-monitor-command\",\"arguments\":{\"command-line\":\"xp /1wx 0x1000000\"}}\n";
  constexpr std::string_view kAnswer = ": 0x";
  if (monitor_ < 0 && !open_monitor()) return 0;
  if (::send(monitor_, kQuestion, sizeof kQuestion - 1, MSG_NOSIGNAL) > 0) {
    std::string text;
    char bytes[512];
    for (ssize_t count; (count = recv(monitor_, bytes, sizeof bytes, 0)) > 0;) {
      text.append(bytes, static_cast<std::size_t>(count));
      const std::size_t at = text.find(kAnswer);
      if (at == std::string::npos || text.find('\n', at) == std::string::npos) continue;
      return static_cast<std::uint32_t>(std::strtoul(text.c_str() + at + 2, nullptr, 16));
    }
  }
  close_if_open(monitor_);
  return 0;
}

}  // namespace qm::host
