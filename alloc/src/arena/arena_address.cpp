// Arena: the address index, kept from the first request that searches by address. Linked where it is used.

#include <qm/arena.hpp>

#include "arena/arena_request.hpp"

namespace qm {

/// Counts the tags in the index, and checks that each is found at its address.
bool Arena::validate_addresses(const Arena& arena) noexcept {
  std::size_t indexed = 0;
  for (const BoundaryTag* tag = arena.ends_.next; tag != &arena.ends_; tag = tag->next) {
    if (tag->kind != TagKind::kFree) continue;
    if (!address_calls.knows(arena, tag)) return false;
    indexed += tag->start < arena.below();
  }
  std::size_t count = 0;
  return arena.free_.validate(count) && count == indexed;
}

constinit const Arena::AddressCalls Arena::address_calls{
    .insert =
        [](Arena& arena, BoundaryTag* tag) noexcept {
          if (tag->start < arena.below()) arena.free_.insert(tag);
        },
    .remove =
        [](Arena& arena, BoundaryTag* tag) noexcept {
          if (tag->start < arena.below()) arena.free_.remove(tag);
        },
    // A tag in the index stays there: up to its new start, nothing else is free. A tag that moves down into the indexed
    // range is entered.
    .set_size =
        [](Arena& arena, BoundaryTag* tag, std::uintptr_t start, std::size_t size) noexcept {
          const std::size_t before = tag->size;
          const bool was = tag->start < arena.below();
          tag->start = start;
          arena.sizes_.resize(tag, size);
          if (was) {
            // The walk of index_addresses() may stand on this tag, and does not come to it again.
            if (start >= arena.below()) arena.indexed_below_.store(start + 1, std::memory_order_relaxed);
            arena.free_.resized(tag, before);
          } else if (start < arena.below()) {
            arena.free_.insert(tag);
          }
        },
    .floor =
        [](const Arena& arena, std::uintptr_t address) noexcept {
          return address < arena.below() ? arena.free_.floor(address) : nullptr;
        },
    .knows =
        [](const Arena& arena, const BoundaryTag* tag) noexcept {
          return tag->start >= arena.below() || arena.free_.floor(tag->start) == tag;
        },
    .validate = &Arena::validate_addresses,
};

/// Completes the address index, at the first request that needs it. Meanwhile, other operations insert and remove tags
/// below the address that this walk has reached; the walk itself enters those above.
void Arena::index_addresses() noexcept {
  if (indexed_below_.load(std::memory_order_relaxed) == UINTPTR_MAX) return;
  ArenaWalk walk(*this);
  for (;;) {
    const LockGuard guard(lock_);
    addresses_ = &address_calls;
    for (unsigned step = 0; step < kConstrainedSteps; ++step) {
      BoundaryTag* tag = walk.current_->next;
      if (tag == &ends_) return indexed_below_.store(UINTPTR_MAX, std::memory_order_relaxed);
      walk.current_ = tag;
      if (tag->start < indexed_below_.load(std::memory_order_relaxed)) continue;
      const bool is_span = tag->kind == TagKind::kSpan;  // its first segment may have the same start, and is still to
                                                         // come
      indexed_below_.store(is_span ? tag->start : tag->start + 1, std::memory_order_relaxed);
      if (tag->kind == TagKind::kFree) free_.insert(tag);
    }
  }
}

}  // namespace qm
