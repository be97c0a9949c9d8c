/// The trace under the console.

#include <qm/console/trace_books.hpp>
#include <qm/trace/live_trace.hpp>

#include "entry.hpp"

void qm::size::use_console_trace() {
  static console::TraceBooks books(the_console());
  number = static_cast<unsigned long>(trace::initialize(*some<trace::Config>()));
}
