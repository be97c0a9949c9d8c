/// The trace's console commands.

#include <qm/console/trace.hpp>
#include <qm/trace/live_trace.hpp>

#include "entry.hpp"

void qm::size::use_console_trace() {
  static console::Trace trace(the_console());
  number = static_cast<unsigned long>(trace::initialize(*some<trace::Config>()));
}
