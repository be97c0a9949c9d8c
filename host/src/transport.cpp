#include <qm/host/transport.hpp>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

namespace qm::host {
namespace {

constexpr int kInterruptPollMs = 250;
volatile std::sig_atomic_t interrupted = 0;

/// Owns a descriptor, and closes it unless it is released.
class Descriptor {
 public:
  explicit Descriptor(int value) noexcept : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  [[nodiscard]] int get() const noexcept { return value_; }
  [[nodiscard]] int release() noexcept { return std::exchange(value_, -1); }

 private:
  int value_;
};

[[noreturn]] void fail(Fault fault, const std::string& place, const std::string& why) {
  throw Error(fault, place + ": " + why);
}

/// @returns the milliseconds until @p deadline for poll(), rounded up, at least 0.
int poll_timeout(Clock::time_point deadline) noexcept {
  const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 3'600'000));
}

int open_unix(const std::string& place, const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    fail(Fault::kUsage, place,
         "a socket's path has 1 to " + std::to_string(sizeof address.sun_path - 1) + " characters");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  Descriptor socket_descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect(socket_descriptor.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return socket_descriptor.release();
  }
  switch (errno) {
    case EAGAIN: fail(Fault::kBusy, place, "busy: another program is attached");
    case ECONNREFUSED: {
      struct stat status {};
      const bool is_socket = stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
      fail(Fault::kOpen, place, is_socket ? "nobody listens there any more" : "not a socket");
    }
    default: fail(Fault::kOpen, place, std::strerror(errno));
  }
}

/// Connects, and waits for the result until @p deadline. @returns 0, or the error number.
int connect_until(int descriptor, const addrinfo& to, Clock::time_point deadline) {
  if (connect(descriptor, to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  for (;;) {
    pollfd watched{descriptor, POLLOUT, 0};
    const int ready = poll(&watched, 1, poll_timeout(deadline));
    if (ready > 0) break;
    if (ready < 0 && errno != EINTR) return errno;
    if (Clock::now() >= deadline) return ETIMEDOUT;
  }
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

int open_tcp(const std::string& place, const std::string& address, Milliseconds patience) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) {
    fail(Fault::kUsage, place, "should be tcp:HOST:PORT");
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(), &hints, &found);
  if (status != 0) fail(Fault::kOpen, place, gai_strerror(status));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> release(found, &freeaddrinfo);
  const auto deadline = Clock::now() + patience;
  int error = 0;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    Descriptor candidate(socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, each->ai_protocol));
    error = candidate.get() < 0 ? errno : connect_until(candidate.get(), *each, deadline);
    if (error != 0) continue;
    const int on = 1;
    setsockopt(candidate.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return candidate.release();
  }
  fail(Fault::kOpen, place,
       error == ETIMEDOUT ? "nobody has answered within " + std::to_string(patience.count()) + " ms"
                          : std::strerror(error));
}

speed_t speed_of(const std::string& place, unsigned baud) {
  static constexpr std::array<std::pair<unsigned, speed_t>, 13> kSpeeds{{{9600, B9600},
                                                                         {19200, B19200},
                                                                         {38400, B38400},
                                                                         {57600, B57600},
                                                                         {115200, B115200},
                                                                         {230400, B230400},
                                                                         {460800, B460800},
                                                                         {500000, B500000},
                                                                         {921600, B921600},
                                                                         {1000000, B1000000},
                                                                         {1500000, B1500000},
                                                                         {2000000, B2000000},
                                                                         {3000000, B3000000}}};
  for (const auto& [rate, speed] : kSpeeds) {
    if (rate == baud) return speed;
  }
  fail(Fault::kUsage, place, "no such baud rate: " + std::to_string(baud));
}

