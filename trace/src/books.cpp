#include "books.hpp"

#include <new>

#include <qm/system.hpp>
#include <qm/trace/dump.hpp>
#include <qm/trace/glob.hpp>

namespace qm::trace {

constinit Books books;

namespace {

/// The books' own memory: everything but chunks of records. Never destroyed.
alignas(Arena) std::byte arena_storage[sizeof(Arena)];
Arena& trace_arena() noexcept { return *std::launder(static_cast<Arena*>(static_cast<void*>(arena_storage))); }

constexpr std::uint32_t bit(Drop reason) { return 1U << static_cast<unsigned>(reason); }
constexpr std::uint32_t kLacksRecords = bit(Drop::kRecordsFull) | bit(Drop::kRecordMemory);

Traceable& source_of(const Allocation& allocation) noexcept {
  if (allocation.cache != nullptr) return *allocation.cache;
  return *allocation.arena;
}

std::uint32_t* handle_of(const Allocation& allocation, void* object) noexcept {
  if (allocation.cache != nullptr) return allocation.cache->handle(object);
  return allocation.arena->handle(reinterpret_cast<std::uintptr_t>(object));
}

/// A record has 32 bits for a size: a larger segment is told as the largest that they hold.
std::uint32_t size_for_record(std::size_t size) noexcept {
  return static_cast<std::uint32_t>(size < UINT32_MAX ? size : UINT32_MAX);
}

bool is_power_of_two_in(std::size_t value, std::size_t low, std::size_t high) noexcept {
  return value >= low && value <= high && (value & (value - 1)) == 0;
}

}  // namespace

// ---- set up ---------------------------------------------------------------------------------------------------------

void* Books::take(std::size_t bytes) noexcept {
  const std::uintptr_t start = trace_arena().allocate(bytes, Fit::kInstant, nullptr, Effort::kQuiet);
  auto* words = reinterpret_cast<std::uint32_t*>(start);
  for (std::size_t i = 0; start != 0 && i < bytes / 4; ++i) words[i] = 0;
  return words;
}

Status Books::initialize(const Config& config) noexcept {
  if (ready()) return Status::kBusy;
  const std::size_t most_records = config.record_bytes / kBytesPerRecord;
  if (!is_power_of_two_in(config.contexts, 2, 1U << kContextIdBits) || most_records == 0 ||
      most_records > RecordTable::kMaxChunks * kChunkRecords ||
      config.stack_bytes < 256 || config.stack_bytes > std::size_t{8} << kStackHandleBits || config.caches == 0 ||
      config.caches > 65535) {
    return Status::kInvalid;
  }
  ArenaConfig arena;
  arena.name = "ktrace";
  arena.quantum = 64;
  arena.source = &base_arena();
  arena.no_trace = true;
  Status status = (new (arena_storage) Arena)->initialize(arena);
  if (status != Status::kOk) return status;
  config_ = config;
  harts_ = hart_count();
  text_base_ = image_ranges().text.low;
  // Ages are told in milliseconds: coarse ticks of 0.5 to 1 ms last for 24 days or more.
  for (time_shift_ = 0; hal::Port::tick_rate() >> time_shift_ > 2000;) ++time_shift_;
  CacheConfig cache;
  cache.name = "kmem_trace";
  cache.object_size = kChunkBytes;
  cache.flags = cache_flags::kNoTrace | cache_flags::kDirect;
  cache.source = &base_arena();
  trace_cache_ = Cache::create(cache, &status);
  // A checking build stores the stack of every allocation.
  if (status == Status::kOk && (config.at_once || kChecked)) status = open();
  if (status != Status::kOk) {
    if (trace_cache_ != nullptr) Cache::destroy(trace_cache_);
    trace_cache_ = nullptr;
    trace_arena().destroy();
    return status;
  }
  set_observer(this);
  return Status::kOk;
}

/// Takes the memory of stacks and tables, if that has not been done. By whoever traces the first source.
Status Books::open() noexcept {
  if (open_.load(std::memory_order_relaxed) != 0) return Status::kOk;
  const auto record_count = static_cast<std::uint32_t>(config_.record_bytes / kBytesPerRecord);
  const std::size_t chunks = RecordTable::chunk_count(record_count);
  const std::size_t buckets = StackDepot::buckets_for(config_.stack_bytes);
  const std::size_t sizes[] = {config_.stack_bytes, buckets * sizeof(std::uint32_t), config_.contexts * sizeof(ContextSlot),
                               chunks * sizeof(RecordTable::Chunk), (config_.caches + 1) * sizeof(directory_[0])};
  Status status = Status::kOk;
  void* pieces[5] = {};
  for (unsigned i = 0; i < 5 && status == Status::kOk; ++i) {
    pieces[i] = take(sizes[i]);
    if (pieces[i] == nullptr) status = Status::kNoMemory;
  }
  if (status != Status::kOk) {
    for (unsigned i = 0; i < 5; ++i) {
      if (pieces[i] != nullptr) trace_arena().free(reinterpret_cast<std::uintptr_t>(pieces[i]), sizes[i]);
    }
    return status;
  }
  stacks.initialize({static_cast<std::byte*>(pieces[0]), sizes[0]}, {static_cast<std::uint32_t*>(pieces[1]), buckets});
  contexts.initialize({static_cast<ContextSlot*>(pieces[2]), config_.contexts});
  records.initialize({static_cast<RecordTable::Chunk*>(pieces[3]), chunks}, record_count);
  directory_ = static_cast<std::atomic<SourceBooks*>*>(pieces[4]);
  for (unsigned i = 0; i <= config_.caches; ++i) new (&directory_[i]) std::atomic<SourceBooks*>(nullptr);
  cache_limit_ = config_.caches;
  open_.store(1, std::memory_order_release);
  return Status::kOk;
}

void Books::shutdown() noexcept {
  set_observer(nullptr);
  trace_cache_ = nullptr;
  open_.store(0, std::memory_order_relaxed);
  directory_ = nullptr;
  cache_limit_ = 0;
  records.initialize({}, 0);
  stacks.forget();
  contexts.forget();
  pattern_count_.store(0, std::memory_order_relaxed);
}

// ---- per source -----------------------------------------------------------------------------------------------------

SourceBooks* Books::books_of(Traceable& source) noexcept {
  if (open() != Status::kOk) return nullptr;
  const std::size_t bytes = SourceBooks::bytes(harts_);
  void* fresh = nullptr;
  SourceBooks* one = nullptr;
  for (bool asked = false;; asked = true) {
    {
      const LockGuard hold(directory_lock_);
      one = static_cast<SourceBooks*>(source.books.load(std::memory_order_relaxed));
      if (one == nullptr) one = adopt_locked(source, fresh);
    }
    if (one != nullptr || asked) break;
    fresh = take(bytes);
    if (fresh == nullptr) break;
  }
  if (fresh != nullptr) trace_arena().free(reinterpret_cast<std::uintptr_t>(fresh), bytes);
  return one;
}

/// Decides how records name the objects of @p source: a word of 32 bits each. Numbers that are no memory count from 0.
void Books::name_objects(SourceBooks& one, Traceable& source) const noexcept {
  one.base = config_.object_base;
  one.unit = 8;
  if (source.kind() == RegistryKind::kCache) {
    auto& cache = static_cast<Cache&>(source);
    if (!cache.slabs().no_touch() || cache.source().quantum() % 8 == 0) return;
    one.base = 0;
    one.unit = 1;
    return;
  }
  auto& arena = static_cast<Arena&>(source);
  const Arena* root = &arena;
  while (root->source() != nullptr) root = root->source();
  one.unit = arena.quantum();
  one.base = root == &base_arena() ? config_.object_base - config_.object_base % one.unit : 0;
}

/// Finds a number for @p source: one whose source is gone, or a new one with the memory at @p fresh, which is then used up.
SourceBooks* Books::adopt_locked(Traceable& source, void*& fresh) noexcept {
  SourceBooks* one = nullptr;
  for (unsigned number = 1; number <= cache_limit_ && one == nullptr; ++number) {
    SourceBooks* known = directory_[number].load(std::memory_order_relaxed);
    if (known == nullptr) {
      if (fresh == nullptr) return nullptr;
      one = new (fresh) SourceBooks;
      one->number = static_cast<std::uint16_t>(number);
      directory_[number].store(one, std::memory_order_release);
      fresh = nullptr;
    } else if (known->source.load(std::memory_order_relaxed) == nullptr) {
      one = known;
    }
  }
  if (one == nullptr) return nullptr;
  for (unsigned hart = 0; hart < harts_; ++hart) new (&one->harts()[hart]) HartBooks;
  name_objects(*one, source);
  one->from_before_start.store(0, std::memory_order_relaxed);
  one->source.store(&source, std::memory_order_relaxed);
  // release: pairs with the acquire in prepare() and record().
  source.books.store(one, std::memory_order_release);
  return one;
}

bool Books::joins(const char* name) const noexcept {
  const std::uint32_t count = pattern_count_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (glob_matches(characters(patterns_[i]), characters(name))) return true;
  }
  return false;
}

