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
  return take_locked(list, most);
}

inline unsigned BoundaryTagPool::take_locked(BoundaryTag*& list, unsigned most) noexcept {
  unsigned taken = 0;
  if (BoundaryTag* const first = free_; first != nullptr) {
    BoundaryTag* last = first;
    for (taken = 1; taken != most && last->next != nullptr; ++taken) last = last->next;
    free_ = last->next;
    last->next = list;
    list = first;
  }
  for (; taken != most && fresh_ != fresh_end_; ++taken) {
    fresh_->next = list;
    list = fresh_++;
  }
  counts_.free -= taken;
  return taken;
}

void BoundaryTagPool::give(BoundaryTag*& list, unsigned count) noexcept {
  BoundaryTag* const first = list;
  if (count == 0) return;
  BoundaryTag* last = first;
  for (unsigned left = count - 1; left != 0; --left) last = last->next;
  list = last->next;
  const LockGuard guard(lock_);
  last->next = free_;
  free_ = first;
  counts_.free += count;
}

unsigned BoundaryTagPool::add_page(void* storage, std::size_t bytes, BoundaryTag*& list, unsigned most) noexcept {
  const LockGuard guard(lock_);
  for (; fresh_ != fresh_end_; ++fresh_) {  // another hart has found the pool empty as well
    fresh_->next = free_;
    free_ = fresh_;
  }
  add_locked(storage, bytes);
  ++counts_.pages;
  return take_locked(list, most);
}

void BoundaryTagPool::add_locked(void* storage, std::size_t bytes) noexcept {
  const std::size_t tags = bytes / sizeof(BoundaryTag);
  fresh_ = static_cast<BoundaryTag*>(storage);
  fresh_end_ = fresh_ + tags;
  counts_.total += tags;
  counts_.free += tags;
}

void BoundaryTagPool::count_failure() noexcept {
  const LockGuard guard(lock_);
  ++counts_.failures;
}

BoundaryTagStats BoundaryTagPool::stats() noexcept {
  const LockGuard guard(lock_);
  return counts_;
}

void boundary_tags_initialize(void* storage, std::size_t bytes) noexcept {
  boundary_tag_pool.initialize(storage, bytes);
}

void boundary_tags_set_root(Arena& root) noexcept {
  root.refills_tags_ = true;
  boundary_tag_pool.root = &root;
}

BoundaryTagStats boundary_tags_stats() noexcept { return boundary_tag_pool.stats(); }

}  // namespace qm
