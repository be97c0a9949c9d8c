// ArenaWalk::is_sound(): the invariants that one tag and its neighbours show, so that a running system can be checked
// step by step. Arena::validate() checks the sums as well, in one hold of the lock.

#include <qm/arena.hpp>

#include "arena/arena_request.hpp"
#include "slab/extents.hpp"

namespace qm {

bool ArenaWalk::is_sound() noexcept {
  const LockGuard guard(arena_.lock_);
  if (arena_.blocks_ != nullptr) return is_sound_;
  const BoundaryTag* tag = current_;
  if (tag == &arena_.ends_) return true;  // the segment shown last was merged with the one before it
  const BoundaryTag* before = tag->prev;
  const BoundaryTag* after = tag->next;
  if (before == nullptr || before->next != tag || after == nullptr || after->prev != tag) return false;
  if (tag->kind == TagKind::kSpan) {
    return before->end() <= tag->start && after->kind != TagKind::kSpan && arena_.spans_.contains(tag);
  }
  if (before == &arena_.ends_ || tag->start == 0 || tag->size == 0 || tag->size % arena_.quantum_ != 0) return false;
  const bool first = before->kind == TagKind::kSpan;
  if (tag->start != (first ? round_up(before->start, arena_.quantum_) : before->end())) return false;
  if (tag->owner == SegmentOwner::kSlabs && tag->kind == TagKind::kAllocated && !extents.keeps_locked(*tag))
    return false;
  if (tag->kind == TagKind::kAllocated)
    return tag->owner == SegmentOwner::kTagPool || arena_.find_allocated_locked(tag->start) == tag;
  const bool merged = before->kind != TagKind::kFree && after->kind != TagKind::kFree;
  return merged && arena_.sizes_.contains(tag) &&
         (arena_.addresses_ == nullptr || arena_.addresses_->knows(arena_, tag));
}

}  // namespace qm
