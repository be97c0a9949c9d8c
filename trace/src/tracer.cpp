#include "tracer.hpp"
#include "enter.hpp"
#include "selection.hpp"
#include "stream.hpp"

#include <cstring>
#include <new>
#include <utility>

#include <qm/detail/glob.hpp>
#include <qm/detail/slab_pass.hpp>
#include <qm/system.hpp>
#include <qm/trace/dump.hpp>
#include <qm/trace/characters.hpp>

namespace qm::trace {

constinit Tracer tracer;

namespace {

/// The trace's own memory, except chunks of records. Never destroyed.
alignas(Arena) std::byte arena_storage[sizeof(Arena)];
Arena& trace_arena() noexcept { return *std::launder(static_cast<Arena*>(static_cast<void*>(arena_storage))); }

bool is_power_of_two_in(std::size_t value, std::size_t low, std::size_t high) noexcept {
  return value >= low && value <= high && (value & (value - 1)) == 0;
}

}  // namespace

// ---- set up ---------------------------------------------------------------------------------------------------------

void* Tracer::take_as_it_is(std::size_t bytes, std::size_t alignment) noexcept {
  Constraint constraint;
  constraint.align = alignment;
  return reinterpret_cast<void*>(
      trace_arena().allocate_constrained(bytes, constraint, Fit::kInstant, nullptr, WaitPolicy::kQuiet));
}

void* Tracer::take(std::size_t bytes, std::size_t alignment) noexcept {
  auto* words = static_cast<std::uint32_t*>(take_as_it_is(bytes, alignment));
  for (std::size_t i = 0; words != nullptr && i < bytes / 4; ++i) words[i] = 0;
  return words;
}

void Tracer::give(void* piece, std::size_t bytes) noexcept {
  trace_arena().free(reinterpret_cast<std::uintptr_t>(piece), bytes);
}

void Tracer::give_idle() noexcept { trace_arena().reap(); }

Status Tracer::initialize(const Config& config) noexcept {
  if (ready()) return Status::kBusy;
  if (hart_count() == 0) return Status::kUnsafe;
  const std::size_t most_records = config.record_bytes / kBytesPerRecord;
  if (!is_power_of_two_in(config.contexts, 2, 1U << kContextIdBits) || most_records == 0 ||
      most_records > RecordTable::kMaxChunks * kChunkRecords || config.stack_bytes < 256 ||
      config.stack_bytes > std::size_t{8} << kStackHandleBits || config.caches == 0 || config.caches > 65535) {
    return Status::kInvalid;
  }
  ArenaConfig arena;
  if (config.at_once && config.record_bytes + config.stack_bytes > base_arena().stats().free / 2)
    return Status::kNoMemory;
  arena.name = "ktrace";
  arena.quantum = 8;  // two handles
  arena.source = &base_arena();
  arena.no_trace = true;
  Status status = (new (arena_storage) Arena)->initialize(arena);
  if (status != Status::kOk) return status;
  config_ = config;
  config_.object_base -= config.object_base % 8;
  harts_ = hart_count();
  ranges_ = image_ranges();
  // Ages are shown in milliseconds: coarse ticks of 0.5 to 1 ms last for 24 days or more.
  for (time_shift_ = 0; hal::Port::tick_rate() >> time_shift_ > 2000;) ++time_shift_;
  CacheConfig cache;
  cache.name = "kmem_trace";
  cache.object_size = kChunkBytes;
  cache.flags = cache_flags::kNoTrace | cache_flags::kNoMagazines;
  cache.source = &base_arena();
  trace_cache_ = Cache::create(cache, &status);
  // A checking build stores the stack of every allocation.
  if (status == Status::kOk && (config.at_once || kChecked)) status = open();
  if (status == Status::kOk && (config.at_once || kChecked)) reserve_stacks();  // a free cannot allocate stack memory
  if (status == Status::kOk && config.at_once) reserve_records();
  if (status != Status::kOk) {
    if (trace_cache_ != nullptr) Cache::destroy(trace_cache_);
    trace_cache_ = nullptr;
    trace_arena().destroy();
    return status;
  }
  set_observer(this, kChecked || !kMagazines ? kNoTracedPath : kTracedPath);
  return Status::kOk;
}

/// Allocates the memory of all stacks. A failed allocation is tried again when the memory is needed.
void Tracer::reserve_stacks() noexcept {
  for (std::uint32_t region = 1; region < stacks.regions() && add_stacks(region);) ++region;
}

/// Allocates the memory of all records. A failed allocation is tried again when the memory is needed.
void Tracer::reserve_records() noexcept {
  if (!add_record_directory()) return;
  while (records.may_grow()) {
    void* chunk = QM_ALLOC(trace_cache_->allocate, 0, WaitPolicy::kQuiet);
    if (chunk == nullptr) return;
    if (!records.add_chunk(chunk)) return trace_cache_->free(chunk);
  }
}

/// Allocates the initial memory of the tables, unless that has been done. Called when the first source is traced.
Status Tracer::open() noexcept {
  if (open_.load(std::memory_order_relaxed) != 0) return Status::kOk;
  const std::size_t regions = StackDepot::regions_for(config_.stack_bytes);
  const unsigned context_parts = ContextTable::parts_for(config_.contexts);
  const std::size_t parts = config_.caches / kPartEntries + 1;
  // One allocation for all, in the order of their alignment.
  constexpr unsigned kPieces = 8;
  const std::size_t sizes[kPieces] = {
      RecentStacks::kFirstBytes,
      harts_ * sizeof(RecordTable::Stash),
      ContextTable::kPartBytes,
      config_.stack_bytes < StackDepot::kFirstBytes ? config_.stack_bytes : StackDepot::kFirstBytes,
      regions * sizeof(StackDepot::Region),
      context_parts * sizeof(ContextTable::Part),
      parts * sizeof(DirectoryPart),
      kPartBytes};
  std::size_t bytes = 0;
  void* pieces[kPieces] = {};
  for (const std::size_t size : sizes) bytes += round_up(size, 8);
  auto* piece = static_cast<std::byte*>(take(bytes, RecentStacks::kAlignment));
  if (piece == nullptr) return Status::kNoMemory;
  for (unsigned i = 0; i < kPieces; piece += round_up(sizes[i++], 8)) pieces[i] = piece;
  recent_.initialize(pieces[0], RecentStacks::kFirstLog2);
  records.initialize({}, {static_cast<RecordTable::Stash*>(pieces[1]), harts_},
                     static_cast<std::uint32_t>(config_.record_bytes / kBytesPerRecord));
  contexts.initialize({static_cast<ContextTable::Part*>(pieces[5]), context_parts}, config_.contexts, pieces[2]);
  stacks.initialize({static_cast<StackDepot::Region*>(pieces[4]), regions}, config_.stack_bytes);
  stacks.add_region(0, pieces[3]);
  directory_ = static_cast<DirectoryPart*>(pieces[6]);
  for (std::size_t i = 0; i < parts; ++i) new (&directory_[i]) DirectoryPart(nullptr);
  directory_[0].store(static_cast<DirectoryEntry*>(pieces[7]), std::memory_order_relaxed);
  cache_limit_ = config_.caches;
  open_.store(1, std::memory_order_release);
  return Status::kOk;
}

/// Adds a region of stacks after a stack did not fit. @returns whether there is another region now.
bool Tracer::add_stacks() noexcept {
  const std::uint32_t region = stacks.next_region();
  if (region >= stacks.regions()) return false;
  if (stacks.has_region(region)) return true;  // another hart was faster
  if (recent_.may_grow()) {
    // If two harts do this at once, the places that one of them allocated stay unused.
    if (void* places = take(RecentStacks::kBytes, RecentStacks::kAlignment); places != nullptr)
      recent_.initialize(places, RecentStacks::kPlacesLog2);
  }
  return add_stacks(region);
}

bool Tracer::add_stacks(std::uint32_t region) noexcept {
  const std::size_t bytes = stacks.region_bytes(region);
  void* memory = take_as_it_is(bytes, 8);
  if (memory == nullptr) return false;
  if (!stacks.add_region(region, memory)) give(memory, bytes);
  return true;
}

/// The same for the context table.
bool Tracer::add_contexts() noexcept {
  const unsigned part = contexts.next_part();
  if (part >= contexts.parts()) return false;
  if (contexts.has_part(part)) return true;
  void* memory = take(ContextTable::kPartBytes, 8);
  if (memory == nullptr) return false;
  if (!contexts.add_part(part, memory)) give(memory, ContextTable::kPartBytes);
  return true;
}

/// Makes sure that there is a directory of chunks of records. @returns false if there is no memory for it.
bool Tracer::add_record_directory() noexcept {
  if (records.has_directory()) return true;
  const std::size_t chunks = RecordTable::chunk_count(records.capacity());
  void* memory = take(chunks * sizeof(RecordTable::Chunk), 8);
  if (memory == nullptr) return false;
  if (!records.set_directory({static_cast<RecordTable::Chunk*>(memory), chunks}))
    give(memory, chunks * sizeof(RecordTable::Chunk));
  return true;
}

void Tracer::shutdown() noexcept {
  set_observer(nullptr);
  trace_cache_ = nullptr;
  open_.store(0, std::memory_order_relaxed);
  stacks_left_.store(0, std::memory_order_relaxed);
  directory_ = nullptr;
  cache_limit_ = 0;
  records.initialize({}, {}, 0);
  for (KnownContext& known : known_) known.key.store(KnownContext::kNone, std::memory_order_relaxed);
  stacks.forget();
  contexts.forget();
  pattern_count_ = 0;
  stream.forget();
}

// ---- per source -----------------------------------------------------------------------------------------------------

TracedSource* Tracer::ensure_source(Traceable& source) noexcept {
  if (open() != Status::kOk) return nullptr;
  const std::size_t bytes = TracedSource::bytes(harts_);
  Fresh fresh;
  TracedSource* one = nullptr;
  for (bool asked = false;; asked = true) {
    {
      const LockGuard hold(directory_lock_);
      one = static_cast<TracedSource*>(source.traced_source.load(std::memory_order_relaxed));
      if (one == nullptr) one = adopt_locked(source, fresh);
    }
    if (one != nullptr || asked) break;
    fresh.source = take(bytes);
    if (fresh.lacks_part) fresh.part = take(kPartBytes, 8);
    if (fresh.source == nullptr) break;
  }
  if (fresh.source != nullptr) give(fresh.source, bytes);
  if (fresh.part != nullptr) give(fresh.part, kPartBytes);
  return one;
}

/// Determines how records name the objects of @p source: by a word of 32 bits. Objects that are not memory are counted
/// from 0. All objects of a cache are multiples of its unit, which is at most 8, and is 8 wherever plain_code() is
/// called.
void Tracer::name_objects(TracedSource& one, Traceable& source) const noexcept {
  one.base = config_.object_base;
  if (source.kind() == RegistryKind::kCache) {
    auto& cache = static_cast<Cache&>(source);
    const SlabLayer& slabs = cache.slabs();
    const std::size_t quantum = slabs.no_touch() ? slabs.source().quantum() : 8;
    const std::size_t multiple = slabs.stride() | quantum | 8;
    one.object_size = cache.object_size();
    one.unit = multiple & (~multiple + 1);
    if (quantum % 8 != 0) one.base = 0;
    return;
  }
  auto& arena = static_cast<Arena&>(source);
  one.object_size = 0;
  one.unit = arena.quantum();
  one.base = &arena.root() == &base_arena() ? config_.object_base - config_.object_base % one.unit : 0;
}

/// Whether events in the rings may refer to the number of @p one (S4).
bool is_streamed(const TracedSource& one) noexcept {
  return stream_state() != StreamState::kOff && one.stream_number.load(std::memory_order_relaxed) == stream.number;
}

/// Finds a number for @p source: that of a destroyed source, or a new one with memory from @p fresh, which is then used
/// up.
TracedSource* Tracer::adopt_locked(Traceable& source, Fresh& fresh) noexcept {
  TracedSource* one = nullptr;
  for (unsigned number = 1; number <= cache_limit_ && one == nullptr; ++number) {
    DirectoryPart& part = directory_[number / kPartEntries];
    if (part.load(std::memory_order_relaxed) == nullptr) {
      fresh.lacks_part = true;
      if (fresh.source == nullptr || fresh.part == nullptr) return nullptr;
      // release: pairs with the acquire in source_numbered(), as does the next store.
      part.store(static_cast<DirectoryEntry*>(std::exchange(fresh.part, nullptr)), std::memory_order_release);
    }
    DirectoryEntry& entry = part.load(std::memory_order_relaxed)[number % kPartEntries];
    TracedSource* known = entry.load(std::memory_order_relaxed);
    if (known == nullptr) {
      if (fresh.source == nullptr) return nullptr;
      one = new (std::exchange(fresh.source, nullptr)) TracedSource;
      one->number = static_cast<std::uint16_t>(number);
      entry.store(one, std::memory_order_release);
    } else if (known->source.load(std::memory_order_relaxed) == nullptr && !is_streamed(*known)) {
      one = known;
    }
  }
  if (one == nullptr) return nullptr;
  for (unsigned hart = 0; hart < harts_; ++hart) new (&one->harts()[hart]) HartTrace;
  name_objects(*one, source);
  one->from_before_start.store(0, std::memory_order_relaxed);
  one->every.store(1, std::memory_order_relaxed);
  one->traced.store(false, std::memory_order_relaxed);
  one->adopted.store(note_change(*one), std::memory_order_relaxed);
  one->source.store(&source, std::memory_order_relaxed);
  // release: pairs with the acquire in traced_source().
  source.traced_source.store(one, std::memory_order_release);
  return one;
}

TracedSource* Tracer::source_after(unsigned number) noexcept {
  // A source that adopts a number after this read sees what the token holder did before it: see join_stream().
  const LockGuard hold(directory_lock_);
  while (number < cache_limit_) {
    TracedSource* one = source_numbered(++number);
    if (one == nullptr) break;  // numbers are given in order
    if (one->source.load(std::memory_order_relaxed) != nullptr) return one;
  }
  return nullptr;
}

bool Tracer::joins(const char* name) noexcept {
  const LockGuard hold(directory_lock_);
  for (std::uint32_t i = 0; i < pattern_count_; ++i) {
    if (names(characters(patterns_[i]), characters(name))) return true;
  }
  return false;
}

bool Tracer::keeps(std::string_view pattern) noexcept {
  const LockGuard hold(directory_lock_);
  for (std::uint32_t i = 0; i < pattern_count_; ++i) {
    if (characters(patterns_[i]) == pattern) return true;
  }
  return false;
}

Status Tracer::keep_pattern(std::string_view pattern) noexcept {
  if (pattern.empty() || pattern.size() >= kNameBytes) return Status::kInvalid;
  if (keeps(pattern)) return Status::kOk;
  const LockGuard hold(directory_lock_);
  if (pattern_count_ == kMaxPatterns) return Status::kNoMemory;
  char* const place = patterns_[pattern_count_++];
  place[copy_characters(pattern, place, kNameBytes - 1)] = 0;
  return Status::kOk;
}

/// Drops the patterns for which @p drops returns true. @returns whether there was one.
template <class Drops>
bool Tracer::drop_patterns_if(Drops drops) noexcept {
  const LockGuard hold(directory_lock_);
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < pattern_count_; ++i) {
    if (drops(characters(patterns_[i]))) continue;
    if (kept != i) std::memcpy(patterns_[kept], patterns_[i], kNameBytes);
    ++kept;
  }
  const bool dropped = kept != pattern_count_;
  pattern_count_ = kept;
  return dropped;
}

