// Arena: an arena of blocks. Its segments keep their bookkeeping inside; its spans have boundary tags.
//
//     allocate_block()
//       take_block()             one hold of the lock: find, split
//       add_room()               extends the latest span, if the source has room behind it; else begins another span,
//                                at the bottom of the source's free memory
//       join_spans()             extends spans into the source's free memory between them; spans that touch become one
//       take_block_anywhere()    searches all free blocks
//       allocate_slow()          reclaim
//     free_block()             joins with the neighbours; an empty span, or whole pages at the end of one, may go back
//
//     | span of blocks -->                  <-- slabs and other segments of the source |
//
// No lock is held while the source is called (A5). While the source makes a span longer or shorter, Blocks::resizing
// keeps all spans unchanged.

#include <qm/arena.hpp>

#include <qm/detail/call_sites.hpp>
#include <qm/exhaustion.hpp>
#include <qm/fault.hpp>
#include <qm/misuse.hpp>
#include <qm/detail/observer.hpp>
#include <qm/detail/poison.hpp>

#include "arena/arena_request.hpp"
#include "segments/blocks.hpp"

namespace qm {
namespace {

/// Free blocks that take_block_anywhere() tries per hold of the lock.
constexpr unsigned kLooks = 16;
/// A smaller hole does not go back: its tags, two in the source and one here, are more than a quarter of it.
constexpr std::size_t kLeastHole = std::size_t{4} * 3 * sizeof(BoundaryTag);
/// An empty span larger than this, in imports of the usual size, goes back at once.
constexpr std::size_t kKeptImports = 4;

/// Whether a request for @p size is given a block of this size: it may be a unit larger, where the rest of a free block
/// was too small for a block.
bool is_for(const BlockHeader& block, std::size_t size) noexcept {
  const std::size_t bytes = Blocks::bytes_for(size, block.is_noted());
  return bytes != 0 && bytes <= block.bytes() && block.bytes() - bytes < Blocks::kLeast;
}

bool is_end_mark(const BlockHeader& header) noexcept { return header.is_sound() && header.bytes() == 0; }

/// The free block at the end of a span; nullptr if the last block is allocated or a header is damaged.
BlockHeader* free_end_of(const BoundaryTag& span) noexcept {
  const BlockHeader* const mark = Blocks::at(span.end() - Blocks::kHeaderBytes);
  if (!is_end_mark(*mark) || !mark->has(kAfterFree)) return nullptr;
  const std::size_t bytes = Blocks::bytes_before(mark);
  if (bytes > span.size - Blocks::kSpanBytes) return nullptr;
  BlockHeader* const last = Blocks::at(mark->address() - bytes);
  return last->is_sound() && last->has(kFree) && last->bytes() == bytes ? last : nullptr;
}

bool is_all_of(const BlockHeader& block, const BoundaryTag& span) noexcept {
  return block.bytes() == span.size - Blocks::kSpanBytes;
}

}  // namespace

// ---- look-up --------------------------------------------------------------------------------------------------------

/// The allocated block whose payload begins at @p start; nullptr if there is none.
/// @param[out] span the span that contains the address, or nullptr.
QM_ARENA_INLINE BlockHeader* Arena::find_block_locked(std::uintptr_t start, const BoundaryTag*& span) noexcept {
  // Most blocks lie in the span that grows.
  span = blocks_->latest_span;
  if (span == nullptr || start - span->start >= span->size) span = spans_.floor(start);
  if (start % Blocks::kUnit != 0) span = nullptr;
  if (span != nullptr && (start >= span->end() || start - span->start < Blocks::kSpanBytes)) span = nullptr;
  if (span == nullptr) return nullptr;
  BlockHeader* const block = Blocks::of(start);
  if constexpr (poison::kHides) poison::show(block, sizeof *block);  // it may be the inside of a free block
  return block->is_sound() && !block->has(kFree) && block->bytes() != 0 ? block : nullptr;
}

BlockHeader* Arena::find_block_locked(std::uintptr_t start) noexcept {
  const BoundaryTag* span = nullptr;
  return find_block_locked(start, span);
}

/// Moves each walk that would continue within @p block to its end.
void Arena::move_walks_locked(const BlockHeader& block) noexcept {
  for (ArenaWalk* walk = walks_; walk != nullptr; walk = walk->next_walk_) {
    if (walk->position_ > block.address() && walk->position_ < block.end()) walk->position_ = block.end();
  }
}

// ---- allocation -----------------------------------------------------------------------------------------------------

/// Counts a newly allocated block, fills its note and charges it.
QM_ARENA_INLINE std::uintptr_t Arena::enter_block_locked(BlockHeader& block, const Request& request,
                                                         bool noted) noexcept {
  if (empty_span_ != nullptr && block.address() - empty_span_->start < empty_span_->size) empty_span_ = nullptr;
  const std::size_t bytes = block.bytes();
  store_relaxed(blocks_->held[request.kind], blocks_->held[request.kind] + 1);  // read without the lock
  if (noted) {
    block.note().set(request.site, 0);
    if constexpr (kCallSites) {
      if (charged_) block.note().site = call_sites::charge(request.site, bytes);
    }
  }
  ++counts_.allocations_ever;
  count_allocated_locked(bytes);
  return block.payload();
}

/// Allocates from the arena's free blocks. @returns 0 if none fits.
QM_ARENA_INLINE std::uintptr_t Arena::take_block(const Request& request, bool noted) noexcept {
  const std::size_t bytes = Blocks::bytes_for(request.size, noted);
  const std::size_t align = request.align();
  BlockHeader* damaged = nullptr;
  std::uintptr_t start = 0;
  {
    const LockGuard guard(lock_);
    BlockHeader* const block = blocks_->take(bytes, align, {request.kind, noted});
    if (block != nullptr) start = enter_block_locked(*block, request, noted);
    damaged = blocks_->met_damage();
  }
  if (damaged != nullptr) [[unlikely]]
    tell_damage(damaged);
  return start;
}

std::uintptr_t Arena::allocate_block(std::size_t size, std::size_t align, unsigned kind, const CallSite* site,
                                     WaitPolicy wait_policy) noexcept {
  const Alignment alignment{align};
  return allocate_block({.size = size,
                         .alignment = &alignment,
                         .site = site,
                         .wait_policy = wait_policy,
                         .kind = static_cast<std::uint8_t>(kind)});
}

std::uintptr_t Arena::allocate_block(const Request& request) noexcept {
  const bool noted = kCallSites || traced();
  if (request.size != 0 && blocks_ != nullptr && fault::may_acquire(fault::Resource::kSegment, this)) [[likely]] {
    const std::uintptr_t start = take_block(request, noted);
    if (start != 0 && !traced()) [[likely]]
      return start;
    return allocate_block_slow(request, noted, start);
  }
  return request.reclaimed ? 0 : allocate_slow(request);
}

/// Finishes an allocation: of the block at @p start, which has to be traced, or, if that is 0, with room from the
/// source.
/// @param[in] noted whether the block has a place for a handle.
std::uintptr_t Arena::allocate_block_slow(const Request& request, bool noted, std::uintptr_t start) noexcept {
  for (;;) {
    if (start == 0) {
      const std::size_t bytes = Blocks::bytes_for(request.size, noted);
      const std::size_t slack = request.slack(Blocks::kUnit) != 0 ? request.alignment->align + Blocks::kLeast : 0;
      if (bytes != 0 && bytes <= Blocks::kMost - slack) {
        const std::size_t room = bytes + slack;
        // First as much as a usual import, else only what is needed. Another hart may take the room first.
        while (start == 0 &&
               (add_room(&request, noted, room, minimum_import_, start) || add_room(&request, noted, room, 0, start))) {
          if (start == 0) start = take_block(request, noted);
        }
        if (start == 0 && join_spans()) start = take_block(request, noted);
        if (start == 0) start = take_block_anywhere(request, noted);
      }
    }
    if (start == 0 && !request.reclaimed) return allocate_slow(request);
    if (start == 0) {
      reap_blocks();  // memory joined in vain: others may need it, and no report is to count it as idle
      return 0;
    }
    if (!traced()) return start;
    if (noted) {
      observer()->taken(*this, start, request.size, request.site, request.wait_policy);
      return start;
    }
    // A trace has begun since: the block has no place for a handle.
    static_cast<void>(free_block(start, kAnySize));
    noted = true;
    start = take_block(request, noted);
  }
}

/// Searches all free blocks: for one that happens to suit the alignment, or one among many of nearly the right size.
std::uintptr_t Arena::take_block_anywhere(const Request& request, bool noted) noexcept {
  const std::size_t bytes = Blocks::bytes_for(request.size, noted);
  const std::size_t align = request.align();
  ArenaWalk walk(*this);
  Segment segment;
  for (;;) {
    const LockGuard guard(lock_);
    for (unsigned left = kLooks; left != 0; --left) {
      if (!walk.next_block(segment)) return 0;
      if (segment.kind != TagKind::kFree || !walk.is_sound_) continue;
      BlockHeader* block = Blocks::of(segment.start);
      if (!Blocks::fits(*block, bytes, align)) continue;
      block = blocks_->take_from(block, bytes, align, {request.kind, noted});
      return block != nullptr ? enter_block_locked(*block, request, noted) : 0;
    }
  }
}

// ---- spans ----------------------------------------------------------------------------------------------------------

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

// ---- free -----------------------------------------------------------------------------------------------------------

Status Arena::free_block(std::uintptr_t start, std::size_t size) noexcept {
  if (blocks_ == nullptr) [[unlikely]]  // not set up
    return Status::kNotFound;
  if (traced()) {
    bool is_refused = false;
    {
      const LockGuard guard(lock_);
      const BlockHeader* const block = find_block_locked(start);
      is_refused = block == nullptr || (size != kAnySize && !is_for(*block, size)) ||
                   (block->is_noted() && !block->note().is_sound());
    }
    if (!is_refused) observer()->going(*this, start, kAnySize);
  }
  Status status = Status::kOk;
  const BlockHeader* damaged = nullptr;
  std::uintptr_t idle_span = 0;
  {
    const LockGuard guard(lock_);
    const BoundaryTag* span = nullptr;
    BlockHeader* const block = find_block_locked(start, span);
    if (block == nullptr) {
      if (span != nullptr) damaged = Blocks::of(start);
      status = Status::kNotFound;
    } else if (size != kAnySize && !is_for(*block, size)) {
      status = Status::kMismatch;
    } else {
      const std::size_t bytes = block->bytes();
      const unsigned kind = block->kind();
      const bool is_overrun = block->is_noted() && !block->note().is_sound();
      const CallSite* const site = block->is_noted() ? block->note().site : nullptr;
      BlockHeader* const joined = is_overrun ? nullptr : blocks_->give(block, span->start);
      damaged = is_overrun ? block->next() : blocks_->met_damage();
      if (joined == nullptr) {
        status = Status::kInvalid;
      } else {
        store_relaxed(blocks_->held[kind], blocks_->held[kind] - 1);
        ++counts_.frees_ever;
        counts_.allocated -= bytes;
        if constexpr (kCallSites) {
          if (charged_) call_sites::discharge(site, bytes);
        }
        if (walks_ != nullptr) [[unlikely]]
          move_walks_locked(*joined);
        if (joined->next()->bytes() == 0 && span->origin != SpanOrigin::kAdded) {
          const bool is_empty = is_all_of(*joined, *span);
          if (is_empty && empty_span_ == nullptr && span->size <= kKeptImports * minimum_import_) {
            empty_span_ = spans_.floor(start);
          } else if (is_empty || joined->bytes() >= 2 * minimum_import_ + source_->quantum_) {
            idle_span = span->start;
          }
        }
      }
    }
  }
  if (damaged != nullptr && tell_damage(damaged)) [[unlikely]]
    status = status == Status::kOk ? status : Status::kInvalid;
  if (idle_span != 0) release_blocks(idle_span, minimum_import_);
  if (status == Status::kOk && exhaustion::under_pressure()) exhaustion::note_free();
  return status;
}

// ---- resize ---------------------------------------------------------------------------------------------------------

/// @param[out] former the block's usable size before.
Status Arena::resize_block(std::uintptr_t start, std::size_t old_size, std::size_t size, std::size_t& former) noexcept {
  for (bool again = false;; again = true) {
    std::size_t missing = 0;
    const BlockHeader* damaged = nullptr;
    {
      const LockGuard guard(lock_);
      const BoundaryTag* span = nullptr;
      BlockHeader* const block = find_block_locked(start, span);
      if (block == nullptr) return Status::kNotFound;
      if (!is_for(*block, old_size)) return Status::kMismatch;
      const std::size_t before = block->bytes();
      former = block->usable();
      const std::size_t bytes = Blocks::bytes_for(size, block->is_noted());
      if (bytes == 0) return Status::kInvalid;
      const bool is_overrun = block->is_noted() && !block->note().is_sound();
      if (!is_overrun && blocks_->resize(block, bytes)) {
        if (walks_ != nullptr) {
          move_walks_locked(*block);
          if (block->next()->has(kFree)) move_walks_locked(*block->next());
        }
        counts_.allocated -= before;
        count_allocated_locked(block->bytes());
        if constexpr (kCallSites) {
          if (charged_) {
            call_sites::discharge(block->note().site, before);
            block->note().site = call_sites::charge(call_sites::plain(block->note().site), block->bytes());
          }
        }
        return Status::kOk;
      }
      damaged = is_overrun ? block->next() : blocks_->met_damage();
      // If the span ends behind the block, the source may have room there.
      const BlockHeader* last = damaged == nullptr ? block->next() : nullptr;
      if (last != nullptr && last->has(kFree)) last = last->next();
      if (!again && last != nullptr && is_end_mark(*last) && !blocks_->resizing && span->origin != SpanOrigin::kAdded) {
        missing = bytes - before;
        blocks_->latest_span = spans_.floor(start);
      }
    }
    if (damaged != nullptr) tell_damage(damaged);
    std::uintptr_t none = 0;
    if (missing == 0 || !add_room(nullptr, false, missing, 0, none)) return Status::kNoMemory;
  }
}

// ---- damage ---------------------------------------------------------------------------------------------------------

/// Reports a damaged header, or an overrun of the block before it, if a block begins there.
/// @returns whether one does. Complexity: O(blocks of the span), in one hold of the lock: memory is damaged.
bool Arena::tell_damage(const BlockHeader* damaged) noexcept {
  MisuseReport report;
  {
    const LockGuard guard(lock_);
    const BoundaryTag* const span = spans_.floor(damaged->address());
    if (span == nullptr) return false;
    const BlockHeader* before = nullptr;
    const BlockHeader* at = Blocks::at(span->start + Blocks::kHeaderBytes);
    while (at < damaged && at->is_sound() && at->bytes() != 0) {
      before = at;
      at = at->next();
    }
    if (at != damaged || (damaged->is_sound() && before == nullptr)) return false;  // within a block
    report.neighbour = reinterpret_cast<void*>(damaged->payload());
    if (before != nullptr) {
      report.object = reinterpret_cast<void*>(before->payload());
      report.offset = before->usable();
    } else {
      report.object = report.neighbour;
    }
    report.kind = before != nullptr && before->has(kFree) ? Misuse::kWriteAfterFree : Misuse::kOverflow;
    ++counts_.damaged;
  }
  report.arena = this;
  internal::tell_misuse(report);
  return true;
}

// ---- walks ----------------------------------------------------------------------------------------------------------

/// As next(), with the lock held.
bool ArenaWalk::next_block(Segment& segment) noexcept {
  is_sound_ = true;
  BoundaryTag* span = current_;
  for (;;) {
    if (span != &arena_.ends_ && position_ - span->start < span->size - Blocks::kHeaderBytes) {
      const BlockHeader& block = *Blocks::at(position_);
      is_sound_ = Blocks::is_kept(&block) && block.end() < span->end();
      segment = {};
      segment.start = block.payload();
      if (!is_sound_ && (!block.is_sound() || block.end() >= span->end())) {  // the start of the next block is unknown
        position_ = span->end();
        segment.size = position_ - segment.start;
        segment.kind = TagKind::kAllocated;
        return true;
      }
      position_ = block.end();
      segment.size = block.usable();
      segment.kind = block.has(kFree) ? TagKind::kFree : TagKind::kAllocated;
      if (block.is_noted()) {
        segment.handle = __atomic_load_n(&block.note().handle, __ATOMIC_RELAXED);  // written without the lock
        segment.site = kCallSites ? call_sites::plain(block.note().site) : block.note().site;
      }
      return true;
    }
    span = current_->next;
    if (span == &arena_.ends_) return false;
    current_ = span;
    if (span->start < position_) continue;
    position_ = span->start + Blocks::kHeaderBytes;
    segment = {};
    segment.start = span->start;
    segment.size = span->size;
    segment.kind = TagKind::kSpan;
    segment.imported = span->origin != SpanOrigin::kAdded;
    return true;
  }
}

/// Checks A1, K1 to K3 and the counts.
bool Arena::validate_blocks_locked() noexcept {
  std::size_t held = 0;
  std::size_t held_bytes = 0;
  std::size_t free = 0;
  std::size_t free_bytes = 0;
  std::size_t spans = 0;
  std::size_t span_bytes = 0;
  const BoundaryTag* below = nullptr;
  for (const BoundaryTag* span = ends_.next; span != &ends_; below = span, span = span->next) {
    if (span->kind != TagKind::kSpan || span->below != below || !spans_.contains(span)) return false;
    if (below != nullptr && below->end() > span->start) return false;
    ++spans;
    if (span->origin != SpanOrigin::kAdded) span_bytes += span->size;
    const BlockHeader* block = Blocks::at(span->start + Blocks::kHeaderBytes);
    if (block->has(kAfterFree)) return false;
    for (; block->bytes() != 0; block = block->next()) {
      if (!Blocks::is_kept(block) || block->end() >= span->end()) return false;
      ++(block->has(kFree) ? free : held);
      (block->has(kFree) ? free_bytes : held_bytes) += block->bytes();
    }
    if (!block->is_sound() || block->end() != span->end() - Blocks::kHeaderBytes) return false;
  }
  return free == blocks_->free_blocks() && blocks_->are_listed(free) && held == segments_allocated() &&
         held_bytes == counts_.allocated && counts_.total == held_bytes + free_bytes && counts_.spans == spans &&
         counts_.imported == span_bytes && counts_.high_water >= counts_.allocated;
}

}  // namespace qm
