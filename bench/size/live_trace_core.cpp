/// The live trace of the core: its commands, a dump, its figures.

#include <string_view>

#include <qm/arena.hpp>
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
  number = static_cast<unsigned long>(trace::start(*some<Arena>()));
  number = trace::cache_trace(*some<Cache>()).live;
  number = trace::totals().traced;
  auto& dump = *some<trace::Dump>();
  dump.begin(*some<Cache>());
  dump.begin_all();
  number = static_cast<unsigned long>(dump.begin(name));
  number = dump.next(*some<trace::DumpEntry>());
  number = dump.finish().ended;
}
