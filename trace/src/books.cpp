#include "books.hpp"
#include "enter.hpp"
#include "selection.hpp"
#include "stream.hpp"

#include <cstring>
#include <new>

#include <qm/glob.hpp>
#include <qm/slab_pass.hpp>
#include <qm/system.hpp>
#include <qm/trace/dump.hpp>
#include <qm/trace/characters.hpp>

namespace qm::trace {

constinit Books books;

namespace {

/// The books' own memory: everything but chunks of records. Never destroyed.
alignas(Arena) std::byte arena_storage[sizeof(Arena)];
Arena& trace_arena() noexcept { return *std::launder(static_cast<Arena*>(static_cast<void*>(arena_storage))); }

bool is_power_of_two_in(std::size_t value, std::size_t low, std::size_t high) noexcept {
  return value >= low && value <= high && (value & (value - 1)) == 0;
}

}  // namespace

// ---- set up ---------------------------------------------------------------------------------------------------------

void* Books::take(std::size_t bytes, std::size_t alignment) noexcept {
  Constraint constraint;
  constraint.align = alignment;
  const std::uintptr_t start =
      trace_arena().allocate_constrained(bytes, constraint, Fit::kInstant, nullptr, Effort::kQuiet);
  auto* words = reinterpret_cast<std::uint32_t*>(start);
  for (std::size_t i = 0; start != 0 && i < bytes / 4; ++i) words[i] = 0;
  return words;
}

void Books::give(void* piece, std::size_t bytes) noexcept {
  trace_arena().free(reinterpret_cast<std::uintptr_t>(piece), bytes);
}

void Books::give_idle() noexcept { trace_arena().reap(); }

Status Books::initialize(const Config& config) noexcept {
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

/// Takes the memory of all records. What there is none for is asked for again when it is needed.
void Books::reserve_records() noexcept {
  while (records.may_grow()) {
    void* chunk = QM_ALLOC(trace_cache_->allocate, 0, Effort::kQuiet);
    if (chunk == nullptr) return;
    if (!records.add_chunk(chunk)) return trace_cache_->free(chunk);
  }
}

/// Takes the memory of stacks and tables, if that has not been done. By whoever traces the first source.
Status Books::open() noexcept {
  if (open_.load(std::memory_order_relaxed) != 0) return Status::kOk;
  const auto record_count = static_cast<std::uint32_t>(config_.record_bytes / kBytesPerRecord);
  const std::size_t chunks = RecordTable::chunk_count(record_count);
  const std::size_t buckets = StackDepot::buckets_for(config_.stack_bytes);
  constexpr unsigned kPieces = 7;
  const std::size_t sizes[kPieces] = {config_.stack_bytes,
                                      buckets * sizeof(std::uint32_t),
                                      config_.contexts * sizeof(ContextSlot),
                                      chunks * sizeof(RecordTable::Chunk),
                                      (config_.caches + 1) * sizeof(directory_[0]),
                                      harts_ * sizeof(RecordTable::Stash),
                                      RecentStacks::kPlaces * sizeof(std::atomic<StackHandle>)};
  Status status = Status::kOk;
  void* pieces[kPieces] = {};
  for (unsigned i = 0; i < kPieces && status == Status::kOk; ++i) {
    pieces[i] = take(sizes[i]);
    if (pieces[i] == nullptr) status = Status::kNoMemory;
  }
  if (status != Status::kOk) {
    for (unsigned i = 0; i < kPieces; ++i) {
      if (pieces[i] != nullptr) give(pieces[i], sizes[i]);
    }
    return status;
  }
  stacks.initialize({static_cast<std::byte*>(pieces[0]), sizes[0]}, {static_cast<std::uint32_t*>(pieces[1]), buckets});
  contexts.initialize({static_cast<ContextSlot*>(pieces[2]), config_.contexts});
  records.initialize({static_cast<RecordTable::Chunk*>(pieces[3]), chunks},
                     {static_cast<RecordTable::Stash*>(pieces[5]), harts_}, record_count);
  directory_ = static_cast<std::atomic<SourceBooks*>*>(pieces[4]);
  recent_.initialize(new (pieces[6]) std::atomic<StackHandle>[RecentStacks::kPlaces] {});
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
  records.initialize({}, {}, 0);
  for (KnownContext& known : known_) known.key.store(KnownContext::kNone, std::memory_order_relaxed);
  stacks.forget();
  contexts.forget();
  pattern_count_ = 0;
  stream.forget();
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
  if (fresh != nullptr) give(fresh, bytes);
  return one;
}

/// Decides how records name the objects of @p source: a word of 32 bits each. Numbers that are no memory count from 0.
/// All objects of a cache are multiples of its unit, which is 8 at most, and is 8 wherever plain_code() is asked.
void Books::name_objects(SourceBooks& one, Traceable& source) const noexcept {
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

/// Whether events in rings may have the number of @p one (S4).
bool is_streamed(const SourceBooks& one) noexcept {
  return stream_state() != StreamState::kOff && one.stream_number.load(std::memory_order_relaxed) == stream.number;
}

/// Finds a number for @p source: one whose source is gone, or a new one with the memory at @p fresh, which is then used
/// up.
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
    } else if (known->source.load(std::memory_order_relaxed) == nullptr && !is_streamed(*known)) {
      one = known;
    }
  }
  if (one == nullptr) return nullptr;
  for (unsigned hart = 0; hart < harts_; ++hart) new (&one->harts()[hart]) HartBooks;
  name_objects(*one, source);
  one->from_before_start.store(0, std::memory_order_relaxed);
  one->every.store(1, std::memory_order_relaxed);
  one->traced.store(false, std::memory_order_relaxed);
  one->adopted.store(note_change(*one), std::memory_order_relaxed);
  one->source.store(&source, std::memory_order_relaxed);
  // release: pairs with the acquire in books_at().
  source.books.store(one, std::memory_order_release);
  return one;
}

