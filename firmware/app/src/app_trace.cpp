/// Starts the trace in an image that links quartermaster::app_trace.

#include <algorithm>

#include <qm/console/trace.hpp>
#include <qm/firmware/app.hpp>
#include <qm/trace/live_trace.hpp>

#include "use_trace.hpp"

extern "C" {
// The link line requires this symbol, so that the linker takes this object file from the library.
extern const char qm_app_trace;
const char qm_app_trace = 0;
}

namespace qm::firmware {

void open_trace() noexcept {
  std::uintptr_t low = UINTPTR_MAX;
  std::uintptr_t high = 0;
  for (const hal::MemoryRange& range : boot_info().memory) {
    low = std::min(low, range.low);
    high = std::max(high, range.high);
  }
  trace::Config config;
  // Start at 0 if the records then still reach all memory, so that objects in device windows can have records too.
  config.object_base = std::uint64_t{high} <= trace::kRecordedBytes ? 0 : low;
  if (trace::initialize(config) != Status::kOk) panic("the trace cannot be opened");
}

void use_trace(console::Console& console) noexcept { static console::Trace trace(console); }

}  // namespace qm::firmware
