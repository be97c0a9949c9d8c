#pragma once

#include <qm/console/console.hpp>

namespace qm::firmware {

/// Puts the trace under @p console, once, before its start; without quartermaster::app_trace does nothing.
void use_books(console::Console& console) noexcept;

}  // namespace qm::firmware