SourceBooks* Books::books_after(unsigned number) noexcept {
  // Whoever is adopted after this look sees what the holder did before it: see join_stream().
  const LockGuard hold(directory_lock_);
  while (number < cache_limit_) {
    SourceBooks* one = books_numbered(++number);
    if (one == nullptr) break;  // numbers are given in order
    if (one->source.load(std::memory_order_relaxed) != nullptr) return one;
  }
  return nullptr;
}

bool Books::joins(const char* name) noexcept {
  const LockGuard hold(directory_lock_);
  for (std::uint32_t i = 0; i < pattern_count_; ++i) {
    if (names(characters(patterns_[i]), characters(name))) return true;
  }
  return false;
}

bool Books::keeps(std::string_view pattern) noexcept {
  const LockGuard hold(directory_lock_);
  for (std::uint32_t i = 0; i < pattern_count_; ++i) {
    if (characters(patterns_[i]) == pattern) return true;
  }
  return false;
}

Status Books::keep_pattern(std::string_view pattern) noexcept {
  if (pattern.empty() || pattern.size() >= kNameBytes) return Status::kInvalid;
  if (keeps(pattern)) return Status::kOk;
  const LockGuard hold(directory_lock_);
  if (pattern_count_ == kMaxPatterns) return Status::kNoMemory;
  char* const place = patterns_[pattern_count_++];
  place[copy_characters(pattern, place, kNameBytes - 1)] = 0;
  return Status::kOk;
}

/// Drops the patterns that @p drops says. @returns whether there was one.
template <class Drops>
bool Books::drop_patterns_if(Drops drops) noexcept {
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

bool Books::drop_patterns(std::string_view pattern) noexcept {
  return drop_patterns_if([=](std::string_view kept) { return names(pattern, kept); });
}

void Books::drop_pattern(std::string_view pattern) noexcept {
  drop_patterns_if([=](std::string_view kept) { return kept == pattern; });
}

void Books::created(Cache& cache) noexcept {
  join_stream(cache);
  join(cache);
}
void Books::created(Arena& arena) noexcept {
  join_stream(arena);
  join(arena);
}

/// Traces a new source, if it was asked for before it was there.
void Books::join(Traceable& source) noexcept {
  SourceBooks* one = source.traceable() && joins(source.name()) ? books_of(source) : nullptr;
  if (one == nullptr) return;
  one->traced.store(true, std::memory_order_relaxed);
  // The cells of a cache start closed, so there is nothing to ask the harts.
  using namespace trace_state;
  change(source, kWatch | kHold | kRecord | kOwned, 0);
}

void Books::destroyed(Cache& cache) noexcept { close_books(cache); }
void Books::destroyed(Arena& arena) noexcept { close_books(arena); }

/// Drops what is left of a source's books.
void Books::close_books(Traceable& source) noexcept {
  SourceBooks* one = books_at(source);
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

// ---- what the books show and sweep ----------------------------------------------------------------------------------

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
  give(handles, count * sizeof(std::uint32_t));
}

void Books::sweep(Sweep what) noexcept {
  Record found;
  for (RecordTable::Cursor cursor = 0; records.scan(cursor, found);) {
    SourceBooks* one = books_numbered(found.cache);
    if (!one->selected) continue;
    if (what == Sweep::kDead && found.sequence() >= one->harts()[found.hart()].dead_before) continue;
    if (!records.remove_numbered(records.slot_before(cursor), found.sequence())) continue;
    Traceable& source = *one->source.load(std::memory_order_relaxed);
    if (count_out(source)) end_watch_if_done(source);
  }
}

bool Books::drop_counts(Cache& cache) noexcept {
  struct Dropped {
    SourceBooks& one;
    std::uint32_t objects;
  };
  const auto drop = [](SlabLayer&, Slab& slab, void* argument) noexcept {
    auto& dropped = *static_cast<Dropped*>(argument);
    std::uint32_t* handles = slab.handles.load(std::memory_order_acquire);  // pairs with Cache::adopt_handles()
    for (unsigned i = 0; handles != nullptr && i < slab.objects; ++i) {
      dropped.objects += books.count_off(dropped.one, handles[i]) ? 1 : 0;
    }
  };
  Dropped dropped{*books_at(cache), 0};
  SlabPass pass(cache.slabs());
  while (pass.step(drop, &dropped)) {
  }
  // seq_cst: as in count_out()
  cache.live_records.fetch_sub(dropped.objects, std::memory_order_seq_cst);
  return pass.complete();
}

}  // namespace qm::trace
