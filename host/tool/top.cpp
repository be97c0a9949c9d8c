#include "top.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <qm/host/counted.hpp>
#include <qm/host/stream_reader.hpp>
#include <qm/wire/stream.hpp>

#include "commands.hpp"
#include "recorder.hpp"
#include "terminal.hpp"

namespace qm::tool {
namespace {

constexpr host::Milliseconds kSlice{100};
constexpr host::Milliseconds kEndSilence{2000};
// The target sends its statistics once a second, and gathers so many events of a hart before it sends them.
constexpr double kStatisticsLate = 2.5;
constexpr std::uint64_t kGathered = 64;
constexpr std::string_view kEnterScreen = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kLeaveScreen = "\x1b[?25h\x1b[?1049l";

void put(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// What the target has counted since the stream began: from its statistics, which come once a second whatever becomes of
/// the events. How many of these have arrived says how far the line lags.
class Live : public host::EventHandler {
 public:
  void on_header(const host::Definitions& definitions) override {
    *this = {};
    definitions_ = &definitions;
    mode_ = definitions.header.mode;
    newest_ticks_ = shown_.ticks = definitions.header.start_ticks;
  }
  void on_event(const host::Event& event) override {
    ++arrived_;
    newest_ticks_ = std::max(newest_ticks_, event.ticks);
  }
  void on_gap(const host::Gap& gap) override { lost_on_line_ += gap.why == host::Missing::kLine ? gap.events : 0; }
  void on_mode(const host::ModeChange& change) override { mode_ = change.mode; }
  void on_statistics(const host::Statistics& statistics) override;

  /// @param[in] rows at most so many, those that hold most first. @returns a line each, without line ends.
  [[nodiscard]] std::vector<std::string> table(std::size_t rows);

 private:
  struct Row {
    std::string name;
    std::int64_t objects = 0, bytes = 0;
    double allocations = 0, frees = 0;  // a second
  };
  [[nodiscard]] std::vector<Row> rows() const;
  [[nodiscard]] std::string state() const;
  [[nodiscard]] double seconds(std::uint64_t from, std::uint64_t to) const;
  /// What came between two values of a counter, which a target of 32-bit words wraps.
  [[nodiscard]] std::int64_t difference(std::uint64_t now, std::uint64_t before) const;

  const host::Definitions* definitions_ = nullptr;
  host::Statistics latest_;          // as told last
  host::Statistics before_, shown_;  // what rates are taken from: of the last look and the one before
  host::Clock::time_point told_;     // when the latest came
  std::uint64_t arrived_ = 0, lost_on_line_ = 0, newest_ticks_ = 0;  // of events
  std::uint64_t behind_ = 0;                                         // events that had not arrived when the latest came
  double behind_seconds_ = 0;                                        // how old they were at most
  host::StreamMode mode_ = host::StreamMode::kFull;
};

double Live::seconds(std::uint64_t from, std::uint64_t to) const {
  const std::uint64_t rate = definitions_->header.ticks_per_second;
  return rate != 0 && to > from ? static_cast<double>(to - from) / static_cast<double>(rate) : 0;
}

std::int64_t Live::difference(std::uint64_t now, std::uint64_t before) const {
  const bool narrow = definitions_->header.pointer_bytes == 4;
  return narrow ? static_cast<std::int32_t>(now - before) : static_cast<std::int64_t>(now - before);
}

void Live::on_statistics(const host::Statistics& statistics) {
  latest_ = statistics;
  told_ = host::Clock::now();
  std::uint64_t written = 0;
  for (const auto& [hart, counters] : latest_.harts) written += counters.events;
  behind_ = written - std::min(written, arrived_ + lost_on_line_);
  behind_seconds_ = seconds(newest_ticks_, latest_.ticks);
}

std::vector<Live::Row> Live::rows() const {
  std::vector<Row> all;
  const double passed = seconds(before_.ticks, shown_.ticks);
  for (const auto& [number, now] : shown_.traceables) {
    Row& row = all.emplace_back();
    const auto known = definitions_->traceables.find(number);
    row.name = known != definitions_->traceables.end() ? known->second.name : fmt::format("number {}", number);
    row.objects = difference(now.allocations, now.frees);
    row.bytes = difference(now.allocated, now.freed);
    const auto found = before_.traceables.find(number);
    const host::Counters before = found != before_.traceables.end() ? found->second : host::Counters{};
    if (passed == 0) continue;
    row.allocations = static_cast<double>(difference(now.allocations, before.allocations)) / passed;
    row.frees = static_cast<double>(difference(now.frees, before.frees)) / passed;
  }
  std::stable_sort(all.begin(), all.end(), [](const Row& a, const Row& b) { return a.bytes > b.bytes; });
  return all;
}

std::string Live::state() const {
  std::uint64_t written = 0, dropped = 0;
  for (const auto& [hart, counters] : shown_.harts) written += counters.events, dropped += counters.overruns;
  std::string text = fmt::format("after {:.1f} s: {}, dropped {}, lost on the line {}",
                                 seconds(definitions_->header.start_ticks, shown_.ticks),
                                 host::counted(written, "event"), dropped, lost_on_line_);
  if (behind_ > kGathered * shown_.harts.size())
    text += fmt::format("; the line is behind by {}, {:.1f} s", host::counted(behind_, "event"), behind_seconds_);
  const auto age = std::chrono::duration<double>(host::Clock::now() - told_).count();
  if (age > kStatisticsLate) text += fmt::format("; no counters for {:.0f} s", age);
  if (mode_ != host::StreamMode::kFull)
    text += mode_ == host::StreamMode::kSampled ? "; events are a sample" : "; no events, counters only";
  return text;
}

std::vector<std::string> Live::table(std::size_t rows_at_most) {
  if (definitions_ == nullptr) return {"no event stream yet (kmemtrace start)"};
  if (latest_.harts.empty()) return {"no counters yet: they come once a second"};
  if (latest_.ticks != shown_.ticks) before_ = std::exchange(shown_, latest_);
  std::vector<std::string> lines{state()};
  lines.push_back(fmt::format("{:<24} {:>12} {:>14} {:>12} {:>12}", "since the stream began", "objects", "bytes",
                              "allocs/s", "frees/s"));
  for (const Row& row : rows()) {
    if (lines.size() >= rows_at_most + 2) break;
    lines.push_back(fmt::format("{:<24.24} {:>+12} {:>+14} {:>12.0f} {:>12.0f}", row.name, row.objects, row.bytes,
                                row.allocations, row.frees));
  }
  return lines;
}

/// The whole screen, for as long as this lives.
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
  static void show(const std::vector<std::string>& lines) {
    const winsize window = size();
    std::string text = "\x1b[H";
    for (std::size_t row = 0; row + 1 < window.ws_row; ++row) {
      if (row < lines.size()) text += lines[row].substr(0, window.ws_col);
      text += "\x1b[K\r\n";
    }
    put(text + "q ends\x1b[K");
  }
};

/// @returns whether a key that ends was pressed.
bool ends_by_key() {
  pollfd watched{STDIN_FILENO, POLLIN, 0};
  char key = 0;
  if (poll(&watched, 1, 0) <= 0 || read(STDIN_FILENO, &key, 1) != 1) return false;
  return key == 'q' || key == 'Q' || key == 3;
}

void watch(host::Target& target, host::StreamReader& streams, Live& live, const TopOptions& options,
           bool whole_screen) {
  std::optional<RawTerminal> raw;
  std::optional<Screen> screen;
  if (whole_screen) {
    raw.emplace();
    screen.emplace();
  }
  const auto seconds_after = [](host::Clock::time_point from, double seconds) {
    return from + std::chrono::duration_cast<host::Clock::duration>(std::chrono::duration<double>(seconds));
  };
  const auto start = host::Clock::now();
  auto shown = start;
  while (options.seconds <= 0 || host::Clock::now() < seconds_after(start, options.seconds)) {
    (void)target.console().pump(host::Clock::now() + kSlice);
    if (whole_screen && ends_by_key()) return;
    const auto now = host::Clock::now();
    if (now < seconds_after(shown, options.every_seconds)) continue;
    shown = now;
    // A stream that began before has told its header and its names already.
    if (streams.wants_definitions()) ask_for_definitions(target.console(), streams);
    const std::vector<std::string> lines = live.table(whole_screen ? Screen::size().ws_row - 3u : 20);
    if (whole_screen) {
      Screen::show(lines);
    } else {
      for (const std::string& line : lines) fmt::print("{}\n", line);
      put("\n");
    }
  }
}

}  // namespace

int top(const TopOptions& options) {
  host::Target target = host::Target::attach(options.serial, options.baud, options.timeouts);
  const Interruptible interruptible;
  Live live;
  host::StreamReader streams(live);
  target.console().on_stream([&](const wire::Frame& frame) { (void)streams.take(frame); });
  if (!options.start.empty() && !start_stream(target, options.start)) return kCommandFailed;
  try {
    watch(target, streams, live, options, isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0);
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
