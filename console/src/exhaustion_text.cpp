/// Prints reports of exhaustion between the output of commands: the failed allocation, where idle memory is, and which
/// caches, call sites and stacks hold the rest.

#include <qm/console/console.hpp>

namespace qm::console {
namespace {

constexpr std::size_t kHang = 4;  // indentation of the continuation of lines that begin with two spaces

const char* word(WaitPolicy wait_policy) noexcept {
  switch (wait_policy) {
    case WaitPolicy::kAtomic: return "atomic";
    case WaitPolicy::kWait: return "wait";
    default: return "reclaim";
  }
}

void print_want(Output& out, const ExhaustionReport& report) noexcept {
  out.print("warning: {}: {} {}, {} bytes ({}), failure {}", report.at_limit ? "limit reached" : "out of memory",
            report.is_arena ? "arena" : "cache", static_cast<const char*>(report.name), report.size,
            word(report.wait_policy), report.failures);
  if (report.unreported != 0) out.print(", {} before it not reported", report.unreported);
  out.put('\n');
}

void print_idle(Output& out, const ExhaustionReport& report) noexcept {
  std::size_t in_magazines = 0;
  for (const std::size_t bytes : report.in_magazines) in_magazines += bytes;
  out.hang(kHang);
  out.print("  reap would recover {}: magazines {}, depots {}, slabs {}, spans {}; fragments {}\n", report.recoverable,
            in_magazines, report.in_depots, report.in_slabs, report.in_spans, report.in_fragments);
  for (unsigned hart = 0; hart < std::size(report.in_magazines); ++hart) {
    if (report.in_magazines[hart] == 0) continue;
    // The hart ran on while its figures were read, so they may not agree.
    const std::size_t previous = report.in_previous[hart];
    const std::size_t loaded = report.in_magazines[hart] > previous ? report.in_magazines[hart] - previous : 0;
    out.print("  hart {} magazines: loaded {}, previous {}\n", hart, loaded, previous);
  }
  for (unsigned hart = 0; hart < hal::Port::kMaxHarts; ++hart) {
    if ((report.silent >> hart & 1) != 0) out.print("  hart {} has not answered\n", hart);
  }
}

void print_holders(Output& out, const ExhaustionReport& report) noexcept {
  out.hang(kHang);
  out.text("  held:");
  const char* separator = " ";
  for (const ExhaustionReport::Holder& holder : report.holders) {
    if (holder.bytes == 0) continue;
    out.print("{}{} {}", separator, static_cast<const char*>(holder.name), holder.bytes);
    separator = ", ";
  }
  out.put('\n');
}

inline void print_sites(Output& out, const ExhaustionLog::Entry& entry) noexcept {
  for (unsigned at = 0; at < entry.site_count; ++at) {
    const call_sites::Row& row = entry.sites[at];
    out.hang(kHang);
    if (row.is_untagged()) {
      out.text("  site <untagged>");
    } else {
      out.print("  site {}:{} func:{}", row.site->file, row.site->line, row.site->function);
    }
    out.print(": bytes {}, calls {}{}\n", row.bytes, row.calls, row.is_accurate ? "" : " accurate:no");
  }
}

}  // namespace

void Console::print_exhaustion(ExhaustionLog& log) noexcept {
  while (const ExhaustionLog::Entry* entry = log.oldest()) {
    print_want(text_, entry->report);
    print_idle(text_, entry->report);
    print_holders(text_, entry->report);
    trace_->print_stacks(text_, entry->holders);
    if constexpr (kCallSites) print_sites(text_, *entry);
    trace_->print_totals(text_, entry->holders, entry->report.silent == 0);
    log.drop();
    exhaustion_told_ = true;
  }
  if (const std::uint32_t lost = log.take_lost(); lost > 0)
    text_.print("{} of exhaustion lost\n", Counted{lost, "report/reports"});
}

}  // namespace qm::console
