#include "boundary_tag_pool.hpp"

#include <qm/arena.hpp>

namespace qm {

constinit BoundaryTagPool boundary_tag_pool;

void BoundaryTagPool::initialize(void* storage, std::size_t bytes) noexcept {
  free_ = nullptr;
  counts_ = {};
  root = nullptr;
  add(storage, bytes);
}

void BoundaryTagPool::set_root(Arena& arena) noexcept {
  arena.refills_tags_ = true;
  root = &arena;
}

bool BoundaryTagPool::add_page() noexcept {
  if (root == nullptr) return false;
  const Arena::SpanRange page = root->take_tag_page_locked();
  if (page.size == 0) {
    ++counts_.failures;
    return false;
  }
  ++counts_.pages;
  add(reinterpret_cast<void*>(page.start), page.size);
  return true;
}

void BoundaryTagPool::add(void* storage, std::size_t bytes) noexcept {
  const std::size_t tags = bytes / sizeof(BoundaryTag);
  fresh_ = static_cast<BoundaryTag*>(storage);
  fresh_end_ = fresh_ + tags;
  counts_.total += tags;
  counts_.free += tags;
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
