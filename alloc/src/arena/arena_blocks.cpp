// Arena: an arena of blocks. Its segments keep their bookkeeping inside; its spans have boundary tags.
//
//     allocate_block()
//       take_block()             one hold of the lock: find, split
//       add_room(), join_spans() room from the source (arena_block_spans.cpp)
//       take_block_anywhere()    searches all free blocks
//       allocate_slow()          reclaim
//     free_block()             joins with the neighbours; an empty span, or whole pages at the end of one, may go back

#include <qm/arena.hpp>

#include <qm/exhaustion.hpp>
#include <qm/fault.hpp>
#include <qm/misuse.hpp>
#include <qm/detail/observer.hpp>
#include <qm/detail/poison.hpp>

#include "arena/arena_block.hpp"

namespace qm {
namespace {

/// Free blocks that take_block_anywhere() tries per hold of the lock.
constexpr unsigned kLooks = 16;
/// An empty span larger than this, in imports of the usual size, goes back at once.
constexpr std::size_t kKeptImports = 4;

/// Whether a request for @p size is given a block of this size: it may be a unit larger, where the rest of a free block
/// was too small for a block.
bool is_for(const BlockHeader& block, std::size_t size) noexcept {
  const std::size_t bytes = Blocks::bytes_for(size, block.is_noted());
  return bytes != 0 && bytes <= block.bytes() && block.bytes() - bytes < Blocks::kLeast;
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
