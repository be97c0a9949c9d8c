// How records are made and removed: the observer's part of each allocation and free of a traced source. Most of them
// take the path in traced_path.cpp.

#include <qm/system.hpp>
#include <qm/trace/dump.hpp>

#include "tracer.hpp"
#include "enter.hpp"
#include "stream.hpp"

namespace qm::trace {
namespace {

constexpr std::uint32_t bit(Drop reason) { return 1U << static_cast<unsigned>(reason); }
constexpr std::uint32_t kLacksRecords = bit(Drop::kRecordsFull) | bit(Drop::kRecordMemory);

/// Whether the sample leaves out the next allocation of hart @p hart.
bool leaves_out(TracedSource& one, std::uint32_t word, unsigned hart) noexcept {
  return (word & trace_state::kSampled) != 0 && one.harts()[hart].to_leave_out.load(std::memory_order_relaxed) != 0;
}

Traceable& source_of(const Allocation& allocation) noexcept {
  if (allocation.cache != nullptr) return *allocation.cache;
  return *allocation.arena;
}

std::uint32_t* handle_of(const Allocation& allocation, void* object) noexcept {
  if (allocation.cache != nullptr) return allocation.cache->handle(object);
  return allocation.arena->handle(reinterpret_cast<std::uintptr_t>(object));
}

}  // namespace

// ---- allocate -------------------------------------------------------------------------------------------------------

/// Whether the memory for stacks should grow, so that frees and faults have some for theirs.
[[gnu::noinline]] bool Tracer::leaves_too_little() const noexcept {
  const std::uint32_t left = stacks_left_.load(std::memory_order_relaxed);
  return left != 0 && stacks.is_short_of(left);
}

StackHandle Tracer::store_stack(std::uint16_t owner, std::uintptr_t frame, bool may_grow) noexcept {
  StackKey key;
  KeyWalk walked(key, ranges_.plain.low);
  walk(frame, ranges_, walked);
  const std::uint32_t id = walked.finish(key, owner);
  if (may_grow && leaves_too_little()) static_cast<void>(add_stacks());
  for (;;) {
    const StackHandle handle = stacks.intern(id, key);
    if (handle != kStackNoMemory) return handle;
    if (!may_grow || !add_stacks()) {
      stacks.note_failure();
      return handle;
    }
  }
}

/// Walks and stores the stack, and stores the context. @returns Record::stack_context.
std::uint32_t Tracer::capture(const TracedSource& one, std::uintptr_t frame) noexcept {
  const StackHandle handle = store_stack(one.number, frame, true);
  char label[128];
  std::size_t length = 0;
  {
    const hal::InterruptGuard masked;
    // The context that this hart recorded last has its number already.
    if (const std::uint32_t known = current_context(); known != 0) return known | handle;
    length = hal::Port::context_label(label);
  }
  std::uint32_t context = contexts.intern({label, length});
  while (context == 0 && add_contexts()) context = contexts.intern({label, length});
  const hal::StackBounds stack = hal::Port::stack_bounds(frame);
  if (const std::uint32_t key = hal::Port::context_key(); key != 0 && context != 0 && stack.high != 0) {
    const hal::InterruptGuard masked;
    KnownContext& known = known_[hal::Port::hart_index()];
    known.key.store(KnownContext::kNone, std::memory_order_relaxed);
    std::atomic_signal_fence(
        std::memory_order_seq_cst);  // a context that the hart switches to reads all fields of it, or no key
    known.packed = Record::pack(kNoStack, context);
    known.lowest = stack.low + NativeFrames::kBelow;
    known.highest = stack.high - NativeFrames::kAbove;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    known.key.store(key, std::memory_order_relaxed);
  }
  return Record::pack(handle, context);
}

void Tracer::add_records(Prepared& prepared) noexcept {
  if (!add_record_directory()) {
    prepared.reason |= bit(Drop::kRecordMemory);
    return;
  }
  if (!records.may_grow()) {
    prepared.reason |= bit(Drop::kRecordsFull);
    return;
  }
  void* chunk = QM_ALLOC(trace_cache_->allocate, 0, WaitPolicy::kQuiet);
  if (chunk == nullptr) {
    prepared.reason |= bit(Drop::kRecordMemory);
  } else if (!records.add_chunk(chunk)) {
    prepared.reason |= bit(Drop::kRecordsFull);
    trace_cache_->free(chunk);
  }
}

void Tracer::add_handles(Cache& cache, void* object, Prepared& prepared) noexcept {
  const std::size_t count = cache.slabs().objects();
  auto* handles = static_cast<std::uint32_t*>(take(count * sizeof(std::uint32_t), 8));
  if (handles == nullptr) {
    prepared.reason |= bit(Drop::kHandleMemory);
  } else if (!cache.adopt_handles(object, handles)) {
    release_handles(handles, count);  // another hart recorded an object of the slab first
  }
}

void Tracer::prepare(const Allocation& allocation, void* object, Prepared& prepared) noexcept {
  TracedSource* one = traced_source(source_of(allocation));
  const unsigned hart = hal::Port::hart_index();
  prepared.ready = true;
  if (one == nullptr) return;
  const std::uint32_t word = source_of(allocation).state().load(std::memory_order_relaxed);
  if (leaves_out(*one, word, hart) && (word & trace_state::kStream) == 0)
    return;  // record() returns false if it decides otherwise
  if (prepared.stack == 0) prepared.stack = capture(*one, allocation.frame);
  prepared.reason = 0;
  if ((word & trace_state::kRecord) == 0) return;
  if ((word & trace_state::kCounts) == 0 && !records.has_free(hart)) add_records(prepared);
  Cache* cache = allocation.cache;  // a segment has its handle in its boundary tag
  if (cache != nullptr && object != nullptr && cache->handle(object) == nullptr) add_handles(*cache, object, prepared);
}

bool Tracer::encode(const TracedSource& one, const void* object, std::uint32_t& code) const noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(object);
  const std::uintptr_t distance = (address - one.base) / one.unit;
  code = static_cast<std::uint32_t>(address / one.unit);
  return distance == static_cast<std::uint32_t>(distance) && address % one.unit == 0;
}

