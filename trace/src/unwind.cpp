#include <qm/trace/unwind.hpp>

extern "C" {
// Defined by the image's linker script; an image without them has none of the ranges.
[[gnu::weak]] extern const char __trap_text_start[];
[[gnu::weak]] extern const char __trap_text_end[];
[[gnu::weak]] extern const char __qm_books_text_start[];
[[gnu::weak]] extern const char __qm_books_text_end[];
[[gnu::weak]] extern const char __text_start[];
[[gnu::weak]] extern const char __text_end[];
[[gnu::weak]] extern const char __executable_start[];
[[gnu::weak]] extern const char etext[];
}

namespace qm::trace {
namespace {

std::uintptr_t address(const char* symbol) noexcept { return reinterpret_cast<std::uintptr_t>(symbol); }

}  // namespace

WalkRanges image_ranges() noexcept {
  const TextRange own{address(__text_start), address(__text_end)};
  const TextRange hosted{address(__executable_start), address(etext) != 0 ? address(etext) : UINTPTR_MAX};
  WalkRanges ranges{
      own.high != 0 ? own : hosted,
      {address(__trap_text_start), address(__trap_text_end)},
      {address(__qm_books_text_start), address(__qm_books_text_end)},
      {},
  };
  ranges.plain = ranges.text;
  for (const TextRange& range : {ranges.traps, ranges.books}) {
    if (ranges.plain.contains(range.low)) ranges.plain.low = range.high;
  }
  return ranges;
}

void walk(std::uintptr_t frame, CallStack& out) noexcept {
  out.depth = 0;
  out.truncated = false;
  walk(frame, image_ranges(), out);
}

}  // namespace qm::trace
