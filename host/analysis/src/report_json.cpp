// All reading and writing of JSON. This is the only file that compiles nlohmann-json.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include <qm/analysis/diff.hpp>
#include <qm/analysis/report.hpp>

namespace qm::analysis {
namespace {

using Json = nlohmann::ordered_json;

/// Writes a whole number as an integer: sums are exact, and readers expect integers.
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

Json lifetimes_json(const Summary& summary, const Lifetimes& of) {
  Json buckets = Json::array();
  for (std::size_t bucket = 0; bucket < Lifetimes::kBuckets; ++bucket) {
    if (of.objects[bucket] == 0) continue;
    buckets.push_back({{"below_seconds", summary.seconds_long(static_cast<double>(std::uint64_t{1} << bucket))},
                       {"objects", number(of.objects[bucket])}});
  }
  return {{"total_seconds", summary.seconds_long(of.ticks)},
          {"longest_seconds", summary.seconds_long(static_cast<double>(of.longest))},
          {"buckets", buckets}};
}

Json entry_json(const Summary& summary, const Entry& entry) {
  Json json{{"name", entry.name}};
  json.update(figures_json(entry.figures));
  json["suspect_objects"] = number(entry.suspects.objects);
  json["suspect_bytes"] = number(entry.suspects.bytes);
  json["oldest_suspect_seconds"] = summary.seconds_long(static_cast<double>(entry.suspects.oldest_ticks));
  if (entry.figures.frees > 0)
    json["longest_life_seconds"] = summary.seconds_long(static_cast<double>(entry.lifetimes.longest));
  return json;
}

Json stack_json(const Summary& summary, const StackEntry& stack) {
  Json json = entry_json(summary, stack);
  json["id"] = stack.origin.stack;
  if (!stack.origin.call_site.empty()) json["call_site"] = stack.origin.call_site;
  if (stack.truncated) json["truncated"] = true;
  if (stack.collided) json["collided"] = true;
  Json frames = Json::array();
  for (const StackFrame& frame : stack.frames) {
    Json one = Json::object();
    if (frame.pc != 0) one["pc"] = fmt::format("{:#x}", frame.pc);
    if (!frame.frame.function.empty()) one["function"] = frame.frame.function;
    if (!frame.frame.file.empty()) {
      one["file"] = frame.frame.file;
      one["line"] = frame.frame.line;
    }
    if (frame.frame.inlined) one["inlined"] = true;
    frames.push_back(std::move(one));
  }
  json["site_frame"] = stack.site;
  json["frames"] = std::move(frames);
  return json;
}

const char* kind_name(host::EventKind kind) {
  switch (kind) {
    case host::EventKind::kHeap: return "heap";
    case host::EventKind::kArena: return "arena";
    case host::EventKind::kCache: break;
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
    Json json{{"name", entry.name},
              {"kind", kind_name(entry.kind)},
              {"object_bytes", entry.object_bytes},
              {"outstanding_before", entry.outstanding},
              {"in_totals", entry.counted}};
    json.update(figures_json(entry.figures));
    json["lifetimes"] = lifetimes_json(*report.summary, entry.lifetimes);
    list.push_back(std::move(json));
  }
  return list;
}

Json timeline_json(const Report& report) {
  const Summary& summary = *report.summary;
  const Timeline& timeline = summary.timeline();
  Json caches = Json::object(), harts = Json::array();
  for (const TraceableEntry& entry : report.traceables) caches[entry.name] = values_json(timeline.values(entry.series));
  for (const Summary::HartRow& hart : summary.harts()) harts.push_back(values_json(timeline.values(hart.series)));
  return {{"bucket_seconds", summary.seconds_long(static_cast<double>(timeline.bucket_ticks()))},
          {"live_bytes", values_json(timeline.values(Summary::kTotalSeries))},
          {"peak_bytes", values_json(timeline.values(Summary::kPeakSeries))},
          {"allocated", values_json(timeline.values(Summary::kRateSeries))},
          {"caches", std::move(caches)},
          {"harts", std::move(harts)}};
}

Json fragmentation_json(const Summary& summary, const Fragmentation& of) {
  Json columns = Json::array(), strips = Json::array(), pins = Json::array();
  for (const std::uint64_t ticks : of.column_ticks) columns.push_back(summary.seconds(ticks));
  for (const Strip& strip : of.strips) {
    strips.push_back({{"address", fmt::format("{:#x}", strip.address)},
                      {"pages", strip.pages},
                      {"pages_left_out", strip.left_out},
                      {"cells", strip.cells}});
  }
  for (const Pin& pin : of.pins) {
    pins.push_back({{"name", pin.site},
                    {"bytes", pin.bytes},
                    {"pages", pin.pages},
                    {"objects", pin.objects},
                    {"median_age_seconds", summary.seconds_long(static_cast<double>(pin.median_ticks))},
                    {"lifetimes", pin.lifetimes}});
  }
  return {{"page_bytes", Fragmentation::kPageBytes},
          {"operations", of.operations},
          {"peak_in_use", of.peak_in_use},
          {"peak_spanned", of.peak_spanned},
          {"worst",
           {{"operation", of.worst_operation},
            {"seconds", summary.seconds(of.worst_ticks)},
            {"in_use", of.worst_in_use},
            {"spanned", of.worst_spanned}}},
          {"pins", std::move(pins)},
          {"column_seconds", std::move(columns)},
          {"strips", std::move(strips)}};
}

Json totals_json(const Summary& summary) {
  Json json = figures_json(summary.totals());
  json["net"] = number(summary.totals().allocated - summary.totals().freed);
  json["waste"] = number(summary.totals().allocated - summary.totals().requested);
  json["reallocations"] = number(summary.reallocations());
  json["peak_seconds"] = summary.seconds(summary.peak_ticks());
  json["unknown_frees"] = number(summary.unknown_frees());
  json["missing_frees"] = number(summary.replaced());
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
  const Summary& summary = *report.summary;
  const host::StreamHeader& header = summary.definitions().header;
  Json json{{"format", "quartermaster report"}, {"version", 1}, {"file", report.file}};
  json["complete"] = report.problems.empty();
  json["estimated"] = summary.sampled();
  json["problems"] = report.problems;
  json["stream"] = {{"number", summary.stream()},
                    {"of", summary.streams()},
                    {"build_id", header.build_id},
                    {"from_boot", header.from_boot},
                    {"events", summary.events()},
                    {"seconds", summary.seconds(summary.last_ticks())},
                    {"since_seconds", summary.options().since_seconds},
                    {"cache", summary.options().cache}};
  json["totals"] = totals_json(summary);
  json["lifetimes"] = lifetimes_json(summary, summary.lifetimes());
  Json harts = Json::array();
  for (const Summary::HartRow& hart : summary.harts()) {
    Json one = figures_json(hart.figures);
    one["lost_on_target"] = number(hart.lost_on_target);
    one["lost_on_line"] = number(hart.lost_on_line);
    harts.push_back(std::move(one));
  }
  json["harts"] = std::move(harts);
  json["caches"] = traceables_json(report);
  json["sites"] = list_json(report.sites, top, [&](const Entry& entry) { return entry_json(summary, entry); });
  json["stacks"] = list_json(report.stacks, top, [&](const StackEntry& entry) { return stack_json(summary, entry); });
  if (summary.stream() != 0) json["timeline"] = timeline_json(report);
  if (report.fragmentation) json["fragmentation"] = fragmentation_json(summary, *report.fragmentation);
  for (const host::Placement& each : report.placements) {
    json["placements"].push_back(
        {{"name", each.name}, {"peak_bytes", each.peak_bytes}, {"more", each.more}, {"failures", each.failures}});
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string difference_json(const Difference& of) {
  const auto side = [&](const Holdings& holdings) {
    Json json{{"file", holdings.source}, {"complete", holdings.complete}, {"stacks", holdings.stacks.size()}};
    double objects = 0, bytes = 0;
    for (const auto& [key, holding] : holdings.stacks) objects += holding.objects, bytes += holding.bytes;
    json["objects"] = number(objects);
    json["bytes"] = number(bytes);
    return json;
  };
  Json json{{"format", "quartermaster diff"}, {"version", 1}, {"before", side(of.before)}, {"after", side(of.after)}};
  Json changes = Json::array();
  for (const Change& change : of.changes) {
    const Holding& known = change.after.frames.empty() ? change.before : change.after;
    Json one{{"stack", change.origin.stack}, {"name", known.name}, {"objects", number(change.objects())}};
    if (!change.origin.call_site.empty()) one["call_site"] = change.origin.call_site;
    one["bytes"] = number(change.bytes());
    one["objects_before"] = number(change.before.objects);
    one["objects_after"] = number(change.after.objects);
    one["frames"] = known.frames;
    changes.push_back(std::move(one));
  }
  json["changes"] = std::move(changes);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<host::ReportRow> rows_of_json(std::string_view text) {
  std::vector<host::ReportRow> rows;
  const auto add = [&rows](std::string kind, const Json& object) {
    host::ReportRow row{std::move(kind), {}};
    for (const auto& [name, value] : object.items()) {
      host::ReportRow::Field field{name, wire::FieldType::kNumber, 0, {}};
      if (value.is_string()) {
        field.type = wire::FieldType::kText;
        field.text = value.get<std::string>();
        if (name == "address") {
          field.type = wire::FieldType::kAddress;
          field.number = std::strtoull(field.text.c_str(), nullptr, 16);
        }
      } else if (value.is_number_unsigned()) {
        field.number = value.get<std::uint64_t>();
      } else if (value.is_number_integer()) {
        field.type = wire::FieldType::kChange;
        field.number = static_cast<std::uint64_t>(value.get<std::int64_t>());
      } else {
        continue;
      }
      row.fields.push_back(std::move(field));
    }
    rows.push_back(std::move(row));
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const Json object = Json::parse(text.substr(0, end), nullptr, false);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!object.is_object() || !object.contains("row") || !object["row"].is_string()) continue;
    add(object["row"].get<std::string>(), object);
    if (!object.contains("frames") || !object["frames"].is_array()) continue;
    for (const Json& frame : object["frames"]) {
      if (frame.is_object()) add("frame", frame);
    }
  }
  return rows;
}

}  // namespace qm::analysis
