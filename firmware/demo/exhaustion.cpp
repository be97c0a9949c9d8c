#include "exhaustion.hpp"

#include <qm/exhaustion.hpp>
#include <qm/firmware/task.hpp>
#include <qm/system.hpp>

namespace qm::demo {
namespace {

constinit firmware::Event drain_wanted;
constinit firmware::Event memory_freed;

void pause(std::uint64_t until) noexcept { firmware::wait_event(memory_freed, memory_freed.sequence(), until); }

}  // namespace
}  // namespace qm::demo

// A plain C name: this is how the console prints it.
extern "C" {
/// Finishes drains. If there was none for a second, trims: gives back idle memory that was not used in that second.
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

void start_exhaustion(ReportExhaustion report) noexcept {
  ExhaustionConfig config;
  config.report = report;
  config.drain_wanted = []() noexcept { drain_wanted.signal(); };
  config.pause = pause;
  config.wake = []() noexcept { memory_freed.signal(); };
  configure_exhaustion(config);
  firmware::spawn(0, "drain", drain_task, nullptr);
}

}  // namespace qm::demo
