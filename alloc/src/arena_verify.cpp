// ArenaWalk::is_sound(): the invariants that one tag and its neighbours show, so that a running system can be checked
// step by step. Arena::validate() checks the sums as well, in one hold of the lock.

#include <qm/arena.hpp>

#include "allocated_index.hpp"

namespace qm {

bool ArenaWalk::is_sound() noexcept {
  const LockGuard guard(arena_.lock_);
  const BoundaryTag* tag = current_;
  if (tag == nullptr) return true;  // what was shown last has been merged with what lies before
  const BoundaryTag* before = tag->prev;
  const BoundaryTag* after = tag->next;
  if ((before == nullptr ? arena_.first_ : before->next) != tag) return false;
  if ((after == nullptr ? arena_.last_ : after->prev) != tag) return false;
  if (tag->kind == TagKind::kSpan) {
    const bool apart = before == nullptr || before->end() <= tag->start;
    return apart && after != nullptr && after->kind != TagKind::kSpan && arena_.spans_.floor(tag->start) == tag;
  }
  if (before == nullptr || tag->start == 0 || tag->size == 0 || tag->size % arena_.quantum_ != 0) return false;
  const bool first = before->kind == TagKind::kSpan;
  if (tag->start != (first ? round_up(before->start, arena_.quantum_) : before->end())) return false;
  if (tag->kind == TagKind::kAllocated)
    return tag->owner == SegmentOwner::kTagPool || arena_.find_allocated_locked(tag->start) == tag;
  const bool merged = before->kind != TagKind::kFree && (after == nullptr || after->kind != TagKind::kFree);
  return merged && arena_.sizes_.contains(tag) &&
         (tag->start >= arena_.indexed_below_.load(std::memory_order_relaxed) || arena_.free_.floor(tag->start) == tag);
}

}  // namespace qm
