// Arena::validate(): the invariants, one after the other.

#include <qm/arena.hpp>

#include "arena/arena_request.hpp"
#include "slab/extents.hpp"

namespace qm {
namespace {

/// Sums and counts over the address order.
struct Census {
  std::size_t free = 0;
  std::size_t free_bytes = 0;
  std::size_t allocated = 0;
  std::size_t found = 0;  ///< of these: in the allocated index
  std::size_t allocated_bytes = 0;
  std::size_t slabs = 0;
  std::size_t spans = 0;
  std::size_t imported_bytes = 0;
  std::size_t empty_imported = 0;
  std::size_t sizes = 0;  ///< of the free: those that are not mates
  std::size_t largest = 0;
};

}  // namespace

bool Arena::validate() noexcept {
  const LockGuard guard(lock_);
  if (blocks_ != nullptr) return validate_blocks_locked();
  Census census;
  const BoundaryTag* before = &ends_;
  const BoundaryTag* span = nullptr;
  std::uintptr_t position = 0;  // where the next segment of the span begins
  for (const BoundaryTag* tag = ends_.next; tag != &ends_; before = tag, tag = tag->next) {
    if (tag == nullptr || tag->prev != before) return false;
    if (tag->kind == TagKind::kSpan) {
      if (span != nullptr && (position != round_down(span->end(), quantum_) || tag->start < span->end())) return false;
      if (tag->below != span || !spans_.contains(tag)) return false;
      span = tag;
      position = round_up(tag->start, quantum_);
      ++census.spans;
      if (tag->origin == SpanOrigin::kAdded) continue;
      census.imported_bytes += tag->size;
      const BoundaryTag* only = tag->next;
      const bool empty = only != nullptr && only->kind == TagKind::kFree && only->next != nullptr &&
                         only->next->kind == TagKind::kSpan;
      census.empty_imported += empty;
      if (empty != (tag == empty_span_)) return false;
      continue;
    }
    if (span == nullptr || tag->start != position || tag->start == 0 || tag->size == 0) return false;
    if (tag->size % quantum_ != 0) return false;
    position = tag->end();
    if (tag->kind == TagKind::kFree) {
      if (before->kind == TagKind::kFree || !sizes_.contains(tag)) return false;
      census.sizes += tag->bin != BoundaryTag::kMate;
      ++census.free;
      census.free_bytes += tag->size;
      if (tag->size > census.largest) census.largest = tag->size;
    } else {
      if (tag->owner == SegmentOwner::kSlabs && !extents.keeps_locked(*tag)) return false;
      const bool is_found = tag->owner != SegmentOwner::kTagPool;
      if (find_allocated_locked(tag->start) != (is_found ? tag : nullptr)) return false;
      census.found += is_found;
      ++census.allocated;
      census.allocated_bytes += tag->size;
      census.slabs += tag->owner == SegmentOwner::kQuantumCache;
    }
  }
  if (ends_.prev != before || ends_.below != span || (span != nullptr && position != round_down(span->end(), quantum_)))
    return false;
  std::size_t sizes = 0;
  if (!sizes_.validate(sizes) || sizes != census.sizes) return false;
  if (allocated_.count() != census.found) return false;
  if (sizes_.largest() != census.largest) return false;
  if (addresses_ != nullptr && !addresses_->validate(*this)) return false;
  return census.empty_imported == (empty_span_ != nullptr) && counts_.segments_free == census.free &&
         segments_allocated() == census.allocated && counts_.allocated == census.allocated_bytes &&
         counts_.total == census.allocated_bytes + census.free_bytes && counts_.spans == census.spans &&
         counts_.imported == census.imported_bytes && slab_segments_ == census.slabs && spare_count_ <= kSpares &&
         counts_.high_water >= counts_.allocated;
}

}  // namespace qm
