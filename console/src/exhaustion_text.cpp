/// Reports of exhaustion as notices: who lacked what, where idle memory is, who holds the rest.

#include <qm/console/notice.hpp>
#include <qm/exhaustion.hpp>

namespace qm::console {
namespace {

const char* word(Effort effort) noexcept {
  switch (effort) {
    case Effort::kAtomic: return "atomic";
    case Effort::kWait: return "wait";
    default: return "reclaim";
  }
}

void tell_want(Console& console, const ExhaustionReport& report) noexcept {
  Notice line(console);
  line.out().print("warning: {}: {} {}, {} bytes ({}), failure {}", report.at_limit ? "limit reached" : "out of memory",
                   report.is_arena ? "arena" : "cache", static_cast<const char*>(report.name), report.size, word(report.effort),
                   report.failures);
  if (report.unreported != 0) line.out().print(", {} before it not told", report.unreported);
  line.out().print("\n");
}

void tell_magazines(Console& console, const ExhaustionReport& report) noexcept {
  Notice line(console);
  line.out().print("  magazines:");
  const char* separator = " ";
  for (unsigned hart = 0; hart < std::size(report.in_magazines); ++hart) {
    if (report.in_magazines[hart] == 0) continue;
    line.out().print("{}hart {} {}", separator, hart, report.in_magazines[hart]);
    separator = ", ";
  }
  line.out().print("\n");
}

void tell_idle(Console& console, const ExhaustionReport& report) noexcept {
  std::size_t in_magazines = 0;
  for (const std::size_t bytes : report.in_magazines) in_magazines += bytes;
  Notice(console).out().print("  reap would recover {}: magazines {}, depots {}, slabs {}, spans {}; fragments {}\n",
                              report.recoverable, in_magazines, report.in_depots, report.in_slabs, report.in_spans,
                              report.in_fragments);
  if (in_magazines != 0) tell_magazines(console, report);
}

void tell_holders(Console& console, const ExhaustionReport& report) noexcept {
  Notice line(console);
  line.out().print("  held:");
  const char* separator = " ";
  for (const ExhaustionReport::Holder& holder : report.holders) {
    if (holder.bytes == 0) continue;
    line.out().print("{}{} {}", separator, static_cast<const char*>(holder.name), holder.bytes);
    separator = ", ";
  }
  line.out().print("\n");
}

}  // namespace

void Console::notify(const ExhaustionReport& report) noexcept {
  tell_want(*this, report);
  tell_idle(*this, report);
  tell_holders(*this, report);
  for (unsigned hart = 0; hart < hal::Port::kMaxHarts; ++hart) {
    if ((report.silent >> hart & 1) != 0) Notice(*this).out().print("  hart {} has not answered\n", hart);
  }
}

}  // namespace qm::console
