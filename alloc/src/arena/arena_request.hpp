#pragma once
/// Shared by the sources of Arena: the description of one allocation, and small inline functions.

#include <qm/arena.hpp>
#include <qm/detail/call_sites.hpp>

#include "segments/allocated_index.hpp"
#include "segments/boundary_tag_pool.hpp"
#include "segments/size_index.hpp"

namespace qm {

/// Casts a function pointer to another type for storage; it is cast back before the call. The intermediate type void
/// (*)() tells GCC that the cast is intended.
template <class To, class From>
[[nodiscard]] To function_cast(From function) noexcept {
  return reinterpret_cast<To>(reinterpret_cast<void (*)()>(function));
}

/// The quantum of an arena that a span passes through on its way to the requester. The arena's segments are multiples
/// of it, so of a range of the source the arena can use what remains when both ends are rounded inwards.
struct Arena::Grain {
  std::size_t quantum = 1;
  const Grain* inner = nullptr;  ///< the next arena on the way

  /// Narrows [low, high) to what remains after all of @p grain; nothing remains if low is not below high, or is 0.
  static void narrow(const Grain* grain, std::uintptr_t& low, std::uintptr_t& high) noexcept {
    for (; grain != nullptr; grain = grain->inner) {
      low = round_up(low, grain->quantum);
      high = round_down(high, grain->quantum);
      if (low == 0) return;
    }
  }
  /// The most that narrow() can take away; SIZE_MAX if that overflows a word.
  [[nodiscard]] static std::size_t slack(const Grain* grain) noexcept {
    std::size_t sum = 0;
    for (; grain != nullptr; grain = grain->inner) {
      if (__builtin_add_overflow(sum, grain->quantum - 1, &sum) ||
          __builtin_add_overflow(sum, grain->quantum - 1, &sum)) {
        return SIZE_MAX;
      }
    }
    return sum;
  }
  /// Widens [low, high) to what the outermost arena must supply so that narrow() leaves [low, high).
  static void widen(const Grain* grain, std::uintptr_t& low, std::uintptr_t& high) noexcept {
    if (grain == nullptr) return;
    widen(grain->inner, low, high);
    low = round_down(low, grain->quantum);
    high = round_up(high, grain->quantum);
  }
};

inline std::size_t Arena::Request::slack(std::size_t quantum) const noexcept {
  return alignment != nullptr && alignment->align > quantum ? alignment->align - quantum : 0;
}

/// The start of @p taken bytes for this request in a free segment of an arena; 0 if the segment is too small.
inline std::uintptr_t Arena::Request::start_in(const BoundaryTag& segment, std::size_t taken,
                                               std::size_t quantum) const noexcept {
  std::uintptr_t start = segment.start;
  if (alignment == nullptr) return start;
  start += (alignment->phase - start) & (alignment->align - 1);
  const bool fits = start % quantum == 0 && start - segment.start <= segment.size - taken;
  return fits ? start : 0;
}

/// A request for a start = residue + k * step with the size free behind it, inside the bounds. An importer passes it to
/// its source unchanged, with the grains on the way: the source searches for a place for the request and allocates a
/// span around it.
struct Arena::Congruence : Request {
  bool constrained = false;  ///< more than a multiple of the quantum is asked for
  std::size_t step = 0;      ///< 0: the residue is the only start that fits a word
  std::uintptr_t residue = 0;
  std::size_t nocross = 0;
  std::uintptr_t min = 0;
  std::uintptr_t max = UINTPTR_MAX;
  const Grain* grains = nullptr;  ///< of the importers, if a source serves the request

