#pragma once
/// A bitwise trie of nodes that their owner embeds: each has `child[2]` and a key.
///
/// It branches on the next bit of the key at each level, from the top, so an operation is bounded by the bits of a word
/// whatever the number of nodes. Any node may stand anywhere on the path of its key.

#include <cstddef>

#include <qm/bits.hpp>

namespace qm::trie {

inline unsigned side_of(std::size_t path) noexcept { return static_cast<unsigned>(path >> (kWordBits - 1)); }

/// The word that points at the node with @p value, or the empty one where it belongs.
template <class Node>
inline Node** place_of(Node** place, std::size_t Node::*key, std::size_t value) noexcept {
  for (std::size_t path = value; *place != nullptr && (*place)->*key != value; path <<= 1)
    place = &(*place)->child[side_of(path)];
  return place;
}

/// Puts @p node at an empty place.
template <class Node>
inline void attach(Node** place, Node* node) noexcept {
  node->child[0] = node->child[1] = nullptr;
  *place = node;
}

/// Puts @p heir where another node stands.
template <class Node>
inline void replace(Node** place, Node* heir) noexcept {
  heir->child[0] = (*place)->child[0];
  heir->child[1] = (*place)->child[1];
  *place = heir;
}

/// Takes out the node at @p place: a leaf below takes its place.
template <class Node>
inline void detach(Node** place) noexcept {
  Node** at = place;
  for (Node* node = *at;; node = *at) {
    if (node->child[0] == nullptr && node->child[1] == nullptr) break;
    at = &node->child[node->child[0] == nullptr];
  }
  Node* const leaf = *at;
  *at = nullptr;
  if (at != place) replace(place, leaf);
}

}  // namespace qm::trie
