#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <qm/host/transport.hpp>
#include <qm/test/folder.hpp>

namespace host_transport_test {

using namespace qm::host;

Clock::time_point in(int milliseconds) { return Clock::now() + Milliseconds(milliseconds); }

/// @returns the fault and the message of opening @p place.
std::pair<std::optional<Fault>, std::string> open_fault(const std::string& place, unsigned baud = 115200) {
  try {
    (void)Transport::open(place, baud);
  } catch (const Error& error) {
    return {error.fault(), error.what()};
  }
  return {};
}

class TransportTest : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

  int listen_at(const std::string& where, int backlog) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, where.c_str(), sizeof address.sun_path - 1);
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listener, backlog), 0);
    return listener;
  }
  /// Sends in both directions, then closes the far side.
  static void exchange(Transport& transport, int peer) {
    char buffer[64];
    transport.write("to the target\r", in(5000));
    ASSERT_EQ(read(peer, buffer, sizeof buffer), 14);
    EXPECT_EQ(std::string(buffer, 14), "to the target\r");
    ASSERT_EQ(write(peer, "from \x1b\x03\r\n\xff", 10), 10);
    std::string got;
    while (got.size() < 10) {
      const auto count = transport.read(buffer, in(5000));
      ASSERT_TRUE(count && *count != 0);
      got.append(buffer, *count);
    }
    EXPECT_EQ(got, "from \x1b\x03\r\n\xff");
    EXPECT_EQ(transport.read(buffer, in(20)), std::optional<std::size_t>(0));
    close(peer);
    EXPECT_EQ(transport.read(buffer, in(5000)), std::nullopt);
  }

 private:
  qm::test::TemporaryFolder folder_;
};

TEST_F(TransportTest, passes_bytes_over_a_unix_socket_and_notices_its_end) {
  const int listener = listen_at(path("line"), 1);
  Transport transport = Transport::open("unix:" + path("line"));
  exchange(transport, accept(listener, nullptr, nullptr));
  close(listener);
}

TEST_F(TransportTest, passes_bytes_over_tcp_and_notices_its_end) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  Transport transport = Transport::open("tcp:127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
  exchange(transport, accept(listener, nullptr, nullptr));
  close(listener);
}

TEST_F(TransportTest, passes_every_byte_over_a_pty_and_locks_it) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(master, 0);
  ASSERT_EQ(grantpt(master), 0);
  ASSERT_EQ(unlockpt(master), 0);
  const std::string device = ptsname(master);
  Transport transport = Transport::open(device, 115200);
  const auto [fault, message] = open_fault(device);
  EXPECT_EQ(fault, Fault::kBusy);
  EXPECT_NE(message.find(device + ": busy"), std::string::npos) << message;
  exchange(transport, master);
}

TEST_F(TransportTest, gives_up_a_tcp_host_that_does_not_answer) {
  // A listener with a full queue does not answer the next connection.
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 0), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string place = "tcp:127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  std::vector<int> waiting;
  for (int count = 0; count < 4; ++count) {
    waiting.push_back(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    (void)connect(waiting.back(), reinterpret_cast<sockaddr*>(&address), size);
  }
  try {
    (void)Transport::open(place, 0, Milliseconds(100));
    FAIL() << "somebody has answered";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kOpen);
    EXPECT_EQ(std::string(error.what()), place + ": nobody has answered within 100 ms");
  }
  for (const int each : waiting) close(each);
  close(listener);
}

TEST_F(TransportTest, a_serial_device_that_is_closed_keeps_its_control_lines) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(master, 0);
  ASSERT_EQ(grantpt(master), 0);
  ASSERT_EQ(unlockpt(master), 0);
  const int other = open(ptsname(master), O_RDWR | O_NOCTTY);  // keeps the settings
  termios settings{};
  ASSERT_EQ(tcgetattr(other, &settings), 0);
  settings.c_cflag |= HUPCL;
  ASSERT_EQ(tcsetattr(other, TCSANOW, &settings), 0);
  { const Transport transport = Transport::open(ptsname(master)); }
  ASSERT_EQ(tcgetattr(other, &settings), 0);
  EXPECT_EQ(settings.c_cflag & HUPCL, 0u);
  close(other);
  close(master);
}

