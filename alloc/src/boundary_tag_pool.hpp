#pragma once
/// The pool from which all arenas draw boundary tags. A leaf lock: taken while an arena's is held.

#include <cstddef>

#include <qm/boundary_tag.hpp>
#include <qm/lock.hpp>

namespace qm {

class BoundaryTagPool {
 public:
  void initialize(void* storage, std::size_t bytes) noexcept;
  /// Puts up to @p most tags with indeterminate contents in front of @p list, linked through `next`. @returns how many
  /// there were.
  [[nodiscard]] unsigned take(BoundaryTag*& list, unsigned most) noexcept;
  /// Takes the first @p count of @p list back.
  void give(BoundaryTag*& list, unsigned count) noexcept;
  /// Adds a page for tags, which are cut from it one by one, and takes as take() does. Constant, unless another hart
  /// has added one as well.
  [[nodiscard]] unsigned add_page(void* storage, std::size_t bytes, BoundaryTag*& list, unsigned most) noexcept;
  /// The root had no page.
  void count_failure() noexcept;
  [[nodiscard]] BoundaryTagStats stats() noexcept;

  Arena* root = nullptr;

 private:
  unsigned take_locked(BoundaryTag*& list, unsigned most) noexcept;
  void add_locked(void* storage, std::size_t bytes) noexcept;
  Lock lock_;
  BoundaryTag* free_ = nullptr;   // through `next`
  BoundaryTag* fresh_ = nullptr;  // never used yet: [fresh_, fresh_end_)
  BoundaryTag* fresh_end_ = nullptr;
  BoundaryTagStats counts_{};
};

extern constinit BoundaryTagPool boundary_tag_pool;

}  // namespace qm
