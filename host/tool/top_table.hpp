#pragma once
/// The contents of `qm top`: the counters of a stream as rows, and the keys that select rows.

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <qm/host/events.hpp>

namespace qm::tool {

/// The selection and order of the rows. Keys change it, similar to slabtop and htop.
class TopView {
 public:
  enum class Key : std::uint8_t { kBytes, kGrowth, kObjects, kAllocations, kFrees, kName };

  /// @param[in] key bytes, growth, objects, allocs, frees or name. @returns false for any other key.
  bool sort_by(std::string_view key);
  [[nodiscard]] static std::string_view name(Key key);

  /// Processes typed keys. @returns whether the program ends: q, or Ctrl-C.
  bool type(std::string_view keys);

  /// Whether the filter, a pattern with * and ? or a part of the name, accepts a name.
  [[nodiscard]] bool passes(const std::string& name) const;
  /// @returns the last line: the list of keys, or the filter while it is typed.
  [[nodiscard]] std::string prompt() const;
  /// @returns the help for the keys, one line each.
  [[nodiscard]] static std::vector<std::string> help();

  Key sort = Key::kBytes;
  bool reversed = false;  ///< smallest first, or names in descending order
  bool paused = false;    ///< the table is not updated
  bool shows_help = false;
  std::string filter;         ///< empty: all
  std::size_t first_row = 0;  ///< rows scrolled off above the screen
  std::size_t columns = 80;   ///< columns of the screen
  bool utf8 = false;          ///< the terminal can show bars of eight heights

 private:
  bool press(char key);

  bool types_filter_ = false;
  std::string former_;  // the filter before the user began to type a new one
  std::string escape_;  // the escape sequence that has begun
};

/// The target's counters. They come from its statistics, which arrive once a second even if events are dropped. The
/// number of events that have arrived by then shows how far the line lags.
class TopTable : public host::EventHandler {
 public:
  using Clock = std::chrono::steady_clock;
  void on_header(const host::Definitions& definitions) override;
  void on_event(const host::Event& event) override;
  void on_gap(const host::Gap& gap) override;
  void on_mode(const host::ModeChange& change) override { mode_ = change.mode; }
  void on_statistics(const host::Statistics& statistics) override;

  /// Updates rates and bars with the statistics that came since the last call, if there are any.
  void look();
  /// @param[in] rows at most this many lines. @returns the lines, without line ends: two with totals, one with
  ///          headings, then the rows.
  [[nodiscard]] std::vector<std::string> lines(const TopView& view, std::size_t rows,
                                               Clock::time_point now = Clock::now()) const;

 private:
  struct Row {
    std::string name;
    std::int64_t objects = 0, bytes = 0, growth = 0;
    double allocations = 0, frees = 0;  // per second
    // false for an arena whose segments from before the stream are not known in bytes
    bool is_exact = true;
    const std::deque<std::int64_t>* past = nullptr;
  };
  [[nodiscard]] std::vector<Row> rows() const;
  [[nodiscard]] Row row(std::uint32_t number, const host::Counters& now) const;
  [[nodiscard]] std::string state(Clock::time_point now) const;
  [[nodiscard]] double seconds(std::uint64_t from, std::uint64_t to) const;
  [[nodiscard]] std::int64_t difference(std::uint64_t now, std::uint64_t before) const;

  const host::Definitions* definitions_ = nullptr;
  host::Statistics latest_;          // the last statistics received
  host::Statistics before_, shown_;  // the statistics of the last two updates, from which rates are computed
  std::map<std::uint32_t, std::deque<std::int64_t>> past_;           // bytes, one value for each update
  Clock::time_point told_;                                           // time at which latest_ was received
  std::uint64_t arrived_ = 0, lost_on_line_ = 0, newest_ticks_ = 0;  // of events
  // events that had not arrived when latest_ was received
  std::uint64_t behind_ = 0;
  double behind_seconds_ = 0;  // their greatest age
  host::StreamMode mode_ = host::StreamMode::kFull;
};

/// Draws the last @p columns values as bars, scaled from the smallest to the largest of these values.
/// @returns @p columns columns.
[[nodiscard]] std::string sparkline(const std::deque<std::int64_t>& values, std::size_t columns, bool utf8);

}  // namespace qm::tool
