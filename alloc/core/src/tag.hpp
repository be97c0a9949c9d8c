#pragma once
/// Boundary tags of the core form, and what the trie of sizes has besides (trie.hpp).
///
///     start size | prev next | child[2] | mate | kind              RV32: 32 bytes, RV64: 64
///                  ^ address   ^ by size or by start
///                              span: those beside it
///
/// Of free segments of one size one is the trie's node, the others are a list behind it.

#include <qm/arena.hpp>
#include <qm/trie.hpp>

namespace qm {

struct ArenaTag {
  enum class Kind : std::uint8_t { kFree, kFreeMate, kAllocated, kSpan };
  std::uintptr_t start;
  std::size_t size;
  ArenaTag* prev;
  ArenaTag* next;
  ArenaTag* child[2];  ///< of a mate: [0] the one before it
  ArenaTag* mate;      ///< free: the next segment of equal size
  Kind kind;
  [[nodiscard]] std::uintptr_t end() const noexcept { return start + size; }
};

namespace trie {

/// A smallest node of at least @p size; nullptr if there is none.
inline ArenaTag* ceiling(ArenaTag* node, std::size_t size) noexcept {
  ArenaTag* best = nullptr;
  ArenaTag* larger = nullptr;  // the deepest subtree beside the path in which all sizes are above `size`
  const auto consider = [&best](ArenaTag* one) noexcept {
    if (best == nullptr || one->size < best->size) best = one;
  };
  for (std::size_t path = size; node != nullptr; path <<= 1) {
    if (node->size >= size) consider(node);
    if (side_of(path) == 0 && node->child[1] != nullptr) larger = node->child[1];
    node = node->child[side_of(path)];
  }
  for (; larger != nullptr; larger = larger->child[larger->child[0] == nullptr]) consider(larger);
  return best;
}

}  // namespace trie
}  // namespace qm
