#include <qm/arena_index.hpp>

#include "tag_trie.hpp"

namespace qm {
namespace {

std::size_t size_of_tag(const BoundaryTag& tag) noexcept { return tag.size; }

/// The bits of a size below its highest one, which the bin stands for.
std::size_t path_of(std::size_t size, unsigned bin) noexcept { return size << (kWordBits - 1 - bin) << 1; }

/// The smallest size of a subtree, which is not empty: any node on the way to the lowest path may hold it.
BoundaryTag* smallest(BoundaryTag* node) noexcept {
  BoundaryTag* best = node;
  while (node != nullptr) {
    if (node->size < best->size) best = node;
    node = node->child[node->child[0] == nullptr];
  }
  return best;
}

/// A segment of the node's size that is cheap to remove: one behind the node if there is one.
BoundaryTag* pick(BoundaryTag* node) noexcept { return node->ring[0]; }

}  // namespace

void SizeIndex::insert(BoundaryTag* tag) noexcept {
  const unsigned bin = floor_log2(tag->size);
  tag->bin = static_cast<std::uint8_t>(bin);
  BoundaryTag** place = tag_trie::find_place(&bins_[bin], tag->size, path_of(tag->size, bin), size_of_tag);
  if (BoundaryTag* node = *place; node != nullptr) {
    tag->slot = nullptr;
    tag->ring[0] = node->ring[0];
    tag->ring[1] = node;
    tag->ring[0]->ring[1] = tag;
    node->ring[0] = tag;
    return;
  }
  tag_trie::attach(place, tag);
  tag->ring[0] = tag->ring[1] = tag;
  non_empty_ |= std::size_t{1} << bin;
}

void SizeIndex::remove(BoundaryTag* tag) noexcept {
  BoundaryTag* mate = tag->ring[0];
  if (mate != tag) {
    mate->ring[1] = tag->ring[1];
    tag->ring[1]->ring[0] = mate;
    if (tag->slot != nullptr) tag_trie::replace(tag, mate);
    return;
  }
  tag_trie::detach(tag);
  if (bins_[tag->bin] == nullptr) non_empty_ &= ~(std::size_t{1} << tag->bin);
}

void SizeIndex::resize(BoundaryTag* tag, std::size_t size) noexcept {
  const bool alone = tag->slot == &bins_[tag->bin] && tag->ring[0] == tag && tag->child[0] == nullptr && tag->child[1] == nullptr;
  if (alone && size >> tag->bin == 1) {
    tag->size = size;
    return;
  }
  remove(tag);
  tag->size = size;
  insert(tag);
}

BoundaryTag* SizeIndex::instant(std::size_t size) const noexcept {
  const unsigned bin = ceil_log2(size);
  const std::size_t bins = bin < kWordBits ? non_empty_ >> bin << bin : 0;
  return bins == 0 ? nullptr : pick(bins_[lowest_bit(bins)]);
}

BoundaryTag* SizeIndex::best_in_bin(unsigned bin, std::size_t size) const noexcept {
  BoundaryTag* best = nullptr;
  BoundaryTag* larger = nullptr;  // the deepest subtree beside the path in which all sizes are above `size`
  std::size_t path = path_of(size, bin);
  for (BoundaryTag* node = bins_[bin]; node != nullptr; path <<= 1) {
    if (node->size >= size && (best == nullptr || node->size < best->size)) best = node;
    const unsigned side = path >> (kWordBits - 1);
    if (side == 0 && node->child[1] != nullptr) larger = node->child[1];
    node = node->child[side];
  }
  if (larger != nullptr) {
    BoundaryTag* least = smallest(larger);
    if (best == nullptr || least->size < best->size) best = least;
  }
  return best;
}

BoundaryTag* SizeIndex::best(std::size_t size) const noexcept {
  const unsigned bin = floor_log2(size);
  if (BoundaryTag* node = best_in_bin(bin, size); node != nullptr) return pick(node);
  const std::size_t bins = non_empty_ & ~(((std::size_t{1} << bin) << 1) - 1);
  return bins == 0 ? nullptr : pick(smallest(bins_[lowest_bit(bins)]));
}

bool SizeIndex::contains(const BoundaryTag* tag) const noexcept {
  const unsigned bin = floor_log2(tag->size);
  if (bin != tag->bin) return false;
  BoundaryTag* root = bins_[bin];
  const BoundaryTag* node = *tag_trie::find_place(&root, tag->size, path_of(tag->size, bin), size_of_tag);
  if (node == nullptr || (non_empty_ >> bin & 1) == 0) return false;
  if (node == tag) return tag->slot != nullptr;
  // In the ring behind the node: its neighbours must be of its size and point back.
  return tag->slot == nullptr && tag->ring[0]->size == tag->size && tag->ring[0]->ring[1] == tag &&
         tag->ring[1]->size == tag->size && tag->ring[1]->ring[0] == tag;
}

bool SizeIndex::validate(std::size_t& nodes) const noexcept {
  nodes = 0;
  for (unsigned bin = 0; bin < kWordBits; ++bin) {
    if ((bins_[bin] != nullptr) != ((non_empty_ >> bin & 1) != 0)) return false;
    if (!tag_trie::count(bins_[bin], nodes)) return false;
  }
  return true;
}

}  // namespace qm
