/// The path of nearly every allocation and free of a traced cache: one function each, which takes no lock and cannot
/// fail halfway. If there is no free slot, or if a magazine is empty or full, the function supplies what is lacking and
/// starts again. Other cases go to the slow halves, with nothing changed: a context seen for the first time, a slab
/// without handles, objects that are not memory, a reallocation that moves. free_watched() removes a record that a
/// sweep may remove too.
///
///     allocate   walk and hash -> find the stack -> | take from the closed per-hart cache -> fill a slot -> handle |
///     free                                          | handle -> clear the slot -> put into the per-hart cache      |
///                                                      masked
///
/// docs/figures.md has the cost of both, from the bench `trace`.

#include "tracer.hpp"
#include "defect.hpp"
#include "enter.hpp"

namespace qm::trace {
namespace {

using trace_state::kCounts;
using trace_state::kFault;
using trace_state::kQuarantine;
using trace_state::kRecord;
using trace_state::kSampled;
using trace_state::kStream;
using trace_state::kThin;
using trace_state::kWatch;

/// The bits of the state word that select how an allocation is recorded or streamed.
constexpr std::uint32_t kWays = kRecord | kFault | kStream | kThin;

/// Whether this path stores a new stack even if the slow half would store other frames of it (Tracer::find_in_depot()).
/// Set in host tests of this path, which would hardly take it otherwise.
#if defined(QM_TRACE_SHORT_WAY)
constexpr bool kStoresAnyStack = true;
#else
constexpr bool kStoresAnyStack = false;
#endif

/// With a test defect of the commands, the per-hart caches of a recorded cache are open.
[[nodiscard]] inline bool is_closed(const HartCache& own) noexcept {
  return kDefect == Defect::kNone || own.top.load(std::memory_order_relaxed) == closed_address();
}

/// Whether the cache records plainly, and does nothing else that this path must handle. relaxed: the data that belongs
/// to the word was published before this hart answered the broadcast of start, and a stop waits until this section is
/// over.
[[nodiscard]] inline bool only_records(Cache& cache) noexcept {
  const std::intptr_t word = load_relaxed(cache.state());
  return word < 0 && (word & (kFault | kThin)) == 0;  // kOwned is set only with kRecord and without kStream
}
/// Whether the cache has the mode @p way and no other. acquire: pairs with change(). A hart without an open per-hart
/// cache answers no broadcast, so the acquire makes the start of its samples or events visible.
[[nodiscard]] inline bool only_goes(Cache& cache, std::uint32_t way) noexcept {
  return (cache.state().load(std::memory_order_acquire) & kWays) == way;
}

}  // namespace

/// Whether @p entry is the stack that begins with @p from. The entry's addresses were checked when it was stored; the
/// frames' places are checked here (W1).
[[gnu::always_inline]] inline bool Tracer::is_stack_of(const StackEntry& entry, Link from,
                                                       const KnownContext& known) const noexcept {
  const std::uintptr_t base = ranges_.plain.low;
  const std::uintptr_t highest = known.highest;
  const auto is_sound = [highest](std::uintptr_t frame, std::uintptr_t below) {
    return frame > below && frame <= highest && frame % 16 == 0;
  };
  const auto shows = [base](std::uint32_t kept, const Link& link) {
    return static_cast<std::intptr_t>(link.pc - base) == std::intptr_t{static_cast<std::int32_t>(kept)};
  };
  const auto above = [](const Link& link) {
    return Link{NativeFrames::return_address(link.frame), NativeFrames::next(link.frame)};
  };
  const std::uint32_t* frames = entry.frames();
  const std::uint32_t* const last = frames + entry.depth - 1;
  std::uintptr_t below = known.lowest - 1;
  Link at = from;
  if (entry.depth % 2 == 0) {
    if (!shows(*frames++, at) || !is_sound(at.frame, below)) return false;
    below = at.frame;
    at = above(at);
  }
  // Two frames at a time, so that no registers have to be moved.
  for (; frames != last; frames += 2) {
    if (!shows(frames[0], at) || !is_sound(at.frame, below)) return false;
    const Link between = above(at);
    if (!shows(frames[1], between) || !is_sound(between.frame, at.frame)) return false;
    below = between.frame;
    at = above(between);
  }
  if (!shows(*last, at)) return false;
  // Ends as walk_frames() does.
  bool truncated = at.frame != 0;
  if (is_sound(at.frame, below)) {
    const std::uintptr_t pc = NativeFrames::return_address(at.frame);
    truncated = pc != 0 && !ranges_.traps.contains(pc);
    if (truncated && ranges_.text.contains(pc) && entry.depth != kStackDepth) return false;  // more frames
  }
  return truncated == entry.truncated();
}

/// Whether the data just read from @p known belongs to the running context. With threads, it first checks that the
/// thread is still on this hart. If another context ran in between and changed the data during the read, this test sees
/// the change.
[[gnu::always_inline]] inline bool Tracer::is_still(const KnownContext& known, std::uint32_t key) const noexcept {
  if constexpr (hal::kThreads) {
    if (&known != &known_[hal::Port::hart_index()]) return false;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  return known.is(key);
}

/// Whether the stack is the one that was found last from this place. Neither stores nor hashes it.
[[gnu::always_inline]] inline KnownStack Tracer::find_lately(Link from) const noexcept {
  const std::uint32_t key = hal::Port::context_key();
  const KnownContext& known = known_[hal::Port::hart_index()];
  if (!known.is(key)) return {};
  const KnownContext context{key, known.packed, known.lowest, known.highest};
  std::atomic_signal_fence(std::memory_order_seq_cst);  // as in capture()
  if (!is_still(known, key)) return {};
  // Pairs with the release below: the entry is visible.
  const std::intptr_t handle = load_followed(recent_.at(from));
  if (handle == kNoStack) return {};
  const StackEntry& entry = stacks.at_handle(static_cast<std::size_t>(handle));
  const std::intptr_t packed = static_cast<std::int32_t>(context.packed) | handle;  // signed: as RV64 loads it
  if (!is_stack_of(entry, from, context)) return {};
  return {&entry, static_cast<std::uintptr_t>(packed)};
}

[[gnu::always_inline]] inline KnownStack Tracer::find_in_depot(Cache& cache, std::uintptr_t frame) noexcept {
  const TracedSource* one = traced_source(cache);
  const std::uint32_t key = hal::Port::context_key();
  const KnownContext& known = known_[hal::Port::hart_index()];
  if (one == nullptr || !known.is(key)) return {};
  const KnownContext context{key, known.packed, known.lowest, known.highest};
  std::atomic_signal_fence(std::memory_order_seq_cst);  // as in capture()
  if (!is_still(known, key)) return {};
  if (frame < context.lowest || frame > context.highest) return {};
  StackKey stack_key;
  KeyWalk found(stack_key, ranges_.plain.low);
  const hal::StackBounds stack{context.lowest - NativeFrames::kBelow, context.highest + NativeFrames::kAbove};
  walk_frames<NativeFrames>(frame, stack, ranges_, found);
  if (found.empty()) return {};
  const std::uint32_t id = found.finish(stack_key, one->number);
  StackHandle handle = stacks.find(id, stack_key);
  // If the image does not mark the allocator's frames, the stack includes them, and those of the slow half are
  // different.
  const bool may_store = kStoresAnyStack || ranges_.trace.high != ranges_.trace.low;
  if (handle == kNoStack && may_store && !leaves_too_little()) handle = stacks.intern(id, stack_key);
  if (handle < kFirstHandle) return {};
  // release: pairs with find_lately(). Only handles of stored stacks with frames are put here.
  recent_.at({NativeFrames::return_address(frame), NativeFrames::next(frame)}).store(handle, std::memory_order_release);
  return {stacks.entry(handle), context.packed | handle};
}

[[gnu::always_inline]] inline void* Tracer::insert_known(Cache& cache, TracedSource& one, std::size_t requested,
                                                         KnownStack found) noexcept {
  const hal::InterruptGuard masked;
  if (!only_records(cache)) return nullptr;  // read in the section that inserts (O2)
  HartCache& own = cache.own_hart_cache();
  void** const top = own.saved_top.load(std::memory_order_relaxed);
  void* object = is_closed(own) ? top[-1] : nullptr;
  if (object == nullptr) return nullptr;
  RecordInRegisters record;
  std::uint32_t* word = plain_handle(cache, object);
  if (word == nullptr || !plain_code(object, record.object)) return nullptr;
  const std::size_t hart = hal::Port::hart_index();
  RecordTable::Stash& stash = records.stash_of(hart);
  SlotId* const slot = stash.top.load(std::memory_order_relaxed);
  if (slot == stash.end()) return nullptr;  // empty
  store_relaxed(own.saved_top, top - 1);
  store_relaxed(stash.top, slot + 1);
  record.stack_context = found.packed;
  record.size = requested != 0 ? requested : cache.object_size();
  HartTrace& mine = one.harts()[hart];
  enter(cache, one, mine, hart, *slot, *word, record);
  if (found.entry->truncated()) Counts::add(mine.now.truncated_stacks);
  cache.count_allocation();
  return object;
}

inline void* Tracer::leave_out(Cache& cache) noexcept {
  auto* one = static_cast<TracedSource*>(cache.traced_source.load(kFollowed));
  const hal::InterruptGuard masked;
  if (one == nullptr || !only_goes(cache, kRecord | kSampled)) return nullptr;
  const unsigned hart = hal::Port::hart_index();
  HartTrace& mine = one->harts()[hart];
  HartCache& own = cache.own_hart_cache();
  if (mine.to_leave_out.load(std::memory_order_relaxed) == 0 || !is_closed(own)) return nullptr;
  void* object = own.take_closed();
  if (object == nullptr) return nullptr;
  leave_one_out(mine);
  cache.count_allocation();
  return object;
}

inline void* Tracer::count_known(Cache& cache, TracedSource& one, KnownStack found) noexcept {
  const hal::InterruptGuard masked;
  if (!only_goes(cache, kRecord | kCounts)) return nullptr;
  const unsigned hart = hal::Port::hart_index();
  HartCache& own = cache.own_hart_cache();
  void* object = is_closed(own) ? own.peek_closed() : nullptr;
  std::uint32_t* handle = object != nullptr ? plain_handle(cache, object) : nullptr;
  if (handle == nullptr) return nullptr;
  own.drop_closed();
  HartTrace& mine = one.harts()[hart];
  count_in(cache, one, mine, *handle, Record::stack_in(static_cast<std::uint32_t>(found.packed)));
  if (found.entry->truncated()) Counts::add(mine.now.truncated_stacks);
  cache.count_allocation();
  return object;
}

inline void* Tracer::tell_known(const Allocation& allocation, const TracedSource& one, KnownStack found) noexcept {
  Cache& cache = *allocation.cache;
  const hal::InterruptGuard masked;
  if (!only_goes(cache, kStream) || allocation.wait_policy == WaitPolicy::kMoving) return nullptr;
  const unsigned hart = hal::Port::hart_index();
  HartCache& own = cache.own_hart_cache();
  void* object = is_closed(own) ? own.take_closed() : nullptr;
  if (object == nullptr) return nullptr;
  stream.allocated(*stream_of(one), hart,
                   telling_of(allocation, one.number, object, static_cast<std::uint32_t>(found.packed)));
  cache.count_allocation();
  return object;
}

/// A free that puts an event and has no record.
[[gnu::always_inline]] inline bool Tracer::free_told(Cache& cache, void* object) noexcept {
  const SlabLayer& slabs = cache.slabs();
  const Slab* slab = slabs.find_by_mask(object);
  const hal::InterruptGuard masked;
  // acquire: as in only_goes(); the event is put before the object is released (O1).
  const std::uint32_t word = cache.state().load(std::memory_order_acquire);
  const unsigned hart = hal::Port::hart_index();
  HartCache& own = cache.own_hart_cache();
  if (slab == nullptr || slabs.index_by_reciprocal(*slab, object) == SlabLayer::kNoIndex) return false;
  void** const place = own.saved_top.load(std::memory_order_relaxed);
  if ((word & (kStream | kWatch | kQuarantine)) != kStream || cache.has_reserve() || !is_closed(own) ||
      !own.has_room(place))
    return false;
  tell_free(cache, hart, object);
  HartCache::put_at(own.saved_top, place, object);
  return true;
}

/// A free without a record.
[[gnu::always_inline]] inline bool Tracer::free_bare(Cache& cache, void* object) noexcept {
  const hal::InterruptGuard masked;
  return (load_relaxed(cache.state()) & (kStream | kQuarantine)) == 0 && !cache.has_reserve() &&
         cache.own_hart_cache().put_watched(object);
}

/// The handle of @p object; nullptr if it is not an object. The object's owner does not change until its free is over.
/// @param[out] says the value of the handle: above 0 a slot, which its record confirms, or a count.
[[gnu::always_inline]] inline std::uint32_t* Tracer::held(const Cache& cache, const void* object,
                                                          std::intptr_t& says) noexcept {
  static constinit std::uint32_t none = 0;
  const SlabLayer& slabs = cache.slabs();
  const Slab* slab = slabs.find_by_mask(object);
  if (slab == nullptr) return nullptr;
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(object) - slab->start;
  const std::size_t index = slabs.index_around(offset);
  if (index >= slab->objects) return nullptr;
  std::uint32_t* handle = slab->handles.load(kFollowed);
  if (handle != nullptr) {
    handle += index;
    says = load_relaxed(*reinterpret_cast<std::atomic<std::uint32_t>*>(handle));
    if (says > 0) return handle;
  }
  return slabs.starts_at(index, offset) ? &none : nullptr;
}

[[gnu::always_inline]] inline bool Tracer::free_traced(Cache& cache, void* object) noexcept {
  const hal::InterruptGuard masked;
  // relaxed: as in only_records(); the record is removed before the object is released (O1).
  if (load_relaxed(cache.state()) >= 0 || cache.has_reserve()) return false;
  RecordTable::Stash& stash = records.stash_of(hal::Port::hart_index());
  SlotId* const top = stash.top.load(std::memory_order_relaxed);
  if (top == stash.slots) return false;  // full
  HartCache& own = cache.own_hart_cache();
  void** const place = own.saved_top.load(std::memory_order_relaxed);
  if (!own.has_room(place)) return false;
  std::intptr_t says = 0;
  std::uint32_t* const handle = held(cache, object, says);
  if (handle == nullptr) return false;
  if (says > 0) [[likely]] {
    if (!is_code_whole(object)) return false;
    const auto* one = static_cast<const TracedSource*>(cache.traced_source.load(std::memory_order_relaxed));
    if (!records.claim_own(says, static_cast<std::uint32_t>(plain_code(object)), one->number, *handle)) return false;
    RecordTable::give_to(stash, top, static_cast<std::uintptr_t>(says));
    // This does not end the watching: a stop that settles comes after this section and reads the count.
    cache.live_records.fetch_sub(1, std::memory_order_relaxed);
  }
  HartCache::put_at(own.saved_top, place, object);
  return true;
}

[[gnu::always_inline]] inline bool Tracer::free_watched(Cache& cache, void* object) noexcept {
  std::intptr_t says = 0;
  std::uint32_t* const handle = held(cache, object, says);
  if (says <= 0) return handle != nullptr && free_bare(cache, object);
  const auto slot = static_cast<SlotId>(says);
  if (CountWord::is(slot)) return false;
  const hal::InterruptGuard masked;
  // acquire: as in Cache::free_slow()
  const std::uint32_t word = cache.state().load(std::memory_order_acquire);
  if ((word & (kStream | kWatch | kQuarantine)) != kWatch || cache.has_reserve()) return false;
  RecordTable::Stash& stash = records.stash_of(hal::Port::hart_index());
  HartCache& own = cache.own_hart_cache();
  const auto* one = static_cast<const TracedSource*>(cache.traced_source.load(kFollowed));
  std::atomic<void**>& real = own.top.load(std::memory_order_relaxed) == closed_address() ? own.saved_top : own.top;
  void** const place = real.load(std::memory_order_relaxed);
  if (stash.full() || !own.has_room(place) || one == nullptr || one->unit != 8 || !is_code_whole(object)) return false;
  std::uint32_t former = 0;
  if (!records.claim(slot, static_cast<std::uint32_t>(plain_code(object)), one->number, former)) return false;
  store_relaxed(*handle, former);
  RecordTable::give_to(stash, stash.top.load(std::memory_order_relaxed), slot);
  if (count_out(cache)) return false;  // the last record: watching ends, and the slow half opens the per-hart cache
  HartCache::put_at(real, place, object);
  return true;
}

inline bool Tracer::supply(Cache& cache) noexcept {
  {
    const hal::InterruptGuard masked;
    if (records.refill_empty(records.stash_of(hal::Port::hart_index()))) return true;
  }
  return cache.supply();
}

inline bool Tracer::make_room(Cache& cache) noexcept {
  {
    const hal::InterruptGuard masked;
    if (records.spill_full(records.stash_of(hal::Port::hart_index()))) return true;
  }
  return cache.make_room();
}

namespace {

/// The last part of an allocation, after its stack and context are known.
using LastPart = void* (*)(Cache* cache, const CallSite* site, std::size_t requested, WaitPolicy wait_policy,
                           const StackEntry* entry, std::uintptr_t packed) noexcept;

/// For a stack that is new, or that was not the last one found from its place.
template <LastPart kLast>
[[gnu::noinline]] void* by_hash(Cache* cache, const CallSite* site, std::size_t requested,
                                WaitPolicy wait_policy) noexcept {
  keep_return_address();
  const KnownStack found = tracer.find_in_depot(*cache, current_frame());
  if (found.entry != nullptr) return kLast(cache, site, requested, wait_policy, found.entry, found.packed);
  return qm_cache_allocate_other(cache, site, requested, wait_policy);
}

/// The object as it is returned to the user, after the charge to its call site in a build with call sites.
[[gnu::always_inline]] inline void* charged([[maybe_unused]] Cache& cache, void* object,
                                            [[maybe_unused]] const CallSite* site,
                                            [[maybe_unused]] std::size_t requested) noexcept {
  if constexpr (kCallSites) cache.charge(object, site, requested);
  return object;
}

/// For an allocation with a known stack that found no slot or no object: supplies them and starts again.
template <LastPart kLast>
[[gnu::noinline]] void* supplied(Cache* cache, const CallSite* site, std::size_t requested, WaitPolicy wait_policy,
                                 const StackEntry* entry, std::uintptr_t packed) noexcept {
  keep_frame();
  if (tracer.supply(*cache)) return kLast(cache, site, requested, wait_policy, entry, packed);
  return qm_cache_allocate_other(cache, site, requested, wait_policy);
}

/// The trace of the cache, if @p entry is one of its stacks.
[[gnu::always_inline]] inline TracedSource* owner_of(Cache& cache, const StackEntry& entry) noexcept {
  auto* one = static_cast<TracedSource*>(cache.traced_source.load(kFollowed));
  return one != nullptr && entry.owner == one->number ? one : nullptr;
}

/// The last parts: for an allocation that is recorded, ...
[[gnu::noinline]] void* record_known(Cache* cache, const CallSite* site, std::size_t requested, WaitPolicy wait_policy,
                                     const StackEntry* entry, std::uintptr_t packed) noexcept {
  QM_JUMPS();
  TracedSource* one = owner_of(*cache, *entry);
  if (one == nullptr) return by_hash<&record_known>(cache, site, requested, wait_policy);
  if (void* object = tracer.insert_known(*cache, *one, requested, {entry, packed}); object != nullptr) {
    return charged(*cache, object, site, requested);
  }
  return supplied<&record_known>(cache, site, requested, wait_policy, entry, packed);
}

/// ... for one that is counted, ...
[[gnu::noinline]] void* count_known(Cache* cache, const CallSite* site, std::size_t requested, WaitPolicy wait_policy,
                                    const StackEntry* entry, std::uintptr_t packed) noexcept {
  QM_JUMPS();
  TracedSource* one = owner_of(*cache, *entry);
  if (one == nullptr) return by_hash<&count_known>(cache, site, requested, wait_policy);
  if (void* object = tracer.count_known(*cache, *one, {entry, packed}); object != nullptr) {
    return charged(*cache, object, site, requested);
  }
  return qm_cache_allocate_other(cache, site, requested, wait_policy);
}

/// ... and for one that is streamed.
[[gnu::noinline]] void* tell_known(Cache* cache, const CallSite* site, std::size_t requested, WaitPolicy wait_policy,
                                   const StackEntry* entry, std::uintptr_t packed) noexcept {
  QM_JUMPS();
  const TracedSource* one = owner_of(*cache, *entry);
  if (one == nullptr) return by_hash<&tell_known>(cache, site, requested, wait_policy);
  Allocation allocation;
  allocation.cache = cache;
  allocation.requested = requested != 0 ? requested : cache->object_size();
  allocation.site = site;
  allocation.wait_policy = wait_policy;
  if (void* object = tracer.tell_known(allocation, *one, {entry, packed}); object != nullptr) {
    return charged(*cache, object, site, requested);
  }
  return qm_cache_allocate_other(cache, site, requested, wait_policy);
}

/// An allocation that needs its stack. It was called from @p pc, in the function with frame @p frame.
template <LastPart kLast>
[[gnu::always_inline]] inline void* from_caller(Cache* cache, const CallSite* site, std::size_t requested,
                                                WaitPolicy wait_policy, std::uintptr_t pc,
                                                std::uintptr_t frame) noexcept {
  const KnownStack found = tracer.find_lately({pc, frame});
  if (found.entry != nullptr) return kLast(cache, site, requested, wait_policy, found.entry, found.packed);
  return by_hash<kLast>(cache, site, requested, wait_policy);
}

/// An allocation of a sampled cache. Allocations of the sample take the slow path.
[[gnu::noinline]] void* allocate_sampled(Cache* cache, const CallSite* site, std::size_t requested,
                                         WaitPolicy wait_policy) noexcept {
  QM_JUMPS();
  if (void* object = tracer.leave_out(*cache); object != nullptr) return charged(*cache, object, site, requested);
  return qm_cache_allocate_other(cache, site, requested, wait_policy);
}

}  // namespace
}  // namespace qm::trace

// A walk begins with the caller's return address and frame pointer. The instructions that pass them on are written in
// assembly, because in a compiled function the frame pointer register may hold the function's own frame or something
// else, depending on the compiler's options.
//
// QM_FROM_CALLER(name, last) makes `void* name(Cache*, const CallSite*, std::size_t, WaitPolicy)` of from_caller<last>.
#if defined(__riscv)
#define QM_FROM_CALLER(name, last)                                                                                    \
  extern "C" void* name(qm::Cache*, const qm::CallSite*, std::size_t, qm::WaitPolicy) noexcept;                       \
  extern "C"                                                                                                          \
      [[gnu::used]] void* name##_from(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,              \
                                      qm::WaitPolicy wait_policy, std::uintptr_t pc, std::uintptr_t frame) noexcept { \
    QM_JUMPS();                                                                                                       \
    return qm::trace::from_caller<last>(cache, site, requested, wait_policy, pc, frame);                              \
  }                                                                                                                   \
  asm(".pushsection .text." #name                                                                                     \
      ", \"ax\", @progbits\n"                                                                                         \
      ".balign 4\n"                                                                                                   \
      ".globl " #name                                                                                                 \
      "\n"                                                                                                            \
      ".type " #name ", @function\n" #name                                                                            \
      ":\n"                                                                                                           \
      "  mv a4, ra\n"                                                                                                 \
      "  mv a5, s0\n"                                                                                                 \
      "  tail " #name                                                                                                 \
      "_from\n"                                                                                                       \
      ".size " #name ", . - " #name                                                                                   \
      "\n"                                                                                                            \
      ".popsection")
