#include <qm/arena_index.hpp>

namespace qm {
namespace {

/// A node's priority is a hash of where its tag lies: nothing to store, and not related to the addresses indexed.
std::size_t priority(const BoundaryTag* tag) noexcept {
  const std::size_t mixed =
      reinterpret_cast<std::uintptr_t>(tag) * static_cast<std::size_t>(kWordBits == 64 ? 0xd6e8feb86659fd93ULL : 0x85ebca6bULL);
  return (mixed ^ (mixed >> (kWordBits / 2))) * static_cast<std::size_t>(kWordBits == 64 ? 0xd6e8feb86659fd93ULL : 0xc2b2ae35ULL);
}

std::size_t largest_below(const BoundaryTag* tag) noexcept {
  std::size_t largest = tag->size;
  for (const BoundaryTag* kid : tag->kid) {
    if (kid != nullptr && kid->largest > largest) largest = kid->largest;
  }
  return largest;
}

/// The lowest of a subtree that fits; its `largest` says that one does.
BoundaryTag* lowest_fit(BoundaryTag* tag, std::size_t size) noexcept {
  for (;;) {
    if (tag->kid[0] != nullptr && tag->kid[0]->largest >= size) {
      tag = tag->kid[0];
    } else if (tag->size >= size) {
      return tag;
    } else {
      tag = tag->kid[1];
    }
  }
}

}  // namespace

BoundaryTag*& AddressIndex::link_to(BoundaryTag* tag) noexcept {
  return tag->parent == nullptr ? root_ : tag->parent->kid[tag->parent->kid[1] == tag];
}

void AddressIndex::rotate_up(BoundaryTag* tag) noexcept {
  BoundaryTag* parent = tag->parent;
  const unsigned side = parent->kid[1] == tag;
  link_to(parent) = tag;
  tag->parent = parent->parent;
  parent->kid[side] = tag->kid[1 - side];
  if (parent->kid[side] != nullptr) parent->kid[side]->parent = parent;
  tag->kid[1 - side] = parent;
  parent->parent = tag;
  tag->largest = parent->largest;
  parent->largest = largest_below(parent);
}

void AddressIndex::insert(BoundaryTag* tag) noexcept {
  tag->kid[0] = tag->kid[1] = nullptr;
  tag->largest = tag->size;
  BoundaryTag* parent = nullptr;
  BoundaryTag** link = &root_;
  while (*link != nullptr) {
    parent = *link;
    if (parent->largest < tag->size) parent->largest = tag->size;
    link = &parent->kid[tag->start > parent->start];
  }
  *link = tag;
  tag->parent = parent;
  while (tag->parent != nullptr && priority(tag) > priority(tag->parent)) rotate_up(tag);
}

void AddressIndex::remove(BoundaryTag* tag) noexcept {
  while (tag->kid[0] != nullptr && tag->kid[1] != nullptr) {
    rotate_up(tag->kid[priority(tag->kid[1]) > priority(tag->kid[0])]);
  }
  BoundaryTag* kid = tag->kid[tag->kid[0] == nullptr];
  link_to(tag) = kid;
  if (kid != nullptr) kid->parent = tag->parent;
  if (tag->parent != nullptr) update(tag->parent);
}

void AddressIndex::update(BoundaryTag* tag) noexcept {
  for (; tag != nullptr; tag = tag->parent) {
    const std::size_t largest = largest_below(tag);
    if (largest == tag->largest) return;
    tag->largest = largest;
  }
}

BoundaryTag* AddressIndex::floor(std::uintptr_t address) const noexcept {
  BoundaryTag* best = nullptr;
  for (BoundaryTag* tag = root_; tag != nullptr;) {
    const bool below = tag->start <= address;
    if (below) best = tag;
    tag = tag->kid[below];
  }
  return best;
}

BoundaryTag* AddressIndex::first_fit(std::uintptr_t address, std::size_t size) const noexcept {
  BoundaryTag* first = nullptr;  // the lowest tag at or above the address
  for (BoundaryTag* tag = root_; tag != nullptr;) {
    const bool at_or_above = tag->start >= address;
    if (at_or_above) first = tag;
    tag = tag->kid[!at_or_above];
  }
  // Then upwards in address order: a tag, what lies above it below it in the tree, the next ancestor that it is below.
  while (first != nullptr) {
    if (first->size >= size) return first;
    if (first->kid[1] != nullptr && first->kid[1]->largest >= size) return lowest_fit(first->kid[1], size);
    BoundaryTag* below = first;
    do {
      below = first;
      first = first->parent;
    } while (first != nullptr && first->kid[1] == below);
  }
  return nullptr;
}

bool AddressIndex::validate(std::size_t& count) const noexcept {
  count = 0;
  const BoundaryTag* tag = root_;
  if (tag != nullptr && tag->parent != nullptr) return false;
  while (tag != nullptr && tag->kid[0] != nullptr) tag = tag->kid[0];
  std::uintptr_t lowest = 0;
  while (tag != nullptr) {
    ++count;
    if (tag->start < lowest || tag->largest != largest_below(tag)) return false;
    lowest = tag->start + 1;
    for (const BoundaryTag* kid : tag->kid) {
      if (kid != nullptr && (kid->parent != tag || priority(kid) > priority(tag))) return false;
    }
    if (tag->kid[1] != nullptr) {
      tag = tag->kid[1];
      while (tag->kid[0] != nullptr) tag = tag->kid[0];
      continue;
    }
    while (tag->parent != nullptr && tag->parent->kid[1] == tag) tag = tag->parent;
    tag = tag->parent;
  }
  return true;
}

}  // namespace qm
