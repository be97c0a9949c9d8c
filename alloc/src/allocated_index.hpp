#pragma once
/// AllocatedIndex, inline: each operation has one or two callers.

#include <qm/arena_index.hpp>

#include "tag_trie.hpp"

namespace qm {
namespace detail {

inline std::size_t start_of_tag(const BoundaryTag& tag) noexcept { return tag.start; }

/// Starts are multiples of something and close together; multiplied by the golden ratio they differ in their upper bits.
/// The factor is odd, so no two starts have the same hash, and two nodes part within a word's bits.
inline std::size_t hash_start(std::uintptr_t start) noexcept {
  return start * static_cast<std::size_t>(kWordBits == 64 ? 0x9e3779b97f4a7c15ULL : 0x9e3779b9ULL);
}

}  // namespace detail

inline void AllocatedIndex::insert(BoundaryTag* tag) noexcept {
  const std::size_t path = detail::hash_start(tag->start);
  BoundaryTag** bin = &bins_[path >> (kWordBits - kBinBits)];
  tag_trie::attach(tag_trie::find_place(bin, tag->start, path << kBinBits, detail::start_of_tag), tag);
}

inline void AllocatedIndex::remove(BoundaryTag* tag) noexcept { tag_trie::detach(tag); }

inline BoundaryTag* AllocatedIndex::find(std::uintptr_t start) const noexcept {
  const std::size_t path = detail::hash_start(start);
  BoundaryTag* root = bins_[path >> (kWordBits - kBinBits)];
  return *tag_trie::find_place(&root, start, path << kBinBits, detail::start_of_tag);
}

inline bool AllocatedIndex::validate(std::size_t& nodes) const noexcept {
  nodes = 0;
  for (BoundaryTag* const& bin : bins_) {
    if (!tag_trie::count(bin, nodes)) return false;
  }
  return true;
}

}  // namespace qm
