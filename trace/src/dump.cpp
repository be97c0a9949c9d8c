#include <qm/trace/dump.hpp>

#include "tracer.hpp"
#include "figures.hpp"

namespace qm::trace {
namespace {

constexpr unsigned kCursorBits = 64 - Sequence::kBits;
static_assert(RecordTable::kMaxChunks * kChunkRecords < (std::uint64_t{1} << kCursorBits));

constexpr std::uint64_t key_of(std::uint64_t sequence, RecordTable::Cursor behind) {
  return sequence << kCursorBits | behind;
}
constexpr std::uint64_t sequence_of(std::uint64_t key) { return key >> kCursorBits; }
constexpr RecordTable::Cursor behind(std::uint64_t key) {
  return static_cast<RecordTable::Cursor>(key & ((std::uint64_t{1} << kCursorBits) - 1));
}

void copy(const CacheTrace& trace, DumpSummary& summary) noexcept {
  summary.figures = trace.figures;
  summary.from_before_start = trace.from_before_start;
  summary.state = trace.state;
  summary.keeping = trace.keeping;
  summary.counted = trace.keeping.counts ? trace.live : 0;
  summary.known = trace.known;
}

/// The sum over all caches and arenas that were traced.
CacheTrace look_at_all(std::uint32_t& resets) noexcept {
  CacheTrace sum;
  resets = 0;
  RegistryCursor<Traceable> sources;
  while (Traceable* source = sources.next()) {
    const CacheTrace trace = cache_trace(*source);
    if (!trace.known) continue;
    TracedSource* const one = traced_source(*source);
    sum.known = true;
    if (trace.state != State::kOff) sum.state = trace.state;
    add_figures(*one, sum.figures);
    sum.live += trace.keeping.counts ? 0 : trace.live;
    sum.from_before_start += trace.from_before_start;
    resets += one->resets.load(std::memory_order_relaxed);
  }
  return sum;
}

void fill(const TracedSource& one, const Record& record, DumpEntry& entry) noexcept {
  entry.object = tracer.object_of(one, record);
  entry.requested = record.size;
  entry.age_ticks = tracer.age_ticks(record);
  entry.sequence = record.sequence();
  entry.hart = record.hart();
  entry.context = tracer.contexts.text(record.context());
  entry.stack_id = tracer.stacks.id(record.stack());
  const StackEntry* stack = tracer.stacks.entry(record.stack());
  entry.depth = stack != nullptr ? stack->depth : 0;
  entry.truncated = stack == nullptr || stack->truncated();
  for (unsigned i = 0; i < entry.depth; ++i) entry.pcs[i] = tracer.pc_of(stack->frames()[i]);
}

/// The record of the object or segment that begins at @p start, whose handle is @p handle.
bool find_at(const TracedSource& one, std::uint32_t* handle, std::uintptr_t start, DumpEntry& entry) noexcept {
  if (handle == nullptr) return false;
  const SlotId slot = std::atomic_ref<std::uint32_t>(*handle).load(std::memory_order_relaxed);
  Record record;
  // The caller may not hold the object: if its slab is freed meanwhile, the word read is not a handle, and has any
  // value.
  if ((slot & (Tracer::kFormer | CountWord::kMark)) != 0 || !tracer.records.has_slot(slot) ||
      !tracer.records.copy(slot, record) || record.cache != one.number)
    return false;
  if (tracer.object_of(one, record) != start) return false;
  fill(one, record, entry);
  return true;
}

}  // namespace

bool find(Cache& cache, void* object, DumpEntry& entry) noexcept {
  const TracedSource* one = traced_source(cache);
  return one != nullptr && find_at(*one, cache.handle(object), reinterpret_cast<std::uintptr_t>(object), entry);
}

bool find(Arena& arena, std::uintptr_t start, DumpEntry& entry) noexcept {
  const TracedSource* one = traced_source(arena);
  // If the segment is freed meanwhile, its boundary tag may have another segment's handle, whose record does not begin
  // at `start`.
  return one != nullptr && find_at(*one, arena.handle(start), start, entry);
}

void Dump::begin(Traceable& source) noexcept {
  all_ = false;
  one_ = traced_source(source);
  begin_window(&source);
}

void Dump::begin_all() noexcept {
  all_ = true;
  one_ = nullptr;
  begin_window(nullptr);
}

void Dump::begin_window(Traceable* source) noexcept {
  last_ = 0;
  shown_ = truncated_ = 0;
  count_ = at_ = 0;
  more_ = tracer.ready() && (all_ || one_ != nullptr);
  ended_ = !more_;
  window_ = tracer.sequence.next();
  CacheTrace trace;
  if (all_ && more_) {
    trace = look_at_all(resets_);
  } else if (one_ != nullptr) {
    incarnation_ = one_->incarnation.load(std::memory_order_acquire);
    resets_ = one_->resets.load(std::memory_order_relaxed);
    trace = cache_trace(*source);
  }
  at_begin_ = {};
  copy(trace, at_begin_);
  live_at_begin_ = trace.keeping.counts ? 0 : trace.live;
}

bool Dump::alive() const noexcept {
  return one_ == nullptr || one_->incarnation.load(std::memory_order_acquire) == incarnation_;
}

// ---- the next records in order --------------------------------------------------------------------------------------

/// Keeps the kBatch lowest keys in a heap with the highest on top.
void Dump::offer(std::uint64_t key) noexcept {
  if (count_ == kBatch) {
    more_ = true;
    if (key > keys_[0]) return;
    keys_[0] = key;
    sift_down(0, count_);
    return;
  }
  unsigned child = count_++;
  for (; child != 0 && keys_[(child - 1) / 2] < key; child = (child - 1) / 2) keys_[child] = keys_[(child - 1) / 2];
  keys_[child] = key;
}

void Dump::sift_down(unsigned root, unsigned count) noexcept {
  const std::uint64_t key = keys_[root];
  for (unsigned child = 2 * root + 1; child < count; child = 2 * root + 1) {
    if (child + 1 < count && keys_[child + 1] > keys_[child]) ++child;
    if (keys_[child] <= key) break;
    keys_[root] = keys_[child];
    root = child;
  }
  keys_[root] = key;
}

/// Sorts the heap in rising order.
void Dump::sort() noexcept {
  for (unsigned count = count_; count > 1; --count) {
    const std::uint64_t highest = keys_[0];
    keys_[0] = keys_[count - 1];
    keys_[count - 1] = highest;
    sift_down(0, count - 1);
  }
}

void Dump::collect() noexcept {
  Record found;
  count_ = at_ = 0;
  more_ = false;
  for (RecordTable::Cursor cursor = 0; tracer.records.scan(cursor, found);) {
    const std::uint64_t sequence = found.sequence();
    if ((!all_ && found.cache != one_->number) || sequence <= last_ || sequence >= window_) continue;
    offer(key_of(sequence, cursor));
  }
  sort();
}

bool Dump::next(DumpEntry& entry) noexcept {
  while (!ended_) {
    if (!alive()) return false;
    if (at_ == count_) {
      if (!more_) {
        ended_ = true;
        break;
      }
      collect();
      continue;
    }
    const std::uint64_t key = keys_[at_++];
    last_ = sequence_of(key);
    Record record;
    // Numbers are unique: the same number in the slot means that the record was there all the time.
    if (!tracer.records.copy(tracer.records.slot_before(behind(key)), record) || record.sequence() != last_) continue;
    fill(all_ ? *tracer.source_numbered(record.cache) : *one_, record, entry);
    ++shown_;
    if (entry.truncated) ++truncated_;
    return true;
  }
  return false;
}

DumpSummary Dump::finish() noexcept {
  DumpSummary summary = at_begin_;
  std::uint32_t resets = resets_;
  CacheTrace trace;
  summary.destroyed = !alive();
  if (all_ && tracer.ready()) {
    trace = look_at_all(resets);
  } else if (one_ != nullptr && !summary.destroyed && look_at(*one_, trace)) {
    resets = one_->resets.load(std::memory_order_relaxed);
  }
  summary.shown = summary.outstanding = shown_;
  if (trace.known) {
    const std::uint64_t before = at_begin_.figures.recorded;
    if (!all_) trace.from_before_start = at_begin_.from_before_start;  // known only to a caller that holds the source
    copy(trace, summary);
    if (!ended_) summary.outstanding = trace.keeping.counts ? 0 : trace.live;
    summary.reset = resets != resets_;
    if (!summary.reset && trace.figures.recorded > before) {
      summary.allocated_meanwhile = static_cast<std::size_t>(trace.figures.recorded - before);
    }
  }
  summary.truncated_shown = truncated_;
  summary.ended = ended_;
  if (ended_ && live_at_begin_ > shown_) summary.freed_meanwhile = live_at_begin_ - shown_;
  return summary;
}

}  // namespace qm::trace
