#pragma once
#include <qm/console/console.hpp>

namespace qm::nuttx {

/// Connects the trace to the console, in a build with the trace.
void use_trace(console::Console& console) noexcept;

}  // namespace qm::nuttx
