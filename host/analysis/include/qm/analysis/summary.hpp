#pragma once
/// Summarizes a stream of events: figures by call stack, by cache or arena, by hart, and over time.
///
/// It takes the stream event by event. Memory grows with live objects and with stacks, not with events.
///
///     live_      address -> object, origin, time  one entry for each live object, 48 bytes
///     rows_      (stack, call site) -> figures    one for each pair of the device's numbers; at the end by Origin
///     traceables_, harts_                         one entry for each
///     timeline_                                   256 buckets for each of these and for the whole
///
/// Invariants
///  1. The live figures of a row, a traceable or a hart are the sum over the entries of live_ that refer to it.
///  2. Segments of an arena become slabs and heap blocks, which have events of their own. So an arena has separate
///     figures and is in no total, unless a filter asks for it: no byte is counted twice.
///  3. A reallocation ends one object and begins another; its event counts as one hit of the new object's stack.

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include <qm/analysis/live_table.hpp>
#include <qm/analysis/origin.hpp>
#include <qm/analysis/timeline.hpp>
#include <qm/host/events.hpp>

namespace qm::analysis {

/// Sums over operations. They are exact below 2^53 where the device recorded everything, and estimates where it
/// sampled.
struct Figures {
  double allocations = 0, frees = 0;
  double requested = 0, allocated = 0, freed = 0;  ///< bytes
  double cross_hart_frees = 0;                     ///< frees by another hart than the one that allocated
  double live_objects = 0, live_requested = 0, live_bytes = 0;
  double peak_bytes = 0;  ///< the highest value of live_bytes

  /// @returns the part of the allocated bytes that was not requested, in percent: 100 - 100 * requested / allocated.
  [[nodiscard]] double waste_percent() const noexcept { return allocated > 0 ? 100 - 100 * requested / allocated : 0; }
  /// Adds up. The sum of the peaks is an upper bound, because they need not occur at the same time.
  Figures& operator+=(const Figures& other) noexcept;
};

/// Lifetimes of objects, counted by powers of two of ticks: [0] below 1, [n] below 2^n.
struct Lifetimes {
  static constexpr std::size_t kBuckets = 48;
  std::array<double, kBuckets> objects{};
  double ticks = 0;           ///< the sum
  std::uint64_t longest = 0;  ///< ticks
  Lifetimes& operator+=(const Lifetimes& other) noexcept;
};

struct SummaryOptions {
  double since_seconds = 0;  ///< only events from this many seconds after the start of the stream
  /// pattern for caches and arenas, with `*` and `?`; empty: all, with arenas apart from the totals
  std::string cache;
  std::uint32_t stream = 0;  ///< place in the capture, from 1 on; 0: the last stream
};

/// Live objects that are older than twice the longest lifetime of their stack's objects.
struct Suspects {
  double objects = 0, bytes = 0;
  std::uint64_t oldest_ticks = 0;  ///< age of the oldest
  Suspects& operator+=(const Suspects& other) noexcept;
};

class Summary final : public host::EventHandler {
 public:
  struct Row {
    std::uint32_t stack = 0, call_site = 0;  ///< keys of Definitions, the first of this origin; 0: none
    Origin origin;
    Figures figures;
    Lifetimes lifetimes;
    Suspects suspects;  ///< see find_suspects() in summary.cpp for the condition
    /// The part of the figures that belongs to each cache or arena, by index in traceables(); without frees and
    /// cross-hart frees.
    std::vector<std::pair<std::uint32_t, Figures>> by_source;
    Figures& of(std::uint32_t traceable);
  };
  struct TraceableRow {
    std::uint32_t number = 0;
    bool counted = true;      ///< included in the totals and the rows
    std::uint32_t space = 0;  ///< of its addresses, see LiveObject
    Figures figures;
    Lifetimes lifetimes;
    std::size_t series = 0;  ///< its series of live bytes in the timeline
  };
  struct HartRow {
    Figures figures;                              ///< live: objects that this hart allocated and no hart has freed
    double lost_on_target = 0, lost_on_line = 0;  ///< events
    std::size_t series = 0;
  };

  explicit Summary(SummaryOptions options = {});

  void on_header(const host::Definitions& definitions) override;
  void on_event(const host::Event& event) override;
  void on_gap(const host::Gap& gap) override;
  void on_mode(const host::ModeChange& change) override;
  void on_stream_end(std::uint64_t stop_ticks) override;
  void on_end(const host::CaptureEnd& end) override;