Status Books::add_pattern(std::string_view pattern) noexcept {
  if (pattern.empty() || pattern.size() >= kNameBytes) return Status::kInvalid;
  const std::uint32_t count = pattern_count_.load(std::memory_order_relaxed);
  if (count == kMaxPatterns) return Status::kNoMemory;
  patterns_[count][pattern.copy(patterns_[count], kNameBytes - 1)] = 0;
  pattern_count_.store(count + 1, std::memory_order_release);
  return Status::kOk;
}

void Books::created(Cache& cache) noexcept { join(cache); }
void Books::created(Arena& arena) noexcept { join(arena); }

/// Traces a new source, if it was asked for before it was there.
void Books::join(Traceable& source) noexcept {
  if (!source.traceable() || !joins(source.name()) || books_of(source) == nullptr) return;
  // The cells of a cache start closed, so there is nothing to ask the harts.
  source.state().fetch_or(trace_state::kWatch | trace_state::kHold | trace_state::kRecord, std::memory_order_seq_cst);
}

void Books::destroyed(Cache& cache) noexcept { close_books(cache); }
void Books::destroyed(Arena& arena) noexcept { close_books(arena); }

/// Drops what is left of a source's books.
void Books::close_books(Traceable& source) noexcept {
  auto* one = static_cast<SourceBooks*>(source.books.load(std::memory_order_acquire));
  if (one == nullptr) return;
  const CommandToken token(0);
  source.state().store(0, std::memory_order_seq_cst);
  one->selected = true;
  sweep(Sweep::kAll);
  one->selected = false;
  const LockGuard hold(directory_lock_);
  one->incarnation.fetch_add(1, std::memory_order_release);
  one->source.store(nullptr, std::memory_order_relaxed);
  source.books.store(nullptr, std::memory_order_relaxed);
}