std::uintptr_t Tracer::object_of(const TracedSource& one, const Record& record) const noexcept {
  const auto first = static_cast<std::uint32_t>(one.base / one.unit);
  return one.base + std::uintptr_t{record.object - first} * one.unit;
}

std::uint64_t Tracer::age_ticks(const Record& record) const noexcept {
  return std::uint64_t{static_cast<std::uint32_t>(coarse_time()) - record.time} << time_shift_;
}

bool Tracer::record(const Allocation& allocation, void* object, Prepared& prepared) noexcept {
  Traceable& source = source_of(allocation);
  TracedSource* one = traced_source(source);
  if (one == nullptr) return true;
  const bool left_out = leaves_out(*one, prepared.word, hal::Port::hart_index());
  // No stack: the trace of the source was created after prepare(), or prepare() left the allocation out of the sample.
  if (prepared.stack == 0 && (!left_out || (prepared.word & trace_state::kStream) != 0)) return false;
  if (left_out) {
    leave_one_out(one->harts()[hal::Port::hart_index()]);
  } else if ((prepared.word & trace_state::kRecord) != 0) {
    const bool counts = (prepared.word & trace_state::kCounts) != 0;
    const bool settled =
        counts ? count_object(allocation, *one, object, prepared) : insert_record(allocation, *one, object, prepared);
    if (!settled) return false;
  }
  if ((prepared.word & trace_state::kStream) != 0) {
    const Telling telling = telling_of(allocation, one->number, object, prepared.stack);
    if (allocation.wait_policy == WaitPolicy::kMoving) {
      stream.keep(hal::Port::hart_index(), telling);
    } else {
      stream.allocated(*stream_of(*one), hal::Port::hart_index(), telling);
    }
  }
  return true;
}

