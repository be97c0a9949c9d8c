#pragma once
/// Common parts of the two ways of recording (tracer_record.cpp, traced_path.cpp), inlined into both.

#include "tracer.hpp"
#include "stream.hpp"

namespace qm::trace {

/// A record has 32 bits for a size: a larger segment gets the largest value.
inline std::uint32_t size_for_record(std::size_t size) noexcept {
  return static_cast<std::uint32_t>(size < UINT32_MAX ? size : UINT32_MAX);
}

/// Counts an allocation that the sample leaves out. Masked.
inline void leave_one_out(HartTrace& mine) noexcept {
  store_relaxed(mine.to_leave_out, mine.to_leave_out.load(std::memory_order_relaxed) - 1);
  Counts::add(mine.now.left_out);
}

/// @returns a random number below @p bound, uniformly distributed.
inline std::uint32_t draw(HartTrace& mine, std::uint32_t bound) noexcept {
  return static_cast<std::uint32_t>(std::uint64_t{next_random(mine.random)} * bound >> 32);
}

/// Publishes @p record in @p slot, and counts it. Masked.
[[gnu::always_inline]] inline void Tracer::enter(Traceable& source, TracedSource& one, HartTrace& mine,
                                                 std::size_t hart, std::uintptr_t slot, std::uint32_t& handle,
                                                 RecordInRegisters& record) noexcept {
  record.time = coarse_time();
  record.set_place(one.number, hart, sequence.next_for_record());
  // The count comes first: another hart that finds the record may remove it at once.
  source.live_records.fetch_add(1, std::memory_order_relaxed);
  records.fill(slot, record);
  store_relaxed(handle, static_cast<SlotId>(slot));
  Counts::add(mine.now.recorded);
}

/// Counts an object at its stack, without a record. Masked.
inline void Tracer::count_in(Traceable& source, TracedSource& one, HartTrace& mine, std::uint32_t& handle,
                             StackHandle stack) noexcept {
  StackEntry* entry = stacks.entry(stack);
  source.live_records.fetch_add(1, std::memory_order_relaxed);
  (entry != nullptr ? entry->counted : one.counted_bare).fetch_add(1, std::memory_order_relaxed);
  store_relaxed(handle, CountWord::of(stack));
  Counts::add(mine.now.recorded);
}

/// Takes a record off the count of live records. @returns whether it was the last one: watching may end.
inline bool Tracer::count_out(Traceable& source) noexcept {
  // seq_cst: pairs with stop, which settles the word and then reads the count; one of the two sees the other's store.
  return source.live_records.fetch_sub(1, std::memory_order_seq_cst) == 1;
}

inline std::uintptr_t Tracer::plain_code(const void* object) noexcept {
  return reinterpret_cast<std::uintptr_t>(object) / 8;
}

inline bool Tracer::is_code_whole(const void* object) noexcept {
  return reinterpret_cast<std::uintptr_t>(object) % 8 == 0;
}

inline bool Tracer::plain_code(const void* object, std::uintptr_t& code) const noexcept {
  code = plain_code(object);
  return sizeof(object) == 4 || reinterpret_cast<std::uintptr_t>(object) - config_.object_base < kRecordedBytes;
}

inline std::uint32_t* Tracer::plain_handle(const Cache& cache, const void* object) noexcept {
  const Slab* slab = cache.slabs().find_by_mask(object);
  if (slab == nullptr) return nullptr;
  std::uint32_t* handles = slab->handles.load(kFollowed);
  const unsigned index = cache.slabs().index_by_reciprocal(*slab, object);
  return handles != nullptr && index != SlabLayer::kNoIndex ? handles + index : nullptr;
}

/// The Record::stack_context of the running context, without a stack; 0 if the context is not known.
inline std::uint32_t Tracer::current_context() const noexcept {
  const KnownContext& known = known_[hal::Port::hart_index()];
  return known.is(hal::Port::context_key()) ? known.packed : 0;
}

/// Puts the event of a free. Masked.
inline void Tracer::tell_free(Cache& cache, unsigned hart, const void* object) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(object);
  if (stream.was_moved(hart, address)) return;
  const TracedSource* one = traced_source(cache);
  stream.freed(*stream_of(*one), hart, {one->number, address, current_context(), 0, 0, 0});
}

inline std::uintptr_t Tracer::coarse_time() const noexcept {
  return static_cast<std::uintptr_t>(hal::Port::ticks() >> time_shift_);
}

}  // namespace qm::trace