// ---- allocate -------------------------------------------------------------------------------------------------------

StackHandle Books::store_stack(std::uint16_t owner, std::uintptr_t frame) noexcept {
  CallStack stack;
  walk(frame, stack);
  std::uint32_t offsets[kStackDepth];
  for (unsigned i = 0; i < stack.depth; ++i) offsets[i] = static_cast<std::uint32_t>(stack.pcs[i] - text_base_);
  return stacks.intern(owner, {offsets, stack.depth}, stack.truncated);
}

/// Walks and stores the stack and the context. @returns Record::stack_context.
std::uint32_t Books::capture(const SourceBooks& one, std::uintptr_t frame) noexcept {
  const StackHandle handle = store_stack(one.number, frame);
  char label[128];
  std::size_t length = 0;
  {
    const hal::InterruptGuard masked;
    length = hal::Port::context_label(label);
  }
  return contexts.intern({label, length}) << kStackHandleBits | handle;
}

void Books::add_records(unsigned hart, Prepared& prepared) noexcept {
  if (!records.may_grow()) {
    prepared.reason |= bit(Drop::kRecordsFull);
    return;
  }
  void* chunk = trace_cache_->allocate_at(nullptr, 0, Effort::kQuiet);
  if (chunk == nullptr) {
    prepared.reason |= bit(Drop::kRecordMemory);
  } else if (!records.add_chunk(hart, chunk)) {
    prepared.reason |= bit(Drop::kRecordsFull);
    trace_cache_->free(chunk);
  }
}