bool Tracer::insert_record(const Allocation& allocation, TracedSource& books_of_source, void* object,
                           Prepared& prepared) noexcept {
  Traceable& source = source_of(allocation);
  TracedSource* one = &books_of_source;
  const unsigned hart = hal::Port::hart_index();
  HartTrace& mine = one->harts()[hart];
  const auto drop = [&mine](Drop reason) {
    Counts::add(mine.now.dropped[static_cast<unsigned>(reason)]);
    return true;
  };
  RecordInRegisters record;
  std::uint32_t code = 0;
  if (!encode(*one, object, code)) return drop(Drop::kOutOfRange);
  record.object = code;
  std::uint32_t* handle = handle_of(allocation, object);
  if (handle == nullptr && allocation.cache == nullptr) return true;  // freed meanwhile, by code that does not own it
  if (handle == nullptr) return (prepared.reason & bit(Drop::kHandleMemory)) != 0 && drop(Drop::kHandleMemory);
  const SlotId slot = records.take(hart);
  if (slot == kNoSlot) {
    if ((prepared.reason & kLacksRecords) == 0) return false;
    return drop((prepared.reason & bit(Drop::kRecordsFull)) != 0 ? Drop::kRecordsFull : Drop::kRecordMemory);
  }
  record.stack_context = prepared.stack;
  record.size = size_for_record(allocation.requested != 0 ? allocation.requested : allocation.cache->object_size());
  enter(source, *one, mine, hart, slot, *handle, record);
  if ((prepared.word & trace_state::kSampled) != 0) {
    store_relaxed(mine.to_leave_out, draw(mine, 2 * one->every.load(std::memory_order_relaxed) - 1));
  }
  note_losses(mine, stacks.entry(Record::stack_in(prepared.stack)), Record::context_in(prepared.stack));
  return true;
}

void Tracer::note_losses(HartTrace& mine, const StackEntry* stack, std::uint32_t context) noexcept {
  if (stack == nullptr) {
    Counts::add(mine.now.lost_stacks);
  } else if (stack->truncated()) {
    Counts::add(mine.now.truncated_stacks);
  }
  if (context == 0) Counts::add(mine.now.lost_contexts);
}

/// Counts an object. @returns as record().
bool Tracer::count_object(const Allocation& allocation, TracedSource& one, void* object, Prepared& prepared) noexcept {
  HartTrace& mine = one.harts()[hal::Port::hart_index()];
  std::uint32_t* handle = allocation.cache->handle(object);
  if (handle == nullptr) {
    if ((prepared.reason & bit(Drop::kHandleMemory)) == 0) return false;
    Counts::add(mine.now.dropped[static_cast<unsigned>(Drop::kHandleMemory)]);
    return true;
  }
  const StackHandle stack = Record::stack_in(prepared.stack);
  count_in(*allocation.cache, one, mine, *handle, stack);
  note_losses(mine, stacks.entry(stack), Record::context_in(prepared.stack));
  return true;
}

void Tracer::release(Prepared&) noexcept {}

// ---- free -----------------------------------------------------------------------------------------------------------

namespace {

/// The stream's data on @p source if it is streamed now, otherwise nullptr. Masked.
SourceStream* streamed(Traceable& source) noexcept {
  // acquire: as in record().
  if ((source.state().load(std::memory_order_acquire) & trace_state::kStream) == 0) return nullptr;
  return stream_of(*traced_source(source));
}

/// The slot in @p handle; kNoSlot if there is none. The handle is only a hint, which the record confirms: after a reset
/// the slot may hold another object's record.
SlotId slot_in(std::uint32_t& handle) noexcept {
  const std::uint32_t held = std::atomic_ref(handle).load(std::memory_order_relaxed);
  return (held & (Tracer::kFormer | CountWord::kMark)) == 0 ? held : kNoSlot;
}

/// The code by which a record names an object.
std::uint32_t code_of(const TracedSource& one, const void* object) noexcept {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(object) / one.unit);
}

}  // namespace

