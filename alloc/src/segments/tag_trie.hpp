#pragma once
/// A trie of two bits a level whose nodes are boundary tags: SizeIndex and AllocatedIndex share it.
///
/// Each level uses the next two bits of the key's `path`, from the top. A node may stand at any level on the path of
/// its key, so insertion appends at the first free place, and removal puts any leaf from below in the node's place.

#include <cstddef>

#include <qm/detail/bits.hpp>
#include <qm/detail/boundary_tag.hpp>

namespace qm::tag_trie {

/// The word that points to the node whose member Key equals @p key, or the empty word where that node belongs.
template <std::size_t BoundaryTag::*Key>
inline BoundaryTag** find_place(BoundaryTag** place, std::size_t key, std::size_t path) noexcept {
  for (BoundaryTag* node = *place; node != nullptr && node->*Key != key; node = *place) {
    place = &node->child[path >> (kWordBits - 2)];
    path <<= 2;
  }
  return place;
}

/// The empty word where a path ends: compares no key, which saves two instructions a level.
inline BoundaryTag** find_end(BoundaryTag** place, std::size_t path) noexcept {
  for (; *place != nullptr; path <<= 2) place = &(*place)->child[path >> (kWordBits - 2)];
  return place;
}

/// Puts @p tag at an empty place.
inline void attach(BoundaryTag** place, BoundaryTag* tag) noexcept {
  tag->child[0] = tag->child[1] = tag->child[2] = tag->child[3] = nullptr;
  *place = tag;
}

/// Puts @p heir in the place of @p tag.
inline void replace(BoundaryTag** place, const BoundaryTag* tag, BoundaryTag* heir) noexcept {
  for (unsigned side = 0; side < 4; ++side) heir->child[side] = tag->child[side];
  *place = heir;
}

/// The word that points to some child; nullptr for a leaf.
inline BoundaryTag** some_child(BoundaryTag* tag) noexcept {
  if (tag->child[0] != nullptr) return &tag->child[0];
  if (tag->child[1] != nullptr) return &tag->child[1];
  if (tag->child[2] != nullptr) return &tag->child[2];
  return tag->child[3] != nullptr ? &tag->child[3] : nullptr;
}

/// Removes the node at @p place. Complexity: the depth below it.
inline void detach(BoundaryTag** place) noexcept {
  BoundaryTag* const tag = *place;
  BoundaryTag** at = place;
  while (BoundaryTag** below = some_child(*at)) at = below;
  BoundaryTag* const leaf = *at;
  *at = nullptr;
  if (leaf != tag) replace(place, tag, leaf);
}

/// Counts the nodes of a subtree, by recursion no deeper than half the bits of a word.
[[gnu::noinline]] inline std::size_t count(const BoundaryTag* tag) noexcept {
  if (tag == nullptr) return 0;
  std::size_t nodes = 1;
  for (const BoundaryTag* child : tag->child) nodes += count(child);
  return nodes;
}

}  // namespace qm::tag_trie