  /// @returns false for constraints that are malformed or that no start could meet.
  [[nodiscard]] bool constrain(const Constraint& constraint, std::size_t quantum) noexcept;
  /// The lowest start at or above @p address. @returns false if none fits a word.
  [[nodiscard]] bool start_from(std::uintptr_t address, std::uintptr_t& start) const noexcept;
  [[nodiscard]] bool crosses(std::uintptr_t start) const noexcept;
  [[nodiscard]] bool bounded() const noexcept { return min != 0 || max != UINTPTR_MAX; }
  /// Tries the lowest start at or above @p from in [low, high). @returns false if that fails: @p from is then the next
  /// start to try, @p high if there is none.
  [[nodiscard]] bool try_range(std::uintptr_t low, std::uintptr_t high, std::uintptr_t& from,
                               std::uintptr_t& start) const noexcept;
};

/// Where an allocation goes: @p segment is free and contains [start, start + size). Null: nowhere.
struct Arena::Place {
  BoundaryTag* segment = nullptr;
  std::uintptr_t start = 0;
  std::size_t size = 0;
};

/// A size that stands for the whole segment. No segment is as large, since none starts at 0.
inline constexpr std::size_t kAnySize = SIZE_MAX;
/// Candidates tried per hold of the lock.
inline constexpr unsigned kConstrainedSteps = 16;
/// Tags that a split of a segment may need: for the allocated part, and for the remainder below it.
inline constexpr unsigned kSplitTags = 2;
/// Tags that a span needs: its own and that of its free segment.
inline constexpr unsigned kSpanTags = 2;
/// Tags that an import may need: for a span, and for a split in three.
inline constexpr unsigned kImportTags = kSpanTags + kSplitTags;
static_assert(kImportTags <= kTagBatch);
// Small functions that every operation uses.

/// @p size rounded up to the quantum, as round_up(); no division where the quantum is a power of two.
inline std::size_t Arena::rounded(std::size_t size) const noexcept {
  const std::size_t mask = quantum_mask_;
  if ((size & mask) == 0) [[likely]]
    return size;
  return mask + 1 != 0 ? (size | mask) + 1 : round_up(size, quantum_);
}

/// Makes @p count spare tags available, so that the steps that follow cannot fail (A4).
inline bool Arena::reserve_tags_locked(unsigned count) noexcept {
  if (spare_count_ >= count) return true;
  return !kForSize && refills_tags_ ? take_own_tags_locked(count) : take_tags_locked(count);
}

inline BoundaryTag* Arena::take_spare_locked() noexcept {
  BoundaryTag* tag = spares_;
  spares_ = tag->next;
  --spare_count_;
  return tag;
}

inline void Arena::keep_spare_locked(BoundaryTag* tag) noexcept {
  tag->next = spares_;
  spares_ = tag;
  if (++spare_count_ > kSpares) [[unlikely]]
    give_spares_locked();
}

inline void Arena::link_after(BoundaryTag* tag, BoundaryTag* before) noexcept {
  tag->prev = before;
  tag->next = before->next;
  tag->next->prev = tag;
  before->next = tag;
}

inline void Arena::count_allocated_locked(std::size_t size) noexcept {
  counts_.allocated += size;
  if (counts_.allocated > counts_.high_water) counts_.high_water = counts_.allocated;
}

inline void Arena::insert_free_locked(BoundaryTag* tag) noexcept {
  tag->kind = TagKind::kFree;
  sizes_.insert(tag);
  if (addresses_ != nullptr) addresses_->insert(*this, tag);
  ++counts_.segments_free;
}

inline void Arena::remove_free_locked(BoundaryTag* tag) noexcept {
  sizes_.remove(tag);
  if (addresses_ != nullptr) addresses_->remove(*this, tag);
  --counts_.segments_free;
}

/// Resizes a free segment in place: it does not pass a neighbour.
inline void Arena::set_size_locked(BoundaryTag* tag, std::uintptr_t start, std::size_t size) noexcept {
  if (addresses_ != nullptr) return addresses_->set_size(*this, tag, start, size);
  tag->start = start;
  sizes_.resize(tag, size);
}

/// Unlinks a tag that is in no index, and keeps it as a spare.
inline void Arena::drop_locked(BoundaryTag* tag) noexcept {
  tag->prev->next = tag->next;
  tag->next->prev = tag->prev;
  if (walks_ != nullptr) [[unlikely]]
    tell_walks_locked(tag);
  keep_spare_locked(tag);
}

/// Makes a linked tag, which has a range and is in no index, an allocated segment. The caller enters it in the index.
inline void Arena::enter_allocated_locked(BoundaryTag* tag, const Request& request) noexcept {
  const SegmentOwner owner = request.owner;
  tag->kind = TagKind::kAllocated;
  tag->owner = owner;
  tag->handle = 0;
  tag->site = request.site;
  if constexpr (kCallSites) {
    if (charged_ && owner == SegmentOwner::kUser) tag->site = call_sites::charge(request.site, tag->size);
  }
  ++counts_.allocations_ever;
  if (owner == SegmentOwner::kQuantumCache) ++slab_segments_;
  count_allocated_locked(tag->size);
}

/// Allocates [start, start + size) of the free segment. The remainder above it keeps the segment's tag. @returns the
/// tag of the allocated range.
QM_ARENA_INLINE BoundaryTag& Arena::carve_locked(const Place& place, const Request& request) noexcept {
  const auto [segment, start, size] = place;
  const std::uintptr_t low = segment->start;
  const std::uintptr_t end = start + size;
  const std::size_t rest = segment->end() - end;
  BoundaryTag* const before = segment->prev;  // its span at least
  if (before == empty_span_) empty_span_ = nullptr;
  BoundaryTag* tag = segment;
  if (rest == 0) {
    remove_free_locked(segment);
    // The tag moves up: a walk that stands on it has not passed the remainder below, whatever that becomes later.
    if (low != start && walks_ != nullptr) tell_walks_locked(segment);
  } else {
    tag = take_spare_locked();
    link_after(tag, before);
  }
  tag->start = start;
  tag->size = size;
  enter_allocated_locked(tag, request);
  allocated_.insert(tag);
  if (rest != 0) set_size_locked(segment, end, rest);
  if (low != start) add_free_locked(before, low, start - low);
  return *tag;
}

/// @returns the segment allocated at @p start; nullptr if there is none.
inline BoundaryTag* Arena::find_allocated_locked(std::uintptr_t start) noexcept { return *allocated_.place_of(start); }

}  // namespace qm
