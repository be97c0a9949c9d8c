#include "segments/boundary_tag_pool.hpp"

#include <qm/exhaustion.hpp>
#include <qm/fault.hpp>

#include "slab/upkeep.hpp"

namespace qm {

constinit BoundaryTagPool boundary_tag_pool;

void BoundaryTagPool::initialize(void* storage, std::size_t bytes) noexcept {
  chains_ = nullptr;
  counts_ = {};
  root = nullptr;
  add(storage, bytes);
  counts_.pages = 0;  // no page of the root yet
}

void BoundaryTagPool::set_root(Arena& arena) noexcept {
  arena.refills_tags_ = true;
  root = &arena;
}

void BoundaryTagPool::want_more() noexcept {
  if constexpr (kMagazines) upkeep::want_pages();
}

bool BoundaryTagPool::prepare() noexcept {
  if (root == nullptr || exhaustion::under_pressure() || fault::tested()) return false;
  const LockGuard guard(root->lock_);
  return is_empty() && root->counts_.total >= Extents::kLeastTotal && root->add_tag_page_locked();
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
