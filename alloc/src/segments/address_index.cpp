#include <qm/detail/arena_index.hpp>

namespace qm {
namespace {

std::size_t largest_below(const BoundaryTag* tag) noexcept {
  std::size_t largest = tag->size;
  for (const BoundaryTag* kid : tag->kid) {
    if (kid != nullptr && kid->largest > largest) largest = kid->largest;
  }
  return largest;
}

/// Corrects `largest` from @p tag upwards, below @p end.
void correct(BoundaryTag* tag, const BoundaryTag* end) noexcept {
  for (; tag != end; tag = tag->parent) tag->largest = largest_below(tag);
}

/// Corrects `largest` from @p tag upwards, after a segment of size @p gone left the subtree of @p kid, which may be
/// null. Stops where @p gone was not the largest.
void lose(BoundaryTag* tag, const BoundaryTag* kid, std::size_t gone) noexcept {
  std::size_t below = kid == nullptr ? 0 : kid->largest;
  for (; tag != nullptr && tag->largest == gone; tag = tag->parent) {
    const BoundaryTag* other = tag->kid[tag->kid[0] == kid];
    if (below < tag->size) below = tag->size;
    if (other != nullptr && below < other->largest) below = other->largest;
    if (below == gone) return;  // there is another one
    tag->largest = below;
    kid = tag;
  }
}

/// The lowest segment of a subtree that fits; the subtree's `largest` says that one does.
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

/// A pseudo-random number, independent of what is indexed.
std::uint32_t AddressIndex::draw() noexcept { return next_random(random_); }

void AddressIndex::insert(BoundaryTag* tag) noexcept {
  // Most segments will be carved from the largest one. It stands in the upper half, so that few `largest` depend on it.
  // Within a half priorities are random, so depths are at most twice those of random priorities.
  tag->priority = draw() >> 1 | static_cast<std::uint32_t>(tag->size >= largest()) << 31;
  BoundaryTag* parent = nullptr;
  BoundaryTag** link = &root_;
  for (BoundaryTag* node = *link; node != nullptr && node->priority >= tag->priority; node = *link) {
    if (node->largest < tag->size) node->largest = tag->size;
    parent = node;
    link = &node->kid[tag->start > node->start];
  }
  BoundaryTag* rest = *link;
  *link = tag;
  tag->parent = parent;
  split(rest, tag);
}

/// Makes the tree @p rest the kids of @p tag: all lower starts on one side, all higher ones on the other.
void AddressIndex::split(BoundaryTag* rest, BoundaryTag* tag) noexcept {
  BoundaryTag* ends[2] = {tag, tag};                      // the parent of the next node of each side
  BoundaryTag** links[2] = {&tag->kid[0], &tag->kid[1]};  // and its place there
  while (rest != nullptr) {
    const unsigned side = rest->start > tag->start;
    *links[side] = rest;
    rest->parent = ends[side];
    ends[side] = rest;
    links[side] = &rest->kid[1 - side];
    rest = *links[side];
  }
  *links[0] = *links[1] = nullptr;
  correct(ends[0], tag);
  correct(ends[1], tag);
  tag->largest = largest_below(tag);
}

void AddressIndex::remove(BoundaryTag* tag) noexcept {
  // The kids become one tree in the tag's place.
  BoundaryTag* const above = tag->parent;
  BoundaryTag** const place = above == nullptr ? &root_ : &above->kid[above->kid[1] == tag];
  BoundaryTag* parent = above;
  BoundaryTag** link = place;
  BoundaryTag* low = tag->kid[0];
  BoundaryTag* high = tag->kid[1];
  while (low != nullptr && high != nullptr) {
    const unsigned side = low->priority >= high->priority;  // the side of the rest
    BoundaryTag*& top = side != 0 ? low : high;
    *link = top;
    top->parent = parent;
    parent = top;
    link = &top->kid[side];
    top = *link;
  }
  BoundaryTag* rest = low != nullptr ? low : high;
  *link = rest;
  if (rest != nullptr) rest->parent = parent;
  correct(parent, above);
  lose(above, *place, tag->size);
}

void AddressIndex::resized(BoundaryTag* tag, std::size_t before) noexcept {
  if (tag->size < before) {
    if (tag->largest != before) return;
    tag->largest = largest_below(tag);
    if (tag->largest != before) lose(tag->parent, tag, before);
    return;
  }
  for (BoundaryTag* node = tag; node != nullptr && node->largest < tag->size; node = node->parent)
    node->largest = tag->size;
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
  // Then upwards in address order: a tag, its subtree of higher addresses, the next ancestor at a higher address.
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
      if (kid != nullptr && (kid->parent != tag || kid->priority > tag->priority)) return false;
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
