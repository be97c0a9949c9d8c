#pragma once
/// The pool of boundary tags for all arenas, under the lock of the root arena: an arena that takes tags may have to
/// take a page of the root for them, and needs no second lock for that.
///
///     chains_ --> tag, `size` = 4 --next--> tag --next--> tag --next--> tag
///                  |prev
///                 tag, `size` = 2 --next--> tag             fresh_ --> memory that no chain was made of yet
///
/// Tags pass between the pool and an arena as chains of kTagBatch. A chain is shorter if there were no more tags, or an
/// arena ended.

#include <cstddef>

#include <qm/arena.hpp>
#include <qm/detail/boundary_tag.hpp>
#include <qm/detail/lock.hpp>

#include "segments/size_index.hpp"

namespace qm {

/// Tags that an arena and the pool exchange at a time.
inline constexpr unsigned kTagBatch = Arena::kSpares / 2;

class BoundaryTagPool {
 public:
  void initialize(void* storage, std::size_t bytes) noexcept;
  void set_root(Arena& root) noexcept;
  [[nodiscard]] bool is_empty() const noexcept { return counts_.free == 0; }
  /// Appends a chain to @p list, which is short: one that was given back, or a new one of at most @p most tags. The
  /// pool is not empty. @returns the number of tags.
  [[nodiscard]] unsigned take(BoundaryTag*& list, std::size_t most) noexcept;
  /// Takes the first @p count tags of @p list, at least 1 and at most kTagBatch, back as a chain.
  void give(BoundaryTag*& list, unsigned count) noexcept;
  /// Adds memory, from which chains are made one by one. The pool is empty.
  void add(void* storage, std::size_t bytes) noexcept;
  /// Adds a page of the root. The pool is empty. @returns false if there is no page.
  [[nodiscard]] bool add_page() noexcept;
  /// Adds a page in advance, if the pool is empty and there is much memory. @returns whether it added one.
  bool prepare() noexcept;
  [[nodiscard]] BoundaryTagStats stats() noexcept;

  Arena* root = nullptr;
  Lock rootless;  ///< the lock if there is no root

 private:
  static void want_more() noexcept;
  BoundaryTag* chains_ = nullptr;
  BoundaryTag* fresh_ = nullptr;
  BoundaryTagStats counts_{};
};

extern constinit BoundaryTagPool boundary_tag_pool;

inline void BoundaryTagPool::add(void* storage, std::size_t bytes) noexcept {
  const std::size_t tags = bytes / sizeof(BoundaryTag);
  fresh_ = static_cast<BoundaryTag*>(storage);
  counts_.total += tags;
  counts_.free += tags;
  ++counts_.pages;
}

inline bool BoundaryTagPool::add_page() noexcept {
  if (root == nullptr) return false;
  const bool added = root->add_tag_page_locked();
  if (!added) ++counts_.failures;
  return added;
}

inline unsigned BoundaryTagPool::take(BoundaryTag*& list, std::size_t most) noexcept {
  BoundaryTag* chain = chains_;
  std::size_t count = most;
  if (chain != nullptr) {
    chains_ = chain->prev;
    count = chain->size;
  } else {
    if (count > counts_.free) count = counts_.free;
    BoundaryTag* tag = fresh_;
    if (!kForSize && count == kTagBatch) {
#pragma GCC unroll 8
      for (unsigned i = 0; i < kTagBatch; ++i, ++tag) {
        tag->next = chain;
        chain = tag;
      }
    } else {
      for (std::size_t left = count; left != 0; --left, ++tag) {
        tag->next = chain;
        chain = tag;
      }
    }
    fresh_ = tag;
  }
  counts_.free -= count;
  if (is_empty()) [[unlikely]]
    want_more();
  BoundaryTag** end = &list;
  while (*end != nullptr) end = &(*end)->next;
  *end = chain;
  return static_cast<unsigned>(count);
}

inline void BoundaryTagPool::give(BoundaryTag*& list, unsigned count) noexcept {
  BoundaryTag* const chain = list;
  BoundaryTag* last = chain;
  for (unsigned left = count; left > 1; --left) last = last->next;
  list = last->next;
  last->next = nullptr;
  chain->size = count;
  chain->prev = chains_;
  chains_ = chain;
  counts_.free += count;
}

}  // namespace qm
