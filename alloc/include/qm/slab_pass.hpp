#pragma once
/// A pass over all slabs of a layer while others use it: for `verify`, and to name who keeps a cache from being
/// destroyed.
///
/// Slabs change lists as their objects come and go, so a walk along the lists alone could miss one for ever. A pass
/// marks what it has seen, and sweeps the lists until every slab has the mark. Between two steps it stands on a slab by
/// a pointer; a slab that goes back to the source tells it.
///
/// Invariants
/// - P1 Each slab that is there from the first step to the last is shown exactly once.
/// - P2 The layer's lock is held for one visit and at most kSkips slabs that were seen before.

#include <cstddef>
#include <cstdint>

#include <qm/slab.hpp>

namespace qm {

class SlabPass {
 public:
  /// Slabs passed by under one hold of the lock.
  static constexpr unsigned kSkips = 16;
  /// Sweeps before the pass gives up: each but the first is for slabs that changed lists.
  static constexpr unsigned kSweeps = 16;

  /// Called for each slab with the layer's lock held: the slab stays, its objects may change hands.
  using Visit = void (*)(SlabLayer& layer, Slab& slab, void* argument) noexcept;

  /// Begins a pass. One pass at a time in the system: a second one shows nothing and is not complete.
  /// Context: the layer stays.
  explicit SlabPass(SlabLayer& layer) noexcept;
  ~SlabPass();
  SlabPass(const SlabPass&) = delete;
  SlabPass& operator=(const SlabPass&) = delete;

  /// Visits the next slab. @returns false at the end.
  bool step(Visit visit, void* argument) noexcept;

  /// Slabs shown so far.
  [[nodiscard]] std::size_t shown() const noexcept { return shown_; }
  /// Whether the pass came to its end.
  [[nodiscard]] bool complete() const noexcept { return complete_; }

 private:
  SlabLayer& layer_;
  std::size_t shown_ = 0;
  bool mine_ = false;
  bool complete_ = false;
};

}  // namespace qm
