#include <qm/analysis/report.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>

namespace qm::analysis {
namespace {

void add(Figures& to, const Figures& from) {
  to.allocations += from.allocations;
  to.frees += from.frees;
  to.requested += from.requested;
  to.allocated += from.allocated;
  to.freed += from.freed;
  to.cross_hart_frees += from.cross_hart_frees;
  to.live_objects += from.live_objects;
  to.live_requested += from.live_requested;
  to.live_bytes += from.live_bytes;
  to.peak_bytes += from.peak_bytes;  // an upper bound: they need not be at once
}

void add(Lifetimes& to, const Lifetimes& from) {
  for (std::size_t bucket = 0; bucket < Lifetimes::kBuckets; ++bucket) to.objects[bucket] += from.objects[bucket];
  to.ticks += from.ticks;
  to.longest = std::max(to.longest, from.longest);
}

void add(Suspects& to, const Suspects& from) {
  to.objects += from.objects;
  to.bytes += from.bytes;
  to.oldest_ticks = std::max(to.oldest_ticks, from.oldest_ticks);
}

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

/// Whether @p frame is a face of the allocator, inlined into who called it.
bool is_face(const StackFrame& frame) {
  return frame.frame.inlined && frame.frame.file.find("include/qm/") != std::string::npos;
}

StackEntry name_row(const Summary::Row& row, const host::Definitions& definitions, const Symbols* symbols) {
  StackEntry entry;
  entry.figures = row.figures;
  entry.lifetimes = row.lifetimes;
  entry.suspects = row.suspects;
  entry.number = row.stack;
  if (const auto site = definitions.call_sites.find(row.call_site); site != definitions.call_sites.end()) {
    entry.call_site = fmt::format("{}:{} {}", file_name(site->second.file), site->second.line, site->second.function);
  }
  if (const auto stack = definitions.stacks.find(row.stack); stack != definitions.stacks.end()) {
    entry.id = stack->second.id;
    entry.truncated = stack->second.truncated;
    entry.collided = stack->second.collided;
    for (const std::uint64_t pc : stack->second.frames) {
      const auto frames = symbols != nullptr ? symbols->look_up(pc) : std::span<const Frame>();
      for (const Frame& frame : frames) entry.frames.push_back({pc, frame});
      if (frames.empty()) entry.frames.push_back({pc, {}});
    }
    while (entry.site < entry.frames.size() && is_face(entry.frames[entry.site])) ++entry.site;
  }
  if (!entry.call_site.empty()) {
    entry.name = entry.call_site;
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
  // Who reads the capture says what is missing; this is for a stream that comes without one.
  if (problems.empty() && !summary.complete())
    problems.push_back(fmt::format("{:.0f} events are missing", summary.lost()));
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
    const StackEntry& stack = report.stacks.back();
    Entry& site = sites[stack.name];
    site.name = stack.name;
    add(site.figures, stack.figures);
    add(site.lifetimes, stack.lifetimes);
    add(site.suspects, stack.suspects);
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

std::string seconds_text(double seconds) {
  static constexpr const char* units[] = {"s", "ms", "us", "ns"};
  std::size_t unit = 0;
  for (; seconds != 0 && seconds < 1 && unit < 3; seconds *= 1000) ++unit;
  return fmt::format("{:.{}f} {}", seconds, seconds < 10 ? 2 : seconds < 100 ? 1 : 0, units[unit]);
}

}  // namespace qm::analysis