  // The following are valid after on_end().
  [[nodiscard]] const SummaryOptions& options() const noexcept { return options_; }
  [[nodiscard]] const host::Definitions& definitions() const noexcept { return definitions_; }
  [[nodiscard]] const host::CaptureEnd& end() const noexcept { return end_; }
  [[nodiscard]] std::uint32_t streams() const noexcept { return streams_; }
  /// the place of the summarized stream in the capture; 0: there is none
  [[nodiscard]] std::uint32_t stream() const noexcept { return stream_; }
  [[nodiscard]] const Figures& totals() const noexcept { return totals_; }
  [[nodiscard]] const Lifetimes& lifetimes() const noexcept { return lifetimes_; }
  [[nodiscard]] const std::vector<Row>& rows() const noexcept { return rows_; }
  [[nodiscard]] const std::vector<TraceableRow>& traceables() const noexcept { return traceables_; }
  [[nodiscard]] const std::vector<HartRow>& harts() const noexcept { return harts_; }
  [[nodiscard]] const std::vector<host::ModeChange>& modes() const noexcept { return modes_; }
  [[nodiscard]] const Timeline& timeline() const noexcept { return timeline_; }
  [[nodiscard]] std::uint64_t events() const noexcept { return events_; }
  [[nodiscard]] double reallocations() const noexcept { return reallocations_; }
  /// Frees of objects that were allocated before the stream, or whose allocation was lost.
  [[nodiscard]] double unknown_frees() const noexcept { return unknown_frees_; }
  /// Objects whose free is missing: another object was allocated at their address.
  [[nodiscard]] double replaced() const noexcept { return replaced_; }
  /// The time of the stream's stop, or of its last event if it was not stopped.
  [[nodiscard]] std::uint64_t last_ticks() const noexcept { return last_ticks_; }
  [[nodiscard]] std::uint64_t peak_ticks() const noexcept { return peak_ticks_; }
  [[nodiscard]] double lost() const noexcept;
  [[nodiscard]] bool sampled() const noexcept { return sampled_; }  ///< figures are estimates
  /// for some time no events were recorded
  [[nodiscard]] bool counters_only() const noexcept { return counters_only_; }
  /// Whether the figures include everything that happened since the stream began.
  [[nodiscard]] bool complete() const noexcept;
  /// Converts @p ticks to seconds since the stream began.
  [[nodiscard]] double seconds(std::uint64_t ticks) const noexcept;
  [[nodiscard]] double seconds_long(double ticks) const noexcept;

  static constexpr std::size_t kTotalSeries = 0, kPeakSeries = 1, kRateSeries = 2;  ///< of the timeline

 private:
  void begin_stream();
  [[nodiscard]] std::uint32_t row_of(std::uint32_t stack, std::uint32_t call_site);
  [[nodiscard]] std::uint32_t traceable_of(std::uint32_t number);
  HartRow& hart(std::uint16_t index);
  void allocated(const host::Event& event);
  void freed(const host::Event& event, std::uint64_t address, std::uint32_t traceable, std::uint64_t bytes);
  void take_off(const LiveObject& object);
  [[nodiscard]] std::vector<std::uint32_t> merge_rows();
  void find_suspects(const std::vector<std::uint32_t>& row_places);

  SummaryOptions options_;
  bool ignoring_ = true;
  const host::Definitions* source_ = nullptr;
  host::Definitions definitions_;  // a copy, made at the end
  host::CaptureEnd end_;
  std::uint32_t streams_ = 0, stream_ = 0;
  std::uint64_t since_ticks_ = 0, last_ticks_ = 0, peak_ticks_ = 0;
  std::uint64_t events_ = 0;
  bool in_window_ = true;
  bool sampled_ = false, counters_only_ = false;
  double reallocations_ = 0, unknown_frees_ = 0, replaced_ = 0;
  Figures totals_;
  Lifetimes lifetimes_;
  LiveTable live_;
  std::vector<Row> rows_;
  std::unordered_map<std::uint64_t, std::uint32_t> row_numbers_;
  std::vector<TraceableRow> traceables_;
  std::unordered_map<std::uint32_t, std::uint32_t> traceable_numbers_;
  std::vector<HartRow> harts_;
  std::vector<host::ModeChange> modes_;
  Timeline timeline_;
};

/// @returns whether @p name matches @p pattern with `*` and `?`.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view name) noexcept;

}  // namespace qm::analysis
