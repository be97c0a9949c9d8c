#include <qm/analysis/diff.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <set>

#include <qm/analysis/symbolize.hpp>
#include <qm/host/counted.hpp>
#include <qm/host/error.hpp>
#include <qm/host/trace_report.hpp>

namespace qm::analysis {
namespace {

bool take(std::string_view& line, std::string_view prefix) {
  if (!line.starts_with(prefix)) return false;
  line.remove_prefix(prefix.size());
  return true;
}

/// @returns the count at the beginning of @p text; a text may say `inf`, or be no number at all: 0.
double number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return static_cast<double>(value);
}

/// Reads the report of slab_stacks: frames, then the figures, the id last; after the last stack a closing line.
class StacksReader {
 public:
  explicit StacksReader(Holdings& to) : to_(to) {}

  void line(std::string_view text) {
    if (take(text, "stack_count: ")) {
      stack_.objects = number(text);
    } else if (take(text, "stack_bytes: ")) {
      stack_.bytes = number(text);
    } else if (take(text, "stack_id: ")) {
      end_stack(std::string(text));
    } else if (text.starts_with(' ') && text.find_first_not_of(' ') != std::string_view::npos) {
      stack_.frames.emplace_back(text.substr(text.find_first_not_of(' ')));
    } else if (text.starts_with("stacks ") && text.find("hidden ") != std::string_view::npos) {
      ++reports_;
      open_ = false;
      to_.complete = to_.complete && text.ends_with(": complete");
    } else if (!text.empty()) {
      stack_ = {};  // what is between reports
    }
  }
  /// After the last line. @returns how many reports there are, one that is cut off included.
  [[nodiscard]] unsigned finish() {
    if (open_) to_.complete = false;
    return reports_ + (open_ ? 1 : 0);
  }

 private:
  void end_stack(std::string id) {
    open_ = true;
    // A note may stand behind the id, as of a collision.
    id = id.substr(0, id.find(' '));
    Holding& of = to_.stacks[{id, ""}];
    of.objects += stack_.objects;
    of.bytes += stack_.bytes;
    if (of.frames.empty()) of.frames = std::move(stack_.frames);
    if (!of.frames.empty()) of.name = of.frames.front().substr(0, of.frames.front().find("+0x"));
    stack_ = {};
  }

  Holdings& to_;
  Holding stack_;
  unsigned reports_ = 0;  // that are closed
  bool open_ = false;     // stacks have come since the last closing line
};

/// The second of two reports is another moment, or has stacks that the first has as well: their sum is neither's.
void require_one_report(const std::string& source, unsigned of_stacks, const host::TraceReport& of_objects) {
  const auto refuse = [&](const std::string& what) {
    throw host::Error(host::Fault::kInput, source + " has more than one report " + what + ": give each in a file");
  };
  if (of_stacks > 1) refuse("of slab_stacks");
  std::set<std::string> names;
  for (const std::string& name : of_objects.sources) {
    if (!names.insert(name).second) refuse("of slab_trace print " + name);
  }
}

void add_objects(Holdings& to, const host::TraceReport& report, const Symbols* symbols) {
  to.has_bytes = false;
  to.complete = to.complete && report.complete();
  for (const auto& object : report.objects) {
    std::string key;
    for (const auto& frame : object.frames) key += fmt::format("{}{:#x}", key.empty() ? "" : " ", frame.pc);
    Holding& of = to.stacks[{key, ""}];
    ++of.objects;
    if (!of.frames.empty()) continue;
    for (const auto& frame : object.frames) {
      const auto names = symbols != nullptr ? symbols->look_up(frame.pc) : std::span<const Frame>();
      for (const Frame& name : names) of.frames.push_back(describe(name));
      if (names.empty()) of.frames.push_back(frame.name);
    }
    of.name = of.frames.empty() ? "(no stack)" : of.frames.front();
  }
}

/// Leaves the call sites out: adds up what is of the same stack.
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

double weight(const Change& change, bool has_bytes) { return has_bytes ? change.bytes() : change.objects(); }

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

Holdings holdings_of(std::string_view text, const Symbols* symbols, std::string source) {
  Holdings made;
  made.source = std::move(source);
  made.has_call_sites = false;
  StacksReader stacks(made);
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    stacks.line(line);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const host::TraceReport objects = host::parse_trace_report(text);
  const bool has_objects = !objects.objects.empty() || !objects.closing_lines.empty();
  const unsigned reports_of_stacks = stacks.finish();
  require_one_report(made.source, reports_of_stacks, objects);
  if (reports_of_stacks != 0 && has_objects) {
    throw host::Error(host::Fault::kInput,
                      made.source + " has reports of slab_stacks and of slab_trace print: give one kind");
  }
  if (has_objects) add_objects(made, objects, symbols);
  if (!has_objects && reports_of_stacks == 0) {
    throw host::Error(host::Fault::kInput,
                      made.source + " is no capture, and has no report of slab_stacks or slab_trace print");
  }
  return made;
}

Difference difference(Holdings before, Holdings after) {
  if (before.has_bytes != after.has_bytes) {
    const auto kind = [](const Holdings& of) {
      return of.has_bytes ? " knows its stacks by id" : " is of slab_trace print, which has no ids";
    };
    throw host::Error(host::Fault::kInput,
                      before.source + kind(before) + ", " + after.source + kind(after) + ": they cannot be compared");
  }
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
  const bool has_bytes = made.after.has_bytes;
  std::stable_sort(made.changes.begin(), made.changes.end(), [has_bytes](const Change& a, const Change& b) {
    return weight(a, has_bytes) != weight(b, has_bytes) ? weight(a, has_bytes) > weight(b, has_bytes)
                                                        : a.objects() > b.objects();
  });
  return made;
}

std::string difference_text(const Difference& of, std::size_t top) {
  std::string text;
  const auto line = [&text]<class... Arguments>(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Arguments>(arguments)...);
    text += '\n';
  };
  const bool has_bytes = of.after.has_bytes;
  for (const Holdings* side : {&of.before, &of.after}) {
    double objects = 0, bytes = 0;
    for (const auto& [key, holding] : side->stacks) objects += holding.objects, bytes += holding.bytes;
    line("{} {}: {}{} from {}{}", side == &of.before ? "before" : "after ", side->source,
         host::counted(static_cast<std::uint64_t>(std::llround(objects)), "object"),
         has_bytes ? ", " + bytes_in_words(bytes) + "," : "", host::counted(side->stacks.size(), "stack"),
         side->complete ? "" : " (INCOMPLETE)");
  }
  std::size_t hidden = 0;
  for (const bool grown : {true, false}) {
    std::vector<const Change*> shown;
    for (const Change& change : of.changes) {
      if ((weight(change, has_bytes) > 0 || (weight(change, has_bytes) == 0 && change.objects() > 0)) == grown)
        shown.push_back(&change);
    }
    if (!grown) std::reverse(shown.begin(), shown.end());
    if (shown.empty()) continue;
    line("\n{}", grown ? "Grown" : "Shrunk");
    for (std::size_t index = 0; index < shown.size() && (top == 0 || index < top); ++index) {
      const Change& change = *shown[index];
      const Holding& known = change.after.frames.empty() ? change.before : change.after;
      line("{:>+10.0f} {:<7} {:>14}  {}{}", change.objects(), std::abs(change.objects()) == 1 ? "object" : "objects",
           has_bytes ? signed_bytes(change.bytes()) : "", has_bytes ? "stack " + change.origin.stack + " " : "",
           known.name);
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
