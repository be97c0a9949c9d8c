#pragma once
/// What the parts of Arena share: the description of one allocation, and small pieces of code.

#include <qm/arena.hpp>
#include <qm/call_sites.hpp>

#include "allocated_index.hpp"

namespace qm {

/// The quantum of an arena through which a span passes on its way to who asks. Its segments are multiples of it, so of
/// a range of the source it can use what is left when both ends are rounded inwards.
struct Arena::Grain {
  std::size_t quantum = 1;
  const Grain* inner = nullptr;  ///< the next arena on the way

  /// What is left of [low, high) behind all of @p grain; nothing if low is not below high, or is 0.
  static void narrow(const Grain* grain, std::uintptr_t& low, std::uintptr_t& high) noexcept {
    for (; grain != nullptr; grain = grain->inner) {
      low = round_up(low, grain->quantum);
      high = round_down(high, grain->quantum);
      if (low == 0) return;
    }
  }
  /// Most that narrow() takes away; SIZE_MAX if that is more than a word.
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
  /// What the outermost arena must have for [low, high) to be left.
  static void widen(const Grain* grain, std::uintptr_t& low, std::uintptr_t& high) noexcept {
    if (grain == nullptr) return;
    widen(grain->inner, low, high);
    low = round_down(low, grain->quantum);
    high = round_up(high, grain->quantum);
  }
};

/// One allocation.
struct Arena::Request {
  std::size_t size = 0;  ///< multiple of the quantum
  Fit fit = Fit::kInstant;
  SegmentOwner owner = SegmentOwner::kUser;
  const CallSite* site = nullptr;
};

/// One at any start = residue + k * step with the size free behind it, inside the bounds. An importer's request goes
/// to its source as it is, with the grains on the way: the source looks for a place for it and hands out a span around
/// that.
struct Arena::Congruence : Request {
  bool constrained = false;  ///< more than a multiple of the quantum is asked for
  std::size_t step = 0;      ///< 0: the residue is the only start that fits a word
  std::uintptr_t residue = 0;
  std::size_t nocross = 0;
  std::uintptr_t min = 0;
  std::uintptr_t max = UINTPTR_MAX;
  const Grain* grains = nullptr;  ///< of the importers, if this is a source's part of it

  /// @returns false for constraints that are malformed or that no start could meet.
  [[nodiscard]] bool constrain(const Constraint& constraint, std::size_t quantum) noexcept;
  /// The lowest start at or above @p address. @returns false if none fits a word.
  [[nodiscard]] bool start_from(std::uintptr_t address, std::uintptr_t& start) const noexcept;
  [[nodiscard]] bool crosses(std::uintptr_t start) const noexcept;
  [[nodiscard]] bool bounded() const noexcept { return min != 0 || max != UINTPTR_MAX; }
  /// Tries the lowest start at or above @p from in [low, high). @returns false if it will not do: @p from is then where
  /// the next may be, @p high if there is none.
  [[nodiscard]] bool try_range(std::uintptr_t low, std::uintptr_t high, std::uintptr_t& from,
                               std::uintptr_t& start) const noexcept;
};

/// Where an allocation goes: @p segment is free and contains [start, start + size). Null: nowhere.
struct Arena::Place {
  BoundaryTag* segment = nullptr;
  std::uintptr_t start = 0;
  std::size_t size = 0;
};

/// A size that stands for whatever the segment has. No segment is as large, since none starts at 0.
inline constexpr std::size_t kAnySize = SIZE_MAX;
/// Where a span's tag has the spans next to it.
inline constexpr unsigned kSpanBelow = 0;
inline constexpr unsigned kSpanAbove = 1;
/// Tags that the arena and the pool pass on at a time.
inline constexpr unsigned kTagBatch = Arena::kSpares / 2;
/// Candidates looked at in one hold of the lock.
inline constexpr unsigned kConstrainedSteps = 16;
/// Tags that splitting a segment may take: one where its beginning is taken, else two.
inline constexpr unsigned kSplitTags = 2;
/// Tags an import may take: the span, its free segment, and a split in three.
inline constexpr unsigned kImportTags = 4;
static_assert(kImportTags <= Arena::kSpares);
// Small pieces that every operation uses.

/// Has @p count tags at hand, so that what follows cannot fail (A4).
inline bool Arena::reserve_tags_locked(unsigned count) noexcept {
  return spare_count_ >= count || take_tags_locked(count);
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

inline BoundaryTag* Arena::find_locked(std::size_t size, Fit fit) const noexcept {
  BoundaryTag* segment = fit == Fit::kInstant ? sizes_.instant(size) : nullptr;
  return segment != nullptr ? segment : sizes_.best(size);
}

inline void Arena::link_after_locked(BoundaryTag* tag, BoundaryTag* before) noexcept {
  tag->prev = before;
  tag->next = before == nullptr ? first_ : before->next;
  (before == nullptr ? first_ : before->next) = tag;
  (tag->next == nullptr ? last_ : tag->next->prev) = tag;
}

/// Unlinks a tag that is in no index, and keeps it at hand.
inline void Arena::drop_locked(BoundaryTag* tag) noexcept {
  BoundaryTag* const before = tag->prev;
  BoundaryTag* const after = tag->next;
  (before == nullptr ? first_ : before->next) = after;
  (after == nullptr ? last_ : after->prev) = before;
  if (walks_ != nullptr) [[unlikely]]
    tell_walks_locked(tag);
  keep_spare_locked(tag);
}

/// Resizes a free segment where it stands: no neighbour is overtaken.
inline void Arena::set_size_locked(BoundaryTag* tag, std::uintptr_t start, std::size_t size) noexcept {
  if (indexed_below_.load(std::memory_order_relaxed) != 0) [[unlikely]]
    return set_size_indexed_locked(tag, start, size);
  tag->start = start;
  sizes_.resize(tag, size);
}

inline void Arena::count_allocated_locked(std::size_t size) noexcept {
  counts_.allocated += size;
  if (counts_.allocated > counts_.high_water) counts_.high_water = counts_.allocated;
}

/// Makes a linked tag with a range, in no index, an allocated segment.
inline void Arena::enter_allocated_locked(BoundaryTag* tag, SegmentOwner owner, const CallSite* site) noexcept {
  tag->kind = TagKind::kAllocated;
  tag->owner = owner;
  tag->handle = 0;
  tag->site = site;
  if constexpr (kCallSites) {
    if (charged_ && owner == SegmentOwner::kUser) tag->site = call_sites::charge(site, tag->size);
  }
  if (owner != SegmentOwner::kTagPool) allocated_.insert(tag);
  ++counts_.allocations_ever;
  slab_segments_ += owner == SegmentOwner::kQuantumCache;
  count_allocated_locked(tag->size);
}

}  // namespace qm
