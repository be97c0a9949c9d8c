#pragma once
/// Boundary tags of the core form, and the trie that both indexes of an arena are.
///
///     start size | prev next | child[2] | mate | kind              RV32: 32 bytes, RV64: 64
///                  ^ address   ^ by size or by start
///                              span: those beside it
///
/// A trie branches on the next bit of its key at each level, from the top, so an operation is bounded by the bits of a
/// word whatever the number of nodes. Any node may stand anywhere on the path of its key. Of free segments of one size
/// one is the node, the others are a list behind it.

#include <qm/arena.hpp>
#include <qm/bits.hpp>

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

using Key = std::size_t ArenaTag::*;

inline unsigned side_of(std::size_t path) noexcept { return static_cast<unsigned>(path >> (kWordBits - 1)); }

/// The word that points at the node with @p value, or the empty one where it belongs.
inline ArenaTag** place_of(ArenaTag** place, Key key, std::size_t value) noexcept {
  for (std::size_t path = value; *place != nullptr && (*place)->*key != value; path <<= 1)
    place = &(*place)->child[side_of(path)];
  return place;
}

/// Puts @p tag at an empty place.
inline void attach(ArenaTag** place, ArenaTag* tag) noexcept {
  tag->child[0] = tag->child[1] = nullptr;
  *place = tag;
}

/// Puts @p heir where another node stands.
inline void replace(ArenaTag** place, ArenaTag* heir) noexcept {
  heir->child[0] = (*place)->child[0];
  heir->child[1] = (*place)->child[1];
  *place = heir;
}

/// Takes out the node at @p place: a leaf below takes its place.
inline void detach(ArenaTag** place) noexcept {
  ArenaTag** at = place;
  for (ArenaTag* node = *at;; node = *at) {
    if (node->child[0] == nullptr && node->child[1] == nullptr) break;
    at = &node->child[node->child[0] == nullptr];
  }
  ArenaTag* const leaf = *at;
  *at = nullptr;
  if (at != place) replace(place, leaf);
}

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
