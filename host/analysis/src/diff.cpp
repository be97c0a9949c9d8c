#include <qm/analysis/diff.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <set>

#include <qm/analysis/symbolize.hpp>
#include <qm/host/counted.hpp>
#include <qm/host/error.hpp>

namespace qm::analysis {
namespace {

/// @returns the number in a field that the row may lack.
double number(const host::ReportRow& row, std::string_view name) {
  const auto* field = row.find(name);
  if (field == nullptr) return 0;
  return field->type == wire::FieldType::kChange ? static_cast<double>(static_cast<std::int64_t>(field->number))
                                                 : static_cast<double>(field->number);
}

std::vector<std::string> describe(const host::ReportRow& frame, const Symbols* symbols) {
  const auto* address = frame.find("address");
  std::vector<std::string> names;
  if (symbols != nullptr && address != nullptr) {
    for (const Frame& name : symbols->look_up(address->number)) names.push_back(describe(name));
  }
  if (names.empty()) names.emplace_back((frame.text("function")));
  if (names.back().empty()) names.back() = address != nullptr ? fmt::format("{:#x}", address->number) : "(unknown)";
  return names;
}

/// Drops the call sites: adds up the figures of the same stack.
void leave_out_call_sites(Holdings& of) {
  std::map<Origin, Holding> stacks;
  for (auto& [origin, holding] : of.stacks) {
    Holding& sum = stacks[{origin.stack, ""}];
    sum.objects += holding.objects;
    sum.bytes += holding.bytes;
    if (!sum.frames.empty()) continue;
    if (holding.call_site_in_front) holding.frames.erase(holding.frames.begin());
    sum.frames = std::move(holding.frames);
    sum.name = sum.frames.empty() ? "(no stack)" : sum.frames.front();
  }
  of.stacks = std::move(stacks);
  of.has_call_sites = false;
}

std::string signed_bytes(double bytes) { return (bytes < 0 ? "-" : "+") + bytes_text(std::abs(bytes)); }

}  // namespace

Holdings holdings_of(const Report& report) {
  Holdings made;
  made.source = report.file;
  made.complete = report.problems.empty();
  for (const StackEntry& stack : report.stacks) {
    Holding& of = made.stacks[stack.origin];
    of.objects = stack.figures.live_objects;
    of.bytes = stack.figures.live_bytes;
    of.name = stack.name;
    of.call_site_in_front = !stack.callers().empty() && stack.callers().front().pc == 0;
    for (const StackFrame& frame : stack.callers()) {
      of.frames.push_back(frame.frame.function.empty() ? fmt::format("{:#x}", frame.pc) : describe(frame.frame));
    }
  }
  return made;
}

Holdings holdings_of(std::span<const host::ReportRow> rows, const Symbols* symbols, std::string source) {
  Holdings made;
  made.source = std::move(source);
  made.has_call_sites = false;
  unsigned reports = 0;
  bool any = false, open = false;
  Holding* of = nullptr;  // the holding that the following frames belong to
  for (const host::ReportRow& row : rows) {
    const bool is_object = row.kind == "object";
    if (row.kind == "frame") {
      if (of != nullptr) {
        for (std::string& name : describe(row, symbols)) of->frames.push_back(std::move(name));
      }
      continue;
    }
    of = nullptr;
    if (is_object || row.kind == "stack") {
      Holding& entry = made.stacks[{fmt::format("{:#010x}", row.number("stack")), ""}];
      if (entry.frames.empty()) of = &entry;
      entry.objects += is_object ? 1 : number(row, "objects");
      entry.bytes += number(row, is_object ? "size_bytes" : "bytes");
      any = open = true;
    } else if (row.kind == "end") {
      made.complete = made.complete && row.text("verdict") == "complete";
      any = true;
      open = false;
    } else if (row.kind == "status") {
      ++reports;
    }
  }
  if (!any) {
    throw host::Error(host::Fault::kInput,
                      made.source + " is no capture, and has no report: qm exec --json 'slab_stacks' prints one");
  }
  if (reports > 1)
    throw host::Error(host::Fault::kInput, made.source + " has more than one report: give each in a file");
  made.complete = made.complete && !open;
  for (auto& [origin, holding] : made.stacks)
    holding.name = holding.frames.empty() ? "(no stack)" : holding.frames.front();
  return made;
}

Difference difference(Holdings before, Holdings after) {
  if (before.has_call_sites != after.has_call_sites) leave_out_call_sites(before.has_call_sites ? before : after);
  Difference made{std::move(before), std::move(after), {}};
  std::set<Origin> origins;
  for (const Holdings* side : {&made.before, &made.after}) {
    for (const auto& [origin, of] : side->stacks) origins.insert(origin);
  }
  for (const Origin& origin : origins) {
    const auto was = made.before.stacks.find(origin), is = made.after.stacks.find(origin);
    Change change{origin, was != made.before.stacks.end() ? was->second : Holding{},
                  is != made.after.stacks.end() ? is->second : Holding{}};
    if (change.objects() != 0 || change.bytes() != 0) made.changes.push_back(std::move(change));
  }
  std::stable_sort(made.changes.begin(), made.changes.end(), [](const Change& a, const Change& b) {
    return a.bytes() != b.bytes() ? a.bytes() > b.bytes() : a.objects() > b.objects();
  });
  return made;
}

std::string difference_text(const Difference& of, std::size_t top) {
  std::string text;
  const auto line = [&text]<class... Arguments>(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Arguments>(arguments)...);
    text += '\n';
  };
  for (const Holdings* side : {&of.before, &of.after}) {
    double objects = 0, bytes = 0;
    for (const auto& [key, holding] : side->stacks) objects += holding.objects, bytes += holding.bytes;
    line("{} {}: {}{} from {}{}", side == &of.before ? "before" : "after ", side->source,
         host::counted(static_cast<std::uint64_t>(std::llround(objects)), "object"), ", " + bytes_in_words(bytes) + ",",
         host::counted(side->stacks.size(), "stack"), side->complete ? "" : " (INCOMPLETE)");
  }
  std::size_t hidden = 0;
  for (const bool grown : {true, false}) {
    std::vector<const Change*> shown;
    for (const Change& change : of.changes) {
      if ((change.bytes() > 0 || (change.bytes() == 0 && change.objects() > 0)) == grown) shown.push_back(&change);
    }
    if (!grown) std::reverse(shown.begin(), shown.end());
    if (shown.empty()) continue;
    line("\n{}", grown ? "Grown" : "Shrunk");
    for (std::size_t index = 0; index < shown.size() && (top == 0 || index < top); ++index) {
      const Change& change = *shown[index];
      const Holding& known = change.after.frames.empty() ? change.before : change.after;
      line("{:>+10.0f} {:<7} {:>14}  {}{}", change.objects(), std::abs(change.objects()) == 1 ? "object" : "objects",
           signed_bytes(change.bytes()), "stack " + change.origin.stack + " ", known.name);
      for (std::size_t frame = 1; frame < std::min<std::size_t>(known.frames.size(), 6); ++frame)
        line("{:28}{}", "", known.frames[frame]);
    }
    if (top != 0 && shown.size() > top) hidden += shown.size() - top;
  }
  line("\nstacks changed {}, hidden {}: {}", of.changes.size(), hidden,
       of.before.complete && of.after.complete ? "complete" : "incomplete");
  return text;
}

}  // namespace qm::analysis