void Tracer::end_watch_if_done(Traceable& source) noexcept {
  constexpr std::uint32_t kDone = trace_state::kWatch | trace_state::kSettled;
  std::uint32_t word = source.state().load(std::memory_order_seq_cst);
  while ((word & ~trace_state::kNotOfLiveTrace) == kDone && source.live_records.load(std::memory_order_seq_cst) == 0) {
    // It tries again only if a fault or a stream changes the word meanwhile.
    if (source.state().compare_exchange_weak(word, word & trace_state::kNotOfLiveTrace, std::memory_order_seq_cst))
      return;
  }
}

/// Takes an object off the count of its stack. @returns false if its handle is not a count.
bool Tracer::count_off(TracedSource& one, std::uint32_t& handle) noexcept {
  const std::atomic_ref<std::uint32_t> word(handle);
  std::uint32_t held = word.load(std::memory_order_relaxed);
  // The free of the object and the sweep of a reset both try this; one of them succeeds.
  if (!CountWord::is(held) ||
      !word.compare_exchange_strong(held, kFormer | Record::stack_in(held), std::memory_order_relaxed)) {
    return false;
  }
  StackEntry* entry = stacks.entry(Record::stack_in(held));
  (entry != nullptr ? entry->counted : one.counted_bare).fetch_sub(1, std::memory_order_relaxed);
  return true;
}

/// Removes the record of the object of @p handle. @returns false if it has none. Masked.
bool Tracer::forget_at(Traceable& source, std::uint32_t* handle, const void* object) noexcept {
  TracedSource* one = traced_source(source);
  return one != nullptr && handle != nullptr && forget_named(source, *one, *handle, code_of(*one, object));
}

/// The same for the object with the code @p code.
bool Tracer::forget_named(Traceable& source, TracedSource& one, std::uint32_t& handle, std::uint32_t code) noexcept {
  const SlotId slot = slot_in(handle);
  bool found = false;
  if (slot != kNoSlot) {
    // The handle keeps the stack for a misuse report: it shows where the freed object was allocated.
    std::uint32_t former = kNoSlot;
    found = records.remove(hal::Port::hart_index(), slot, code, one.number, former);
    store_relaxed(handle, former);
  } else {
    found = count_off(one, handle);
  }
  if (found && count_out(source)) end_watch_if_done(source);
  return found;
}

/// A free with a record or a count, into a per-hart cache with room. @returns false for the slow half; the record may
/// be removed then.
bool Tracer::free_shared(Cache& cache, void* object) noexcept {
  const hal::InterruptGuard masked;
  // acquire: as in Cache::free_slow()
  const std::uint32_t word = cache.state().load(std::memory_order_acquire);
  constexpr std::uint32_t kElsewhere = trace_state::kStream | trace_state::kQuarantine;
  if ((word & kElsewhere) != 0 || cache.has_reserve()) return false;
  TracedSource* one = traced_source(cache);
  std::uint32_t* handle = plain_handle(cache, object);
  if (one == nullptr || handle == nullptr) return false;
  if (!forget_named(cache, *one, *handle, code_of(*one, object))) return false;
  return (cache.state().load(std::memory_order_relaxed) & trace_state::kWatch) != 0 && kMagazines &&
         cache.own_hart_cache().put_watched(object);
}

void Tracer::resize_at(Traceable& source, std::uint32_t* handle, const void* object, std::size_t requested) noexcept {
  const TracedSource* one = traced_source(source);
  const SlotId slot = one != nullptr && handle != nullptr ? slot_in(*handle) : kNoSlot;
  if (slot != kNoSlot) (void)records.resize(slot, code_of(*one, object), one->number, size_for_record(requested));
}

void Tracer::moved(Traceable& from, void* block, Traceable& to, void* new_block, std::size_t requested) noexcept {
  const unsigned hart = hal::Port::hart_index();
  const auto telling_of = [&](Traceable& source, void* at) {
    const auto start = reinterpret_cast<std::uintptr_t>(at);
    const std::size_t is = source.kind() == RegistryKind::kArena ? static_cast<Arena&>(source).size_of(start) : 0;
    return Telling{traced_source(source) != nullptr ? traced_source(source)->number : 0u, start, current_context(),
                   requested, is};
  };
  stream.moved(streamed(from), telling_of(from, block), streamed(to), telling_of(to, new_block), hart);
}

