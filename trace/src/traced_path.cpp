/// The way that nearly every allocation and free of a traced cache takes: one function each, without a lock and without anything
/// that can fail. What is not as plain as that - a stack or a context seen for the first time, a slab without handles, no free
/// slot, an empty or a full magazine, the last record, a sampled allocation's walk, objects that are no memory - is left for the
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

constexpr std::uint32_t kRecordsOnly = trace_state::kRecord;

void* allocate(Cache* cache, const CallSite* site, std::size_t requested, Effort effort) noexcept {
  const std::uintptr_t frame = current_frame();
  if (void* object = books.allocate_traced(*cache, requested, frame); object != nullptr) return object;
  return qm_cache_allocate_other(cache, site, requested, effort);
}

void free(Cache* cache, void* object) noexcept {
  if (!books.free_traced(*cache, object)) qm_cache_free_other(cache, object);
}

/// A defect of the commands leaves cells open that are recorded.
[[nodiscard]] inline bool is_closed(const Cell& own) noexcept {
  return kDefect == Defect::kNone || own.top.load(std::memory_order_relaxed) == closed_address();
}

}  // namespace

constinit const TracedPath kTracedPath{&allocate, &free};

/// Sampling: hands out an object without a record, if it is not time for one.
void* Books::pass_over(Cache& cache, SourceBooks& one) noexcept {
  const hal::InterruptGuard masked;
  if ((cache.state().load(std::memory_order_acquire) & (trace_state::kRecord | trace_state::kFault)) != kRecordsOnly) {
    return nullptr;
  }
  const unsigned hart = hal::Port::hart_index();
  HartBooks& mine = one.harts()[hart];
  if (!passes(one, mine) || !is_closed(cache.cell(hart))) return nullptr;
  void* object = cache.cell(hart).take_closed();
  if (object == nullptr) return nullptr;
  pass(mine);
  cache.count_allocation();
  return object;
}

[[gnu::always_inline]] inline void* Books::allocate_traced(Cache& cache, std::size_t requested, std::uintptr_t frame) noexcept {
  auto* one = static_cast<SourceBooks*>(cache.books.load(std::memory_order_acquire));
  if (one == nullptr) return nullptr;
  if (one->every.load(std::memory_order_relaxed) > 1) [[unlikely]] {
    if (void* object = pass_over(cache, *one); object != nullptr) return object;
  }
  const std::uint32_t key = hal::Port::context_key();
  const KnownContext& known = known_[hal::Port::hart_index()];
  if (key == 0 || known.key.load(std::memory_order_relaxed) != key) return nullptr;
  const hal::StackBounds stack = known.stack;
  const std::uint32_t context = known.context;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // as in capture()
  if (known.key.load(std::memory_order_relaxed) != key) return nullptr;

  StackKey stack_key;
  KeyWalk found(stack_key, ranges_.plain.low);
  walk_frames<NativeFrames>(frame, stack, ranges_, found);
  const StackHandle handle = stacks.find(found.finish(stack_key, one->number), stack_key);
  if (handle == kNoStack) return nullptr;

  const hal::InterruptGuard masked;
  // acquire: as in Cache::record(); read in the section that inserts (O2).
  if ((cache.state().load(std::memory_order_acquire) & (trace_state::kRecord | trace_state::kFault)) != kRecordsOnly) {
    return nullptr;
  }
  const unsigned hart = hal::Port::hart_index();
  Cell& own = cache.cell(hart);
  if (!is_closed(own)) return nullptr;
  void* object = own.take_closed();
  if (object == nullptr) return nullptr;
  Record record;
  RecordSlot* slot = nullptr;
  std::uint32_t* word = plain_handle(cache, object);
  if (word == nullptr || !plain_code(object, record.object) || (slot = records.take(hart)) == nullptr) {
    (void)own.put_watched(object);  // where it was
    return nullptr;
  }
  record.stack_context = Record::pack(handle, context);
  record.size = size_for_record(requested != 0 ? requested : cache.object_size());
  HartBooks& mine = one->harts()[hart];
  enter(cache, *one, mine, hart, *slot, *word, record);
  if (found.truncated) Counts::add(mine.now.truncated_stacks);
  cache.count_allocation();
  return object;
}

[[gnu::always_inline]] inline bool Books::free_traced(Cache& cache, void* object) noexcept {
  Slab* slab = cache.slabs().find_by_mask(object);
  if (slab == nullptr) return false;
  const unsigned index = cache.slabs().index_by_reciprocal(*slab, object);
  if (index == SlabLayer::kNoIndex) return false;
  const hal::InterruptGuard masked;
  // acquire: as in Cache::free_slow(); the record goes before the object does (O1).
  if ((cache.state().load(std::memory_order_acquire) & trace_state::kWatch) == 0 || cache.reserve_missing() != 0) return false;
  const unsigned hart = hal::Port::hart_index();
  if (std::uint32_t* handles = slab->handles.load(std::memory_order_acquire); handles != nullptr) {
    const std::atomic_ref<std::uint32_t> word(handles[index]);
    const SlotId slot = word.load(std::memory_order_relaxed);
    if (static_cast<std::int32_t>(slot) > 0) {
      const auto* one = static_cast<const SourceBooks*>(cache.books.load(std::memory_order_relaxed));
      std::uint32_t former = kNoSlot;
      std::uint32_t code = 0;
      const bool found = plain_code(object, code) && records.remove(hart, slot, code, one->number, former);
      word.store(former, std::memory_order_relaxed);
      // seq_cst: as in count_out()
      if (found && count_out(cache) && (cache.state().load(std::memory_order_seq_cst) & trace_state::kSettled) != 0) {
        end_watch_if_done(cache);
        return false;
      }
    }
  }
  return cache.cell(hart).put_watched(object);
}

}  // namespace qm::trace
