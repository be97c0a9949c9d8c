#pragma once
/// A bitwise trie whose nodes are boundary tags: the piece that SizeIndex and AllocatedIndex share.
///
/// Each level looks at one bit of the key's `path`, from the top. A node may stand at any level on the path of its key, so
/// insertion appends at the first free place, and removal puts any leaf from below in the node's place.

#include <cstddef>

#include <qm/bits.hpp>
#include <qm/boundary_tag.hpp>

namespace qm::tag_trie {

/// Finds the node whose key equals @p key, or the empty place where it belongs.
/// @param[in] path the bits that decide, from the top bit on. @param[in] key_of reads a tag's key.
template <class KeyOf>
BoundaryTag** find_place(BoundaryTag** place, std::size_t key, std::size_t path, KeyOf key_of) noexcept {
  for (BoundaryTag* node = *place; node != nullptr && key_of(*node) != key; node = *place) {
    place = &node->child[path >> (kWordBits - 1)];
    path <<= 1;
  }
  return place;
}

/// Puts @p tag at an empty place.
inline void attach(BoundaryTag** place, BoundaryTag* tag) noexcept {
  tag->child[0] = tag->child[1] = nullptr;
  tag->slot = place;
  *place = tag;
}

/// Puts @p heir where @p tag stands.
inline void replace(BoundaryTag* tag, BoundaryTag* heir) noexcept {
  heir->slot = tag->slot;
  *heir->slot = heir;
  for (unsigned side = 0; side < 2; ++side) {
    heir->child[side] = tag->child[side];
    if (heir->child[side] != nullptr) heir->child[side]->slot = &heir->child[side];
  }
}

/// Takes a node out. Complexity: the depth below it.
inline void detach(BoundaryTag* tag) noexcept {
  BoundaryTag* leaf = tag;
  while (leaf->child[0] != nullptr || leaf->child[1] != nullptr) leaf = leaf->child[leaf->child[1] != nullptr];
  *leaf->slot = nullptr;
  if (leaf != tag) replace(tag, leaf);
}

/// Counts the nodes of a subtree by recursion no deeper than the word size; false if a node's slot does not point at it.
[[gnu::noinline]] inline bool count(BoundaryTag* const& place, std::size_t& nodes) noexcept {
  if (place == nullptr) return true;
  ++nodes;
  return place->slot == &place && count(place->child[0], nodes) && count(place->child[1], nodes);
}

}  // namespace qm::tag_trie
