// <qm/trace/trace.h> in the core form.

#include <qm/trace/dump.hpp>
#include <qm/trace/glob.hpp>
#include <qm/trace/live_trace.hpp>
#include <qm/trace/trace.h>

namespace {

using namespace qm;

qm_status to_c(Status status) noexcept { return static_cast<qm_status>(-static_cast<int>(status)); }

std::string_view view(const char* text) noexcept {
  return text != nullptr ? trace::characters(text) : std::string_view();
}

}  // namespace

extern "C" {

qm_status qm_trace_init(const qm_trace_config* config) noexcept {
  trace::Config all;
  if (config != nullptr) {
    if (config->stack_bytes != 0) all.stack_bytes = config->stack_bytes;
    if (config->record_bytes != 0) all.record_bytes = config->record_bytes;
  }
  return to_c(trace::initialize(all));
}

qm_status qm_trace_start(const char* caches) noexcept { return to_c(trace::start(view(caches)).status); }
qm_status qm_trace_stop(const char* caches) noexcept { return to_c(trace::stop(view(caches)).status); }
qm_status qm_trace_reset(const char* caches) noexcept { return to_c(trace::reset(view(caches)).status); }

qm_status qm_trace_foreach(const char* cache, qm_trace_visit visit, void* priv, qm_trace_summary* summary) noexcept {
  trace::Dump dump;
  if (cache == nullptr) {
    dump.begin_all();
  } else if (const Status status = dump.begin(view(cache)); status != Status::kOk) {
    return to_c(status);
  }
  trace::DumpEntry entry;
  bool more = true;
  while (more && dump.next(entry)) {
    const qm_trace_record record{entry.object, entry.requested, entry.sequence,  0,           entry.hart,
                                 "",           entry.stack_id,  entry.truncated, entry.depth, entry.pcs};
    more = visit(&record, priv);
  }
  const trace::DumpSummary all = dump.finish();
  if (summary != nullptr)
    *summary = {all.outstanding, all.figures.recorded, all.figures.dropped, all.from_before_start, all.complete()};
  if (!more) return QM_ABORTED;
  return all.ended ? QM_OK : QM_UNSAFE;
}

}  // extern "C"
