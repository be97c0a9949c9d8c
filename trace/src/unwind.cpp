#include <qm/trace/unwind.hpp>

extern "C" {
// Defined by the image's linker script; without them the ranges are empty.
[[gnu::weak]] extern const char __trap_text_start[];
[[gnu::weak]] extern const char __trap_text_end[];
[[gnu::weak]] extern const char __qm_trace_text_start[];
[[gnu::weak]] extern const char __qm_trace_text_end[];
[[gnu::weak]] extern const char __text_start[];
[[gnu::weak]] extern const char __text_end[];
[[gnu::weak]] extern const char __executable_start[];
[[gnu::weak]] extern const char etext[];
}

namespace qm::trace {
namespace {

std::uintptr_t address(const char* symbol) noexcept { return reinterpret_cast<std::uintptr_t>(symbol); }

}  // namespace

WalkRanges ranges_between(const ImageBounds& bounds, TextRange traps, TextRange own) noexcept {
  const auto first = [](std::uintptr_t one, std::uintptr_t other) { return one != 0 ? one : other; };
  WalkRanges ranges;
  ranges.text = {first(bounds.text_start, bounds.executable_start),
                 first(first(bounds.text_end, bounds.etext), UINTPTR_MAX)};
  ranges.traps = traps;
  ranges.trace = own;
  ranges.plain = ranges.text;
  if (ranges.text.low == 0) ranges.plain.low = bounds.within;
  for (const TextRange& range : {traps, own}) {
    if (ranges.plain.contains(range.low) || range.contains(ranges.plain.low)) ranges.plain.low = range.high;
  }
  return ranges;
}

WalkRanges image_ranges() noexcept {
  const ImageBounds bounds{
      .text_start = address(__text_start),
      .text_end = address(__text_end),
      .executable_start = address(__executable_start),
      .etext = address(etext),
      .within = reinterpret_cast<std::uintptr_t>(&image_ranges),
  };
  return ranges_between(bounds, {address(__trap_text_start), address(__trap_text_end)},
                        {address(__qm_trace_text_start), address(__qm_trace_text_end)});
}

void walk(std::uintptr_t frame, CallStack& out) noexcept {
  out.depth = 0;
  out.truncated = false;
  walk(frame, image_ranges(), out);
}

}  // namespace qm::trace
