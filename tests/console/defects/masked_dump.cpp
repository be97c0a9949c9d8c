/// The demo with a defect: a dump keeps interrupts masked from its first record to its closing line. Put in at link time
/// (--wrap), so that the product has no switch for it.

#include <qm/hal/port.hpp>
#include <qm/trace/dump.hpp>

using qm::hal::Port;

namespace {
Port::InterruptState before;
}

extern "C" {
// qm::trace::Dump::begin(qm::Cache&) and finish()
void __real__ZN2qm5trace4Dump5beginERNS_5CacheE(qm::trace::Dump* dump, qm::Cache* cache) noexcept;
void __wrap__ZN2qm5trace4Dump5beginERNS_5CacheE(qm::trace::Dump* dump, qm::Cache* cache) noexcept {
  __real__ZN2qm5trace4Dump5beginERNS_5CacheE(dump, cache);
  before = Port::mask_interrupts();
}

qm::trace::DumpSummary __real__ZN2qm5trace4Dump6finishEv(qm::trace::Dump* dump) noexcept;
qm::trace::DumpSummary __wrap__ZN2qm5trace4Dump6finishEv(qm::trace::Dump* dump) noexcept {
  Port::restore_interrupts(before);
  return __real__ZN2qm5trace4Dump6finishEv(dump);
}
}