#else
#define QM_FROM_CALLER(name, last)                                                                              \
  extern "C" void* name(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,                      \
                        qm::WaitPolicy wait_policy) noexcept {                                                  \
    using qm::trace::NativeFrames;                                                                              \
    const std::uintptr_t own = qm::trace::current_frame();                                                      \
    return qm::trace::from_caller<last>(cache, site, requested, wait_policy, NativeFrames::return_address(own), \
                                        NativeFrames::next(own));                                               \
  }                                                                                                             \
  static_assert(true)
#endif
QM_FROM_CALLER(qm_trace_recorded, &qm::trace::record_known);
QM_FROM_CALLER(qm_trace_counted, &qm::trace::count_known);
QM_FROM_CALLER(qm_trace_told, &qm::trace::tell_known);

namespace qm::trace {
namespace {

void* allocate_mixed(Cache* cache, const CallSite* site, std::size_t requested, WaitPolicy wait_policy) noexcept {
  QM_JUMPS();
  const std::intptr_t word = load_relaxed(cache->state());  // a hint: the functions read it again
  if ((word & kRecord) == 0) return qm_trace_told(cache, site, requested, wait_policy);
  if ((word & kStream) != 0) return qm_cache_allocate_other(cache, site, requested, wait_policy);
  if ((word & kSampled) != 0) return allocate_sampled(cache, site, requested, wait_policy);
  return qm_trace_counted(cache, site, requested, wait_policy);
}

/// A free for which there was no room, or that the functions here do not handle.
[[gnu::noinline]] void free_with_room(Cache* cache, void* object) noexcept {
  keep_frame();
  if (tracer.make_room(*cache)) return qm_cache_free_slow(cache, object);
  if (!tracer.free_shared(*cache, object)) qm_cache_free_other(cache, object);
}

/// A free of a counted object, of the last record, or one as above.
[[gnu::noinline]] void free_shared(Cache* cache, void* object) noexcept {
  keep_frame();
  if (tracer.free_shared(*cache, object)) return;
  Tracer::end_watch_if_done(*cache);
  free_with_room(cache, object);
}

void free_told(Cache* cache, void* object) noexcept {
  QM_JUMPS();
  if (!tracer.free_told(*cache, object)) qm_cache_free_other(cache, object);
}

void free(Cache* cache, void* object) noexcept {
  QM_JUMPS();
  if (!tracer.free_traced(*cache, object)) free_with_room(cache, object);
}

void free_watched(Cache* cache, void* object) noexcept {
  QM_JUMPS();
  if (!tracer.free_watched(*cache, object)) free_shared(cache, object);
}

}  // namespace

constinit const TracedPath kTracedPath{&qm_trace_recorded, &allocate_mixed, &free, &free_watched, &free_told};

}  // namespace qm::trace
