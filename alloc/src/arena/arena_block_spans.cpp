// Arena: the spans of an arena of blocks: room from the source, and room that goes back.
//
//     add_room()         extends the latest span, if the source has room behind it; else begins another span, at the
//                        bottom of the source's free memory
//     join_spans()       extends spans into the source's free memory between them; spans that touch become one
//     release_blocks()   an empty span goes back, or the whole pages at the end of one
//     release_hole()     whole pages inside a free block go back, and its span becomes two
//
//     | span of blocks -->                  <-- slabs and other segments of the source |
//
// No lock is held while the source is called (A5). While the source makes a span longer or shorter, Blocks::resizing
// keeps all spans unchanged.

#include "arena/arena_block.hpp"

namespace qm {
namespace {

/// A smaller hole does not go back: its tags, two in the source and one here, are more than a quarter of it.
constexpr std::size_t kLeastHole = std::size_t{4} * 3 * sizeof(BoundaryTag);

/// The free block at the end of a span; nullptr if the last block is allocated or a header is damaged.
BlockHeader* free_end_of(const BoundaryTag& span) noexcept {
  const BlockHeader* const mark = Blocks::at(span.end() - Blocks::kHeaderBytes);
  if (!is_end_mark(*mark) || !mark->has(kAfterFree)) return nullptr;
  const std::size_t bytes = Blocks::bytes_before(mark);
  if (bytes > span.size - Blocks::kSpanBytes) return nullptr;
  BlockHeader* const last = Blocks::at(mark->address() - bytes);
  return last->is_sound() && last->has(kFree) && last->bytes() == bytes ? last : nullptr;
}

}  // namespace

// ---- room from the source -------------------------------------------------------------------------------------------

/// Allocates from @p last, the free block at the end of its span. @returns 0 if it does not fit.
QM_ARENA_INLINE std::uintptr_t Arena::take_end_locked(BlockHeader& last, const Request& request, bool noted) noexcept {
  const std::size_t bytes = Blocks::bytes_for(request.size, noted);
  if (!Blocks::fits(last, bytes, request.align())) return 0;
  BlockHeader* const block = blocks_->take_from(&last, bytes, request.align(), {request.kind, noted});
  return block != nullptr ? enter_block_locked(*block, request, noted) : 0;
}

/// Enters the blocks of a new span: one for @p request at its start, and a free one behind it.
/// @returns the first; 0 if it does not fit there, and the whole span is one free block.
QM_ARENA_INLINE std::uintptr_t Arena::enter_span_locked(std::uintptr_t start, std::size_t size, const Request& request,
                                                        bool noted) noexcept {
  const std::size_t bytes = Blocks::bytes_for(request.size, noted);
  if (request.align() > Blocks::kUnit || size - Blocks::kSpanBytes < bytes + Blocks::kLeast) [[unlikely]] {
    blocks_->enter(start, start + size);
    return 0;
  }
  return enter_block_locked(*blocks_->enter(start, start + size, bytes, {request.kind, noted}), request, noted);
}

/// Gets room from the source for a block of @p bytes, gaps included: at least @p mostly bytes, in whole quanta. The
/// latest span is extended; if the source has no room behind it, another span begins.
/// @param[in] request what the block is for; nullptr: only the latest span may be extended, and no block is allocated.
/// @param[out] start the block, allocated from that room; unchanged if the caller has to allocate it.
/// @returns whether there is room now.
bool Arena::add_room(const Request* request, bool noted, std::size_t bytes, std::size_t mostly,
                     std::uintptr_t& start) noexcept {
  std::uintptr_t latest = 0;     // start of the latest span, if it may be extended
  std::size_t more = bytes;      // bytes to extend it by
  BoundaryTag* spare = nullptr;  // tag for another span
  {
    const LockGuard guard(lock_);
    store_relaxed(blocks_->imports, blocks_->imports.load(std::memory_order_relaxed) + 1);
    if (spare_count_ != 0) spare = take_spare_locked();
    const BoundaryTag* const span = blocks_->resizing ? nullptr : blocks_->latest_span;
    if (span != nullptr) {
      if (const BlockHeader* const last = free_end_of(*span); last != nullptr)
        more = last->bytes() < bytes ? bytes - last->bytes() : 0;
      more = source_->rounded(more > mostly ? more : mostly);
      if (more != 0 && more <= Blocks::kMost - span->size) {
        latest = span->start;
        blocks_->resizing = true;
      }
    }
  }
  const std::size_t needed = bytes + Blocks::kSpanBytes;
  std::size_t size = source_->rounded(needed > mostly ? needed : mostly);  // of another span
  if (request == nullptr || size > Blocks::kMost) size = 0;
  const std::uintptr_t place = source_->extend_or_take(latest, more, size, spare != nullptr ? nullptr : &spare);
  bool is_linked = true;
  {
    const LockGuard guard(lock_);
    if (latest != 0) blocks_->resizing = false;
    if (spare != nullptr) keep_spare_locked(spare);
    if (place == 0) return false;
    if (place == latest) {
      BlockHeader* const last = enter_end_locked(*blocks_->latest_span, more);
      if (request != nullptr && last != nullptr) start = take_end_locked(*last, *request, noted);
    } else {
      is_linked = link_block_span_locked({place, size, SpanOrigin::kImported});
      if (is_linked) start = enter_span_locked(place, size, *request, noted);
    }
  }
  if (!is_linked) static_cast<void>(source_->free(place, size));
  return is_linked;
}

/// Adds @p more bytes to the end of the span. @returns the free block there; nullptr if a header is damaged.
BlockHeader* Arena::enter_end_locked(BoundaryTag& span, std::size_t more) noexcept {
  const std::uintptr_t end = span.end();
  if (&span == empty_span_) empty_span_ = nullptr;
  span.size += more;
  BlockHeader* const last = blocks_->extend(span.start, end, span.end());
  if (last != nullptr) move_walks_locked(*last);
  counts_.total += more;
  counts_.imported += more;
  return last;
}

/// Extends each span into the source's free memory behind it; spans that then touch become one.
/// @returns whether any span changed. Complexity: O(spans), one per hold of the lock.
bool Arena::join_spans() noexcept {
  bool any = false;
  std::uintptr_t from = 0;
  for (;;) {
    const LockGuard guard(lock_);
    BoundaryTag* const span = blocks_->resizing ? nullptr : spans_.ceiling(from);
    if (span == nullptr) return any;
    const bool is_joined = span->origin != SpanOrigin::kAdded && join_span_locked(*span);
    any = any || is_joined;
    from = is_joined ? span->start : span->end();
  }
}

/// @returns whether the span grew.
bool Arena::join_span_locked(BoundaryTag& span) noexcept {
  BoundaryTag* above = span.next != &ends_ && span.next->origin != SpanOrigin::kAdded ? span.next : nullptr;
  if (above != nullptr) {
    // Where two spans meet, an end mark and a word become part of a free block.
    const bool is_near = above->start == span.end();
    const bool has_free = free_end_of(span) != nullptr || Blocks::at(above->start + Blocks::kHeaderBytes)->has(kFree);
    if ((is_near && !has_free) || above->end() - span.start > Blocks::kMost) above = nullptr;
  }
  const std::size_t size = source_->join_behind(span.start, above != nullptr ? above->start : 0);
  if (size == span.size) return false;
  const bool has_above = above != nullptr && span.start + size == above->end();
  const std::size_t more = (has_above ? above->start - span.start : size) - span.size;
  if (more != 0) enter_end_locked(span, more);
  if (!has_above) return true;
  const std::uintptr_t end = span.end();
  if (above == blocks_->latest_span) blocks_->latest_span = &span;
  if (&span == empty_span_) empty_span_ = nullptr;
  span.size += unlink_span_locked(above).size;
  counts_.imported += span.end() - end;
  counts_.total += Blocks::kSpanBytes;
  if (const BlockHeader* const joined = blocks_->mend(span.start, end, end); joined != nullptr)
    move_walks_locked(*joined);
  return true;
}

/// Enters a span of whole units. @returns kInvalid, kNoMemory, kOverlap, as add().
Status Arena::add_block_span(const SpanRange& range) noexcept {
  if (range.size < Blocks::kSpanBytes + Blocks::kLeast || range.size > Blocks::kMost) return Status::kInvalid;
  const LockGuard guard(lock_);
  if (!reserve_tags_locked(1)) return Status::kNoMemory;
  if (!link_block_span_locked(range)) return Status::kOverlap;
  blocks_->enter(range.start, range.start + range.size);
  return Status::kOk;
}

/// Enters a span without its blocks; uses a spare tag. @returns false if it overlaps an existing span.
bool Arena::link_block_span_locked(const SpanRange& range) noexcept {
  BoundaryTag* const span = link_span_locked(range);
  if (span == nullptr) return false;
  counts_.total += range.size - Blocks::kSpanBytes;
  if (range.imported() && !blocks_->resizing) blocks_->latest_span = span;
  return true;
}

// ---- room that goes back --------------------------------------------------------------------------------------------

/// Gives the span at or above @p from back to the source if it is empty; else the whole pages at its end, except @p
/// keep bytes.
/// @param[out] from the end of that span; 0 if there is none.
/// @returns the number of bytes.
std::size_t Arena::release_blocks(std::uintptr_t& from, std::size_t keep) noexcept {
  SpanRange range;
  std::size_t less = 0;
  {
    const LockGuard guard(lock_);
    BoundaryTag* const span = blocks_->resizing ? nullptr : spans_.ceiling(from);
    from = span != nullptr ? span->end() : 0;
    BlockHeader* const last = span != nullptr && span->origin != SpanOrigin::kAdded ? free_end_of(*span) : nullptr;
    if (last == nullptr) return 0;
    if (is_all_of(*last, *span)) {
      if (keep != 0 && span == empty_span_) return 0;
      blocks_->leave(last);
      if (blocks_->latest_span == span) blocks_->latest_span = nullptr;
      counts_.total -= span->size - Blocks::kSpanBytes;
      range = unlink_span_locked(span);
    } else {
      const std::size_t unit = source_->quantum_;
      less = last->bytes() > keep ? round_down(last->bytes() - keep, unit) : 0;
      const std::size_t rest = last->bytes() - less;
      if (less != 0 && Blocks::is_too_little(rest)) less -= unit;
      if (less == 0) return 0;
      range = {span->start, span->size};
      blocks_->shorten(last, less);
      if (last->bytes() != 0) move_walks_locked(*last);
      span->size -= less;
      counts_.total -= less;
      counts_.imported -= less;
      blocks_->resizing = true;
    }
  }
  if (less == 0) {
    static_cast<void>(source_->free(range.start, range.size));
    return range.size;
  }
  const bool is_shorter = source_->resize_in_place(range.start, range.size, range.size - less) == Status::kOk;
  const LockGuard guard(lock_);
  blocks_->resizing = false;
  if (is_shorter) return less;
  enter_end_locked(*spans_.floor(range.start), less);  // the source has no tag for the range that would become free
  return 0;
}

/// The whole quanta of the source inside a free block, with room beside them for the end of one span and the start of
/// another.
/// @returns size 0 if there are none, the block lies at the end of its span, or the span does not go back to the
///          source.
Arena::SpanRange Arena::hole_in_locked(const BlockHeader& block) noexcept {
  const std::size_t unit = source_->quantum_;
  const BoundaryTag* const span = spans_.floor(block.address());
  std::uintptr_t low = source_->rounded(block.address() + Blocks::kHeaderBytes);
  if (Blocks::is_too_little(low - Blocks::kHeaderBytes - block.address())) low += unit;
  std::uintptr_t high = round_down(block.end() - Blocks::kHeaderBytes, unit);
  if (Blocks::is_too_little(block.end() - Blocks::kHeaderBytes - high)) high -= unit;
  const bool is_inside = low > span->start && high < span->end() && low < high && high - low >= kLeastHole;
  if (!is_inside || block.next()->bytes() == 0 || span->origin == SpanOrigin::kAdded) return {};
  return {low, high - low};
}

/// Gives whole pages inside a free block back to the source, and splits the block's span in two.
/// @returns the number of bytes; 0 if none went back.
std::size_t Arena::release_hole() noexcept {
  std::uintptr_t start = 0;
  std::uintptr_t low = 0;
  std::uintptr_t high = 0;
  {
    const LockGuard guard(lock_);
    if (blocks_->resizing || !reserve_tags_locked(1)) return 0;
    BlockHeader* block = nullptr;
    blocks_->visit_large(source_->quantum_, [&](BlockHeader& one) noexcept {
      const SpanRange hole = hole_in_locked(one);
      low = hole.start;
      high = hole.start + hole.size;
      block = hole.size != 0 ? &one : nullptr;
      return block == nullptr;
    });
    if (block == nullptr) return 0;
    BoundaryTag* const span = spans_.floor(block->address());
    start = span->start;
    const SpanRange above{high, span->end() - high, SpanOrigin::kImported};
    move_walks_locked(*block);
    blocks_->cut(block, low, high);
    counts_.total -= span->size;
    counts_.imported -= span->size;
    span->size = low - start;
    counts_.imported += span->size;
    BoundaryTag* const upper = link_span_locked(above);
    counts_.total += span->size + upper->size - Blocks::kSpanBytes;
    if (blocks_->latest_span == span) blocks_->latest_span = upper;
    blocks_->resizing = true;
  }
  const bool is_free = source_->free_within(start, low, high);
  const LockGuard guard(lock_);
  blocks_->resizing = false;
  if (is_free) return high - low;
  // The source has no tags: the two spans become one again.
  BoundaryTag* const span = spans_.floor(start);
  BoundaryTag* const upper = spans_.floor(high);
  const std::size_t size = upper->size;
  if (upper == blocks_->latest_span) blocks_->latest_span = span;
  unlink_span_locked(upper);
  span->size += high - low + size;
  if (const BlockHeader* const joined = blocks_->mend(start, low, high); joined != nullptr) move_walks_locked(*joined);
  counts_.imported += high - low + size;
  counts_.total += high - low + Blocks::kSpanBytes;
  return 0;
}

/// Complexity: O(spans) and O(free blocks that have whole pages), one per hold of the lock.
std::size_t Arena::reap_blocks() noexcept {
  std::size_t released = 0;
  std::uintptr_t from = 0;
  do released += release_blocks(from, 0);
  while (from != 0);
  while (const std::size_t hole = release_hole()) released += hole;
  return released;
}

/// The bytes that reap_blocks() would give back.
std::size_t Arena::idle_block_bytes_locked() noexcept {
  std::size_t idle = 0;
  for (const BoundaryTag* span = ends_.next; span != &ends_; span = span->next) {
    const BlockHeader* const last = span->origin != SpanOrigin::kAdded ? free_end_of(*span) : nullptr;
    if (last == nullptr) continue;
    idle += is_all_of(*last, *span) ? span->size : round_down(last->bytes(), source_->quantum_);
  }
  blocks_->visit_large(source_->quantum_, [&](const BlockHeader& block) noexcept {
    idle += hole_in_locked(block).size;
    return true;
  });
  return idle;
}

}  // namespace qm
