#include "trace_text.hpp"

#include <qm/console/console.hpp>

namespace qm::console {
namespace {

/// Frames of a stack that is printed on one line.
constexpr unsigned kLineFrames = 8;

void print_frame(Console& console, Output& out, unsigned number, std::uintptr_t pc) noexcept {
  // A return address lies behind its call, perhaps in the next function already.
  Symbol symbol;
  const bool known = console.resolve(pc - 1, symbol);
  out.print("#{:02} [<{}>] in {}\n", number, Address{pc}, known ? symbol.name : std::string_view("(null)"));
}

}  // namespace

void print_record(Console& console, Output& out, const trace::DumpEntry& entry, Detail detail) noexcept {
  out.print("Obj {}, from hart {} {}:", Address{entry.object}, entry.hart, entry.context);
  if (detail == Detail::kVerbose) {
    const std::uint64_t milliseconds = entry.age_ticks / (hal::Port::tick_rate() / 1000);
    out.print(" size {}, age {}.{:03} s, seq {}", entry.requested, milliseconds / 1000, milliseconds % 1000, entry.sequence);
  }
  out.print("\n----\n");
  for (unsigned at = 0; at < entry.depth; ++at) print_frame(console, out, at + 1, entry.pcs[at]);
  if (entry.truncated) out.print("#{:02} [<...>] in ... (truncated)\n", entry.depth + 1);
  out.print("\n");
}

void print_stack_line(Console& console, Output& out, const trace::CallStack& stack) noexcept {
  const unsigned shown = stack.depth < kLineFrames ? stack.depth : kLineFrames;
  for (unsigned at = 0; at < shown; ++at) {
    Symbol symbol;
    if (at != 0) out.text(" < ");
    if (console.resolve(stack.pcs[at] - 1, symbol)) {
      out.print("{}+0x{:x}", symbol.name, symbol.offset + 1);
    } else {
      out.print("{}", Address{stack.pcs[at]});
    }
  }
  if (shown < stack.depth || stack.truncated) out.text(" < ...");
}

}  // namespace qm::console