void Tracer::forget(Cache& cache, void* object) noexcept {
  // acquire: as in record(), in the section of Cache::free_slow().
  const std::uint32_t word = cache.state().load(std::memory_order_acquire);
  if ((word & trace_state::kStream) != 0) tell_free(cache, hal::Port::hart_index(), object);
  if ((word & trace_state::kWatch) != 0) (void)forget_at(cache, cache.handle(object), object);
}

void Tracer::resized(Cache& cache, void* object, std::size_t requested) noexcept {
  if (SourceStream* of = streamed(cache); of != nullptr) {
    stream.resized(
        *of, hal::Port::hart_index(),
        {traced_source(cache)->number, reinterpret_cast<std::uintptr_t>(object), current_context(), requested, 0}, 0);
  }
  resize_at(cache, cache.handle(object), object, requested);
}

void Tracer::forget(Arena& arena, std::uintptr_t start) noexcept {
  const std::uint32_t word = arena.state().load(std::memory_order_acquire);  // as for a cache
  if ((word & trace_state::kStream) != 0 && !stream.was_moved(hal::Port::hart_index(), start)) {
    const TracedSource* one = traced_source(arena);
    stream.freed(*stream_of(*one), hal::Port::hart_index(),
                 {one->number, start, current_context(), 0, arena.size_of(start)});
  }
  if ((word & trace_state::kWatch) != 0)
    (void)forget_at(arena, arena.handle(start), reinterpret_cast<const void*>(start));
}

void Tracer::resized(Arena& arena, std::uintptr_t start, std::size_t requested, std::size_t former) noexcept {
  if (SourceStream* of = streamed(arena); of != nullptr) {
    stream.resized(*of, hal::Port::hart_index(),
                   {traced_source(arena)->number, start, current_context(), requested, arena.size_of(start)}, former);
  }
  resize_at(arena, arena.handle(start), reinterpret_cast<const void*>(start), requested);
}

// ---- for reports of misuse ------------------------------------------------------------------------------------------

void Tracer::need_stacks() noexcept {
  const CommandToken held(hal::kBroadcastDeadlineMs);
  if (held.status() == Status::kOk) (void)open();
  stacks_left_.store(kStacksForFrees, std::memory_order_relaxed);
}

std::uint32_t Tracer::stack(std::uintptr_t frame) noexcept {
  // acquire: pairs with the release in open(). A free must not allocate memory for stacks.
  return open_.load(std::memory_order_acquire) != 0 ? store_stack(kNoOwner, frame, false) : kNoStack;
}

std::uint32_t Tracer::stack_of_allocation(std::uintptr_t frame) noexcept {
  return open_.load(std::memory_order_acquire) != 0 ? store_stack(kNoOwner, frame, true) : kNoStack;
}

std::uint32_t Tracer::allocating_stack(Cache& cache, void* object) noexcept {
  const TracedSource* one = traced_source(cache);
  std::uint32_t* handle = one != nullptr ? cache.handle(object) : nullptr;
  if (handle == nullptr) return kNoStack;
  const std::uint32_t slot = std::atomic_ref<std::uint32_t>(*handle).load(std::memory_order_relaxed);
  Record record;
  std::uint32_t code = 0;
  // An object that is freed twice may have no owner: as in find_at().
  if ((slot & (kFormer | CountWord::kMark)) != 0)
    return stacks.find_entry(Record::stack_in(slot)) != nullptr ? Record::stack_in(slot) : kNoStack;
  if (!encode(*one, object, code) || !records.has_slot(slot) || !records.copy(slot, record)) return kNoStack;
  return record.object == code && record.cache == one->number ? record.stack() : kNoStack;
}

}  // namespace qm::trace
