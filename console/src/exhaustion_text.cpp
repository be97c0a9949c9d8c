/// Reports of exhaustion as text, between what commands print: who lacked what, where idle memory is, who holds the rest.

#include <qm/console/console.hpp>
#include <qm/trace/dump.hpp>

#include "commands/names.hpp"
#include "commands/trace_text.hpp"

namespace qm::console {
namespace {

const char* word(Effort effort) noexcept {
  switch (effort) {
    case Effort::kAtomic: return "atomic";
    case Effort::kWait: return "wait";
    default: return "reclaim";
  }
}

void print_want(Output& out, const ExhaustionReport& report) noexcept {
  out.print("warning: {}: {} {}, {} bytes ({}), failure {}", report.at_limit ? "limit reached" : "out of memory",
            report.is_arena ? "arena" : "cache", static_cast<const char*>(report.name), report.size, word(report.effort),
            report.failures);
  if (report.unreported != 0) out.print(", {} before it not told", report.unreported);
  out.put('\n');
}

void print_idle(Output& out, const ExhaustionReport& report) noexcept {
  std::size_t in_magazines = 0;
  for (const std::size_t bytes : report.in_magazines) in_magazines += bytes;
  out.print("  reap would recover {}: magazines {}, depots {}, slabs {}, spans {}; fragments {}\n", report.recoverable, in_magazines,
            report.in_depots, report.in_slabs, report.in_spans, report.in_fragments);
  for (unsigned hart = 0; hart < std::size(report.in_magazines); ++hart) {
    if (report.in_magazines[hart] == 0) continue;
    // Each is read while its hart goes on.
    const std::size_t previous = report.in_previous[hart];
    const std::size_t loaded = report.in_magazines[hart] > previous ? report.in_magazines[hart] - previous : 0;
    out.print("  hart {} magazines: loaded {}, previous {}\n", hart, loaded, previous);
  }
  for (unsigned hart = 0; hart < hal::Port::kMaxHarts; ++hart) {
    if ((report.silent >> hart & 1) != 0) out.print("  hart {} has not answered\n", hart);
  }
}

void print_holders(Output& out, const ExhaustionReport& report) noexcept {
  out.text("  held:");
  const char* separator = " ";
  for (const ExhaustionReport::Holder& holder : report.holders) {
    if (holder.bytes == 0) continue;
    out.print("{}{} {}", separator, static_cast<const char*>(holder.name), holder.bytes);
    separator = ", ";
  }
  out.put('\n');
}

void print_stacks(Console& console, Output& out, const ExhaustionLog::Entry& entry) noexcept {
  trace::CallStack stack;
  std::uint32_t id = 0;
  for (unsigned at = 0; at < entry.stack_count; ++at) {
    const trace::StackThen& then = entry.stacks[at];
    if (!trace::stack_of(then.handle, stack, id)) continue;
    out.print("  stack 0x{:08x}: bytes {}, objects {}: ", id, then.bytes, then.objects);
    print_stack_line(console, out, stack);
    out.put('\n');
  }
}

inline void print_sites(Output& out, const ExhaustionLog::Entry& entry) noexcept {
  for (unsigned at = 0; at < entry.site_count; ++at) {
    const call_sites::Row& row = entry.sites[at];
    if (row.is_untagged()) {
      out.text("  site <untagged>");
    } else {
      out.print("  site {}:{} func:{}", row.site->file, row.site->line, row.site->function);
    }
    out.print(": bytes {}, calls {}{}\n", row.bytes, row.calls, row.is_accurate ? "" : " accurate:no");
  }
}

/// The last line: what was counted, and whether it is all.
void print_closing(Output& out, const ExhaustionLog::Entry& entry) noexcept {
  if (entry.stacks_status == Status::kBusy) out.text("  note: no stacks, as another report on stacks had not ended\n");
  if (entry.stacks_status == Status::kUnsafe) out.text("  note: no stacks, as there was no time to count them\n");
  const trace::StackTotals& totals = entry.totals;
  const trace::Totals all = trace::totals();
  const bool whole = entry.stacks_status == Status::kOk && totals.complete() && entry.report.silent == 0;
  out.print("  stacks {} of {}, objects {}, bytes {}, dropped {}, not traced {} of {} caches: {}\n", entry.stack_count, totals.stacks,
            totals.objects, totals.bytes, totals.dropped, all.caches - all.traced, all.caches, closing_word(false, whole));
}

}  // namespace

void Console::print_exhaustion(ExhaustionLog& log) noexcept {
  while (const ExhaustionLog::Entry* entry = log.oldest()) {
    print_want(text_, entry->report);
    print_idle(text_, entry->report);
    print_holders(text_, entry->report);
    print_stacks(*this, text_, *entry);
    if constexpr (kCallSites) print_sites(text_, *entry);
    print_closing(text_, *entry);
    log.drop();
  }
  if (const std::uint32_t lost = log.take_lost(); lost > 0) text_.print("{} reports of exhaustion lost\n", lost);
}

}  // namespace qm::console
