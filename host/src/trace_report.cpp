#include <qm/host/trace_report.hpp>

#include <algorithm>
#include <charconv>
#include <optional>

namespace qm::host {
namespace {

/// Calls @p take with each line of @p text, without its end.
template <class Take>
void for_each_line(std::string_view text, Take take) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    take(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

bool skip(std::string_view& line, std::string_view prefix) {
  if (!line.starts_with(prefix)) return false;
  line.remove_prefix(prefix.size());
  return true;
}

/// Takes `0x` and hex digits off the front of @p line.
std::optional<std::uint64_t> take_address(std::string_view& line) {
  if (!skip(line, "0x")) return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value, 16);
  if (error != std::errc{}) return std::nullopt;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  return value;
}

/// `Obj 0x0000000080a41280, from hart 2 task net-rx:`, with `-v` more behind the colon.
std::optional<TraceReport::Object> parse_object(std::string_view line) {
  if (!skip(line, "Obj ")) return std::nullopt;
  const auto address = take_address(line);
  if (!address || !skip(line, ", from ")) return std::nullopt;
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  return TraceReport::Object{*address, std::string(line.substr(0, colon)), {}, false};
}

/// `#01 [<0x000000008020c1f2>] in packet_alloc`.
std::optional<TraceReport::Frame> parse_frame(std::string_view line) {
  if (!skip(line, "#")) return std::nullopt;
  const std::size_t digits = line.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string_view::npos) return std::nullopt;
  line.remove_prefix(digits);
  if (!skip(line, " [<")) return std::nullopt;
  const auto pc = take_address(line);
  if (!pc || !skip(line, ">] in ")) return std::nullopt;
  return TraceReport::Frame{*pc, std::string(line)};
}

bool is_closing(std::string_view line) {
  return line.starts_with("outstanding ") &&
         (line.ends_with(": complete") || line.ends_with(": incomplete") || line.ends_with(": aborted"));
}

}  // namespace

bool TraceReport::complete() const {
  return !closing_lines.empty() && closing_lines.size() >= sources.size() &&
         std::all_of(closing_lines.begin(), closing_lines.end(),
                     [](const std::string& line) { return line.ends_with(": complete"); });
}

TraceReport parse_trace_report(std::string_view text) {
  TraceReport report;
  for_each_line(text, [&](std::string_view line) {
    if (line.empty() || line == "----" || line == "-------------------------") return;
    if (std::string_view name = line; skip(name, "Dumping outstanding allocs from ")) {
      report.sources.emplace_back(name);
    } else if (std::string_view text_of_note = line; skip(text_of_note, "note: ")) {
      report.notes.emplace_back(text_of_note);
    } else if (auto object = parse_object(line)) {
      report.objects.push_back(std::move(*object));
    } else if (is_closing(line)) {
      report.closing_lines.emplace_back(line);
    } else if (auto frame = parse_frame(line); frame && !report.objects.empty()) {
      report.objects.back().frames.push_back(std::move(*frame));
    } else if (line.starts_with("#") && line.ends_with("(truncated)") && !report.objects.empty()) {
      report.objects.back().truncated = true;
    } else {
      report.unknown_lines.emplace_back(line);
    }
  });
  return report;
}

std::vector<std::uint64_t> parse_leaked(std::string_view text) {
  std::vector<std::uint64_t> addresses;
  for_each_line(text, [&](std::string_view line) {
    if (!skip(line, "leaked ")) return;
    if (const auto address = take_address(line); address && line.empty()) addresses.push_back(*address);
  });
  return addresses;
}

}  // namespace qm::host
