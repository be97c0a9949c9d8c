#pragma once
/// What `qm top` shows: the counters of a stream as rows, and the keys that choose among them.

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <qm/host/events.hpp>

namespace qm::tool {

/// How the rows are chosen and shown. Changed by keys, as users of slabtop and htop press them.
class TopView {
 public:
  enum class Key : std::uint8_t { kBytes, kGrowth, kObjects, kAllocations, kFrees, kName };

  /// @param[in] key bytes, growth, objects, allocs, frees or name. @returns false for another.
  bool sort_by(std::string_view key);
  [[nodiscard]] static std::string_view name(Key key);

  /// Takes what was typed. @returns whether it is the end: q, or Ctrl-C.
  bool type(std::string_view keys);

  /// Whether the filter lets a name pass: a pattern with * and ?, or a part of the name.
  [[nodiscard]] bool passes(const std::string& name) const;
  /// The last line: what keys there are, or the filter while it is typed.
  [[nodiscard]] std::string prompt() const;
  /// What the keys do, a line each.
  [[nodiscard]] static std::vector<std::string> help();

  Key sort = Key::kBytes;
  bool reversed = false;  ///< smallest first, names from the end
  bool paused = false;    ///< what is shown stays
  bool shows_help = false;
  std::string filter;         ///< empty: all
  std::size_t first_row = 0;  ///< rows above the screen
  std::size_t columns = 80;   ///< of the screen
  bool utf8 = false;          ///< the terminal has bars of eight heights

 private:
  bool press(char key);

  bool types_filter_ = false;
  std::string former_;  // the filter before it was typed anew
  std::string escape_;  // of a sequence that has begun
};

/// What the target has counted: from its statistics, which come once a second whatever becomes of the events. How many of
/// these have arrived says how far the line lags.
class TopTable : public host::EventHandler {
 public:
  using Clock = std::chrono::steady_clock;
  void on_header(const host::Definitions& definitions) override;
  void on_event(const host::Event& event) override;
  void on_gap(const host::Gap& gap) override;
  void on_mode(const host::ModeChange& change) override { mode_ = change.mode; }
  void on_statistics(const host::Statistics& statistics) override;

  /// Takes over what was told since, for rates and the bars, unless nothing was.
  void look();
  /// @param[in] rows at most so many. @returns a line each, without line ends: two of totals, a head, the rows.
  [[nodiscard]] std::vector<std::string> lines(const TopView& view, std::size_t rows,
                                               Clock::time_point now = Clock::now()) const;

 private:
  struct Row {
    std::string name;
    std::int64_t objects = 0, bytes = 0, growth = 0;
    double allocations = 0, frees = 0;  // a second
    bool is_exact = true;               // of an arena: what lay in it when the stream began is not told in bytes
    const std::deque<std::int64_t>* past = nullptr;
  };
  [[nodiscard]] std::vector<Row> rows() const;
  [[nodiscard]] Row row(std::uint32_t number, const host::Counters& now) const;
  [[nodiscard]] std::string state(Clock::time_point now) const;
  [[nodiscard]] double seconds(std::uint64_t from, std::uint64_t to) const;
  [[nodiscard]] std::int64_t difference(std::uint64_t now, std::uint64_t before) const;

  const host::Definitions* definitions_ = nullptr;
  host::Statistics latest_;          // as told last
  host::Statistics before_, shown_;  // what rates are taken from: of the last look and the one before
  std::map<std::uint32_t, std::deque<std::int64_t>> past_;           // bytes, one a look
  Clock::time_point told_;                                           // when the latest came
  std::uint64_t arrived_ = 0, lost_on_line_ = 0, newest_ticks_ = 0;  // of events
  std::uint64_t behind_ = 0;                                         // events that had not arrived when the latest came
  double behind_seconds_ = 0;                                        // how old they were at most
  host::StreamMode mode_ = host::StreamMode::kFull;
};

/// Bars of the height of the values, the last ones that fit, from their least to their most.
/// @returns @p columns columns.
[[nodiscard]] std::string sparkline(const std::deque<std::int64_t>& values, std::size_t columns, bool utf8);

}  // namespace qm::tool
