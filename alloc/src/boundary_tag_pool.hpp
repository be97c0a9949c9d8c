#pragma once
/// The pool from which all arenas draw boundary tags, under the lock of the root arena: who takes from it may have to
/// take a page of that for it, and holds no second lock to do so.

#include <cstddef>

#include <qm/boundary_tag.hpp>
#include <qm/lock.hpp>

namespace qm {

class BoundaryTagPool {
 public:
  void initialize(void* storage, std::size_t bytes) noexcept;
  void set_root(Arena& root) noexcept;
  /// @returns a tag with indeterminate contents, nullptr if there is none. Constant, as what follows.
  [[nodiscard]] BoundaryTag* take() noexcept;
  void give(BoundaryTag* tag) noexcept;
  /// Adds a page of the root, from which tags are cut one by one. The pool is empty. @returns false if there is no page.
  [[nodiscard]] bool add_page() noexcept;
  [[nodiscard]] BoundaryTagStats stats() noexcept;

  Arena* root = nullptr;
  Lock rootless;  ///< the lock where there is no root

 private:
  void add(void* storage, std::size_t bytes) noexcept;
  BoundaryTag* free_ = nullptr;   // through `next`
  BoundaryTag* fresh_ = nullptr;  // never used yet: [fresh_, fresh_end_)
  BoundaryTag* fresh_end_ = nullptr;
  BoundaryTagStats counts_{};
};

extern constinit BoundaryTagPool boundary_tag_pool;

inline BoundaryTag* BoundaryTagPool::take() noexcept {
  BoundaryTag* const tag = free_;
  if (tag != nullptr) {
    free_ = tag->next;
  } else if (fresh_ == fresh_end_) {
    return nullptr;
  }
  --counts_.free;
  return tag != nullptr ? tag : fresh_++;
}

inline void BoundaryTagPool::give(BoundaryTag* tag) noexcept {
  tag->next = free_;
  free_ = tag;
  ++counts_.free;
}

}  // namespace qm
