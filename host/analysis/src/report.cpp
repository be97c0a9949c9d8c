#include <qm/analysis/report.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string_view>

#include <qm/host/counted.hpp>

namespace qm::analysis {
namespace {

double value_of(const Entry& entry, SortKey key) {
  switch (key) {
    case SortKey::kRequested: return entry.figures.requested;
    case SortKey::kHit: return entry.figures.allocations;
    case SortKey::kPingPong: return entry.figures.cross_hart_frees;
    case SortKey::kFrag: return entry.figures.waste_percent();
    case SortKey::kLive: return entry.figures.live_bytes;
    case SortKey::kBytes:
    case SortKey::kCallsite: break;
  }
  return entry.figures.allocated;
}

template <class Entries>
void sort(Entries& entries, SortKey key) {
  std::stable_sort(entries.begin(), entries.end(), [key](const Entry& a, const Entry& b) {
    if (key != SortKey::kCallsite && value_of(a, key) != value_of(b, key)) return value_of(a, key) > value_of(b, key);
    return a.name < b.name;
  });
}

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

std::string short_text(const StackFrame& frame) {
  if (frame.frame.function.empty()) return fmt::format("{:#x}", frame.pc);
  if (frame.frame.file.empty()) return frame.frame.function;
  return fmt::format("{} ({}:{})", frame.frame.function, file_name(frame.frame.file), frame.frame.line);
}

/// Whether @p frame is part of the allocator's interface: code of a header in the folder `include/qm` itself.
bool is_face(const StackFrame& frame) {
  constexpr std::string_view kFolder = "include/qm/";
  const std::size_t at = frame.frame.file.rfind(kFolder);
  return at != std::string::npos && frame.frame.file.find('/', at + kFolder.size()) == std::string::npos;
}

std::string_view last_name(std::string_view function) {
  const std::size_t colons = function.rfind("::");
  return colons == std::string_view::npos ? function : function.substr(colons + 2);
}

/// Makes the call site the frame that names the entry.
void place_call_site(StackEntry& entry, const host::CallSite& site) {
  std::string file = site.file;
  while (file.starts_with("../")) file.erase(0, 3);  // the compiler's working folder means nothing to the reader
  if (entry.site < entry.frames.size()) {
    Frame& there = entry.frames[entry.site].frame;
    if (last_name(there.function) == site.function && file_name(there.file) == file_name(file)) {
      there.line = site.line;
      return;
    }
  }
  entry.frames.insert(entry.frames.begin() + static_cast<std::ptrdiff_t>(entry.site),
                      StackFrame{0, {site.function, std::move(file), site.line, false}});
}

StackEntry name_row(const Summary::Row& row, const host::Definitions& definitions, const Symbols* symbols) {
  StackEntry entry;
  entry.figures = row.figures;
  entry.lifetimes = row.lifetimes;
  entry.suspects = row.suspects;
  entry.origin = row.origin;
  if (const auto stack = definitions.stacks.find(row.stack); stack != definitions.stacks.end()) {
    entry.truncated = stack->second.truncated;
    entry.collided = stack->second.collided;
    for (const std::uint64_t pc : stack->second.frames) {
      const auto frames = symbols != nullptr ? symbols->look_up(pc) : std::span<const Frame>();
      for (const Frame& frame : frames) entry.frames.push_back({pc, frame});
      if (frames.empty()) entry.frames.push_back({pc, {}});
    }
    while (entry.site + 1 < entry.frames.size() && is_face(entry.frames[entry.site])) ++entry.site;
  }
  if (const auto site = definitions.call_sites.find(row.call_site); site != definitions.call_sites.end()) {
    place_call_site(entry, site->second);
    entry.name = entry.origin.call_site;
  } else if (!entry.frames.empty()) {
    entry.name = short_text(entry.frames[entry.site]);
  } else {
    entry.name = row.stack != 0 ? fmt::format("(stack {} was not defined)", row.stack) : "(no stack)";
  }
  return entry;
}

TraceableEntry name_traceable(const Summary::TraceableRow& row, const host::Definitions& definitions) {
  TraceableEntry entry;
  entry.figures = row.figures;
  entry.lifetimes = row.lifetimes;
  entry.counted = row.counted;
  entry.series = row.series;
  entry.name = fmt::format("#{}", row.number);
  if (const auto known = definitions.traceables.find(row.number); known != definitions.traceables.end()) {
    entry.name = known->second.name;
    entry.kind = known->second.kind;
    entry.object_bytes = known->second.object_bytes;
    entry.outstanding = known->second.outstanding;
  }
  return entry;
}

std::vector<std::string> problems_of(const Summary& summary) {
  std::vector<std::string> problems;
  if (summary.stream() == 0) {
    problems.emplace_back(summary.options().stream != 0 ? fmt::format("there is no stream {}", summary.options().stream)
                                                        : "there is no event stream in it");
  }
  if (summary.counters_only())
    problems.emplace_back("for a time the target sent counters instead of events: nothing of it is here");
  if (summary.sampled()) problems.emplace_back("the target sent a sample of the events: figures are estimates");
  for (const host::Problem& problem : summary.end().problems) {
    if (host::CaptureEnd::concerns(problem, summary.stream())) problems.push_back(problem.text);
  }
  // The reader of captures reports what is missing. This is for a stream without such a report.
  if (problems.empty() && !summary.complete())
    problems.push_back(host::counted(static_cast<std::uint64_t>(summary.lost()), "event is", "events are") +
                       " missing");
  return problems;
}

}  // namespace

Report make_report(const Summary& summary, const Symbols* symbols, SortKey key, std::string file) {
  Report report;
  report.summary = &summary;
  report.file = std::move(file);
  std::map<std::string, Entry> sites;
  for (const Summary::Row& row : summary.rows()) {
    report.stacks.push_back(name_row(row, summary.definitions(), symbols));
    StackEntry& stack = report.stacks.back();
    for (const auto& [source, figures] : row.by_source) {
      const std::uint32_t number = summary.traceables()[source].number;
      const auto known = summary.definitions().traceables.find(number);
      stack.by_source.emplace_back(
          known != summary.definitions().traceables.end() ? known->second.name : fmt::format("#{}", number), figures);
    }
    Entry& site = sites[stack.name];
    site.name = stack.name;
    site.figures += stack.figures;
    site.lifetimes += stack.lifetimes;
    site.suspects += stack.suspects;
  }
  for (auto& [name, site] : sites) report.sites.push_back(std::move(site));
  for (const Summary::TraceableRow& row : summary.traceables()) {
    report.traceables.push_back(name_traceable(row, summary.definitions()));
  }
  sort(report.sites, key);
  sort(report.stacks, key);
  sort(report.traceables, key);
  report.problems = problems_of(summary);
  return report;
}

std::string bytes_text(double bytes) {
  if (bytes < 10240) return fmt::format("{:.0f}", bytes);
  static constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (bytes /= 1024; bytes >= 1024 && unit < 3; bytes /= 1024) ++unit;
  return fmt::format("{:.{}f} {}", bytes, bytes < 10 ? 2 : bytes < 100 ? 1 : 0, units[unit]);
}

std::string bytes_in_words(double bytes) {
  return bytes < 10240 ? host::counted(static_cast<std::uint64_t>(std::llround(std::max(bytes, 0.0))), "byte")
                       : bytes_text(bytes);
}

std::string seconds_text(double seconds) {
  static constexpr const char* units[] = {"s", "ms", "us", "ns"};
  std::size_t unit = 0;
  for (; seconds != 0 && seconds < 1 && unit < 3; seconds *= 1000) ++unit;
  return fmt::format("{:.{}f} {}", seconds, seconds < 10 ? 2 : seconds < 100 ? 1 : 0, units[unit]);
}

}  // namespace qm::analysis
