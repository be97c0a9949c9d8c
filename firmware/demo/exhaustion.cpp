#include "exhaustion.hpp"

#include <array>

#include <qm/console/output.hpp>
#include <qm/exhaustion.hpp>
#include <qm/firmware/task.hpp>
#include <qm/system.hpp>

namespace qm::demo {
namespace {

constinit firmware::Event drain_wanted;
constinit firmware::Event memory_freed;
Notify notify_console = nullptr;

/// One line of a report, told as a whole.
class Line {
 public:
  Line() noexcept : out_(buffer_, console::Output::Target::kFrames, tell, nullptr) {}
  ~Line() { out_.flush(); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  [[nodiscard]] console::Output& out() noexcept { return out_; }

 private:
  static void tell(void*, std::string_view text) noexcept { notify_console(text); }
  std::array<char, 160> buffer_;
  console::Output out_;
};

const char* word(Effort effort) noexcept {
  switch (effort) {
    case Effort::kAtomic: return "atomic";
    case Effort::kWait: return "wait";
    default: return "reclaim";
  }
}

void tell_idle(const ExhaustionReport& report) noexcept {
  std::size_t in_magazines = 0;
  for (const std::size_t bytes : report.in_magazines) in_magazines += bytes;
  Line().out().print("  reap would recover {}: magazines {}, depots {}, slabs {}, spans {}; fragments {}\n",
                     report.recoverable, in_magazines, report.in_depots, report.in_slabs, report.in_spans,
                     report.in_fragments);
  if (in_magazines == 0) return;
  Line magazines;
  magazines.out().print("  magazines:");
  const char* separator = " ";
  for (unsigned hart = 0; hart < std::size(report.in_magazines); ++hart) {
    if (report.in_magazines[hart] == 0) continue;
    magazines.out().print("{}hart {} {}", separator, hart, report.in_magazines[hart]);
    separator = ", ";
  }
  magazines.out().print("\n");
}

void tell_holders(const ExhaustionReport& report) noexcept {
  Line holders;
  holders.out().print("  held:");
  const char* separator = " ";
  for (const ExhaustionReport::Holder& holder : report.holders) {
    if (holder.bytes == 0) continue;
    holders.out().print("{}{} {}", separator, static_cast<const char*>(holder.name), holder.bytes);
    separator = ", ";
  }
  holders.out().print("\n");
}

void tell(const ExhaustionReport& report) noexcept {
  {
    Line first;
    first.out().print("warning: {}: {} {}, {} bytes ({}), failure {}",
                      report.at_limit ? "limit reached" : "out of memory", report.is_arena ? "arena" : "cache",
                      static_cast<const char*>(report.name), report.size, word(report.effort), report.failures);
    if (report.unreported != 0) first.out().print(", {} before it not told", report.unreported);
    first.out().print("\n");
  }
  tell_idle(report);
  tell_holders(report);
  for (unsigned hart = 0; hart < hal::Port::kMaxHarts; ++hart) {
    if ((report.silent >> hart & 1) != 0) Line().out().print("  hart {} has not answered\n", hart);
  }
}

void pause(std::uint64_t until) noexcept {
  firmware::wait_event(memory_freed, memory_freed.sequence(), until);
}

}  // namespace
}  // namespace qm::demo

// A plain C name: this is how the console prints it.
extern "C" {
/// Finishes drains; when there is none for a second, lets go of what was not used in it.
static void drain_task(void*) {
  for (;;) {
    const std::uint32_t seen = qm::demo::drain_wanted.sequence();
    if (qm::finish_drain()) continue;
    const std::uint64_t second = qm::hal::Port::ticks() + qm::hal::Port::tick_rate();
    if (!qm::firmware::wait_event(qm::demo::drain_wanted, seen, second)) qm::trim();
  }
}
}

namespace qm::demo {

void start_exhaustion(Notify notify) noexcept {
  notify_console = notify;
  ExhaustionConfig config;
  config.report = tell;
  config.drain_wanted = []() noexcept { drain_wanted.signal(); };
  config.pause = pause;
  config.wake = []() noexcept { memory_freed.signal(); };
  configure_exhaustion(config);
  firmware::spawn(0, "drain", drain_task, nullptr);
}

}  // namespace qm::demo
