/// Prints reports of misuse between the output of commands.

#include <qm/console/console.hpp>

namespace qm::console {
namespace {

void print_report(TraceBackend& trace, Output& out, const MisuseLog::Entry& entry) noexcept {
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
  if (report.kind == Misuse::kLeak) out.print(", one of {}", report.count);
  out.put('\n');
  trace.print_deed(out, "allocated by", report.allocated_by);
  trace.print_deed(out, "freed by", report.freed_by);
  trace.print_deed(out, "found by", report.found_by);
}

}  // namespace

void Console::print_misuse(MisuseLog& log) noexcept {
  MisuseLog::Entry entry;
  while (log.take(entry)) print_report(*trace_, text_, entry);
  if (const std::uint32_t lost = log.take_lost(); lost > 0) text_.print("misuse: {} more reports lost\n", lost);
}

}  // namespace qm::console
