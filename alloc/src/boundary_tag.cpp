#include "boundary_tag_pool.hpp"

namespace qm {

constinit BoundaryTagPool boundary_tag_pool;

void BoundaryTagPool::initialize(void* storage, std::size_t bytes) noexcept {
  chains_ = nullptr;
  counts_ = {};
  root = nullptr;
  add(storage, bytes);
  counts_.pages = 0;  // none of the root's
}

void BoundaryTagPool::set_root(Arena& arena) noexcept {
  arena.refills_tags_ = true;
  root = &arena;
}

BoundaryTagStats BoundaryTagPool::stats() noexcept {
  const LockGuard guard(root != nullptr ? root->lock_ : rootless);
  return counts_;
}

void boundary_tags_initialize(void* storage, std::size_t bytes) noexcept {
  boundary_tag_pool.initialize(storage, bytes);
}

void boundary_tags_set_root(Arena& root) noexcept { boundary_tag_pool.set_root(root); }

BoundaryTagStats boundary_tags_stats() noexcept { return boundary_tag_pool.stats(); }

}  // namespace qm
