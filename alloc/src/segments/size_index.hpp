#pragma once
/// SizeIndex, inline: the operations that most allocations use.

#include <qm/detail/arena_index.hpp>

#include "segments/tag_trie.hpp"

/// Inlined into its callers, except when compiled for size: it saves an allocation and a free about 50 instructions
/// each.
#if defined(__OPTIMIZE_SIZE__)
#define QM_ARENA_INLINE inline
#else
#define QM_ARENA_INLINE [[gnu::always_inline]] inline
#endif

/// For a function that makes no call once its callees are inlined. It needs no frame: its source is compiled with
/// -fomit-frame-pointer.
#if defined(__riscv) && defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__)
#define QM_ARENA_LEAF [[gnu::flatten]]
#else
#define QM_ARENA_LEAF
#endif

namespace qm {

/// Whether to leave out code that is there only for speed.
#if defined(__OPTIMIZE_SIZE__)
inline constexpr bool kForSize = true;
#else
inline constexpr bool kForSize = false;
#endif

QM_ARENA_INLINE BoundaryTag* SizeIndex::find_exact(std::size_t size, std::size_t& bin) const noexcept {
  const std::size_t units = size >> unit_log2_;
  const std::size_t bins = units < kExact ? non_empty_[0] >> units : 0;
  if (bins == 0) return nullptr;
  bin = units + lowest_bit(bins);
  BoundaryTag* const node = bins_[bin];
  return node->mate != nullptr ? node->mate : node;
}

QM_ARENA_INLINE void SizeIndex::remove_exact(const BoundaryTag* tag, std::size_t bin) noexcept {
  BoundaryTag* const node = bins_[bin];
  if (node != tag) {
    node->mate = tag->mate;
    if (tag->mate != nullptr) tag->mate->child[0] = node;
  } else {
    bins_[bin] = nullptr;
    non_empty_[0] &= ~(std::size_t{1} << bin);
  }
}

QM_ARENA_INLINE bool SizeIndex::insert_exact(BoundaryTag* tag) noexcept {
  const std::size_t bin = tag->size >> unit_log2_;
  if (bin >= kExact) return false;
  BoundaryTag* const node = bins_[bin];
  if (node != nullptr) {
    insert_behind(tag, node);
  } else {
    tag->bin = static_cast<std::uint8_t>(bin);
    tag->mate = nullptr;
    tag_trie::attach(&bins_[bin], tag);
    non_empty_[0] |= std::size_t{1} << bin;
  }
  return true;
}

QM_ARENA_INLINE void SizeIndex::insert_behind(BoundaryTag* tag, BoundaryTag* node) noexcept {
  BoundaryTag* const after = node->mate;
  tag->bin = BoundaryTag::kMate;
  tag->mate = after;
  tag->child[0] = node;
  if (after != nullptr) after->child[0] = tag;
  node->mate = tag;
}

QM_ARENA_INLINE BoundaryTag* SizeIndex::find_root(std::size_t size, std::size_t& power) const noexcept {
  std::size_t powers = non_empty_[1];
  if (size >> unit_log2_ >= kExact) {
    const std::size_t least = std::size_t{floor_log2(size - 1)} + 1 - unit_log2_ - kExactLog2;
    powers = powers >> least << least;
  }
  if (powers == 0) return nullptr;
  power = lowest_bit(powers);
  BoundaryTag* const root = bins_[kExact + power];
  return root->mate == nullptr ? root : nullptr;
}

QM_ARENA_INLINE bool SizeIndex::root_stays(const BoundaryTag* root, std::size_t size,
                                           std::size_t power) const noexcept {
  // Above the two bits that choose its side of the path is the leading one of the power.
  const std::size_t side = (size >> (power + unit_log2_ + (kExactLog2 - 2))) - 4;
  return side < 4 && root->child[side] == nullptr;
}

}  // namespace qm
