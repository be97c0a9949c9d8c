#pragma once
/// A pass over all slabs of a layer while other harts use the layer: for `verify`, and to name the holders of a cache
/// whose destroy was refused.
///
/// Slabs change lists when their objects are allocated and freed, so a plain walk along the lists might never meet a
/// slab. A pass marks the slabs it has visited, and sweeps the lists until every slab has the mark. Between two steps
/// it keeps a pointer to a slab; a slab that returns to the source first moves the pass off it.
///
/// Invariants
/// - P1 Each slab that exists from the first step to the last is shown exactly once.
/// - P2 The layer's lock is held for one visit and for at most kSkips slabs with the mark.

#include <cstddef>
#include <cstdint>

#include <qm/detail/slab.hpp>

namespace qm {

class SlabPass {
 public:
  /// Most slabs that the pass skips under one hold of the lock.
  static constexpr unsigned kSkips = 16;
  /// Sweeps before the pass gives up. Each sweep but the first is for slabs that changed lists.
  static constexpr unsigned kSweeps = 16;

  /// Called for each slab with the layer's lock held: the slab stays; its objects may be allocated and freed meanwhile.
  using Visit = void (*)(SlabLayer& layer, Slab& slab, void* argument) noexcept;

  /// Begins a pass. There is one pass at a time in the system: a second one shows no slab and is not complete.
  /// Context: the layer must not be destroyed meanwhile.
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
