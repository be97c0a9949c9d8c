/// The trace in an image that links quartermaster::app_trace.

#include <algorithm>

#include <qm/console/trace_books.hpp>
#include <qm/firmware/app.hpp>
#include <qm/trace/live_trace.hpp>

#include "use_books.hpp"

extern "C" {
// The linker is told to look for it, and takes the rest of this file with it.
extern const char qm_app_trace;
const char qm_app_trace = 0;
}

namespace qm::firmware {

void open_books() noexcept {
  std::uintptr_t low = UINTPTR_MAX;
  std::uintptr_t high = 0;
  for (const hal::MemoryRange& range : boot_info().memory) {
    low = std::min(low, range.low);
    high = std::max(high, range.high);
  }
  trace::Config config;
  // From 0 on, where that reaches all memory, so that objects in device windows have records too.
  config.object_base = high <= trace::kRecordedBytes ? 0 : low;
  if (trace::initialize(config) != Status::kOk) panic("the books cannot be opened");
}

void use_books(console::Console& console) noexcept { static console::TraceBooks books(console); }

}  // namespace qm::firmware
