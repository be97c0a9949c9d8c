// A program that the host's side takes for QEMU (QM_QEMU): it opens the serial line's socket and serves a fake console
// there. QM_FAKE in the environment makes it misbehave: `exit` (ends at once), `deaf` (never opens the line), `mute`
// (opens the line and sends nothing), `crash` (ends in the middle of its boot), `stuck` (stays after poweroff).

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "fake_console.hpp"

namespace {

std::string socket_path(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const std::size_t path = argument.find(",path=");
    if (argument.starts_with("socket,") && path != std::string::npos) {
      return argument.substr(path + 6, argument.find(',', path + 6) - path - 6);
    }
  }
  return "";
}

int open_line(const std::string& path) {
  // The socket gets its final name when it listens, so a client that sees it can connect.
  const std::string unnamed = path + ".new";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", unnamed.c_str());
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || listen(listener, 1) != 0 ||
      std::rename(unnamed.c_str(), path.c_str()) != 0) {
    std::perror("fake QEMU");
    std::exit(1);
  }
  return accept(listener, nullptr, nullptr);
}

}  // namespace

int main(int count, char** arguments) {
  const char* named = std::getenv("QM_FAKE");
  const std::string mode = named == nullptr ? "" : named;
  if (mode == "exit") {
    std::fprintf(stderr, "fake QEMU: no such machine\n");
    return 7;
  }
  if (mode == "deaf") pause();
  const int line = open_line(socket_path(count, arguments));
  if (mode == "mute") pause();
  if (mode == "crash") {
    const ssize_t written = write(line, "Quarterm", 8);
    return written == 8 ? 5 : 1;
  }
  qm::test::FakeConsole console(line);
  console.boot();
  const int status = console.serve();
  if (mode == "stuck") pause();
  return status < 0 ? 0 : status;
}
