#include "top_table.hpp"

#include <fmt/core.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <utility>

#include <qm/host/counted.hpp>

namespace qm::tool {
namespace {

// The target sends its statistics once a second, and sends a hart's events only when it has gathered this many.
constexpr double kStatisticsLate = 2.5;
constexpr std::uint64_t kGathered = 64;
constexpr std::size_t kPast = 120;       // updates that the bars can show
constexpr std::size_t kBeforeBars = 68;  // columns of a row before the bars
constexpr char kControlC = 3;
constexpr char kEscape = 0x1b;
constexpr char kDelete = 0x7f;

struct Sort {
  TopView::Key key;
  std::string_view name;
  char letter;
};
using Key = TopView::Key;
constexpr std::array<Sort, 6> kSorts = {{{Key::kBytes, "bytes", 'b'},
                                         {Key::kGrowth, "growth", 'g'},
                                         {Key::kObjects, "objects", 'o'},
                                         {Key::kAllocations, "allocs", 'a'},
                                         {Key::kFrees, "frees", 'f'},
                                         {Key::kName, "name", 'n'}}};

}  // namespace

// ---- keys -----------------------------------------------------------------------------------------------------------

bool TopView::sort_by(std::string_view key) {
  for (const Sort& each : kSorts) {
    if (each.name != key) continue;
    sort = each.key;
    return true;
  }
  return false;
}

std::string_view TopView::name(Key key) {
  for (const Sort& each : kSorts) {
    if (each.key == key) return each.name;
  }
  return "";
}

bool TopView::type(std::string_view keys) {
  for (const char key : keys) {
    if (press(key)) return true;
  }
  // A lone escape character is the Esc key.
  if (escape_ == std::string(1, kEscape)) {
    escape_.clear();
    if (types_filter_) filter = former_;
    types_filter_ = shows_help = false;
  }
  return false;
}

bool TopView::press(char key) {
  if (!escape_.empty()) {
    escape_ += key;
    if (key == '[' || key == 'O' || (key >= '0' && key <= '9') || key == ';') return false;
    const std::string sequence = std::exchange(escape_, {});
    const std::size_t page = 10;
    if (key == 'A') first_row -= std::min<std::size_t>(first_row, 1);
    if (key == 'B') ++first_row;
    if (sequence == "\x1b[5~") first_row -= std::min(first_row, page);
    if (sequence == "\x1b[6~") first_row += page;
    if (key == 'H' || sequence == "\x1b[1~") first_row = 0;
    return false;
  }
  if (key == kControlC) return true;
  if (key == kEscape) {
    escape_ = key;
  } else if (types_filter_) {
    if (key == '\r' || key == '\n') types_filter_ = false;
    else if (key == kDelete || key == '\b') filter.resize(filter.size() - (filter.empty() ? 0 : 1));
    else if (key > ' ') filter += key;
    first_row = 0;
  } else if (key == '/' || key == '\\') {
    types_filter_ = true;
    former_ = std::exchange(filter, {});
  } else if (key == 'p' || key == ' ') {
    paused = !paused;
  } else if (key == 'r' || key == 'I') {
    reversed = !reversed;
  } else if (key == 'h' || key == '?') {
    shows_help = !shows_help;
  } else {
    for (const Sort& each : kSorts) {
      if (key == each.letter) sort = each.key, first_row = 0;
    }
  }
  return key == 'q' && !types_filter_;
}

bool TopView::passes(const std::string& name) const {
  const bool is_pattern = filter.find_first_of("*?") != std::string::npos;
  return filter.empty() ||
         (is_pattern ? fnmatch(filter.c_str(), name.c_str(), 0) == 0 : name.find(filter) != std::string::npos);
}

std::string TopView::prompt() const {
  if (types_filter_) return "filter: " + filter;
  return fmt::format("{}q ends, h helps, / filters{}", paused ? "paused; " : "", filter.empty() ? "" : ": " + filter);
}

std::vector<std::string> TopView::help() {
  return {"b g o a f n   sort by bytes, growth, objects, allocs, frees, name",
          "r             the other way round",
          "/             show what has the text in its name, or a pattern with * and ?;",
          "              Enter keeps it, Esc leaves it as it was",
          "Up Down Home  rows further up and down; Page Up and Page Down",
          "p, space      pause",
          "h             this, and back",
          "q             ends",
          "",
          "bytes    what users hold; ~ where the target does not tell what lay in an",
          "         arena when the stream began",
          "growth   bytes since the stream began",
          "allocs/s, frees/s    by the target's own counters, between two looks",
          "lag      how old the events are that have not arrived"};
}

// ---- the counters ---------------------------------------------------------------------------------------------------

void TopTable::on_header(const host::Definitions& definitions) {
  *this = {};
  definitions_ = &definitions;
  mode_ = definitions.header.mode;
  newest_ticks_ = shown_.ticks = definitions.header.start_ticks;
}

void TopTable::on_event(const host::Event& event) {
  ++arrived_;
  newest_ticks_ = std::max(newest_ticks_, event.ticks);
}

void TopTable::on_gap(const host::Gap& gap) { lost_on_line_ += gap.why == host::Missing::kLine ? gap.events : 0; }

void TopTable::on_statistics(const host::Statistics& statistics) {
  latest_ = statistics;
  told_ = Clock::now();
  std::uint64_t written = 0;
  for (const auto& [hart, counters] : latest_.harts) written += counters.events;
  behind_ = written - std::min(written, arrived_ + lost_on_line_);
  behind_seconds_ = seconds(newest_ticks_, latest_.ticks);
}

double TopTable::seconds(std::uint64_t from, std::uint64_t to) const {
  const std::uint64_t rate = definitions_->header.ticks_per_second;
  return rate != 0 && to > from ? static_cast<double>(to - from) / static_cast<double>(rate) : 0;
}

/// @returns the increase between two values of a counter, which wraps on a target with 32-bit words.
std::int64_t TopTable::difference(std::uint64_t now, std::uint64_t before) const {
  const bool narrow = definitions_->header.pointer_bytes == 4;
  return narrow ? static_cast<std::int32_t>(now - before) : static_cast<std::int64_t>(now - before);
}

TopTable::Row TopTable::row(std::uint32_t number, const host::Counters& now) const {
  Row row;
  const auto known = definitions_->traceables.find(number);
  row.name = known != definitions_->traceables.end() ? known->second.name : fmt::format("number {}", number);
  row.objects = difference(now.allocations, now.frees);
  row.bytes = row.growth = difference(now.allocated, now.freed);
  if (known == definitions_->traceables.end()) return row;
  const host::Traceable& source = known->second;
  row.objects += static_cast<std::int64_t>(source.outstanding);
  if (source.arena) {
    row.is_exact = source.outstanding == 0;
  } else {
    row.bytes += static_cast<std::int64_t>(source.outstanding * source.allocated_bytes);
  }
  return row;
}

std::vector<TopTable::Row> TopTable::rows() const {
  std::vector<Row> all;
  const double passed = seconds(before_.ticks, shown_.ticks);
  for (const auto& [number, now] : shown_.traceables) {
    Row& one = all.emplace_back(row(number, now));
    if (const auto past = past_.find(number); past != past_.end()) one.past = &past->second;
    const auto found = before_.traceables.find(number);
    const host::Counters before = found != before_.traceables.end() ? found->second : host::Counters{};
    if (passed == 0) continue;
    one.allocations = static_cast<double>(difference(now.allocations, before.allocations)) / passed;
    one.frees = static_cast<double>(difference(now.frees, before.frees)) / passed;
  }
  return all;
}

std::string TopTable::state(Clock::time_point now) const {
  std::uint64_t written = 0, dropped = 0;
  for (const auto& [hart, counters] : shown_.harts) written += counters.events, dropped += counters.overruns;
  std::string text = fmt::format("after {:.1f} s: {}, dropped {}, lost on the line {}",
                                 seconds(definitions_->header.start_ticks, shown_.ticks),
                                 host::counted(written, "event"), dropped, lost_on_line_);
  const auto age = std::chrono::duration<double>(now - told_).count();
  if (age > kStatisticsLate) text += fmt::format("; no counters for {:.0f} s", age);
  if (mode_ != host::StreamMode::kFull)
    text += mode_ == host::StreamMode::kSampled ? "; events are a sample" : "; no events, counters only";
  return text;
}

void TopTable::look() {
  if (definitions_ == nullptr || latest_.harts.empty() || latest_.ticks == shown_.ticks) return;
  before_ = std::exchange(shown_, latest_);
  for (const auto& [number, now] : shown_.traceables) {
    std::deque<std::int64_t>& past = past_[number];
    past.push_back(row(number, now).bytes);
    if (past.size() > kPast) past.pop_front();
  }
}

// ---- the screen -----------------------------------------------------------------------------------------------------

std::string sparkline(const std::deque<std::int64_t>& values, std::size_t columns, bool utf8) {
  static constexpr std::array<std::string_view, 8> kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr std::string_view kMarks = "_.-=+*%#";
  const std::size_t shown = std::min(values.size(), columns);
  std::string text(columns - shown, ' ');
  if (shown == 0) return text;
  const auto first = values.end() - static_cast<std::ptrdiff_t>(shown);
  const auto [least, most] = std::minmax_element(first, values.end());
  const double span = static_cast<double>(*most) - static_cast<double>(*least);
  for (auto at = first; at != values.end(); ++at) {
    const double part = span == 0 ? 0 : (static_cast<double>(*at) - static_cast<double>(*least)) / span;
    const auto height = static_cast<std::size_t>(part * 7 + 0.5);
    if (utf8) text += kBars[height];
    else text += kMarks[height];
  }
  return text;
}

std::vector<std::string> TopTable::lines(const TopView& view, std::size_t rows_at_most, Clock::time_point now) const {
  if (view.shows_help) return TopView::help();
  if (definitions_ == nullptr) return {"no event stream yet (kmemtrace start)"};
  if (latest_.harts.empty()) return {"no counters yet: they come once a second"};
  std::vector<Row> all = rows();
  std::int64_t bytes = 0, growth = 0;
  for (const Row& each : all) bytes += each.bytes, growth += each.growth;
  std::erase_if(all, [&](const Row& each) { return !view.passes(each.name); });
  const auto less = [&](const Row& a, const Row& b) {  // the order of the rows
    switch (view.sort) {
      case Key::kGrowth: return a.growth > b.growth;
      case Key::kObjects: return a.objects > b.objects;
      case Key::kAllocations: return a.allocations > b.allocations;
      case Key::kFrees: return a.frees > b.frees;
      case Key::kName: return a.name < b.name;
      case Key::kBytes: break;
    }
    return a.bytes > b.bytes;
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const Row& a, const Row& b) { return view.reversed ? less(b, a) : less(a, b); });
  std::vector<std::string> lines{state(now)};
  const double lag = behind_ > kGathered * shown_.harts.size() ? behind_seconds_ : 0;
  lines.push_back(fmt::format("{} bytes held, {:+} since the stream began; lag {:.1f} s; by {}{}", bytes, growth, lag,
                              TopView::name(view.sort), view.reversed ? ", reversed" : ""));
  lines.push_back(fmt::format("{:<18}{:>9}{:>11}{:>11}{:>9}{:>9} {}", fmt::format("rows {}", all.size()), "objects",
                              "bytes", "growth", "allocs/s", "frees/s", "bytes then"));
  const std::size_t bars = view.columns > kBeforeBars + 1 ? std::min(view.columns - kBeforeBars - 1, kPast) : 0;
  for (std::size_t at = std::min(view.first_row, all.empty() ? 0 : all.size() - 1);
       at < all.size() && lines.size() < rows_at_most + 3; ++at) {
    const Row& each = all[at];
    const std::string held = fmt::format("{}{}", each.is_exact ? "" : "~", each.bytes);
    const std::string name =
        each.name.size() <= 18 ? each.name : each.name.substr(0, 9) + '~' + each.name.substr(each.name.size() - 8);
    lines.push_back(fmt::format("{:<18}{:>9}{:>11}{:>+11}{:>9.0f}{:>9.0f} {}", name, each.objects, held, each.growth,
                                each.allocations, each.frees,
                                each.past != nullptr ? sparkline(*each.past, bars, view.utf8) : ""));
  }
  return lines;
}

}  // namespace qm::tool
