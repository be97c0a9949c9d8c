#pragma once
/// What the parts of Arena share: the description of one allocation, and small pieces of code.

#include <qm/arena.hpp>

namespace qm {

/// The quantum of an arena through which a span passes on its way to who asks. Its segments are multiples of it, so of a range
/// of the source it can use what is left when both ends are rounded inwards.
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
      if (__builtin_add_overflow(sum, grain->quantum - 1, &sum) || __builtin_add_overflow(sum, grain->quantum - 1, &sum)) {
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

/// One allocation: any start = residue + k * step with the size free behind it, inside the bounds. An importer's request goes
/// to its source as it is, with the grains on the way: the source looks for a place for it and hands out a span around that.
struct Arena::Request {
  std::size_t size = 0;             ///< multiple of the quantum
  Fit fit = Fit::kInstant;
  SegmentOwner owner = SegmentOwner::kUser;
  const CallSite* site = nullptr;
  bool constrained = false;         ///< more than a multiple of the quantum is asked for
  std::size_t step = 0;             ///< 0: the residue is the only start that fits a word
  std::uintptr_t residue = 0;
  std::size_t nocross = 0;
  std::uintptr_t min = 0;
  std::uintptr_t max = UINTPTR_MAX;
  const Grain* grains = nullptr;    ///< of the importers, if this is a source's part of it

  /// @returns false for constraints that are malformed or that no start could meet.
  [[nodiscard]] bool constrain(const Constraint& constraint, std::size_t quantum) noexcept;
  /// The lowest start at or above @p address. @returns false if none fits a word.
  [[nodiscard]] bool start_from(std::uintptr_t address, std::uintptr_t& start) const noexcept;
  [[nodiscard]] bool crosses(std::uintptr_t start) const noexcept;
  [[nodiscard]] bool bounded() const noexcept { return min != 0 || max != UINTPTR_MAX; }
  /// Tries the lowest start at or above @p from in [low, high). @returns false if it will not do: @p from is then where the
  /// next may be, @p high if there is none.
  [[nodiscard]] bool try_range(std::uintptr_t low, std::uintptr_t high, std::uintptr_t& from,
                               std::uintptr_t& start) const noexcept;
};

/// Where an allocation goes: @p segment is free and contains [start, start + size). Null: nowhere.
struct Arena::Place {
  BoundaryTag* segment = nullptr;
  std::uintptr_t start = 0;
  std::size_t size = 0;
};

/// Candidates looked at in one hold of the lock.
inline constexpr unsigned kConstrainedSteps = 16;
/// Tags that splitting a segment may take: one where its beginning is taken, else two.
inline constexpr unsigned kSplitTags = 2;
/// Tags an import may take: the span, its free segment, and a split in three.
inline constexpr unsigned kImportTags = 4;
static_assert(kImportTags <= Arena::kSpares);
/// How often an operation goes back for tags that others snatched away.
inline constexpr unsigned kTagAttempts = 64;

// Small pieces that every operation uses.

inline BoundaryTag* Arena::take_spare_locked() noexcept {
  BoundaryTag* tag = spares_;
  spares_ = tag->next;
  --spare_count_;
  return tag;
}

inline Arena::Place Arena::find_locked(std::size_t size, Fit fit) noexcept {
  if (fit == Fit::kNext) return find_next_locked(size);
  BoundaryTag* segment = fit == Fit::kInstant ? sizes_.instant(size) : nullptr;
  if (segment == nullptr) segment = sizes_.best(size);
  return segment == nullptr ? Place{} : Place{segment, segment->start, size};
}

inline void Arena::link_after_locked(BoundaryTag* tag, BoundaryTag* before) noexcept {
  tag->prev = before;
  tag->next = before == nullptr ? first_ : before->next;
  (before == nullptr ? first_ : before->next) = tag;
  (tag->next == nullptr ? last_ : tag->next->prev) = tag;
}

}  // namespace qm
