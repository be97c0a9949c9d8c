#include <qm/detail/arena_index.hpp>

#include "segments/size_index.hpp"

namespace qm {
namespace {

/// The smallest segment of a subtree, which is not empty: it may be any node on the way to the lowest path.
BoundaryTag* smallest(BoundaryTag* node) noexcept {
  BoundaryTag* best = node;
  while (BoundaryTag** below = tag_trie::some_child(node)) {
    node = *below;
    if (node->size < best->size) best = node;
  }
  return best;
}

/// A segment of the node's size that is cheap to remove: a mate of the node if there is one.
inline BoundaryTag* pick(BoundaryTag* node) noexcept { return node->mate != nullptr ? node->mate : node; }

}  // namespace

inline std::size_t SizeIndex::bin_of(std::size_t size) const noexcept {
  const std::size_t units = size >> unit_log2_;
  return units < kExact ? units : floor_log2(units) + (kExact - kExactLog2);
}

QM_ARENA_INLINE BoundaryTag** SizeIndex::place_of(std::size_t size, std::size_t bin) noexcept {
  if (bin < kExact) return &bins_[bin];
  return tag_trie::find_place<&BoundaryTag::size>(&bins_[bin], size, path_of(size, bin));
}

QM_ARENA_LEAF void SizeIndex::insert(BoundaryTag* tag) noexcept {
  const std::size_t bin = bin_of(tag->size);
  BoundaryTag** const place = place_of(tag->size, bin);
  if (BoundaryTag* const node = *place; node != nullptr) return insert_behind(tag, node);
  tag->bin = static_cast<std::uint8_t>(bin);
  tag->mate = nullptr;
  tag_trie::attach(place, tag);
  non_empty_[bin / kExact] |= std::size_t{1} << bin % kExact;
}

QM_ARENA_LEAF void SizeIndex::remove(BoundaryTag* tag) noexcept {
  BoundaryTag* const mate = tag->mate;
  const std::size_t bin = tag->bin;
  if (bin == BoundaryTag::kMate) {
    tag->child[0]->mate = mate;
    if (mate != nullptr) mate->child[0] = tag->child[0];
    return;
  }
  if (bin < kExact && mate == nullptr) {  // its only node
    bins_[bin] = nullptr;
    non_empty_[0] &= ~(std::size_t{1} << bin);
    return;
  }
  BoundaryTag** const place = place_of(tag->size, bin);
  if (mate != nullptr) {
    mate->bin = static_cast<std::uint8_t>(bin);
    return tag_trie::replace(place, tag, mate);
  }
  tag_trie::detach(place);
  if (bins_[bin] == nullptr) non_empty_[bin / kExact] &= ~(std::size_t{1} << bin % kExact);
}

/// Whether @p tag may keep its place with another size: it is a node without mates, the new size begins with the same
/// power of two, its path leads past that place, and no other node has it. This saves 90 of 135 instructions when a
/// page of tags is cut off the segment.
inline bool SizeIndex::keeps_place(const BoundaryTag* tag, std::size_t size) const noexcept {
  const std::size_t bin = tag->bin;
  const bool same_power = (tag->size ^ size) <= (tag->size & size);
  if (bin - kExact >= kBins - kExact || tag->mate != nullptr || !same_power) return false;
  std::size_t path = path_of(size, bin);
  std::size_t apart = path_of(size ^ tag->size, bin);  // its leading bits are 0 where the two paths agree
  const BoundaryTag* node = bins_[bin];
  for (; node != tag; path <<= 2, apart <<= 2) {
    if (node->size == size || apart >> (kWordBits - 2) != 0) return false;
    node = node->child[path >> (kWordBits - 2)];
  }
  for (; node != nullptr; path <<= 2) {
    if (node->size == size) return false;
    node = node->child[path >> (kWordBits - 2)];
  }
  return true;
}

/// Whether @p tag is the only one of its power of two, and with the new size would be the only one of the next lower
/// power. This saves 90 of 115 instructions when an extent is cut off the segment.
inline bool SizeIndex::steps_down(const BoundaryTag* tag, std::size_t size) const noexcept {
  const std::size_t bin = tag->bin;
  if (bin - kExact - 1 >= kBins - kExact - 1 || tag->mate != nullptr || bins_[bin - 1] != nullptr) return false;
  if (bins_[bin] != tag || size >> log2_of(bin - 1) != 1) return false;
  return tag->child[0] == nullptr && tag->child[1] == nullptr && tag->child[2] == nullptr && tag->child[3] == nullptr;
}

void SizeIndex::resize(BoundaryTag* tag, std::size_t size) noexcept {
  if (keeps_place(tag, size)) {
    tag->size = size;
  } else if (!kForSize && steps_down(tag, size)) {
    const std::size_t bin = tag->bin--;
    tag->size = size;
    bins_[bin] = nullptr;
    bins_[bin - 1] = tag;
    non_empty_[1] ^= std::size_t{3} << (bin - 1) % kExact;
  } else {
    move(tag, size);
  }
}

/// Not inlined: resize() would otherwise save registers for the calls on every path.
QM_ARENA_LEAF [[gnu::noinline]] void SizeIndex::move(BoundaryTag* tag, std::size_t size) noexcept {
  remove(tag);
  tag->size = size;
  insert(tag);
}

/// A smallest segment of at least @p size in the bin of that size, a power of two; nullptr if there is none.
BoundaryTag* SizeIndex::best_in_bin(std::size_t bin, std::size_t size) const noexcept {
  BoundaryTag* best = nullptr;
  BoundaryTag* larger = nullptr;  // the deepest subtree beside the path in which all sizes are above `size`
  std::size_t path = path_of(size, bin);
  for (BoundaryTag* node = bins_[bin]; node != nullptr; path <<= 2) {
    if (node->size >= size && (best == nullptr || node->size < best->size)) best = node;
    const std::size_t side = path >> (kWordBits - 2);
    for (std::size_t above = 3; above > side; --above) {
      if (node->child[above] != nullptr) larger = node->child[above];
    }
    node = node->child[side];
  }
  if (larger == nullptr) return best;
  BoundaryTag* const least = smallest(larger);
  return best == nullptr || least->size < best->size ? least : best;
}

BoundaryTag* SizeIndex::find(std::size_t size, Fit fit) const noexcept {
  const std::size_t units = size >> unit_log2_;
  const std::size_t exact = units < kExact ? non_empty_[0] >> units << units : 0;
  if (exact != 0) return pick(bins_[lowest_bit(exact)]);
  if (fit == Fit::kInstant) {
    const std::size_t power = units < kExact ? 0 : floor_log2(size - 1) + 1 - unit_log2_ - kExactLog2;
    const std::size_t bins = non_empty_[1] >> power << power;
    if (bins != 0) return pick(bins_[kExact + lowest_bit(bins)]);
    if (units < kExact) return nullptr;
  }
  return best(size);
}

/// A smallest segment of at least @p size in the powers of two.
QM_ARENA_LEAF [[gnu::noinline]] BoundaryTag* SizeIndex::best(std::size_t size) const noexcept {
  const std::size_t bin = bin_of(size);
  std::size_t power = 0;
  if (bin >= kExact) {
    BoundaryTag* node = best_in_bin(bin, size);
    if (node != nullptr) return pick(node);
    power = bin - kExact + 1;
  }
  const std::size_t bins = non_empty_[1] >> power << power;
  return bins == 0 ? nullptr : pick(smallest(bins_[kExact + lowest_bit(bins)]));
}

std::size_t SizeIndex::largest() const noexcept {
  if (non_empty_[1] == 0) return non_empty_[0] == 0 ? 0 : bins_[floor_log2(non_empty_[0])]->size;
  std::size_t largest = 0;
  for (const BoundaryTag* node = bins_[kExact + floor_log2(non_empty_[1])]; node != nullptr;) {
    if (node->size > largest) largest = node->size;
    const BoundaryTag* highest = nullptr;
    for (const BoundaryTag* child : node->child) highest = child != nullptr ? child : highest;
    node = highest;
  }
  return largest;
}

bool SizeIndex::contains(const BoundaryTag* tag) const noexcept {
  const std::size_t bin = bin_of(tag->size);
  const BoundaryTag* node = *const_cast<SizeIndex*>(this)->place_of(tag->size, bin);
  if (node == nullptr || (non_empty_[bin / kExact] >> bin % kExact & 1) == 0) return false;
  if (tag->mate != nullptr && (tag->mate->child[0] != tag || tag->mate->size != tag->size)) return false;
  if (node == tag) return tag->bin == bin;
  return tag->bin == BoundaryTag::kMate && tag->child[0]->mate == tag && tag->child[0]->size == tag->size;
}

bool SizeIndex::validate(std::size_t& segments) const noexcept {
  segments = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    if ((bins_[bin] != nullptr) != ((non_empty_[bin / kExact] >> bin % kExact & 1) != 0)) return false;
    segments += tag_trie::count(bins_[bin]);
  }
  return true;
}

}  // namespace qm
