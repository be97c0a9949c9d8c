#pragma once
/// The pool from which all arenas draw boundary tags. A leaf lock: taken while an arena's is held.

#include <cstddef>

#include <qm/boundary_tag.hpp>
#include <qm/lock.hpp>

namespace qm {

class BoundaryTagPool {
 public:
  void initialize(void* storage, std::size_t bytes) noexcept;
  /// Puts up to @p most tags with indeterminate contents in front of @p list, linked through `next`. @returns how many there were.
  [[nodiscard]] unsigned take(BoundaryTag*& list, unsigned most) noexcept;
  /// Takes the first @p count of @p list back.
  void give(BoundaryTag*& list, unsigned count) noexcept;
  /// Adds a page for tags, when none is left of what was added before. Constant: tags are cut from it one by one.
  void add_page(void* storage, std::size_t bytes) noexcept;
  [[nodiscard]] bool empty() noexcept;
  /// The root had no page.
  void count_failure() noexcept;
  [[nodiscard]] BoundaryTagStats stats() noexcept;

  Arena* root = nullptr;

 private:
  void add_locked(void* storage, std::size_t bytes) noexcept;
  Lock lock_;
  BoundaryTag* free_ = nullptr;        // through `next`
  BoundaryTag* fresh_ = nullptr;       // never used yet: [fresh_, fresh_end_)
  BoundaryTag* fresh_end_ = nullptr;
  BoundaryTagStats counts_{};
};

extern constinit BoundaryTagPool boundary_tag_pool;

}  // namespace qm
