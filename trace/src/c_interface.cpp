// <qm/trace/trace.h>: the live trace for C.

#include <qm/detail/glob.hpp>
#include <qm/trace/trace.h>

#include <atomic>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/system.hpp>
#include <qm/trace/context_table.hpp>
#include <qm/trace/dump.hpp>
#include <qm/trace/characters.hpp>
#include <qm/trace/live_trace.hpp>

#include "tracer.hpp"

namespace {

using namespace qm;

qm_status to_c(Status status) noexcept { return static_cast<qm_status>(-static_cast<int>(status)); }

std::string_view view(const char* text) noexcept {
  return text != nullptr ? trace::characters(text) : std::string_view();
}

/// The dump and the entry of an iteration: too large for a small stack, so there is only one.
constinit trace::Dump the_dump;
constinit trace::DumpEntry the_entry{};
constinit std::atomic<std::uint32_t> dumping{0};

/// Where memory begins, rounded down to what a record's addresses allow.
std::uintptr_t lowest_address() noexcept {
  constexpr std::uintptr_t kRounding = 0xffffff;
  Segment first;
  ArenaWalk walk(base_arena());
  return walk.next(first) ? first.start & ~kRounding : 0;
}

/// The right to use the dump.
class DumpTurn {
 public:
  // acquire and release: the dump is visible as its last user left it.
  DumpTurn() noexcept : mine_(dumping.exchange(1, std::memory_order_acquire) == 0) {}
  ~DumpTurn() {
    if (mine_) dumping.store(0, std::memory_order_release);
  }
  DumpTurn(const DumpTurn&) = delete;
  DumpTurn& operator=(const DumpTurn&) = delete;
  [[nodiscard]] bool mine() const noexcept { return mine_; }

 private:
  bool mine_;
};

/// @returns the result of the visit. Its strings and arrays are valid during the call.
bool show(const trace::DumpEntry& entry, qm_trace_visit visit, void* priv) noexcept {
  char context[sizeof(trace::ContextSlot::text) + 1] = {};
  for (std::size_t i = 0; i < entry.context.size() && i + 1 < sizeof context; ++i) context[i] = entry.context[i];
  qm_trace_record record{};
  record.object = entry.object;
  record.requested = entry.requested;
  record.sequence = entry.sequence;
  record.age_ticks = entry.age_ticks;
  record.hart = entry.hart;
  record.context = context;
  record.stack_id = entry.stack_id;
  record.truncated = entry.truncated;
  record.depth = entry.depth;
  record.stack = entry.pcs;
  return visit(&record, priv);
}

/// Visits the records of @p dump, which has begun, and adds the results to @p sum. @returns false if the visit ended
/// it.
bool show_all(trace::Dump& dump, qm_trace_visit visit, void* priv, qm_trace_summary& sum) noexcept {
  bool more = true;
  while (more && dump.next(the_entry)) more = show(the_entry, visit, priv);
  const trace::DumpSummary all = dump.finish();
  sum.shown += all.shown;
  sum.recorded += all.figures.recorded;
  sum.dropped += all.figures.all_dropped();
  sum.from_before_start += all.from_before_start;
  sum.complete = sum.complete && all.complete();
  return more;
}

/// Whether a source that a kept pattern matches is not traced, because memory was lacking.
bool is_one_missing() noexcept {
  RegistryCursor<Traceable> sources;
  while (Traceable* source = sources.next()) {
    if (source->traceable() && trace::tracer.joins(source->name()) && !trace::cache_trace(*source).known) return true;
  }
  return false;
}

}  // namespace

extern "C" {

qm_status qm_trace_init(const qm_trace_config* config) noexcept {
  if (hart_count() == 0) return QM_UNSAFE;
  trace::Config all;
  if (config != nullptr) {
    if (config->stack_bytes != 0) all.stack_bytes = config->stack_bytes;
    if (config->record_bytes != 0) all.record_bytes = config->record_bytes;
    all.object_base = config->object_base;
  }
  if (all.object_base == 0) all.object_base = lowest_address();
  return to_c(trace::initialize(all));
}

void qm_trace_shutdown() noexcept { trace::shutdown(); }

qm_status qm_trace_start(const char* caches) noexcept {
  const std::string_view pattern = view(caches);
  return to_c((names_many(pattern) ? trace::trace_from_creation(pattern) : trace::start(pattern)).status);
}
qm_status qm_trace_stop(const char* caches) noexcept { return to_c(trace::stop(view(caches)).status); }
qm_status qm_trace_reset(const char* caches) noexcept { return to_c(trace::reset(view(caches)).status); }

qm_status qm_trace_foreach(const char* cache, qm_trace_visit visit, void* priv, qm_trace_summary* summary) noexcept {
  if (visit == nullptr) return QM_INVALID;
  if (!trace::tracer.ready()) return QM_UNSAFE;
  const DumpTurn turn;
  if (!turn.mine()) return QM_BUSY;
  qm_trace_summary all{};
  all.complete = true;
  bool more = true;
  if (cache == nullptr) {
    the_dump.begin_all();
    more = show_all(the_dump, visit, priv, all);
    all.complete = all.complete && !is_one_missing();
  } else {
    const std::string_view pattern = view(cache);
    bool found = trace::tracer.keeps(pattern);
    RegistryCursor<Traceable> sources;
    while (Traceable* source = more ? sources.next() : nullptr) {
      if (!names(pattern, trace::characters(source->name()))) continue;
      if (names_many(pattern) && !source->traceable()) continue;
      found = true;
      the_dump.begin(*source);
      more = show_all(the_dump, visit, priv, all);
    }
    if (!found) return QM_NOT_FOUND;
  }
  if (summary != nullptr) *summary = all;
  return more ? QM_OK : QM_ABORTED;
}

}  // extern "C"
