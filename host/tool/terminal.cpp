#include "terminal.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>
#include <utility>

#include "cleanup.hpp"

namespace qm::tool {
namespace {

constexpr char kControlA = 0x01;
constexpr std::string_view kHelp =
    "\r\nCtrl-A x leaves, Ctrl-A Ctrl-A sends Ctrl-A, any other key after Ctrl-A shows this\r\n";

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(STDOUT_FILENO, text.data(), text.size());
    if (count > 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      throw host::Error(host::Fault::kOpen, "the terminal does not take the text any more");
    }
  }
}

/// Separates the keys for this program from the keys for the target.
class Keys {
 public:
  /// @returns false when the user leaves. Sets @p out to the keys for the target.
  bool take(std::string_view keys, std::string& out) {
    for (const char key : keys) {
      if (!escape_) {
        escape_ = key == kControlA;
        if (!escape_) out += key;
        continue;
      }
      escape_ = false;
      if (key == 'x' || key == 'X') return false;
      if (key == kControlA || key == 'a') {
        out += kControlA;
      } else {
        write_all(kHelp);
      }
    }
    return true;
  }

 private:
  bool escape_ = false;
};

/// Tells the target the number of the terminal's columns: after the target's first prompt, and when the number changes.
class Width {
 public:
  /// @param[in] text output of the target.
  void look_for_prompt(std::string_view text) {
    for (const char c : text) {
      tail_ = c == '\n' ? std::string() : tail_ + c;
      for (const std::string_view prompt : {"qm> ", "panic> "}) {
        if (tail_ == prompt && prompt != prompt_) prompt_ = prompt, told_ = kUsual;  // another console begins
      }
    }
    if (tail_.size() > kUsual) tail_.resize(kUsual);
  }
  /// @returns the message for the target; empty: nothing has changed.
  std::string news() {
    winsize window{};
    if (prompt_.empty() || ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0) return {};
    const unsigned columns = std::min<unsigned>(window.ws_col, kUsual);
    if (std::exchange(told_, columns) == columns) return {};
    return "\x1b[8;" + std::to_string(window.ws_row) + ';' + std::to_string(columns) + 't';
  }

 private:
  static constexpr unsigned kUsual = 80;  // the console's default
  std::string tail_;
  std::string_view prompt_;
  unsigned told_ = kUsual;
};

/// Makes a change of the window's size end a poll().
void notice_windows() {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(SIGWINCH, &action, nullptr);
}

}  // namespace

RawTerminal::RawTerminal() {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0 || tcgetattr(STDIN_FILENO, &saved_) != 0) {
    throw host::Error(host::Fault::kOpen,
                      "standard input and output are not a terminal; without one, give commands with -c 'COMMAND'");
  }
  remember_terminal(&saved_);
  termios raw = saved_;
  cfmakeraw(&raw);
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

RawTerminal::~RawTerminal() {
  tcsetattr(STDIN_FILENO, TCSANOW, &saved_);
  remember_terminal(nullptr);
}

Left converse(host::Console& console, host::Milliseconds first) {
  const auto deadline = host::Clock::now() + first;
  bool heard = first.count() == 0;
  Width width;
  notice_windows();
  console.on_text([&](std::string_view text) {
    heard = true;
    write_all(text);
    width.look_for_prompt(text);
  });
  struct Silence {
    host::Console& console;
    ~Silence() { console.on_text({}); }
  } silence{console};
  Keys keys;
  for (;;) {
    pollfd watched[2] = {{STDIN_FILENO, POLLIN, 0}, {console.transport().descriptor(), POLLIN, 0}};
    const int timeout = console.holds_bytes() ? 50 : heard ? -1 : 250;
    const bool signalled = poll(watched, 2, timeout) < 0;  // a signal, for example after a resize
    if (const std::string news = width.news(); !news.empty()) console.type(news);
    if (signalled) continue;
    try {
      (void)console.pump(host::Clock::now());
    } catch (const host::Error& error) {
      if (error.fault() == host::Fault::kDied) return Left::kByTarget;
      throw;
    }
    if (!heard && host::Clock::now() >= deadline) {
      throw host::Error(host::Fault::kNoAnswer, "the target hangs while it boots: it has said nothing at all");
    }
    if (watched[0].revents == 0) continue;
    char input[512];
    const ssize_t count = read(STDIN_FILENO, input, sizeof input);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    std::string out;
    const bool stays = count > 0 && keys.take({input, static_cast<std::size_t>(count)}, out);
    if (!out.empty()) console.type(out);
    if (!stays) return Left::kByKey;
  }
}

}  // namespace qm::tool