bool Tracer::drop_patterns(std::string_view pattern) noexcept {
  return drop_patterns_if([=](std::string_view kept) { return names(pattern, kept); });
}

void Tracer::drop_pattern(std::string_view pattern) noexcept {
  drop_patterns_if([=](std::string_view kept) { return kept == pattern; });
}

void Tracer::created(Cache& cache) noexcept {
  join_stream(cache);
  join(cache);
}
void Tracer::created(Arena& arena) noexcept {
  join_stream(arena);
  join(arena);
}

/// Starts to trace a new source if a kept pattern matches it.
void Tracer::join(Traceable& source) noexcept {
  TracedSource* one = source.traceable() && joins(source.name()) ? ensure_source(source) : nullptr;
  if (one == nullptr) return;
  one->traced.store(true, std::memory_order_relaxed);
  // The per-hart caches of a new cache are closed, so no hart has to be asked.
  using namespace trace_state;
  change(source, kWatch | kHold | kRecord | kOwned, 0);
}

void Tracer::destroyed(Cache& cache) noexcept { close_trace(cache); }
void Tracer::destroyed(Arena& arena) noexcept { close_trace(arena); }

/// Drops the rest of a source's trace.
void Tracer::close_trace(Traceable& source) noexcept {
  TracedSource* one = traced_source(source);
  if (one == nullptr) return;
  const CommandToken token(0);
  source.state().store(0, std::memory_order_seq_cst);
  one->selected = true;
  sweep(Sweep::kAll);
  one->selected = false;
  const LockGuard hold(directory_lock_);
  one->incarnation.fetch_add(1, std::memory_order_release);
  one->source.store(nullptr, std::memory_order_relaxed);
  source.traced_source.store(nullptr, std::memory_order_relaxed);
}

