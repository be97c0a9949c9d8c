/// The demo with a defect: a dump holds a lock from its first record to its closing line, so interrupts stay masked and
/// the task cannot yield. The defect is linked in (--wrap), so that the product has no switch for it.

#include <qm/firmware/task.hpp>
#include <qm/hal/port.hpp>
#include <qm/trace/dump.hpp>

using qm::hal::Port;

namespace {
Port::InterruptState before;
bool held = false;
}  // namespace

extern "C" {
// qm::trace::Dump::begin(qm::Traceable&) and finish(), qm::firmware::yield()
void __real__ZN2qm5trace4Dump5beginERNS_9TraceableE(qm::trace::Dump* dump, qm::Traceable* source) noexcept;
void __wrap__ZN2qm5trace4Dump5beginERNS_9TraceableE(qm::trace::Dump* dump, qm::Traceable* source) noexcept {
  __real__ZN2qm5trace4Dump5beginERNS_9TraceableE(dump, source);
  before = Port::mask_interrupts();
  held = true;
}

qm::trace::DumpSummary __real__ZN2qm5trace4Dump6finishEv(qm::trace::Dump* dump) noexcept;
qm::trace::DumpSummary __wrap__ZN2qm5trace4Dump6finishEv(qm::trace::Dump* dump) noexcept {
  held = false;
  Port::restore_interrupts(before);
  return __real__ZN2qm5trace4Dump6finishEv(dump);
}

void __real__ZN2qm8firmware5yieldEv() noexcept;
void __wrap__ZN2qm8firmware5yieldEv() noexcept {
  if (!held || Port::hart_index() != 0) __real__ZN2qm8firmware5yieldEv();
}
}
