// The demonstration: the leak hunt that the README tells, typed by a program that knows what has to come out.

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <qm/host/counted.hpp>
#include <qm/host/trace_report.hpp>

#include "commands.hpp"

namespace qm::tool {
namespace {

using host::TraceReport;

constexpr std::string_view kCulprit = "rx_checksum_error";
constexpr std::size_t kFirstFrames = 4;  // "among the first frames"

std::string pretty(std::uint64_t address) { return fmt::format("{:#018x}", address); }

/// Runs one command and shows it as it looks at the prompt, its output cut to @p shown lines.
/// @throws host::Error as Target::execute.
host::CommandResult step(host::Target& target, const std::string& command, std::size_t shown) {
  fmt::print("qm> {}\n", command);
  std::fflush(stdout);
  host::CommandResult result = target.execute(command);
  std::size_t begin = 0, lines = 0, hidden = 0;
  while (begin < result.text.size()) {
    const std::size_t end = std::min(result.text.find('\n', begin), result.text.size() - 1);
    const bool last = end + 1 == result.text.size();
    if (lines++ < shown || last) {
      if (hidden != 0) fmt::print("  ... {} lines\n", hidden);
      hidden = 0;
      fmt::print("{}", result.text.substr(begin, end - begin + 1));
    } else {
      ++hidden;
    }
    begin = end + 1;
  }
  return result;
}

/// The conditions of the demonstration, one line each as they are checked.
class Checks {
 public:
  void check(bool holds, const std::string& claim) {
    fmt::print("  {}  {}\n", holds ? "yes" : "NO ", claim);
    all_hold_ = all_hold_ && holds;
  }
  [[nodiscard]] bool all_hold() const noexcept { return all_hold_; }

 private:
  bool all_hold_ = true;
};

bool names_culprit(const TraceReport::Object& object) {
  const auto end = object.frames.begin() + static_cast<std::ptrdiff_t>(std::min(kFirstFrames, object.frames.size()));
  return std::any_of(object.frames.begin(), end,
                     [](const TraceReport::Frame& frame) { return frame.name.find(kCulprit) != std::string::npos; });
}

/// The stack that holds most objects, and how many it holds.
std::pair<std::vector<TraceReport::Frame>, std::size_t> largest_stack(const TraceReport& report) {
  std::map<std::vector<std::uint64_t>, std::pair<const TraceReport::Object*, std::size_t>> stacks;
  for (const TraceReport::Object& object : report.objects) {
    std::vector<std::uint64_t> key;
    for (const TraceReport::Frame& frame : object.frames) key.push_back(frame.pc);
    auto& stack = stacks[key];
    stack.first = &object;
    ++stack.second;
  }
  const auto most = std::max_element(stacks.begin(), stacks.end(),
                                     [](const auto& a, const auto& b) { return a.second.second < b.second.second; });
  if (most == stacks.end()) return {};
  return {most->second.first->frames, most->second.second};
}

void show_largest_stack(const TraceReport& report) {
  const auto [frames, count] = largest_stack(report);
  fmt::print("\n{} of {} came from one stack:\n", count, host::counted(report.objects.size(), "object"));
  for (const TraceReport::Frame& frame : frames) {
    fmt::print("  {}{}\n", frame.name,
               frame.name.find(kCulprit) != std::string::npos ? "    <- forgets its packet" : "");
  }
}

void check_findings(Checks& checks, const std::string& workload, const TraceReport& report) {
  const std::vector<std::uint64_t> forgotten = host::parse_leaked(workload);
  const std::set<std::uint64_t> leaked(forgotten.begin(), forgotten.end());
  std::set<std::uint64_t> found;
  std::size_t named = 0;
  for (const TraceReport::Object& object : report.objects) {
    found.insert(object.address);
    if (names_culprit(object)) ++named;
  }
  checks.check(!leaked.empty(), fmt::format("the workload says which packets it forgot: {}", leaked.size()));
  const std::string closing =
      fmt::format("leak: forgot {} of packet in {}\n", host::counted(leaked.size(), "object"), kCulprit);
  checks.check(workload.find(closing) != std::string::npos, "and counts as many");
  checks.check(found.size() == report.objects.size(),
               fmt::format("the trace shows {}, none twice", host::counted(found.size(), "object")));
  checks.check(found == leaked, "they are exactly the forgotten ones, address by address");
  for (const std::uint64_t address : leaked) {
    if (!found.contains(address)) fmt::print("       forgotten, not found: {}\n", pretty(address));
  }
  for (const std::uint64_t address : found) {
    if (!leaked.contains(address)) fmt::print("       found, not forgotten: {}\n", pretty(address));
  }
  checks.check(named == report.objects.size(),
               fmt::format("each has {} among its first {} frames", kCulprit, kFirstFrames));
  checks.check(report.closing_lines.size() == 1 &&
                   report.closing_lines[0].starts_with(fmt::format("outstanding {},", report.objects.size())),
               "the closing line counts the same number");
  checks.check(report.complete(), "and says that the report is complete");
  checks.check(report.unknown_lines.empty(), "every line of the report has the documented form");
  for (const std::string& line : report.unknown_lines) fmt::print("       unknown: {}\n", line);
}

}  // namespace

int demo(host::Target& target) {
  fmt::print("{}\n\nA packet driver forgets some of its packets. Who holds them?\n\n", target.identity());
  bool ran = step(target, "slab_trace start packet", 5).ok();
  const host::CommandResult workload = step(target, "workload run leak 500 list", 3);
  ran = workload.ok() && ran;
  ran = step(target, "slab_trace stop packet", 5).ok() && ran;
  const host::CommandResult print = step(target, "slab_trace print packet", 24);
  ran = print.ok() && ran;

  const TraceReport report = host::parse_trace_report(print.text);
  if (!report.objects.empty()) show_largest_stack(report);
  fmt::print("\nIs it true?\n");
  Checks checks;
  checks.check(ran, "every command ended with status 0");
  check_findings(checks, workload.text, report);
  if (checks.all_hold()) {
    fmt::print("\nFound: {}, all forgotten in {}.\n", host::counted(report.objects.size(), "packet"), kCulprit);
    return kOk;
  }
  fmt::print("\nThe hunt has failed; transcript: {}\n", target.transcript().path().string());
  return kCommandFailed;
}

}  // namespace qm::tool