// ---- reports and sweeps ---------------------------------------------------------------------------------------------

bool stack_of(StackHandle handle, CallStack& stack, std::uint32_t& id) noexcept {
  const StackEntry* entry = tracer.ready() ? tracer.stacks.entry(handle) : nullptr;
  if (entry == nullptr) return false;
  id = entry->id;
  stack.depth = entry->depth;
  stack.truncated = entry->truncated();
  for (unsigned i = 0; i < stack.depth; ++i) stack.pcs[i] = tracer.pc_of(entry->frames()[i]);
  return true;
}

void Tracer::release_handles(std::uint32_t* handles, std::size_t count) noexcept {
  give(handles, count * sizeof(std::uint32_t));
}

void Tracer::sweep(Sweep what) noexcept {
  Record found;
  for (RecordTable::Cursor cursor = 0; records.scan(cursor, found);) {
    TracedSource* one = source_numbered(found.cache);
    if (!one->selected) continue;
    if (what == Sweep::kDead && found.sequence() >= one->harts()[found.hart()].dead_before) continue;
    if (!records.remove_numbered(records.slot_before(cursor), found.sequence())) continue;
    Traceable& source = *one->source.load(std::memory_order_relaxed);
    if (count_out(source)) end_watch_if_done(source);
  }
}

bool Tracer::drop_counts(Cache& cache) noexcept {
  struct Dropped {
    TracedSource& one;
    std::uint32_t objects;
  };
  const auto drop = [](SlabLayer&, Slab& slab, void* argument) noexcept {
    auto& dropped = *static_cast<Dropped*>(argument);
    std::uint32_t* handles = slab.handles.load(std::memory_order_acquire);  // pairs with Cache::adopt_handles()
    for (unsigned i = 0; handles != nullptr && i < slab.objects; ++i) {
      dropped.objects += tracer.count_off(dropped.one, handles[i]) ? 1 : 0;
    }
  };
  Dropped dropped{*traced_source(cache), 0};
  SlabPass pass(cache.slabs());
  while (pass.step(drop, &dropped)) {
  }
  // seq_cst: as in count_out()
  cache.live_records.fetch_sub(dropped.objects, std::memory_order_seq_cst);
  return pass.complete();
}

}  // namespace qm::trace
