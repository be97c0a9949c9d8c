/// The tree in which a no-touch layer finds a slab by an address: a treap ordered by start. Lock held throughout.

#include <qm/slab.hpp>

namespace qm {

void SlabLayer::insert_in_tree(ExternalSlab* slab) noexcept {
  ExternalSlab** link = &root_;
  while (*link != nullptr && (*link)->priority >= slab->priority)
    link = &(*link)->children[slab->start > (*link)->start];
  // Splits what hangs here by the new start: all lower go left, all higher right.
  ExternalSlab* rest = *link;
  *link = slab;
  ExternalSlab** low = &slab->children[0];
  ExternalSlab** high = &slab->children[1];
  while (rest != nullptr) {
    const bool higher = rest->start > slab->start;
    (higher ? *high : *low) = rest;
    (higher ? high : low) = &rest->children[higher ? 0 : 1];
    rest = rest->children[higher ? 0 : 1];
  }
  *low = *high = nullptr;
}

void SlabLayer::remove_from_tree(ExternalSlab* slab) noexcept {
  ExternalSlab** link = &root_;
  while (*link != slab) link = &(*link)->children[slab->start > (*link)->start];
  // Merges the two subtrees in its place.
  ExternalSlab* low = slab->children[0];
  ExternalSlab* high = slab->children[1];
  while (low != nullptr && high != nullptr) {
    if (low->priority >= high->priority) {
      *link = low;
      link = &low->children[1];
      low = *link;
    } else {
      *link = high;
      link = &high->children[0];
      high = *link;
    }
  }
  *link = low != nullptr ? low : high;
}

Slab* SlabLayer::find_in_tree(std::uintptr_t address) noexcept {
  for (ExternalSlab* slab = root_; slab != nullptr; slab = slab->children[address > slab->start]) {
    if (address >= slab->start && address - slab->start < slab->objects * stride_) return slab;
  }
  return nullptr;
}

}  // namespace qm