void Books::add_handles(Cache& cache, void* object, Prepared& prepared) noexcept {
  const std::size_t count = cache.slabs().objects();
  auto* handles = static_cast<std::uint32_t*>(take(count * sizeof(std::uint32_t)));
  if (handles == nullptr) {
    prepared.reason |= bit(Drop::kHandleMemory);
  } else if (!cache.adopt_handles(object, handles)) {
    release_handles(handles, count);  // another hart recorded an object of the slab first
  }
}

void Books::prepare(const Allocation& allocation, void* object, Prepared& prepared) noexcept {
  if (!prepared.ready) {
    prepared.ready = true;
    const auto* one = static_cast<const SourceBooks*>(source_of(allocation).books.load(std::memory_order_acquire));
    if (one != nullptr) prepared.stack = capture(*one, allocation.frame);
  }
  prepared.reason = 0;
  const unsigned hart = hal::Port::hart_index();
  if (!records.has_free(hart)) add_records(hart, prepared);
  Cache* cache = allocation.cache;  // a segment has its handle in its tag
  if (cache != nullptr && object != nullptr && cache->handle(object) == nullptr) add_handles(*cache, object, prepared);
  prepared.drop = prepared.reason != 0;
}

bool Books::encode(const SourceBooks& one, const void* object, std::uint32_t& code) const noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(object);
  const std::uintptr_t value = (address - one.base) / one.unit;
  code = static_cast<std::uint32_t>(value);
  return code == value && (address - one.base) % one.unit == 0;
}

std::uintptr_t Books::object_of(const SourceBooks& one, const Record& record) const noexcept {
  return one.base + std::uintptr_t{record.object} * one.unit;
}

std::uint32_t Books::coarse_time() const noexcept { return static_cast<std::uint32_t>(hal::Port::ticks() >> time_shift_); }

std::uint64_t Books::age_ticks(const Record& record) const noexcept {
  return std::uint64_t{coarse_time() - record.time} << time_shift_;
}

SlotId Books::insert_anywhere(unsigned hart, const Record& record, bool steal) noexcept {
  SlotId slot = records.insert(hart, record);
  for (unsigned other = 0; steal && slot == kNoSlot && other < harts_; ++other) slot = records.insert(other, record);
  return slot;
}

bool Books::record(const Allocation& allocation, void* object, Prepared& prepared) noexcept {
  Traceable& source = source_of(allocation);
  auto* one = static_cast<SourceBooks*>(source.books.load(std::memory_order_acquire));
  if (one == nullptr) return true;
  const unsigned hart = hal::Port::hart_index();
  Counts& counts = one->harts()[hart].now;
  const auto drop = [&counts](Drop reason) {
    Counts::add(counts.dropped[static_cast<unsigned>(reason)]);
    return true;
  };
  Record record;
  if (!encode(*one, object, record.object)) return drop(Drop::kOutOfRange);
  std::uint32_t* handle = handle_of(allocation, object);
  if (handle == nullptr && allocation.cache == nullptr) return true;  // somebody frees what is not theirs
  if (handle == nullptr) return (prepared.reason & bit(Drop::kHandleMemory)) != 0 && drop(Drop::kHandleMemory);
  record.stack_context = prepared.stack;
  record.time = coarse_time();
  record.size = size_for_record(allocation.requested != 0 ? allocation.requested : allocation.cache->object_size());
  record.set_place(one->number, hart, sequence.next());
  // The counts first: whoever finds the record may remove it at once.
  StackEntry* stack = stacks.entry(record.stack());
  if (stack != nullptr) {
    stack->live_objects.fetch_add(1, std::memory_order_relaxed);
    stack->live_bytes.fetch_add(record.size, std::memory_order_relaxed);
  }
  source.live_records.fetch_add(1, std::memory_order_seq_cst);
  const bool cannot_grow = (prepared.reason & kLacksRecords) != 0;
  const SlotId slot = insert_anywhere(hart, record, cannot_grow);
  if (slot == kNoSlot) {
    count_out(source, record);
    if (!cannot_grow) return false;
    return drop((prepared.reason & bit(Drop::kRecordsFull)) != 0 ? Drop::kRecordsFull : Drop::kRecordMemory);
  }
  std::atomic_ref<std::uint32_t>(*handle).store(slot, std::memory_order_relaxed);
  Counts::add(counts.recorded);
  if (stack == nullptr) {
    Counts::add(counts.lost_stacks);
  } else if (stack->truncated()) {
    Counts::add(counts.truncated_stacks);
  }
  if (record.context() == 0) Counts::add(counts.lost_contexts);
  return true;
}

