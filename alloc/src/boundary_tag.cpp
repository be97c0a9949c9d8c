#include "boundary_tag_pool.hpp"

#include <qm/arena.hpp>

namespace qm {

constinit BoundaryTagPool boundary_tag_pool;

void BoundaryTagPool::initialize(void* storage, std::size_t bytes) noexcept {
  const LockGuard guard(lock_);
  free_ = fresh_ = fresh_end_ = nullptr;
  counts_ = {};
  root = nullptr;
  add_locked(storage, bytes);
}

unsigned BoundaryTagPool::take(BoundaryTag*& list, unsigned most) noexcept {
  const LockGuard guard(lock_);
  unsigned taken = 0;
  for (; taken < most; ++taken) {
    BoundaryTag* tag = free_;
    if (tag != nullptr) {
      free_ = tag->next;
    } else if (fresh_ != fresh_end_) {
      tag = fresh_++;
    } else {
      break;
    }
    tag->next = list;
    list = tag;
  }
  counts_.free -= taken;
  return taken;
}

void BoundaryTagPool::give(BoundaryTag*& list, unsigned count) noexcept {
  const LockGuard guard(lock_);
  counts_.free += count;
  for (; count != 0; --count) {
    BoundaryTag* tag = list;
    list = tag->next;
    tag->next = free_;
    free_ = tag;
  }
}

void BoundaryTagPool::add_page(void* storage, std::size_t bytes) noexcept {
  const LockGuard guard(lock_);
  add_locked(storage, bytes);
  ++counts_.pages;
}

void BoundaryTagPool::add_locked(void* storage, std::size_t bytes) noexcept {
  const std::size_t tags = bytes / sizeof(BoundaryTag);
  fresh_ = static_cast<BoundaryTag*>(storage);
  fresh_end_ = fresh_ + tags;
  counts_.total += tags;
  counts_.free += tags;
}

bool BoundaryTagPool::empty() noexcept {
  const LockGuard guard(lock_);
  return counts_.free == 0;
}

void BoundaryTagPool::count_failure() noexcept {
  const LockGuard guard(lock_);
  ++counts_.failures;
}

BoundaryTagStats BoundaryTagPool::stats() noexcept {
  const LockGuard guard(lock_);
  return counts_;
}

void boundary_tags_initialize(void* storage, std::size_t bytes) noexcept { boundary_tag_pool.initialize(storage, bytes); }

void boundary_tags_set_root(Arena& root) noexcept {
  root.refills_tags_ = true;
  boundary_tag_pool.root = &root;
}

BoundaryTagStats boundary_tags_stats() noexcept { return boundary_tag_pool.stats(); }

bool boundary_tags_refill() noexcept {
  Arena* root = boundary_tag_pool.root;
  if (root == nullptr) return !boundary_tag_pool.empty();
  const LockGuard guard(root->lock_);
  // Whoever held the root's lock before may have refilled the pool already.
  return !boundary_tag_pool.empty() || root->refill_pool_locked();
}

}  // namespace qm
