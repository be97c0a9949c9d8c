#pragma once
/// A summary with names: `qm report` prints it as text, as JSON, or inside an HTML page.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <qm/analysis/fragmentation.hpp>
#include <qm/analysis/summary.hpp>
#include <qm/analysis/symbols.hpp>
#include <qm/host/objects.hpp>

namespace qm::analysis {

/// The column by which the tables of call sites and stacks are sorted, the largest value first.
enum class SortKey { kBytes, kRequested, kHit, kPingPong, kFrag, kLive, kCallsite };

/// A frame of a stack, with the address that it comes from.
struct StackFrame {
  std::uint64_t pc = 0;  ///< 0: a call site inside the allocator, whose own frames are not recorded
  Frame frame;           ///< has no function name if there are no symbols
};

/// Figures with a name.
struct Entry {
  std::string name;  ///< `packet_alloc (net.cpp:41)`; an address without symbols; "(no stack)"
  Figures figures;
  Lifetimes lifetimes;
  Suspects suspects;
};

struct StackEntry : Entry {
  Origin origin;
  bool truncated = false, collided = false;
  std::vector<StackFrame> frames;  ///< innermost first, inlined calls included
  /// The part of the figures that belongs to each cache or arena, by name; without frees and cross-hart frees.
  std::vector<std::pair<std::string, Figures>> by_source;
  /// Index of the frame that names the entry: its call site, else the first frame that is not in the allocator's
  /// headers.
  std::size_t site = 0;
  /// The frames from the caller of the allocator outwards, innermost first. Exports use these.
  [[nodiscard]] std::span<const StackFrame> callers() const noexcept { return std::span(frames).subspan(site); }
};

struct TraceableEntry : Entry {
  host::EventKind kind = host::EventKind::kCache;
  std::uint64_t object_bytes = 0;
  std::uint64_t outstanding = 0;  ///< objects that were live before the stream began; no other figure includes them
  bool counted = true;
  std::size_t series = 0;
};

/// All that the report prints. Refers to the summary, which must outlive it.
struct Report {
  const Summary* summary = nullptr;
  std::string file;
  std::vector<Entry> sites;  ///< by innermost frame or tagged call site
  std::vector<StackEntry> stacks;
  std::vector<TraceableEntry> traceables;
  /// reasons why the figures are incomplete, one line each, the worst first; empty: they are complete
  std::vector<std::string> problems;
  std::optional<Fragmentation> fragmentation;  ///< only if asked for, like the placements
  std::vector<host::Placement> placements;
};

/// Names the rows of @p summary and sorts them. @param[in] symbols nullptr: addresses are printed instead of names.
[[nodiscard]] Report make_report(const Summary& summary, const Symbols* symbols, SortKey key, std::string file);

struct TextOptions {
  std::size_t top = 20;  ///< lines in each table
  /// Further tables, besides those of totals, sites and caches.
  bool lifetimes = false, leaks = false, timeline = false, stacks = false;
};

/// @returns the report as text, 120 columns wide unless names are longer.
[[nodiscard]] std::string report_text(const Report& report, const TextOptions& options);

/// @returns the report as one JSON object, in seconds and bytes: `stream`; `complete` and `problems`; `totals`,
///          `lifetimes`, `harts`, `caches`, `sites` and `stacks`, with the figures of Figures; `timeline`; if the
///          report has them `fragmentation` and `placements`.
/// @param[in] top at most this many sites and stacks; 0: all.
[[nodiscard]] std::string report_json(const Report& report, std::size_t top = 0);

/// @returns a self-contained HTML page that shows the report.
[[nodiscard]] std::string report_html(const Report& report);

/// @returns @p bytes as `12.3 MiB`; below 10 KiB the exact number.
[[nodiscard]] std::string bytes_text(double bytes);
/// @returns the same with the unit: `512 bytes`, `12.3 MiB`.
[[nodiscard]] std::string bytes_in_words(double bytes);
/// @returns @p seconds as `1.20 ms`.
[[nodiscard]] std::string seconds_text(double seconds);

}  // namespace qm::analysis
