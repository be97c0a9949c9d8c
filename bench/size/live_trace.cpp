/// The live trace: its commands, a dump, and its statistics.

#include <string_view>

#include <qm/cache.hpp>
#include <qm/trace/dump.hpp>
#include <qm/trace/live_trace.hpp>

#include "entry.hpp"

void qm::size::use_live_trace() {
  const std::string_view name(some<const char>(), number);
  number = static_cast<unsigned long>(trace::initialize(*some<trace::Config>()));
  number = trace::start(name).caches;
  number = trace::stop(name).caches;
  number = trace::reset(name).caches;
  number = trace::cache_trace(*some<Cache>()).live;
  number = trace::totals().traced;
  auto& dump = *some<trace::Dump>();
  dump.begin(*some<Cache>());
  number = dump.next(*some<trace::DumpEntry>());
  number = dump.finish().ended;
}