void Books::release(Prepared&) noexcept {}

// ---- free -----------------------------------------------------------------------------------------------------------

/// Takes a record out of the counts of live ones; with the last of a settled source the watch ends.
void Books::count_out(Traceable& source, const Record& record) noexcept {
  if (StackEntry* stack = stacks.entry(record.stack())) {
    stack->live_objects.fetch_sub(1, std::memory_order_relaxed);
    stack->live_bytes.fetch_sub(record.size, std::memory_order_relaxed);
  }
  // seq_cst: against stop, which settles the word and then reads the count; one of the two sees the other.
  if (source.live_records.fetch_sub(1, std::memory_order_seq_cst) == 1) end_watch_if_done(source);
}

void Books::end_watch_if_done(Traceable& source) noexcept {
  constexpr std::uint32_t kDone = trace_state::kWatch | trace_state::kSettled;
  std::uint32_t word = source.state().load(std::memory_order_seq_cst);
  while ((word & ~trace_state::kFault) == kDone && source.live_records.load(std::memory_order_seq_cst) == 0) {
    // Only a fault that comes or goes meanwhile makes it try again.
    if (source.state().compare_exchange_weak(word, word & trace_state::kFault, std::memory_order_seq_cst)) return;
  }
}

void Books::forget(Cache& cache, void* object) noexcept {
  const auto* one = static_cast<const SourceBooks*>(cache.books.load(std::memory_order_acquire));
  std::uint32_t* handle = one != nullptr ? cache.handle(object) : nullptr;
  if (handle == nullptr) return;
  const std::atomic_ref<std::uint32_t> word(*handle);
  const SlotId slot = word.load(std::memory_order_relaxed);
  if (slot == kNoSlot || (slot & kFormer) != 0) return;
  // The handle is a hint and the record the truth: after a reset another object's record may lie there.
  std::uint32_t code = 0;
  Record removed;
  const bool found = encode(*one, object, code) && records.remove(slot, code, one->number, removed);
  // What stays is for a report of misuse: who had allocated the object that is free now.
  word.store(found ? kFormer | removed.stack() : kNoSlot, std::memory_order_relaxed);
  if (found) count_out(cache, removed);
}

void Books::resized(Cache& cache, void* object, std::size_t requested) noexcept {
  const auto* one = static_cast<const SourceBooks*>(cache.books.load(std::memory_order_acquire));
  std::uint32_t* handle = one != nullptr ? cache.handle(object) : nullptr;
  if (handle == nullptr) return;
  const SlotId slot = std::atomic_ref<std::uint32_t>(*handle).load(std::memory_order_relaxed);
  std::uint32_t code = 0;
  if (slot == kNoSlot || (slot & kFormer) != 0 || !encode(*one, object, code)) return;
  resize_record({slot, code, one->number}, requested);
}

