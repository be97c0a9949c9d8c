#include "top.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include <qm/host/model.hpp>
#include <qm/host/stream_reader.hpp>
#include <qm/wire/stream.hpp>

#include "commands.hpp"
#include "recorder.hpp"
#include "terminal.hpp"

namespace qm::tool {
namespace {

constexpr host::Milliseconds kSlice{100};
constexpr host::Milliseconds kEndSilence{2000};
constexpr std::string_view kEnterScreen = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kLeaveScreen = "\x1b[?25h\x1b[?1049l";

void put(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// What has passed since the stream began, and since the last look.
class Live : public host::EventHandler {
 public:
  void on_header(const host::Definitions& definitions) override {
    definitions_ = &definitions;
    model_ = std::make_unique<host::Model>(definitions);
    before_.clear();
    overruns_ = missing_ = 0;
  }
  void on_event(const host::Event& event) override { (void)model_->apply(event); }
  void on_gap(const host::Gap& gap) override {
    (gap.why == host::Missing::kOverrun ? overruns_ : missing_) += gap.events;
  }
  void on_mode(const host::ModeChange& change) override { mode_ = change.mode; }

  /// @param[in] rows at most so many, those that hold most first. @returns a line each, without line ends.
  [[nodiscard]] std::vector<std::string> table(double seconds, std::size_t rows);

 private:
  struct Row {
    std::string name;
    std::int64_t objects = 0, bytes = 0;
    bool knows_bytes = true;
    double allocations = 0, frees = 0;  // a second
  };
  [[nodiscard]] std::vector<Row> rows(double seconds);

  const host::Definitions* definitions_ = nullptr;
  std::unique_ptr<host::Model> model_;
  std::map<std::uint32_t, host::Counters> before_;
  std::uint64_t overruns_ = 0, missing_ = 0;
  host::StreamMode mode_ = host::StreamMode::kFull;
};

std::vector<Live::Row> Live::rows(double seconds) {
  std::vector<Row> all;
  for (const auto& [number, counters] : model_->traceables()) {
    Row& row = all.emplace_back();
    const auto known = definitions_->traceables.find(number);
    row.name = known != definitions_->traceables.end() ? known->second.name : fmt::format("number {}", number);
    row.objects = static_cast<std::int64_t>(counters.allocations - counters.frees);
    row.knows_bytes = model_->knows_freed_bytes(number);
    if (row.knows_bytes) row.bytes = static_cast<std::int64_t>(counters.allocated - counters.freed);
    const host::Counters& before = before_[number];
    row.allocations = static_cast<double>(counters.allocations - before.allocations) / seconds;
    row.frees = static_cast<double>(counters.frees - before.frees) / seconds;
  }
  before_ = model_->traceables();
  std::stable_sort(all.begin(), all.end(), [](const Row& a, const Row& b) { return a.bytes > b.bytes; });
  return all;
}

std::vector<std::string> Live::table(double seconds, std::size_t rows_at_most) {
  if (model_ == nullptr) return {"no event stream yet (kmemtrace start)"};
  std::vector<std::string> lines;
  std::string state =
      fmt::format("{} events, freed on another hart {}, lost {}: {}", model_->events(), model_->crossed(),
                  overruns_ + missing_, overruns_ + missing_ == 0 ? "complete" : "incomplete");
  if (mode_ != host::StreamMode::kFull) state += mode_ == host::StreamMode::kSampled ? ", a sample" : ", counters only";
  lines.push_back(std::move(state));
  lines.push_back(fmt::format("{:<24} {:>12} {:>14} {:>12} {:>12}", "since the stream began", "objects", "bytes",
                              "allocs/s", "frees/s"));
  for (const Row& row : rows(seconds)) {
    if (lines.size() >= rows_at_most + 2) break;
    lines.push_back(fmt::format("{:<24.24} {:>+12} {:>14} {:>12.0f} {:>12.0f}", row.name, row.objects,
                                row.knows_bytes ? fmt::format("{:+}", row.bytes) : "?", row.allocations, row.frees));
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

void watch(host::Target& target, Live& live, const TopOptions& options, bool whole_screen) {
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
    const std::chrono::duration<double> passed = now - shown;
    shown = now;
    const std::vector<std::string> lines = live.table(passed.count(), whole_screen ? Screen::size().ws_row - 3u : 20);
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
    watch(target, live, options, isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0);
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
