// The demonstration: a program types the leak hunt of the README and knows the correct results.

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <qm/host/counted.hpp>

#include "commands.hpp"

namespace qm::tool {
namespace {

constexpr std::string_view kCulprit = "rx_checksum_error";
constexpr std::size_t kFirstFrames = 4;  // number of frames that the demonstration calls "the first frames"

std::string pretty(std::uint64_t address) { return fmt::format("{:#018x}", address); }

/// Runs one command and shows it as it looks at the prompt, with the output cut to @p shown lines.
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

/// An object in the output of the trace.
struct Object {
  std::uint64_t address = 0;
  std::vector<std::string> frames;  ///< names, innermost first
};

/// The contents of a report's rows.
struct Findings {
  std::vector<std::uint64_t> leaked;  ///< addresses of leaked objects, from the workload
  std::vector<Object> objects;        ///< the objects in the trace
  std::uint64_t counted = 0;          ///< the count in the last row
  bool complete = false;
};

/// Runs @p command once more to get its rows. @returns whether it succeeded.
bool read_rows(host::Target& target, const std::string& command, Findings& findings) {
  const auto take = [&](const host::ReportRow& row) {
    if (row.kind == "leaked") findings.leaked.push_back(row.number("address"));
    if (row.kind == "object") findings.objects.push_back({row.number("address"), {}});
    if (row.kind == "frame" && !findings.objects.empty())
      findings.objects.back().frames.emplace_back(row.text("function"));
    if (row.kind != "end") return;
    findings.counted = row.number("outstanding") + row.number("forgotten");
    findings.complete = row.text("verdict") == "complete";
  };
  return target.execute_for_rows(command, take).ok();
}

/// The conditions of the demonstration; prints one line for each when it is checked.
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

bool names_culprit(const Object& object) {
  const auto end = object.frames.begin() + static_cast<std::ptrdiff_t>(std::min(kFirstFrames, object.frames.size()));
  return std::any_of(object.frames.begin(), end,
                     [](const std::string& name) { return name.find(kCulprit) != std::string::npos; });
}

void show_largest_stack(const std::vector<Object>& objects) {
  std::map<std::vector<std::string>, std::size_t> stacks;
  for (const Object& object : objects) ++stacks[object.frames];
  const auto most =
      std::max_element(stacks.begin(), stacks.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  fmt::print("\n{} of {} came from one stack:\n", most->second, host::counted(objects.size(), "object"));
  for (const std::string& name : most->first)
    fmt::print("  {}{}\n", name, name.find(kCulprit) != std::string::npos ? "    <- forgets its packet" : "");
}

void check_findings(Checks& checks, const Findings& workload, const Findings& report) {
  const std::set<std::uint64_t> leaked(workload.leaked.begin(), workload.leaked.end());
  std::set<std::uint64_t> found;
  std::size_t named = 0;
  for (const Object& object : report.objects) {
    found.insert(object.address);
    if (names_culprit(object)) ++named;
  }
  checks.check(!leaked.empty(), fmt::format("the workload says which packets it forgot: {}", leaked.size()));
  checks.check(workload.counted == leaked.size(), "and counts as many");
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
  checks.check(report.counted == report.objects.size(), "the closing line counts the same number");
  checks.check(report.complete, "and says that the report is complete");
}

}  // namespace

int demo(host::Target& target) {
  fmt::print("{}\n\nA packet driver forgets some of its packets. Who holds them?\n\n", target.identity().text);
  bool ran = step(target, "slab_trace start packet", 5).ok();
  Findings workload, report;
  const std::string leak = "workload run leak 500 list";
  fmt::print("qm> {}\n", leak);
  ran = read_rows(target, leak, workload) && ran;
  for (std::size_t at = 0; at < std::min<std::size_t>(workload.leaked.size(), 3); ++at)
    fmt::print("leaked {}\n", pretty(workload.leaked[at]));
  if (workload.leaked.size() > 3) fmt::print("  ... {} lines\n", workload.leaked.size() - 3);
  ran = step(target, "slab_trace stop packet", 5).ok() && ran;
  const std::string print = "slab_trace print packet";
  ran = step(target, print, 24).ok() && ran;
  ran = read_rows(target, print, report) && ran;
  if (!report.objects.empty()) show_largest_stack(report.objects);
  fmt::print("\nIs it true?\n");
  Checks checks;
  checks.check(ran, "every command ended with status 0");
  check_findings(checks, workload, report);
  if (checks.all_hold()) {
    fmt::print("\nFound: {}, all forgotten in {}.\n", host::counted(report.objects.size(), "packet"), kCulprit);
    return kOk;
  }
  fmt::print("\nThe hunt has failed; transcript: {}\n", target.transcript().path().string());
  return kCommandFailed;
}

}  // namespace qm::tool