int open_device(const std::string& place, unsigned baud) {
  const speed_t speed = speed_of(place, baud);
  Descriptor device(::open(place.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  if (device.get() < 0) {
    fail(errno == EBUSY ? Fault::kBusy : Fault::kOpen, place,
         errno == EBUSY ? "busy: another program has it open" : std::strerror(errno));
  }
  termios settings{};
  if (tcgetattr(device.get(), &settings) != 0) fail(Fault::kOpen, place, "not a serial device");
  if (flock(device.get(), LOCK_EX | LOCK_NB) != 0) fail(Fault::kBusy, place, "busy: another program has locked it");
  cfmakeraw(&settings);
  settings.c_cflag = (settings.c_cflag & ~static_cast<tcflag_t>(CSTOPB | CRTSCTS | HUPCL)) | CLOCAL | CREAD;
  settings.c_cc[VMIN] = 1;
  settings.c_cc[VTIME] = 0;
  cfsetispeed(&settings, speed);
  cfsetospeed(&settings, speed);
  if (tcsetattr(device.get(), TCSANOW, &settings) != 0) fail(Fault::kOpen, place, std::strerror(errno));
  return device.release();
}

}  // namespace

Transport Transport::open(const std::string& place, unsigned baud, Milliseconds patience) {
  if (place.starts_with("unix:")) return {open_unix(place, place.substr(5)), place};
  if (place.starts_with("tcp:")) return {open_tcp(place, place.substr(4), patience), place};
  if (place.empty()) throw Error(Fault::kUsage, "the line is unix:PATH, tcp:HOST:PORT or a serial device");
  return {open_device(place, baud), place};
}

Transport::Transport(int descriptor, std::string place) : descriptor_(descriptor), place_(std::move(place)) {
  fcntl(descriptor_, F_SETFL, fcntl(descriptor_, F_GETFL) | O_NONBLOCK);
}

Transport::Transport(Transport&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      place_(std::move(other.place_)),
      gather_(other.gather_),
      byte_time_(other.byte_time_),
      next_byte_(other.next_byte_) {}

Transport& Transport::operator=(Transport&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(place_, other.place_);
  std::swap(gather_, other.gather_);
  std::swap(byte_time_, other.byte_time_);
  std::swap(next_byte_, other.next_byte_);
  return *this;
}

Transport::~Transport() {
  if (descriptor_ >= 0) close(descriptor_);
}

void Transport::interrupt() noexcept { interrupted = 1; }

void Transport::pace(unsigned baud) noexcept {
  byte_time_ = std::chrono::nanoseconds(baud != 0 ? 10'000'000'000 / baud : 0);
  next_byte_ = Clock::now();
}

/// Waits until the paced line may have brought a byte. @returns the number of bytes that it may have brought, at most
/// @p room; 0 if @p deadline comes first.
std::size_t Transport::await_pace(std::size_t room, Clock::time_point deadline) {
  // Waits for a few bytes at once, so that the receiver is not woken for each byte.
  const auto step = std::max<Clock::duration>(std::chrono::milliseconds(2), byte_time_);
  next_byte_ = std::max(next_byte_, Clock::now() - std::max<Clock::duration>(kPaceSlack, byte_time_));
  if (next_byte_ + step > Clock::now()) std::this_thread::sleep_until(std::min(next_byte_ + step, deadline));
  const auto since = Clock::now() - next_byte_;
  return since < byte_time_ ? 0 : std::min(room, static_cast<std::size_t>(since / byte_time_));
}

std::optional<std::size_t> Transport::read(std::span<char> into, Clock::time_point deadline) {
  for (;;) {
    pollfd watched{descriptor_, POLLIN, 0};
    // A signal between the check of the flag and poll() does not wake poll().
    const int ready = poll(&watched, 1, std::min(poll_timeout(deadline), kInterruptPollMs));
    if (ready < 0 && errno != EINTR) fail(Fault::kDied, place_, std::strerror(errno));
    if (interrupted != 0) {
      interrupted = 0;
      fail(Fault::kInterrupted, place_, "interrupted");
    }
    if (ready > 0) {
      if (gather_.count() != 0) std::this_thread::sleep_for(gather_);
      const std::size_t room = byte_time_.count() != 0 ? await_pace(into.size(), deadline) : into.size();
      if (room == 0 && Clock::now() >= deadline) return 0;
      if (room == 0) continue;
      const ssize_t count = ::read(descriptor_, into.data(), room);
      if (count > 0) {
        next_byte_ += count * byte_time_;
        return static_cast<std::size_t>(count);
      }
      // A pty gives EIO if its other side is closed, and a socket ECONNRESET if its peer was killed.
      if (count == 0 || errno == EIO || errno == ECONNRESET) return std::nullopt;
      if (errno != EAGAIN && errno != EINTR) fail(Fault::kDied, place_, std::strerror(errno));
    }
    if (Clock::now() >= deadline) return 0;
  }
}

void Transport::write(std::string_view bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    ssize_t count = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == ENOTSOCK) count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
      continue;
    }
    if (count < 0 && errno != EAGAIN && errno != EINTR) {
      const bool closed = errno == EPIPE || errno == ECONNRESET || errno == EIO;
      fail(Fault::kDied, place_, closed ? "the other side has closed the line" : std::strerror(errno));
    }
    if (Clock::now() >= deadline) fail(Fault::kTimedOut, place_, "the other side does not take what is sent");
    pollfd watched{descriptor_, POLLOUT, 0};
    poll(&watched, 1, poll_timeout(deadline));
  }
}

}  // namespace qm::host
