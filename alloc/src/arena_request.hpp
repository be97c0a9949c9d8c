#pragma once
/// What the parts of Arena share: the description of one allocation, and small pieces of code.

#include <qm/arena.hpp>

namespace qm {

/// One allocation: any start = residue + k * step with the size free behind it, inside the bounds.
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

  /// @returns false for constraints that are malformed or that no start could meet.
  [[nodiscard]] bool constrain(const Constraint& constraint, std::size_t quantum) noexcept;
  /// The lowest start at or above @p address. @returns false if none fits a word.
  [[nodiscard]] bool start_from(std::uintptr_t address, std::uintptr_t& start) const noexcept;
  [[nodiscard]] bool crosses(std::uintptr_t start) const noexcept {
    return nocross != 0 && ((start ^ (start + size - 1)) & ~(nocross - 1)) != 0;
  }
  [[nodiscard]] bool bounded() const noexcept { return min != 0 || max != UINTPTR_MAX; }
  /// Tags that splitting a segment may take.
  [[nodiscard]] unsigned tags() const noexcept { return constrained || fit == Fit::kNext ? 2 : 1; }
};

/// Where an allocation goes: @p segment is free and contains [start, start + size). Null: nowhere.
struct Arena::Place {
  BoundaryTag* segment = nullptr;
  std::uintptr_t start = 0;
};

/// Candidates looked at in one hold of the lock.
inline constexpr unsigned kConstrainedSteps = 16;
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

inline void Arena::link_after_locked(BoundaryTag* tag, BoundaryTag* before) noexcept {
  tag->prev = before;
  tag->next = before == nullptr ? first_ : before->next;
  (before == nullptr ? first_ : before->next) = tag;
  (tag->next == nullptr ? last_ : tag->next->prev) = tag;
}

}  // namespace qm
