// The trace, in a build that has it.

#include <qm/console/trace.hpp>
#include <qm/trace/trace.h>

#include "bridge.h"
#include "commands.hpp"

namespace qm::nuttx {

void use_trace(console::Console& console) noexcept { static console::Trace trace(console); }

}  // namespace qm::nuttx

extern "C" qm_status qm_nuttx_open_trace(size_t stack_bytes, size_t record_bytes) noexcept {
  const qm_trace_config config = {stack_bytes, record_bytes, 0};
  return qm_trace_init(&config);
}
