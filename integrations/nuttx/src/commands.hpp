#pragma once
#include <qm/console/console.hpp>

namespace qm::nuttx {

/// Gives the console its books, in a build with the trace.
void use_books(console::Console& console) noexcept;

}  // namespace qm::nuttx
