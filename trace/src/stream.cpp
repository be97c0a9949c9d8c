// The event stream's start and stop, and the events of a source. stream_reader.cpp has the reader's functions.

#include "stream.hpp"

#include <new>

#include <qm/detail/call_sites.hpp>
#include <qm/detail/glob.hpp>
#include <qm/system.hpp>
#include <qm/trace/characters.hpp>

#include "selection.hpp"

namespace qm::trace {

constinit EventStream stream;

bool EventStream::is_left_out(const EventRing& ring, const SourceStream& of, const Telling& telling) const noexcept {
  if (ring.mode() == wire::StreamMode::kCounters) return true;
  const std::uint32_t threshold =
      of.is_arena() ? wire::sample_threshold(telling.allocated, options.sample_bytes) : of.threshold;
  return !wire::is_sampled(telling.address, seed, threshold);
}

void EventStream::moved(SourceStream* from, const Telling& block, SourceStream* to, const Telling& new_block,
                        unsigned hart) noexcept {
  Move& move = moves[hart];
  Telling there = new_block;
  if (move.address == new_block.address) {
    there.stack_context = move.stack_context;
    there.site = move.call_site;
  }
  move = {0, 0, 0, from != nullptr ? block.address : 0};
  const bool goes = from != nullptr && !is_small(*from, block.allocated);
  const bool comes = to != nullptr && !is_small(*to, there.allocated);
  EventRing& ring = rings[hart];
  const bool whole = ring.mode() == wire::StreamMode::kFull;
  if (!goes || !comes || !whole) {
    if (comes) allocated(*to, hart, there);
    if (goes) freed(*from, hart, block);
    return;
  }
  StreamCounts& in = to->harts()[hart];
  StreamCounts& out = from->harts()[hart];
  StreamCounts::add(in.reallocations, 1);
  StreamCounts::add(in.requested, there.requested);
  StreamCounts::add(in.moved_in, 1);
  StreamCounts::add(out.moved_out, 1);
  if (to->is_arena()) StreamCounts::add(in.allocated, there.allocated);
  if (from->is_arena()) StreamCounts::add(out.freed, block.allocated);
  RingEntry old;
  old.address = block.address;
  old.stack_context = there.stack_context;
  old.ticks = static_cast<std::uint32_t>(hal::Port::ticks());
  old.what = RingEntry::pack(block.source, wire::Operation::kReallocate) | RingEntry::kMoved;
  RingEntry entry;
  entry.address = there.address;
  entry.stack_context = there.stack_context;
  entry.requested = narrow(there.requested);
  const std::uint32_t bytes = bytes_told(*to, there);
  entry.beside = bytes != RingEntry::kBytes ? there.site : narrow(there.allocated);
  entry.what = RingEntry::pack(there.source, wire::Operation::kReallocate) | bytes;
  ring.put_move(old, entry, numbers);
}

namespace {

constexpr std::size_t kEntryBytes = sizeof(RingEntry);

std::size_t ring_entries(std::size_t bytes) noexcept {
  std::size_t entries = 1;
  while (entries * 2 * kEntryBytes <= bytes) entries *= 2;
  return entries;
}

/// The bytes of a bitmap with a bit for each of @p count numbers.
constexpr std::size_t bit_bytes(std::size_t count) noexcept { return (count / 32 + 1) * sizeof(std::uint32_t); }

std::size_t defined_stacks_bytes() noexcept { return bit_bytes(tracer.config().stack_bytes / 8); }

std::uint32_t* take_bits(std::size_t bytes) noexcept { return static_cast<std::uint32_t*>(tracer.take(bytes)); }

}  // namespace

bool EventStream::take_memory() noexcept {
  if (memory != nullptr) give_memory();  // from a start that failed while a hart could still put events
  taken_bytes = ring_entries(ring_bytes) * kEntryBytes * tracer.harts();
  memory = tracer.take(taken_bytes);
  defined_stacks = take_bits(defined_stacks_bytes());
  if constexpr (kCallSites) defined_sites = take_bits(bit_bytes(call_sites::count()));
  if (memory != nullptr && defined_stacks != nullptr && (!kCallSites || defined_sites != nullptr)) return true;
  give_memory();
  return false;
}

void EventStream::give_memory() noexcept {
  if (memory != nullptr) tracer.give(memory, taken_bytes);
  if (defined_stacks != nullptr) tracer.give(defined_stacks, defined_stacks_bytes());
  if constexpr (kCallSites) {
    if (defined_sites != nullptr) tracer.give(defined_sites, bit_bytes(call_sites::count()));
  }
  memory = nullptr;
  defined_stacks = defined_sites = nullptr;
  tracer.give_idle();
}

void EventStream::forget() noexcept {
  state.store(StreamState::kOff, std::memory_order_relaxed);
  joining.store(0, std::memory_order_relaxed);
  memory = nullptr;
  defined_stacks = defined_sites = nullptr;
  number = 0;
  ring_bytes = kRingBytes;
}

namespace {

using namespace trace_state;

/// How long a failed start waits at most until no hart can put events, in milliseconds.
constexpr std::uint32_t kUndoMs = 10;
/// Default of sample_bytes, for when the line cannot keep up.
constexpr std::size_t kDefaultSampleBytes = 4096;

bool starts_with(std::string_view text, std::string_view prefix) noexcept {
  return text.size() >= prefix.size() && std::string_view(text.data(), prefix.size()) == prefix;
}

CommandResult refused(Status status) noexcept {
  CommandResult result;
  result.status = status;
  return result;
}

/// Whether the stream includes sources of the size of @p source.
bool is_large_enough(Traceable& source) noexcept {
  return source.kind() != RegistryKind::kCache ||
         static_cast<Cache&>(source).object_size() >= stream.options.minimum_bytes;
}

wire::SourceKind kind_of(Traceable& source) noexcept {
  const std::string_view name = characters(source.name());
  if (source.kind() == RegistryKind::kCache) {
    return starts_with(name, "kmalloc_") ? wire::SourceKind::kHeapClass : wire::SourceKind::kCache;
  }
  return name == "kheap" ? wire::SourceKind::kHeapArena : wire::SourceKind::kArena;
}

void describe(SourceStream& of, Traceable& source) noexcept {
  of.kind = kind_of(source);
  of.defined = false;
  of.parent = 0;
  const char* name = source.name();
  for (std::size_t i = 0; i < kNameBytes && (i == 0 || name[i - 1] != 0); ++i) of.name[i] = name[i];
  if (source.kind() == RegistryKind::kCache) {
    auto& cache = static_cast<Cache&>(source);
    of.object_bytes = static_cast<std::uint32_t>(cache.object_size());
    of.allocated_bytes = static_cast<std::uint32_t>(cache.slabs().stride());
    of.outstanding = static_cast<std::uint32_t>(cache.stats().in_use);
    if (const TracedSource* parent = traced_source(cache.source()); parent != nullptr) of.parent = parent->number + 1u;
  } else {
    auto& arena = static_cast<Arena&>(source);
    of.object_bytes = static_cast<std::uint32_t>(arena.quantum());
    of.allocated_bytes = static_cast<std::uint32_t>(arena.quantum() + arena.header_bytes());
    of.outstanding = static_cast<std::uint32_t>(arena.segments_held());
  }
  of.threshold = wire::sample_threshold(of.object_bytes, stream.options.sample_bytes);
}

/// Makes the source part of the stream that is starting or running, once. @returns false: no memory.
bool enroll(TracedSource& one, Traceable& source) noexcept {
  SourceStream* of = stream_of(one);
  SourceStream is;
  describe(is, source);
  void* fresh = of == nullptr ? tracer.take(SourceStream::bytes(tracer.harts())) : nullptr;
  if (of == nullptr && fresh == nullptr) return false;
  bool used = false;
  {
    const LockGuard hold(stream.lock);
    of = one.stream.load(std::memory_order_relaxed);
    if (of == nullptr) {
      of = new (fresh) SourceStream;
      used = true;
    }
    if (one.stream_number.load(std::memory_order_relaxed) != stream.number) {
      *of = is;
      for (unsigned hart = 0; hart < tracer.harts(); ++hart) new (&of->harts()[hart]) StreamCounts;
    }
    // release: pairs with the acquire in stream_of(), and the next release with that in the reader.
    one.stream.store(of, std::memory_order_release);
    one.stream_number.store(stream.number, std::memory_order_release);
  }
  if (fresh != nullptr && !used) tracer.give(fresh, SourceStream::bytes(tracer.harts()));
  return true;
}

void begin(const StreamOptions& options) noexcept {
  stream.options = options;
  stream.pattern[copy_characters(options.pattern, stream.pattern, kNameBytes - 1)] = 0;
  stream.options.pattern = characters(stream.pattern);
  stream.mode = options.sample_bytes != 0 ? wire::StreamMode::kSampled : wire::StreamMode::kFull;
  if (options.sample_bytes == 0) stream.options.sample_bytes = kDefaultSampleBytes;
  stream.first_mode = stream.mode;
  if (++stream.number == 0) stream.number = 1;  // 0 means none
  stream.start_ticks = hal::Port::ticks();
  if (stream.boot == 0) stream.boot = stream.start_ticks * 0x9E37'79B9'7F4A'7C15 | 1;
  stream.seed = static_cast<std::uint32_t>(stream.start_ticks * 0x9e3779b1u) | 1;
  stream.from_boot = false;
  stream.unjoined.store(0, std::memory_order_relaxed);
  stream.numbers.store(0, std::memory_order_relaxed);
  const std::size_t entries = stream.taken_bytes / tracer.harts() / kEntryBytes;
  for (unsigned hart = 0; hart < tracer.harts(); ++hart) {
    auto* ring = static_cast<RingEntry*>(stream.memory) + hart * entries;
    stream.rings[hart].initialize({ring, entries}, stream.mode);
    stream.taken[hart] = {0, 0, stream.start_ticks, 0};
    stream.moves[hart] = {};
  }
  forget_defined();
}

/// Closes every per-hart cache of the selected sources that are in the stream. @returns whether every hart has
/// answered.
bool close_for_stream(const Selection& selection, const Patience& patience, CommandResult& result) noexcept {
  for (TracedSource* one = selection.first(); one != nullptr; one = one->next_selected) {
    Traceable& source = source_of(*one);
    one->changing = is_large_enough(source) && (source.state().load(std::memory_order_relaxed) & kStream) == 0;
    if (!one->changing) continue;
    one->changing = enroll(*one, source);
    if (!one->changing) {
      result.status = Status::kNoMemory;
      return false;
    }
    one->previous = change(source, kStreamHold, 0);
  }
  Batch batch;
  for (TracedSource* one = selection.first(); one != nullptr;) {
    one = batch.fill(one);
    hal::HartMask harts = 0;
    for (unsigned i = 0; i < batch.count; ++i) {
      Cache* cache = hart_caches_of(*batch.sources[i]);
      harts |= cache != nullptr ? cache->open_harts() : 0;
    }
    if (batch.count != 0 && !ask(harts, close_hart_caches, &batch, patience, result)) return false;
  }
  return true;
}

/// Lets the per-hart caches of all sources open again.
void release_sources() noexcept {
  for (TracedSource* one = tracer.source_after(0); one != nullptr; one = tracer.source_after(one->number))
    source_of(*one).state().fetch_and(~(kStream | kStreamHold), std::memory_order_seq_cst);
}

/// Restores the selected sources to their state before close_for_stream(), and removes from the stream the sources that
/// have joined meanwhile.
void undo_start(const Selection& selection) noexcept {
  stream.joining.store(0, std::memory_order_seq_cst);
  release_sources();
  for (TracedSource* one = selection.first(); one != nullptr; one = one->next_selected) {
    if (one->changing) change(source_of(*one), one->previous & kOwned, 0);
  }
}

void visit_nothing(unsigned, void*) noexcept {}

/// Puts events for the segments that an arena allocated before the stream.
void tell_segments(Arena& arena, TracedSource& one) noexcept {
  ArenaWalk walk(arena);
  Segment segment;
  while (walk.next(segment)) {
    if (segment.kind != TagKind::kAllocated || segment.owner != SegmentOwner::kUser) continue;
    const hal::InterruptGuard masked;
    stream.allocated(*stream_of(one), hal::Port::hart_index(),
                     {one.number, segment.start, 0, segment.size, segment.size});
  }
}

/// Puts events for the caches that were created before the stream: each is an object of `kmem_cache`.
void tell_caches(Cache& of, TracedSource& one) noexcept {
  RegistryCursor<Cache> caches;
  while (Cache* cache = caches.next()) {
    if (of.slabs().find(cache) == nullptr) continue;
    const hal::InterruptGuard masked;
    stream.allocated(*stream_of(one), hal::Port::hart_index(),
                     {one.number, reinterpret_cast<std::uintptr_t>(cache), 0, of.object_size(), 0});
  }
}

CommandResult start_locked(const StreamOptions& options, bool at_boot, const Patience& patience) noexcept {
  if (stream.state.load(std::memory_order_acquire) != StreamState::kOff) return refused(Status::kBusy);
  if (options.pattern.empty() || options.pattern.size() >= kNameBytes) return refused(Status::kInvalid);
  if (tracer.open() != Status::kOk || !stream.take_memory()) return refused(Status::kNoMemory);
  CommandResult result;
  {
    const Selection found(options.pattern, Selection::Missing::kMake, result);  // if this fails, nothing has changed
    if (result.status != Status::kOk) {
      stream.give_memory();
      return result;
    }
  }
  begin(options);
  stream.joining.store(1, std::memory_order_seq_cst);
  result = {};
  const Selection selection(stream.options.pattern, Selection::Missing::kMake, result);  // later sources join
  if (result.status != Status::kOk || !close_for_stream(selection, patience, result)) {
    undo_start(selection);
    // An operation of a source that has joined meanwhile may still put an event. If that is not over in time, the next
    // start frees the memory.
    CommandResult ended;
    if (ask(hal::online_harts(), visit_nothing, nullptr, {nullptr, kUndoMs}, ended)) stream.give_memory();
    return result;
  }
  for (TracedSource* one = selection.first(); one != nullptr; one = one->next_selected) {
    if (!one->changing) continue;
    Traceable& source = source_of(*one);
    if (at_boot) {
      stream_of(*one)->outstanding = 0;
      if (source.kind() == RegistryKind::kArena) tell_segments(static_cast<Arena&>(source), *one);
      if (characters(source.name()) == "kmem_cache") tell_caches(static_cast<Cache&>(source), *one);
    }
    change(source, kStream, 0);
  }
  stream.from_boot = at_boot;
  stream.state.store(StreamState::kOn, std::memory_order_release);
  return result;
}

}  // namespace

void join_stream(Traceable& source) noexcept {
  if (stream.joining.load(std::memory_order_seq_cst) == 0 || !source.traceable() || !is_large_enough(source)) return;
  if (!names(stream.options.pattern, characters(source.name()))) return;
  TracedSource* one = tracer.ensure_source(source);
  if (one == nullptr || !enroll(*one, source)) {
    stream.unjoined.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  source.state().fetch_or(kStream | kStreamHold, std::memory_order_seq_cst);
  // A stop looks for sources after it has cleared `joining`.
  if (stream.joining.load(std::memory_order_seq_cst) == 0) {
    source.state().fetch_and(~(kStream | kStreamHold), std::memory_order_seq_cst);
  }
}

// ---- the commands ---------------------------------------------------------------------------------------------------

Status set_ring_bytes(std::size_t bytes) noexcept {
  if (bytes < EventRing::kMinEntries * kEntryBytes || bytes > kMaxRingBytes) return Status::kInvalid;
  const CommandToken held(hal::kBroadcastDeadlineMs);
  if (held.status() != Status::kOk) return held.status();
  if (stream.state.load(std::memory_order_acquire) != StreamState::kOff) return Status::kBusy;
  stream.ring_bytes = ring_entries(bytes) * kEntryBytes;
  return Status::kOk;
}

CommandResult start_stream(const StreamOptions& options, hal::AbortTest abort, std::uint32_t deadline_ms) noexcept {
  if (!tracer.ready() || hal::in_panic()) return refused(Status::kUnsafe);
  const CommandToken held(deadline_ms, abort);
  if (held.status() != Status::kOk) return refused(held.status());
  return start_locked(options, false, {abort, deadline_ms});
}

CommandResult start_stream_at_boot(const StreamOptions& options) noexcept {
  if (!tracer.ready()) return refused(Status::kUnsafe);
  const CommandToken held(hal::kBroadcastDeadlineMs);
  if (held.status() != Status::kOk) return refused(held.status());
  return start_locked(options, true, {nullptr, hal::kBroadcastDeadlineMs});
}

CommandResult stop_stream(hal::AbortTest abort, std::uint32_t deadline_ms) noexcept {
  if (!tracer.ready() || hal::in_panic()) return refused(Status::kUnsafe);
  const CommandToken held(deadline_ms, abort);
  if (held.status() != Status::kOk) return refused(held.status());
  if (stream.state.load(std::memory_order_relaxed) != StreamState::kOn) return refused(Status::kNotFound);
  stream.joining.store(0, std::memory_order_seq_cst);
  CommandResult result;
  for (TracedSource* one = tracer.source_after(0); one != nullptr; one = tracer.source_after(one->number)) {
    if ((source_of(*one).state().fetch_and(~kStream, std::memory_order_seq_cst) & kStreamHold) != 0) ++result.caches;
  }
  // All harts: any of them may be in an operation that has read STREAM.
  if (!ask(hal::online_harts(), visit_nothing, nullptr, {abort, deadline_ms}, result)) return result;
  release_sources();
  for (TracedSource* one = tracer.source_after(0); one != nullptr; one = tracer.source_after(one->number))
    change(source_of(*one), trace_state::kOwned, 0);
  stream.stop_ticks = hal::Port::ticks();
  stream.state.store(StreamState::kEnding, std::memory_order_release);
  return result;
}

CommandResult change_stream_mode(wire::StreamMode mode, hal::AbortTest abort, std::uint32_t deadline_ms) noexcept {
  if (!tracer.ready() || hal::in_panic()) return refused(Status::kUnsafe);
  const CommandToken held(deadline_ms, abort);
  if (held.status() != Status::kOk) return refused(held.status());
  if (stream.state.load(std::memory_order_relaxed) != StreamState::kOn) return refused(Status::kNotFound);
  CommandResult result;
  const auto turn = [](unsigned hart, void* to) noexcept {
    if (hart >= tracer.harts()) return;  // the hart is online but not attached: it has no ring
    stream.rings[hart].change_mode(*static_cast<const wire::StreamMode*>(to));
  };
  if (!ask(hal::online_harts(), turn, &mode, {abort, deadline_ms}, result)) return result;
  stream.mode = mode;
  return result;
}

}  // namespace qm::trace
