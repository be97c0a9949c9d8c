#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

#include <qm/analysis/report.hpp>
#include <qm/host/capture.hpp>
#include <qm/host/error.hpp>
#include <qm/host/stream_reader.hpp>

#include "commands.hpp"
#include "placements.hpp"
#include "sources.hpp"

namespace qm::analysis {
namespace {

SortKey sort_key(const std::string& name) {
  static const std::map<std::string, SortKey> keys = {{"bytes", SortKey::kBytes},      {"req", SortKey::kRequested},
                                                      {"hit", SortKey::kHit},          {"pingpong", SortKey::kPingPong},
                                                      {"frag", SortKey::kFrag},        {"live", SortKey::kLive},
                                                      {"callsite", SortKey::kCallsite}};
  return keys.at(name);
}

/// @throws host::Error kInput if events are missing: the objects that are live would not be known.
void add_fragmentation(const ReportOptions& options, Report& report) {
  if (!report.summary->complete()) {
    throw host::Error(host::Fault::kInput,
                      options.file + ": --frag needs every event of the stream: " + report.problems.front());
  }
  Occupancy occupancy;
  read_capture(options.file, occupancy);
  report.fragmentation = occupancy.fragmentation(report);
  if (options.html.empty() && !options.json) return;
  report.placements = replay::try_placements(replay::read_workload(options.file));
}

}  // namespace

int report(const ReportOptions& options) {
  require_another_file(options.html, options.file);
  Summary summary({options.since_seconds, options.cache, options.stream});
  read_capture(options.file, summary);
  require_cache(summary, options.file);
  const std::optional<Symbols> symbols = symbols_of(options.file, options.image, summary.definitions().header.build_id);
  Report report = make_report(summary, symbols ? &*symbols : nullptr, sort_key(options.sort),
                              std::filesystem::path(options.file).filename().string());
  if (summary.stream() == 0) throw host::Error(host::Fault::kInput, options.file + ": " + report.problems.front());
  if (options.frag) add_fragmentation(options, report);
  if (!options.html.empty()) write_file(options.html, report_html(report));
  if (options.json) {
    write_file("", report_json(report, options.top));
  } else if (options.html.empty()) {
    TextOptions text;
    if (options.top != 0) text.top = options.top;
    text.stacks = options.stacks || options.all;
    text.lifetimes = options.lifetimes || options.all;
    text.leaks = options.leaks || options.all;
    text.timeline = options.timeline || options.all;
    write_file("", report_text(report, text));
  }
  return 0;
}

}  // namespace qm::analysis