TEST_F(TransportTest, says_what_is_wrong_with_a_place) {
  EXPECT_EQ(open_fault("").first, Fault::kUsage);
  EXPECT_EQ(open_fault("unix:").first, Fault::kUsage);
  EXPECT_EQ(open_fault("unix:" + std::string(200, 'x')).first, Fault::kUsage);
  EXPECT_EQ(open_fault("tcp:localhost").first, Fault::kUsage);
  EXPECT_EQ(open_fault("tcp::1").first, Fault::kUsage);
  EXPECT_EQ(open_fault("unix:" + path("nothing")).first, Fault::kOpen);
  EXPECT_EQ(open_fault(path("nothing")).first, Fault::kOpen);
  EXPECT_EQ(open_fault("/dev/null").second, "/dev/null: not a serial device");
  EXPECT_EQ(open_fault("/dev/null", 12345).second, "/dev/null: no such baud rate: 12345");
  std::ofstream(path("file")) << "text";
  EXPECT_EQ(open_fault("unix:" + path("file")).second, "unix:" + path("file") + ": not a socket");
  close(listen_at(path("dead"), 1));
  EXPECT_EQ(open_fault("unix:" + path("dead")).second, "unix:" + path("dead") + ": nobody listens there any more");
}

TEST_F(TransportTest, says_that_a_socket_takes_no_further_client) {
  const int listener = listen_at(path("line"), 0);
  const Transport first = Transport::open("unix:" + path("line"));
  const auto [fault, message] = open_fault("unix:" + path("line"));
  EXPECT_EQ(fault, Fault::kBusy);
  EXPECT_NE(message.find("busy: another program is attached"), std::string::npos) << message;
  close(listener);
}

TEST_F(TransportTest, a_write_that_nobody_takes_times_out_and_one_to_a_dead_peer_fails) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  Transport transport(ends[0], "pair");
  try {
    transport.write(std::string(8 << 20, 'x'), in(50));
    FAIL() << "taken by nobody";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kTimedOut);
  }
  close(ends[1]);
  try {
    transport.write("x", in(50));
    FAIL() << "nobody is there";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kDied);
  }
}

TEST_F(TransportTest, takes_no_more_than_its_pace_allows) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  Transport transport(ends[0], "pair");
  constexpr std::size_t kBytes = 2304;  // 200 ms
  const std::string sent(kBytes, 'x');
  ASSERT_EQ(write(ends[1], sent.data(), kBytes), static_cast<ssize_t>(kBytes));
  transport.pace(115200);
  const auto begun = Clock::now();
  char room[kBytes];
  std::size_t got = 0;
  while (got < kBytes) {
    const auto count = transport.read(room, in(5000));
    ASSERT_TRUE(count.has_value());
    got += *count;
    const auto passed = Clock::now() - begun + Transport::kPaceSlack;
    ASSERT_LE(got, static_cast<std::size_t>(std::chrono::duration<double>(passed).count() * 11520) + 1);
  }
  close(ends[1]);
}

TEST_F(TransportTest, with_a_pace_still_sees_the_deadline_and_the_end) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  Transport transport(ends[0], "pair");
  transport.pace(300);  // 33 ms a byte
  char room[16];
  EXPECT_EQ(transport.read(room, in(1)), 0u);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  std::size_t got = 0;
  while (got == 0) got = transport.read(room, in(5)).value_or(9);
  EXPECT_EQ(got, 1u);
  close(ends[1]);
  EXPECT_FALSE(transport.read(room, in(5000)).has_value());
}

}  // namespace host_transport_test
