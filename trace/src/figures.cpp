// The trace's figures.

#include "figures.hpp"

#include <qm/trace/marks.hpp>

namespace qm::trace {

void Counts::copy_from(const Counts& other) noexcept {
  const auto copy = [](std::atomic<Word>& to, const std::atomic<Word>& from) {
    to.store(from.load(std::memory_order_relaxed), std::memory_order_relaxed);
  };
  copy(recorded, other.recorded);
  copy(left_out, other.left_out);
  for (unsigned i = 0; i < kDropReasons; ++i) copy(dropped[i], other.dropped[i]);
  copy(truncated_stacks, other.truncated_stacks);
  copy(lost_stacks, other.lost_stacks);
  copy(lost_contexts, other.lost_contexts);
}

void Counts::add_to(Figures& figures, const Counts& base) const noexcept {
  const auto since = [](const std::atomic<Word>& now, const std::atomic<Word>& then) {
    return static_cast<Word>(now.load(std::memory_order_relaxed) - then.load(std::memory_order_relaxed));
  };
  figures.recorded += since(recorded, base.recorded);
  figures.left_out += since(left_out, base.left_out);
  for (unsigned i = 0; i < kDropReasons; ++i) figures.dropped[i] += since(dropped[i], base.dropped[i]);
  figures.truncated_stacks += since(truncated_stacks, base.truncated_stacks);
  figures.lost_stacks += since(lost_stacks, base.lost_stacks);
  figures.lost_contexts += since(lost_contexts, base.lost_contexts);
}

bool Tracer::look(const TracedSource& one, std::uint32_t& word, std::uint32_t& live) noexcept {
  const LockGuard hold(directory_lock_);
  Traceable* source = one.source.load(std::memory_order_relaxed);
  if (source == nullptr) return false;
  word = source->state().load(std::memory_order_relaxed);
  live = source->live_records.load(std::memory_order_relaxed);
  return true;
}

State state_of(std::uint32_t word) noexcept {
  if ((word & trace_state::kRecord) != 0) return State::kOn;
  if ((word & trace_state::kHold) != 0) return State::kStopping;
  return (word & trace_state::kWatch) != 0 ? State::kDraining : State::kOff;
}

void add_figures(TracedSource& one, Figures& figures) noexcept {
  for (unsigned hart = 0; hart < tracer.harts(); ++hart) one.harts()[hart].now.add_to(figures, one.harts()[hart].base);
}

bool look_at(TracedSource& one, CacheTrace& trace) noexcept {
  std::uint32_t word = 0;
  if (!one.traced.load(std::memory_order_relaxed) || !tracer.look(one, word, trace.live)) return false;
  trace.known = true;
  trace.state = state_of(word);
  add_figures(one, trace.figures);
  trace.keeping = one.keeping();
  trace.from_before_start = one.from_before_start.load(std::memory_order_relaxed);
  return true;
}

std::size_t unrecorded(Traceable& source) noexcept {
  const std::size_t held = source.kind() == RegistryKind::kCache ? static_cast<Cache&>(source).stats().in_use
                                                                 : static_cast<Arena&>(source).segments_held();
  const std::size_t recorded = source.live_records.load(std::memory_order_relaxed);
  return held > recorded ? held - recorded : 0;
}

CacheTrace cache_trace(Traceable& source) noexcept {
  CacheTrace trace;
  TracedSource* one = traced_source(source);
  if (one == nullptr || !look_at(*one, trace) || trace.from_before_start == 0) return trace;
  // A free without a record does not show whether its object was older than the start. At most as many old objects are
  // left as there are objects without a record.
  const std::size_t now = unrecorded(source);
  if (now < trace.from_before_start) trace.from_before_start = now;
  return trace;
}

Totals totals() noexcept {
  Totals totals;
  RegistryCursor<Traceable> sources;
  while (Traceable* source = sources.next()) {
    ++totals.caches;
    const CacheTrace trace = cache_trace(*source);
    if (trace.state != State::kOff) ++totals.traced;
    totals.dropped += trace.figures.all_dropped();
  }
  if (!tracer.ready()) return totals;
  totals.record_bytes = tracer.records.live() * kBytesPerRecord;
  totals.record_capacity = tracer.config().record_bytes;
  totals.records_reserved = tracer.records.chunks() * kChunkBytes;
  const StackDepotStats stacks = tracer.stacks.stats();
  totals.stack_bytes = stacks.used_bytes;
  totals.stack_capacity = tracer.config().stack_bytes;
  totals.stacks = stacks.entries;
  totals.stack_collisions = stacks.collisions;
  totals.contexts = tracer.contexts.size();
  totals.context_capacity = tracer.config().contexts - 1;
  return totals;
}

bool validate() noexcept {
  if (!tracer.ready()) return true;
  if (!tracer.records.validate()) return false;
  std::uint32_t live = 0;
  RegistryCursor<Traceable> sources;
  while (Traceable* source = sources.next()) {
    const std::uint32_t records = source->live_records.load(std::memory_order_relaxed);
    const std::uint32_t word = source->state().load(std::memory_order_relaxed);
    if (records != 0 && (word & trace_state::kWatch) == 0) return false;  // a free would miss its record
    if ((word & trace_state::kRecord) != 0 &&
        (word & (trace_state::kWatch | trace_state::kHold)) != (trace_state::kWatch | trace_state::kHold)) {
      return false;
    }
    const TracedSource* one = traced_source(*source);
    live += one != nullptr && one->keeping().counts ? 0 : records;
  }
  return live == tracer.records.live();
}

const char* name(State state) noexcept {
  switch (state) {
    case State::kOff: return "off";
    case State::kOn: return "on";
    case State::kDraining: return "draining";
    case State::kStopping: return "stopping";
  }
  return "?";
}

const char* name(Drop reason) noexcept {
  switch (reason) {
    case Drop::kRecordsFull: return "records full";
    case Drop::kRecordMemory: return "no memory for records";
    case Drop::kHandleMemory: return "no memory for handles";
    case Drop::kOutOfRange: return "address out of range";
  }
  return "?";
}

Status initialize(const Config& config) noexcept { return tracer.initialize(config); }
void shutdown() noexcept {
  forget_marks();
  tracer.shutdown();
}

}  // namespace qm::trace
