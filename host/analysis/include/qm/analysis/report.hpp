#pragma once
/// A summary with names: what `qm report` prints, as text, as JSON, and inside a page of HTML.

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <qm/analysis/summary.hpp>
#include <qm/analysis/symbols.hpp>

namespace qm::analysis {

/// By what the tables of call sites and stacks are sorted, most first.
enum class SortKey { kBytes, kRequested, kHit, kPingPong, kFrag, kLive, kCallsite };

/// A frame of a stack, with the address that it comes from.
struct StackFrame {
  std::uint64_t pc = 0;  ///< 0: of a call site within the allocator, whose own frames are not recorded
  Frame frame;           ///< without a function if there are no symbols
};

/// Figures under a name.
struct Entry {
  std::string name;  ///< `packet_alloc (net.cpp:41)`; an address without symbols; "(no stack)"
  Figures figures;
  Lifetimes lifetimes;
  Suspects suspects;
};

struct StackEntry : Entry {
  Origin origin;
  bool truncated = false, collided = false;
  std::vector<StackFrame> frames;  ///< innermost first, inlined calls spelled out
  /// Of the figures what is of each cache or arena, by its name; without frees and crossings.
  std::vector<std::pair<std::string, Figures>> by_source;
  /// The frame that names it: its call site, else the first that is none of the allocator's headers.
  std::size_t site = 0;
  /// Who allocated, innermost first: the frames without the allocator's. What exports have.
  [[nodiscard]] std::span<const StackFrame> callers() const noexcept { return std::span(frames).subspan(site); }
};

struct TraceableEntry : Entry {
  host::EventKind kind = host::EventKind::kCache;
  std::uint64_t object_bytes = 0;
  std::uint64_t outstanding = 0;  ///< objects that were out before, and are in no figure
  bool counted = true;
  std::size_t series = 0;
};

/// Everything that is printed. Refers to the summary, which has to outlive it.
struct Report {
  const Summary* summary = nullptr;
  std::string file;
  std::vector<Entry> sites;  ///< by innermost frame or tagged call site
  std::vector<StackEntry> stacks;
  std::vector<TraceableEntry> traceables;
  std::vector<std::string> problems;  ///< why figures are not whole, a line each, the worst first; empty: they are
};

/// Gives the rows of @p summary names, and sorts them. @param[in] symbols nullptr: addresses instead of names.
[[nodiscard]] Report make_report(const Summary& summary, const Symbols* symbols, SortKey key, std::string file);

struct TextOptions {
  std::size_t top = 20;  ///< lines of each table
  /// More tables than those of totals, sites and caches.
  bool lifetimes = false, leaks = false, timeline = false, stacks = false;
};

/// @returns the report as text, 120 columns wide where names are not longer.
[[nodiscard]] std::string report_text(const Report& report, const TextOptions& options);

/// @returns the report as one JSON object; docs/qm.md says what is in it. @param[in] top of sites and stacks so many;
///          0: all.
[[nodiscard]] std::string report_json(const Report& report, std::size_t top = 0);

/// @returns a page that shows the report, and needs nothing but itself.
[[nodiscard]] std::string report_html(const Report& report);

/// @returns @p bytes as `12.3 MiB`, exactly below 10 KiB.
[[nodiscard]] std::string bytes_text(double bytes);
/// @returns the same with its unit: `512 bytes`, `12.3 MiB`.
[[nodiscard]] std::string bytes_in_words(double bytes);
/// @returns @p seconds as `1.20 ms`.
[[nodiscard]] std::string seconds_text(double seconds);

}  // namespace qm::analysis