/// Gives a record, and its stack's bytes, another size.
void Books::resize_record(const RecordPlace& place, std::size_t requested) noexcept {
  const std::uint32_t size = size_for_record(requested);
  Record before;
  if (!records.resize(place.slot, place.code, place.number, size, before)) return;
  // A reset may drop the record at once: then it has taken the new size out already, and the sum is right after both.
  if (StackEntry* stack = stacks.entry(before.stack())) {
    stack->live_bytes.fetch_add(size - before.size, std::memory_order_relaxed);
  }
}

/// Finds what may be the record of the segment at @p start. The handle is a hint, as an object's is; it goes with its tag.
bool Books::find_segment(Arena& arena, std::uintptr_t start, RecordPlace& place) noexcept {
  const auto* one = static_cast<const SourceBooks*>(arena.books.load(std::memory_order_acquire));
  std::uint32_t* handle = one != nullptr ? arena.handle(start) : nullptr;
  if (handle == nullptr) return false;
  place.slot = std::atomic_ref<std::uint32_t>(*handle).load(std::memory_order_relaxed);
  place.number = one->number;
  return place.slot != kNoSlot && encode(*one, reinterpret_cast<const void*>(start), place.code);
}

void Books::forget(Arena& arena, std::uintptr_t start) noexcept {
  RecordPlace place;
  Record removed;
  if (find_segment(arena, start, place) && records.remove(place.slot, place.code, place.number, removed)) {
    count_out(arena, removed);
  }
}

void Books::resized(Arena& arena, std::uintptr_t start, std::size_t requested) noexcept {
  RecordPlace place;
  if (find_segment(arena, start, place)) resize_record(place, requested);
}

// ---- for reports of misuse ------------------------------------------------------------------------------------------

std::uint32_t Books::stack(std::uintptr_t frame) noexcept {
  // acquire: pairs with the release in open(). Nothing can be taken for stacks in the midst of a free.
  return open_.load(std::memory_order_acquire) != 0 ? store_stack(kNoOwner, frame) : kNoStack;
}

std::uint32_t Books::allocating_stack(Cache& cache, void* object) noexcept {
  const auto* one = static_cast<const SourceBooks*>(cache.books.load(std::memory_order_acquire));
  std::uint32_t* handle = one != nullptr ? cache.handle(object) : nullptr;
  if (handle == nullptr) return kNoStack;
  const std::uint32_t slot = std::atomic_ref<std::uint32_t>(*handle).load(std::memory_order_relaxed);
  if ((slot & kFormer) != 0) return slot & ~kFormer;
  Record record;
  std::uint32_t code = 0;
  if (!encode(*one, object, code) || !records.copy(slot, record)) return kNoStack;
  return record.object == code && record.cache() == one->number ? record.stack() : kNoStack;
}

bool stack_of(StackHandle handle, CallStack& stack, std::uint32_t& id) noexcept {
  const StackEntry* entry = books.ready() ? books.stacks.entry(handle) : nullptr;
  if (entry == nullptr) return false;
  id = entry->id;
  stack.depth = entry->depth;
  stack.truncated = entry->truncated();
  for (unsigned i = 0; i < stack.depth; ++i) stack.pcs[i] = books.pc_of(entry->frames()[i]);
  return true;
}

void Books::release_handles(std::uint32_t* handles, std::size_t count) noexcept {
  trace_arena().free(reinterpret_cast<std::uintptr_t>(handles), count * sizeof(std::uint32_t));
}

void Books::sweep(Sweep what) noexcept {
  SlotId slots[RecordTable::kScanSlots];
  Record found[RecordTable::kScanSlots];
  RecordTable::Cursor cursor;
  unsigned count = 0;
  while (records.scan(cursor, slots, found, count)) {
    for (unsigned i = 0; i < count; ++i) {
      SourceBooks* one = books_numbered(found[i].cache());
      if (!one->selected) continue;
      if (what == Sweep::kDead && found[i].sequence() >= one->harts()[found[i].hart()].dead_before) continue;
      Record removed;
      if (records.remove_numbered(slots[i], found[i].sequence(), removed)) {
        count_out(*one->source.load(std::memory_order_relaxed), removed);
      }
    }
  }
}

}  // namespace qm::trace
