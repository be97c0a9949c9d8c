/// The way that nearly every allocation and free of a traced cache takes: one function each, without a lock and without anything
/// that can fail. What is not as plain as that - a stack or a context seen for the first time, a slab without handles, no free
/// slot, an empty or a full magazine, the last record, objects that are no memory - is left for the
/// slow halves, with nothing changed.
///
///     allocate   walk and hash -> find the stack -> | take from the closed cell -> fill a slot -> handle |
///     free                                          | handle -> clear the slot -> put into the cell      |
///                                                      masked
///
/// What the two cost is in docs/performance.md, from the bench `trace`.

#include "books.hpp"
#include "defect.hpp"
#include "enter.hpp"

namespace qm::trace {
namespace {

using trace_state::kFault;
using trace_state::kRecord;
using trace_state::kStream;

/// Of a function that ends in jumps, so that it keeps nothing for what it jumps to.
#define QM_ENDS_IN_JUMPS [[gnu::optimize("optimize-sibling-calls")]]

/// A defect of the commands leaves cells open that are recorded.
[[nodiscard]] inline bool is_closed(const Cell& own) noexcept {
  return kDefect == Defect::kNone || own.top.load(std::memory_order_relaxed) == closed_address();
}

/// Whether the cache records and nothing else has to be thought of. acquire: as in Cache::record().
[[nodiscard]] inline bool only_records(Cache& cache) noexcept {
  return (cache.state().load(std::memory_order_acquire) & (kRecord | kFault | kStream)) == kRecord;
}

}  // namespace

/// Looks whether the stack that begins at @p frame is the one found last from there, without storing or hashing it.
[[gnu::always_inline]] inline StackHandle Books::find_recent(std::uint16_t owner, std::uintptr_t frame,
                                                             hal::StackBounds stack, bool& truncated) const noexcept {
  std::uintptr_t pc = NativeFrames::return_address(frame);
  // acquire: pairs with the release below, so that the entry is seen.
  const StackHandle handle = recent_.at(pc, frame).load(std::memory_order_acquire);
  if (handle < kFirstHandle) return kNoStack;
  const StackEntry& entry = *stacks.entry(handle);
  if (entry.owner != owner || (entry.flags & StackEntry::kCollided) != 0 || entry.depth == 0) return kNoStack;
  const std::uint32_t* frames = entry.frames();
  const std::uint32_t* const last = frames + entry.depth - 1;
  const std::uintptr_t base = ranges_.plain.low;
  std::uintptr_t next = NativeFrames::next(frame);
  // What the entry has was looked at when it was stored; where the frames lie is looked at now (W1).
  const auto is_shown_by = [&](std::uint32_t kept) {
    return static_cast<std::intptr_t>(pc - base) == std::intptr_t{static_cast<std::int32_t>(kept)};
  };
  const auto is_sound = [&]() { return next > frame && next <= stack.high - NativeFrames::kAbove && next % 16 == 0; };
  while (frames != last) {
    if (!is_shown_by(*frames++) || !is_sound()) return kNoStack;
    frame = next;
    pc = NativeFrames::return_address(frame);
    next = NativeFrames::next(frame);
  }
  if (!is_shown_by(*last)) return kNoStack;
  // As walk_frames() ends.
  bool was_truncated = next != 0;
  if (is_sound()) {
    pc = NativeFrames::return_address(next);
    was_truncated = pc != 0 && !ranges_.traps.contains(pc);
    if (was_truncated && ranges_.text.contains(pc) && entry.depth != kStackDepth) return kNoStack;  // it goes on
  }
  if (was_truncated != entry.truncated()) return kNoStack;
  truncated = was_truncated;
  return handle;
}

template <Books::Look kWhere>
[[gnu::always_inline]] inline std::uint32_t Books::find_known(Cache& cache, std::uintptr_t frame, bool& truncated) noexcept {
  const SourceBooks* one = books_at(cache);
  const std::uint32_t key = hal::Port::context_key();
  const KnownContext& known = known_[hal::Port::hart_index()];
  if (one == nullptr || key == 0 || known.key.load(std::memory_order_relaxed) != key) return 0;
  const hal::StackBounds stack = known.stack;
  const std::uint32_t packed = known.packed;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // as in capture()
  if (known.key.load(std::memory_order_relaxed) != key) return 0;
  if (frame == 0 || frame % 16 != 0) __builtin_unreachable();  // the running function's
  if (frame < stack.low + NativeFrames::kBelow || frame > stack.high - NativeFrames::kAbove) return 0;
  StackHandle handle = kNoStack;
  if constexpr (kWhere == Look::kLately) {
    handle = find_recent(one->number, frame, stack, truncated);
  } else {
    StackKey stack_key;
    KeyWalk found(stack_key, ranges_.plain.low);
    walk_frames<NativeFrames>(frame, stack, ranges_, found);
    handle = stacks.find(found.finish(stack_key, one->number), stack_key);
    truncated = found.truncated;
    // release: pairs with the acquire in find_recent().
    if (handle != kNoStack) recent_.at(NativeFrames::return_address(frame), frame).store(handle, std::memory_order_release);
  }
  return handle != kNoStack ? packed | handle : 0;
}

[[gnu::always_inline]] inline void* Books::insert_known(Cache& cache, std::size_t requested, std::uint32_t found,
                                                        bool truncated) noexcept {
  auto* one = static_cast<SourceBooks*>(cache.books.load(std::memory_order_relaxed));  // acquired by find_known()
  const hal::InterruptGuard masked;
  if (!only_records(cache)) return nullptr;  // read in the section that inserts (O2)
  const unsigned hart = hal::Port::hart_index();
  Cell& own = cache.cell(hart);
  RecordTable::Stash& stash = records.stash_of(hart);
  if (!is_closed(own) || stash.empty()) return nullptr;
  void* object = own.peek_closed();
  if (object == nullptr) return nullptr;
  Record record;
  std::uint32_t* word = plain_handle(cache, object);
  if (word == nullptr || !plain_code(object, record.object)) return nullptr;
  own.drop_closed();
  record.stack_context = found;
  record.size = static_cast<std::uint32_t>(requested != 0 ? requested : cache.object_size());
  HartBooks& mine = one->harts()[hart];
  enter(cache, *one, mine, hart, *RecordTable::take_from(stash), *word, record);
  if (truncated) Counts::add(mine.now.truncated_stacks);
  cache.count_allocation();
  return object;
}

[[gnu::always_inline]] inline Books::Freed Books::free_traced(Cache& cache, void* object) noexcept {
  Slab* slab = cache.slabs().find_by_mask(object);
  if (slab == nullptr) return Freed::kNo;
  const unsigned index = cache.slabs().index_by_reciprocal(*slab, object);
  if (index == SlabLayer::kNoIndex) return Freed::kNo;
  const hal::InterruptGuard masked;
  // acquire: as in Cache::free_slow(); the record goes before the object does (O1).
  if (!trace_state::only_watches(cache.state().load(std::memory_order_acquire)) || cache.reserve_missing() != 0) {
    return Freed::kNo;
  }
  const unsigned hart = hal::Port::hart_index();
  if (std::uint32_t* handles = slab->handles.load(std::memory_order_acquire); handles != nullptr) {
    const SlotId slot = std::atomic_ref(handles[index]).load(std::memory_order_relaxed);
    if (static_cast<std::int32_t>(slot) > 0) {
      const auto* one = static_cast<const SourceBooks*>(cache.books.load(std::memory_order_relaxed));
      RecordTable::Stash& stash = records.stash_of(hart);
      std::uint32_t former = kNoSlot;
      std::uint32_t code = 0;
      if (stash.full() || !plain_code(object, code)) return Freed::kNo;
      RecordSlot* claimed = records.claim(slot, code, one->number, former);
      store_relaxed(handles[index], former);
      if (claimed != nullptr) {
        RecordTable::give_to(stash, *claimed);
        // seq_cst: as in count_out()
        if (count_out(cache) && (cache.state().load(std::memory_order_seq_cst) & trace_state::kSettled) != 0) {
          return Freed::kRecordOnly;
        }
      }
    }
  }
  return cache.cell(hart).put_watched(object) ? Freed::kYes : Freed::kNo;
}

namespace {

/// The last part of an allocation whose stack and context are known. @param[in] found Record::stack_context.
[[gnu::noinline]] QM_JUMPS void* allocate_known(Cache* cache, const CallSite* site, std::size_t requested, Effort effort, std::uint32_t found,
                              bool truncated) noexcept {
  if (void* object = books.insert_known(*cache, requested, found, truncated); object != nullptr) return object;
  return qm_cache_allocate_other(cache, site, requested, effort);
}

/// A stack that was not the last one found from its place.
[[gnu::noinline]] QM_ENDS_IN_JUMPS void* allocate_by_hash(Cache* cache, const CallSite* site, std::size_t requested, Effort effort) noexcept {
  keep_return_address();
  bool truncated = false;
  const std::uint32_t found = books.find_known<Books::Look::kInDepot>(*cache, current_frame(), truncated);
  if (found != 0) return allocate_known(cache, site, requested, effort, found, truncated);
  return qm_cache_allocate_other(cache, site, requested, effort);
}

QM_ENDS_IN_JUMPS void* allocate(Cache* cache, const CallSite* site, std::size_t requested, Effort effort) noexcept {
  keep_return_address();
  bool truncated = false;
  const std::uint32_t found = books.find_known<Books::Look::kLately>(*cache, current_frame(), truncated);
  if (found != 0) return allocate_known(cache, site, requested, effort, found, truncated);
  return allocate_by_hash(cache, site, requested, effort);
}

/// The rest of a free whose record was the last one.
[[gnu::noinline]] void free_last(Cache* cache, void* object) noexcept {
  Books::end_watch_if_done(*cache);
  qm_cache_free_other(cache, object);
}

QM_JUMPS void free(Cache* cache, void* object) noexcept {
  const Books::Freed freed = books.free_traced(*cache, object);
  if (freed == Books::Freed::kYes) return;
  if (freed == Books::Freed::kRecordOnly) return free_last(cache, object);
  qm_cache_free_other(cache, object);
}

}  // namespace

constinit const TracedPath kTracedPath{&allocate, &free};

}  // namespace qm::trace
