#pragma once
/// AllocatedIndex, inline: each operation has few callers.

#include <qm/detail/arena_index.hpp>

#include "segments/tag_trie.hpp"

namespace qm {

/// The path of @p start; its upper bits are the number of its bin. Starts are multiples of some number and close
/// together; multiplied by the golden ratio they differ in their upper bits. The factor is odd, so no two starts have
/// the same path, and the paths of two nodes part within the bits of a word.
inline std::size_t AllocatedIndex::path_of(std::uintptr_t start) noexcept {
  return start * static_cast<std::size_t>(kWordBits == 64 ? 0x9e3779b97f4a7c15ULL : 0x9e3779b9ULL);
}

inline BoundaryTag** AllocatedIndex::place_of(std::uintptr_t start) noexcept {
  const std::size_t path = path_of(start);
  return tag_trie::find_place<&BoundaryTag::start>(&bins_[path >> (kWordBits - kBinBits)], start, path << kBinBits);
}

inline void AllocatedIndex::insert(BoundaryTag* tag) noexcept {
  const std::size_t path = path_of(tag->start);
  tag_trie::attach(tag_trie::find_end(&bins_[path >> (kWordBits - kBinBits)], path << kBinBits), tag);
}

inline void AllocatedIndex::remove(BoundaryTag** place) noexcept { tag_trie::detach(place); }

inline std::size_t AllocatedIndex::count() const noexcept {
  std::size_t nodes = 0;
  for (const BoundaryTag* tag : bins_) nodes += tag_trie::count(tag);
  return nodes;
}

}  // namespace qm
