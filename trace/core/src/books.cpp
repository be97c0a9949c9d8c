#include "books.hpp"

#include <new>

#include <qm/system.hpp>
#include <qm/trie.hpp>

#include "key_walk.hpp"

namespace qm::trace {

constinit Books books;

namespace {

/// How a configuration divides its memory: sources | stacks | records | buckets.
struct Layout {
  std::size_t sources;  ///< number
  std::size_t stacks;   ///< bytes
  std::size_t records;  ///< number
  std::size_t buckets;  ///< number

  explicit Layout(const Config& config) noexcept
      : sources(config.caches + 2),
        stacks(config.stack_bytes & ~std::size_t{7}),
        records(config.record_bytes / sizeof(Record)),
        buckets(StackDepot::buckets_for(stacks)) {}
  [[nodiscard]] std::size_t bytes() const noexcept {
    return sources * sizeof(Source) + stacks + records * sizeof(Record) + buckets * sizeof(std::uint32_t);
  }
};

}  // namespace

// ---- beginning and end ----------------------------------------------------------------------------------------------

std::size_t bytes_of(const Config& config) noexcept {
  constexpr std::size_t kMostStackBytes = std::size_t{8} << kStackHandleBits;
  if (config.caches > kUntraceable - 2 || config.stack_bytes - 256 > kMostStackBytes - 256 ||
      config.record_bytes > SIZE_MAX / 2 || config.record_bytes < sizeof(Record)) {
    return 0;
  }
  return Layout(config).bytes();
}

Status Books::initialize(const Config& config) noexcept {
  if (ready()) return Status::kBusy;
  const std::size_t bytes = bytes_of(config);
  auto start = reinterpret_cast<std::uintptr_t>(config.memory.data());
  if (bytes == 0 || start % alignof(Source) != 0) return Status::kInvalid;
  drawn_ = 0;
  if (start == 0) {
    start = base_arena().allocate(bytes);
    drawn_ = bytes;
  } else if (config.memory.size() < bytes) {
    return Status::kNoMemory;
  }
  if (start == 0) return Status::kNoMemory;

  const Layout layout(config);
  sources_ = reinterpret_cast<Source*>(start);
  source_count_ = static_cast<unsigned>(layout.sources);
  const std::uintptr_t stacks = start + layout.sources * sizeof(Source);
  records_ = reinterpret_cast<Record*>(stacks + layout.stacks);
  record_count_ = layout.records;
  stacks_.initialize({reinterpret_cast<std::byte*>(stacks), layout.stacks},
                     {reinterpret_cast<std::uint32_t*>(records_ + layout.records), layout.buckets});
  for (unsigned number = 0; number != source_count_; ++number) new (sources_ + number) Source;
  sources_[kHeapSource].of = &heap::traceable();
  free_ = nullptr;
  for (std::size_t i = record_count_; i-- != 0;) {
    records_[i].set_sequence(0);
    records_[i].child[0] = free_;
    free_ = records_ + i;
  }
  sequence_ = 0;
  ranges_ = image_ranges();
  observer = this;
  return Status::kOk;
}

void Books::shutdown() noexcept {
  if (!ready()) return;
  for (unsigned number = kHeapSource; number != source_count_; ++number) {
    set_state(number, 0);
    if (number != kHeapSource && sources_[number].of != nullptr) sources_[number].of->set_number(kNoSource);
  }
  if (drawn_ != 0) base_arena().free(reinterpret_cast<std::uintptr_t>(sources_), drawn_);
  sources_ = nullptr;
  record_count_ = 0;  // a dump finds none
}

// ---- records --------------------------------------------------------------------------------------------------------

Record** Books::place_of(unsigned number, std::uintptr_t object) noexcept {
  return trie::place_of(&sources_[number].records, &Record::key, Record::key_of(object));
}

inline StackHandle Books::store_stack(std::uintptr_t frame, bool& truncated) noexcept {
  StackKey key;
  KeyWalk walked(key, ranges_.plain.low);
  walk(frame, ranges_, walked);
  truncated = walked.truncated;
  const std::uint32_t id = walked.finish(key, 0);
  return stacks_.intern(id, key);
}

void Books::taken(std::uint8_t number, std::uintptr_t object, std::size_t requested) noexcept {
  keep_return_address();
  bool truncated = false;
  const StackHandle stack = store_stack(current_frame(), truncated);
  const LockGuard hold(lock_);
  if ((state(number) & trace_state::kRecord) == 0) return;  // a stop was faster
  Source& source = sources_[number];
  Record** const place = place_of(number, object);
  Record* record = *place;
  if (record == nullptr) {
    record = free_;
    if (record == nullptr) {
      ++source.figures.dropped;
      return;
    }
    free_ = record->child[0];
    record->key = Record::key_of(object);
    trie::attach(place, record);
    ++source.live;
  } else if (!is_alive(*record)) {  // not swept yet, or what a wrong free left behind
    ++source.live;
  }
  ++source.figures.recorded;
  if (stack < kFirstHandle) ++source.figures.lost_stacks;
  if (truncated) ++source.figures.truncated_stacks;
  record->set_sequence(++sequence_);
  record->size = static_cast<std::uint32_t>(requested < UINT32_MAX ? requested : UINT32_MAX);
  record->set_place(stack, number, hal::kManyHarts ? hal::Port::hart_index() : 0);
}

/// Frees a record; with the last one of a source that records no more the watch ends.
void Books::remove_locked(Record** place) noexcept {
  Record* const record = *place;
  const unsigned number = record->source();
  const bool was_alive = is_alive(*record);
  trie::detach(place);
  record->set_sequence(0);
  record->child[0] = free_;
  free_ = record;
  if (was_alive && --sources_[number].live == 0 && state(number) == trace_state::kWatch) set_state(number, 0);
}

void Books::going(std::uint8_t number, std::uintptr_t object) noexcept {
  const LockGuard hold(lock_);
  Record** const place = place_of(number, object);
  if (*place != nullptr) remove_locked(place);
}

void Books::resized(std::uint8_t number, std::uintptr_t object, std::size_t requested) noexcept {
  const LockGuard hold(lock_);
  Record* const record = *place_of(number, object);
  if (record != nullptr) record->size = static_cast<std::uint32_t>(requested < UINT32_MAX ? requested : UINT32_MAX);
}

void Books::sweep() noexcept {
  for (Record* record = records_; record != records_ + record_count_; ++record) {
    const LockGuard hold(lock_);
    if (record->sequence() != 0 && !is_alive(*record)) remove_locked(place_of(record->source(), record->object()));
  }
}

// ---- sources --------------------------------------------------------------------------------------------------------

/// Gives a source a number. @returns 0: none is left.
unsigned Books::adopt_locked(Traceable& of) noexcept {
  for (unsigned number = kHeapSource + 1; number != source_count_; ++number) {
    Source& source = sources_[number];
    if (source.of != nullptr) continue;
    source.of = &of;
    of.set_number(static_cast<std::uint8_t>(number));
    return number;
  }
  return kNoSource;
}

void Books::reset_locked(unsigned number, std::size_t out) noexcept {
  Source& source = sources_[number];
  source.dead_up_to = ++sequence_;
  source.figures = {};
  source.live = 0;
  source.from_before_start = out;
  if (state(number) == trace_state::kWatch) set_state(number, 0);
}

Status Books::apply(Action action, Traceable& of, std::size_t out) noexcept {
  if (!ready()) return Status::kUnsafe;
  const LockGuard hold(lock_);
  unsigned number = of.number();
  if (number == kUntraceable) return Status::kRefused;
  if (number == kNoSource) {
    if (action != Action::kStart) return Status::kOk;
    number = adopt_locked(of);
    if (number == kNoSource) return Status::kNoMemory;
  }
  Source& source = sources_[number];
  if (action == Action::kStart) {
    source.from_before_start = out > source.live ? out - source.live : 0;
    set_state(number, trace_state::kRecord | trace_state::kWatch);
  } else if (action == Action::kStop) {
    set_state(number, source.live != 0 ? trace_state::kWatch : 0);
  } else if (action == Action::kReset) {
    reset_locked(number, out);
  }
  return Status::kOk;
}

void Books::destroyed(std::uint8_t number) noexcept {
  {
    const LockGuard hold(lock_);
    reset_locked(number, 0);
    set_state(number, 0);
  }
  sweep();
  const LockGuard hold(lock_);
  sources_[number].of = nullptr;
}

// ---- looks ----------------------------------------------------------------------------------------------------------

void Books::describe(const Record& record, DumpEntry& entry) const noexcept {
  entry.object = record.object();
  entry.requested = record.size;
  entry.sequence = record.sequence();
  entry.hart = record.hart();
  entry.stack_id = stacks_.id(record.stack());
  const StackEntry* const stack = stacks_.entry(record.stack());
  entry.depth = stack != nullptr ? stack->depth : 0;
  entry.truncated = stack == nullptr || stack->truncated();
  for (unsigned i = 0; i != entry.depth; ++i) {
    const std::intptr_t distance = static_cast<std::int32_t>(stack->frames()[i]);
    entry.pcs[i] = ranges_.plain.low + static_cast<std::uintptr_t>(distance);
  }
}

bool Books::find(unsigned number, std::uintptr_t object, DumpEntry& entry) noexcept {
  if (!ready() || number >= source_count_) return false;
  const LockGuard hold(lock_);
  const Record* const record = *place_of(number, object);
  if (record == nullptr || !is_alive(*record)) return false;
  describe(*record, entry);
  return true;
}

std::uint64_t Books::window() noexcept {
  const LockGuard hold(lock_);
  return ++sequence_;
}

bool Books::next(std::uint32_t sources, std::uint64_t last, std::uint64_t window, DumpEntry& entry) noexcept {
  Record oldest;
  bool found = false;
  for (const Record* record = records_; record != records_ + record_count_; ++record) {
    const LockGuard hold(lock_);
    const std::uint64_t sequence = record->sequence();
    if (sequence <= last || sequence >= window || (sources >> record->source() & 1) == 0 || !is_alive(*record))
      continue;
    window = sequence;
    oldest = *record;
    found = true;
  }
  if (found) describe(oldest, entry);
  return found;
}

void Books::summarize(std::uint32_t sources, std::uint64_t window, DumpSummary& summary) noexcept {
  const LockGuard hold(lock_);
  for (unsigned number = kHeapSource; number != source_count_; ++number) {
    if ((sources >> number & 1) == 0) continue;
    const Source& source = sources_[number];
    summary.figures.recorded += source.figures.recorded;
    summary.figures.dropped += source.figures.dropped;
    summary.figures.truncated_stacks += source.figures.truncated_stacks;
    summary.figures.lost_stacks += source.figures.lost_stacks;
    summary.from_before_start += source.from_before_start;
    summary.reset = summary.reset || source.dead_up_to > window;
  }
}

CacheTrace Books::look(unsigned number) noexcept {
  CacheTrace trace;
  if (!ready() || number == kNoSource || number >= source_count_) return trace;
  const LockGuard hold(lock_);
  const Source& source = sources_[number];
  const std::uint8_t state = this->state(number);
  trace.state = (state & trace_state::kRecord) != 0 ? State::kOn : state != 0 ? State::kDraining : State::kOff;
  trace.known = true;
  trace.figures = source.figures;
  trace.live = source.live;
  trace.from_before_start = source.from_before_start;
  return trace;
}

Totals Books::totals() noexcept {
  Totals totals;
  if (!ready()) return totals;
  const LockGuard hold(lock_);
  for (unsigned number = kHeapSource; number != source_count_; ++number) {
    const Source& source = sources_[number];
    totals.traced += state(number) != 0;
    totals.record_bytes += source.live * sizeof(Record);
    totals.dropped += source.figures.dropped;
  }
  totals.record_capacity = record_count_ * sizeof(Record);
  const StackDepotStats stacks = stacks_.stats();
  totals.stack_bytes = stacks.used_bytes;
  totals.stack_capacity = stacks.capacity_bytes;
  totals.stack_table = stacks.table_bytes;
  totals.stacks = stacks.entries;
  return totals;
}

bool Books::validate() noexcept {
  if (!ready()) return true;
  std::size_t live = 0;
  std::size_t used = 0;
  for (unsigned number = kHeapSource; number != source_count_; ++number) {
    live += sources_[number].live;
    if (sources_[number].live != 0 && state(number) == 0) return false;  // a free would miss its record
  }
  for (Record* record = records_; record != records_ + record_count_; ++record) {
    if (record->sequence() == 0) continue;
    ++used;
    if (*place_of(record->source(), record->object()) != record) return false;
    if (is_alive(*record)) --live;
  }
  for (const Record* record = free_; record != nullptr && used <= record_count_; record = record->child[0]) ++used;
  return live == 0 && used == record_count_;
}

}  // namespace qm::trace
