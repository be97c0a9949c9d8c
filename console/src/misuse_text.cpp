/// Prints reports of misuse between the output of commands.

#include <qm/console/console.hpp>

namespace qm::console {
namespace {

/// `: write of byte 70, it has 64, at rx_deliver+0x12`. A negative byte lies before the object.
void print_access(Console& console, Output& out, const MisuseReport& report) noexcept {
  const bool is_before = static_cast<std::intptr_t>(report.offset) < 0;
  out.print(": {} of byte {}{}, it has {}", report.is_write ? "write" : "read", is_before ? "-" : "",
            is_before ? std::size_t{0} - report.offset : report.offset, report.count);
  if (report.pc == 0) return;
  Symbol symbol;
  if (!console.resolve(report.pc, symbol)) return out.print(", at {}", Address{report.pc});
  out.print(", at {}+0x{:x}", symbol.name, symbol.offset);
}

void print_report(Console& console, TraceBackend& trace, Output& out, const MisuseLog::Entry& entry) noexcept {
  const MisuseReport& report = entry.report;
  if (report.kind == Misuse::kTooLarge) {
    out.print("misuse: {}: {} bytes asked for, more than an object has\n", entry.cache, report.count);
    return trace.print_deed(out, "found by", report.found_by);
  }
  out.print("misuse: {}: {}", entry.cache, Address{reinterpret_cast<std::uintptr_t>(report.object)});
  if (report.kind == Misuse::kInterior || (report.kind == Misuse::kWrongCache && report.offset != 0)) {
    out.print(" + {}", report.offset);
  }
  out.print(" {}", describe(report.kind));
  if (report.kind == Misuse::kWrongCache) out.print(": {}", entry.owner);
  if (report.kind == Misuse::kOverflow || report.kind == Misuse::kWriteAfterFree)
    out.print(", at byte {}", report.offset);
  if (report.kind == Misuse::kOutside || report.kind == Misuse::kUseAfterFree) print_access(console, out, report);
  if (report.kind == Misuse::kLeak) out.print(", one of {}", report.count);
  out.put('\n');
  trace.print_deed(out, "allocated by", report.allocated_by);
  trace.print_deed(out, "freed by", report.freed_by);
  trace.print_deed(out, "found by", report.found_by);
}

}  // namespace

void Console::print_misuse(MisuseLog& log) noexcept {
  MisuseLog::Entry entry;
  while (log.take(entry)) print_report(*this, *trace_, text_, entry);
  if (const std::uint32_t lost = log.take_lost(); lost > 0) text_.print("misuse: {} more reports lost\n", lost);
}

}  // namespace qm::console
