// The formats of stacks with values: folded, speedscope.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <span>

#include <qm/analysis/export.hpp>

#include "export_text.hpp"

namespace qm::analysis {

std::string json_string(std::string_view text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      made += '\\';
      made += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) {
      made +=
          fmt::format("\\u{:04x}", static_cast<unsigned char>(c));  // names are ASCII; any other character is escaped
    } else {
      made += c;
    }
  }
  return made + '"';
}

std::string frame_name(const StackFrame& frame) {
  return frame.frame.function.empty() ? fmt::format("{:#x}", frame.pc) : frame.frame.function;
}

const char* operation_name(host::Operation operation) noexcept {
  switch (operation) {
    case host::Operation::kFree: return "free";
    case host::Operation::kReallocate: return "realloc";
    case host::Operation::kAllocate: break;
  }
  return "alloc";
}

std::string export_folded(const Report& report, Value value) {
  // several stacks may have the same line: they differ only in positions within functions
  std::map<std::string, double> lines;
  for (const StackEntry& stack : report.stacks) {
    const double weight = value == Value::kLiveBytes ? stack.figures.live_bytes : stack.figures.allocated;
    if (weight <= 0) continue;
    std::string line;
    const std::span<const StackFrame> frames_of = stack.callers();
    for (auto frame = frames_of.rbegin(); frame != frames_of.rend(); ++frame) {
      std::string name = frame_name(*frame);
      const bool is_site = &*frame == &frames_of.front();
      if (is_site && !frame->frame.file.empty()) name += fmt::format(" ({}:{})", frame->frame.file, frame->frame.line);
      std::replace(name.begin(), name.end(), ';', ':');
      line += (line.empty() ? "" : ";") + name;
    }
    if (line.empty()) line = stack.name;
    lines[line] += weight;
  }
  std::string text;
  for (const auto& [line, weight] : lines) fmt::format_to(std::back_inserter(text), "{} {:.0f}\n", line, weight);
  return text;
}

namespace {

/// The frames of all profiles, each of them once.
class FrameTable {
 public:
  std::size_t add(const StackFrame& frame) {
    std::string text = fmt::format("{{\"name\":{}", json_string(frame_name(frame)));
    if (!frame.frame.file.empty())
      text += fmt::format(",\"file\":{},\"line\":{}", json_string(frame.frame.file), frame.frame.line);
    return add(text + "}");
  }
  std::size_t add_name(const std::string& name) { return add(fmt::format("{{\"name\":{}}}", json_string(name))); }
  [[nodiscard]] const std::vector<std::string>& texts() const noexcept { return texts_; }

 private:
  std::size_t add(const std::string& text) {
    const auto [entry, is_new] = numbers_.try_emplace(text, texts_.size());
    if (is_new) texts_.push_back(text);
    return entry->second;
  }
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::string> texts_;
};

std::string speedscope_profile(const Report& report, FrameTable& frames, const char* name, double Figures::*value) {
  std::string samples, weights;
  double sum = 0;
  for (const StackEntry& stack : report.stacks) {
    const double weight = stack.figures.*value;
    if (weight <= 0) continue;
    std::string line;
    const std::span<const StackFrame> frames_of = stack.callers();
    for (auto frame = frames_of.rbegin(); frame != frames_of.rend(); ++frame) {
      line += fmt::format("{}{}", line.empty() ? "" : ",", frames.add(*frame));
    }
    if (line.empty()) line = fmt::format("{}", frames.add_name(stack.name));
    samples += fmt::format("{}[{}]", samples.empty() ? "" : ",\n", line);
    weights += fmt::format("{}{:.0f}", weights.empty() ? "" : ",", weight);
    sum += weight;
  }
  return fmt::format(
      "{{\"type\":\"sampled\",\"name\":{},\"unit\":\"bytes\",\"startValue\":0,\"endValue\":{:.0f},\n\"samples\":[{}],"
      "\n\"weights\":[{}]}}",
      json_string(name), sum, samples, weights);
}

}  // namespace

std::string export_speedscope(const Report& report) {
  FrameTable frames;
  const std::string live = speedscope_profile(report, frames, "live bytes", &Figures::live_bytes);
  const std::string allocated = speedscope_profile(report, frames, "allocated bytes", &Figures::allocated);
  std::string text = "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n";
  text += fmt::format("\"name\":{},\"exporter\":\"quartermaster\",\"activeProfileIndex\":0,\n\"shared\":{{\"frames\":[",
                      json_string(report.file));
  for (std::size_t index = 0; index < frames.texts().size(); ++index)
    text += (index != 0 ? ",\n" : "\n") + frames.texts()[index];
  return text + "]},\n\"profiles\":[" + live + ",\n" + allocated + "]}\n";
}

}  // namespace qm::analysis
