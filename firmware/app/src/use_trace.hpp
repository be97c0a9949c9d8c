#pragma once

#include <qm/console/console.hpp>

namespace qm::firmware {

/// Connects the trace to @p console. It is called once, before the console starts. Does nothing without
/// quartermaster::app_trace.
void use_trace(console::Console& console) noexcept;

}  // namespace qm::firmware
