// The one file that compiles nlohmann-json for reports.

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include <qm/analysis/report.hpp>

namespace qm::analysis {
namespace {

using Json = nlohmann::ordered_json;

/// A whole number as one: sums are exact, and readers expect integers.
Json number(double value) {
  if (value == std::floor(value) && std::fabs(value) < 9007199254740992.0) return static_cast<std::int64_t>(value);
  return value;
}

Json figures_json(const Figures& of) {
  return {{"allocations", number(of.allocations)},
          {"frees", number(of.frees)},
          {"requested", number(of.requested)},
          {"allocated", number(of.allocated)},
          {"freed", number(of.freed)},
          {"waste_percent", of.waste_percent()},
          {"cross_hart_frees", number(of.cross_hart_frees)},
          {"live_objects", number(of.live_objects)},
          {"live_requested", number(of.live_requested)},
          {"live_bytes", number(of.live_bytes)},
          {"peak_bytes", number(of.peak_bytes)}};
}

Json lifetimes_json(const Model& model, const Lifetimes& of) {
  Json buckets = Json::array();
  for (std::size_t bucket = 0; bucket < Lifetimes::kBuckets; ++bucket) {
    if (of.objects[bucket] == 0) continue;
    buckets.push_back({{"below_seconds", model.seconds_long(static_cast<double>(std::uint64_t{1} << bucket))},
                       {"objects", number(of.objects[bucket])}});
  }
  return {{"total_seconds", model.seconds_long(of.ticks)},
          {"longest_seconds", model.seconds_long(static_cast<double>(of.longest))},
          {"buckets", buckets}};
}

Json entry_json(const Model& model, const Entry& entry) {
  Json json{{"name", entry.name}};
  json.update(figures_json(entry.figures));
  json["suspect_objects"] = number(entry.suspects.objects);
  json["suspect_bytes"] = number(entry.suspects.bytes);
  json["oldest_suspect_seconds"] = model.seconds_long(static_cast<double>(entry.suspects.oldest_ticks));
  json["longest_life_seconds"] = model.seconds_long(static_cast<double>(entry.lifetimes.longest));
  return json;
}

Json stack_json(const Model& model, const StackEntry& stack) {
  Json json = entry_json(model, stack);
  json["id"] = fmt::format("{:#010x}", stack.id);
  if (!stack.call_site.empty()) json["call_site"] = stack.call_site;
  if (stack.truncated) json["truncated"] = true;
  if (stack.collided) json["collided"] = true;
  Json frames = Json::array();
  for (const StackFrame& frame : stack.frames) {
    Json one{{"pc", fmt::format("{:#x}", frame.pc)}};
    if (!frame.frame.function.empty()) one["function"] = frame.frame.function;
    if (!frame.frame.file.empty()) {
      one["file"] = frame.frame.file;
      one["line"] = frame.frame.line;
    }
    if (frame.frame.inlined) one["inlined"] = true;
    frames.push_back(std::move(one));
  }
  json["frames"] = std::move(frames);
  return json;
}

const char* kind_name(host::EventKind kind) {
  switch (kind) {
    case host::EventKind::kHeap:
      return "heap";
    case host::EventKind::kArena:
      return "arena";
    case host::EventKind::kCache:
      break;
  }
  return "cache";
}

Json values_json(const std::vector<double>& values) {
  Json json = Json::array();
  for (const double value : values) json.push_back(number(value));
  return json;
}

Json traceables_json(const Report& report) {
  Json list = Json::array();
  for (const TraceableEntry& entry : report.traceables) {
    Json json{{"name", entry.name}, {"kind", kind_name(entry.kind)}, {"object_bytes", entry.object_bytes},
              {"outstanding_before", entry.outstanding}, {"in_totals", entry.counted}};
    json.update(figures_json(entry.figures));
    json["lifetimes"] = lifetimes_json(*report.model, entry.lifetimes);
    list.push_back(std::move(json));
  }
  return list;
}

Json timeline_json(const Report& report) {
  const Model& model = *report.model;
  const Timeline& timeline = model.timeline();
  Json caches = Json::object(), harts = Json::array();
  for (const TraceableEntry& entry : report.traceables) caches[entry.name] = values_json(timeline.values(entry.series));
  for (const Model::HartRow& hart : model.harts()) harts.push_back(values_json(timeline.values(hart.series)));
  return {{"bucket_seconds", model.seconds_long(static_cast<double>(timeline.bucket_ticks()))},
          {"live_bytes", values_json(timeline.values(Model::kTotalSeries))},
          {"peak_bytes", values_json(timeline.values(Model::kPeakSeries))},
          {"allocated", values_json(timeline.values(Model::kRateSeries))},
          {"caches", std::move(caches)},
          {"harts", std::move(harts)}};
}

Json totals_json(const Model& model) {
  Json json = figures_json(model.totals());
  json["net"] = number(model.totals().allocated - model.totals().freed);
  json["waste"] = number(model.totals().allocated - model.totals().requested);
  json["reallocations"] = number(model.reallocations());
  json["peak_seconds"] = model.seconds(model.peak_ticks());
  json["unknown_frees"] = number(model.unknown_frees());
  json["missing_frees"] = number(model.replaced());
  return json;
}

template <class Entries, class Make>
Json list_json(const Entries& entries, std::size_t top, Make make) {
  Json list = Json::array();
  const std::size_t count = top == 0 ? entries.size() : std::min(top, entries.size());
  for (std::size_t index = 0; index < count; ++index) list.push_back(make(entries[index]));
  return list;
}

}  // namespace

std::string report_json(const Report& report, std::size_t top) {
  const Model& model = *report.model;
  const host::StreamHeader& header = model.definitions().header;
  Json json{{"format", "quartermaster report"}, {"version", 1}, {"file", report.file}};
  json["complete"] = report.problems.empty();
  json["estimated"] = model.sampled();
  json["problems"] = report.problems;
  json["stream"] = {{"number", model.stream()},   {"of", model.streams()},
                    {"build_id", header.build_id}, {"from_boot", header.from_boot},
                    {"events", model.events()},    {"seconds", model.seconds(model.last_ticks())},
                    {"since_seconds", model.options().since_seconds}, {"cache", model.options().cache}};
  json["totals"] = totals_json(model);
  json["lifetimes"] = lifetimes_json(model, model.lifetimes());
  Json harts = Json::array();
  for (const Model::HartRow& hart : model.harts()) {
    Json one = figures_json(hart.figures);
    one["lost_on_target"] = number(hart.lost_on_target);
    one["lost_on_line"] = number(hart.lost_on_line);
    harts.push_back(std::move(one));
  }
  json["harts"] = std::move(harts);
  json["caches"] = traceables_json(report);
  json["sites"] = list_json(report.sites, top, [&](const Entry& entry) { return entry_json(model, entry); });
  json["stacks"] = list_json(report.stacks, top, [&](const StackEntry& entry) { return stack_json(model, entry); });
  if (model.stream() != 0) json["timeline"] = timeline_json(report);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace qm::analysis
