#include "top.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <qm/host/stream_reader.hpp>
#include <qm/wire/stream.hpp>

#include "commands.hpp"
#include "recorder.hpp"
#include "terminal.hpp"
#include "top_table.hpp"

namespace qm::tool {
namespace {

constexpr host::Milliseconds kSlice{100};
constexpr host::Milliseconds kEndSilence{2000};
constexpr std::size_t kRowsInText = 20;
constexpr std::string_view kEnterScreen = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kLeaveScreen = "\x1b[?25h\x1b[?1049l";

void put(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Whether the terminal supports UTF-8, by the first of these variables that is set.
bool has_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == 0) continue;
    const std::string_view locale(value);
    return locale.find("UTF-8") != std::string_view::npos || locale.find("utf8") != std::string_view::npos;
  }
  return false;
}

/// @returns the beginning of @p line that fits into @p columns columns.
std::string_view fitting(std::string_view line, std::size_t columns) {
  std::size_t at = 0;
  for (std::size_t shown = 0; at < line.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(line[at]) & 0xc0) != 0x80;  // the first byte of a UTF-8 character
    if (begins && shown++ == columns) break;
  }
  return line.substr(0, at);
}

/// Uses the whole screen during its lifetime.
class Screen {
 public:
  Screen() { put(kEnterScreen); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen() { put(kLeaveScreen); }

  [[nodiscard]] static winsize size() {
    winsize window{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_row < 4 || window.ws_col < 20)
      return {24, 80, 0, 0};
    return window;
  }
  static void show(const std::vector<std::string>& lines, const TopView& view) {
    const winsize window = size();
    std::string text = "\x1b[H";
    for (std::size_t row = 0; row + 1 < window.ws_row; ++row) {
      const bool is_head = row == 2 && lines.size() > 3 && !view.shows_help;
      if (is_head) text += "\x1b[7m";
      if (row < lines.size()) text += fitting(lines[row], window.ws_col - 1u);
      if (is_head) text += "\x1b[m";
      text += "\x1b[K\r\n";
    }
    put(text + std::string(fitting(view.prompt(), window.ws_col - 1u)) + "\x1b[K");
  }
};

/// Processes typed keys. @returns whether there were any; sets @p ends if one of them ends the program.
bool take_keys(TopView& view, bool& ends) {
  pollfd watched{STDIN_FILENO, POLLIN, 0};
  char keys[64];
  if (poll(&watched, 1, 0) <= 0) return false;
  const ssize_t count = read(STDIN_FILENO, keys, sizeof keys);
  if (count <= 0) return false;
  ends = view.type({keys, static_cast<std::size_t>(count)});
  return true;
}

void watch(host::Target& target, host::StreamReader& streams, TopTable& table, TopView view, const TopOptions& options,
           bool whole_screen) {
  std::optional<RawTerminal> raw;
  std::optional<Screen> screen;
  if (whole_screen) {
    raw.emplace();
    screen.emplace();
    view.utf8 = has_utf8();
  }
  const auto seconds_after = [](host::Clock::time_point from, double seconds) {
    return from + std::chrono::duration_cast<host::Clock::duration>(std::chrono::duration<double>(seconds));
  };
  const auto start = host::Clock::now();
  auto looked = start;
  while (options.seconds <= 0 || host::Clock::now() < seconds_after(start, options.seconds)) {
    (void)target.console().pump(host::Clock::now() + kSlice);
    bool ends = false;
    const bool typed = whole_screen && take_keys(view, ends);
    if (ends) return;
    const auto now = host::Clock::now();
    const bool is_time = now >= seconds_after(looked, options.every_seconds);
    if (!is_time && !typed) continue;
    if (is_time) {
      looked = now;
      // The header and the names of a stream that began earlier have been sent already.
      if (streams.wants_definitions()) ask_for_definitions(target.console(), streams);
      if (!view.paused) table.look();
    }
    if (whole_screen) {
      const winsize window = Screen::size();
      view.columns = window.ws_col;
      Screen::show(table.lines(view, window.ws_row - 4u), view);
    } else {
      for (const std::string& line : table.lines(view, kRowsInText)) fmt::print("{}\n", line);
      put("\n");
    }
  }
}

}  // namespace

int top(const TopOptions& options) {
  host::Target target = host::Target::attach(options.serial, options.baud, options.timeouts);
  const Interruptible interruptible;
  TopView view;
  (void)view.sort_by(options.sort);
  view.filter = options.filter;
  TopTable table;
  host::StreamReader streams(table);
  target.console().on_stream([&](const wire::Frame& frame) { (void)streams.take(frame); });
  if (!options.start.empty() && !start_stream(target, options.start)) return kCommandFailed;
  try {
    watch(target, streams, table, view, options, isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0);
  } catch (const host::Error& error) {
    if (error.fault() != host::Fault::kInterrupted) throw;
  }
  if (!options.start.empty() && target.execute("kmemtrace stop").ok()) {
    while (streams.running() && target.console().pump(host::Clock::now() + kEndSilence)) {
    }
  }
  return kOk;
}

}  // namespace qm::tool
