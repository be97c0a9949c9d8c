#include <qm/detail/arena_index.hpp>

namespace qm {

BoundaryTag** SpanIndex::place_of(const BoundaryTag* tag) noexcept {
  BoundaryTag** link = &root_;
  while (*link != nullptr && *link != tag && (*link)->priority >= tag->priority)
    link = &(*link)->kid[tag->start > (*link)->start];
  return link;
}

void SpanIndex::insert(BoundaryTag* tag) noexcept {
  // Starts are multiples of some number: multiplied by the golden ratio they differ in their upper bits.
  tag->priority = static_cast<std::uint32_t>((tag->start ^ tag->start >> kWordBits / 2) * 0x9e3779b9U);
  BoundaryTag** const link = place_of(tag);
  // Splits the subtree there: all lower starts on one side, all higher ones on the other.
  BoundaryTag* rest = *link;
  *link = tag;
  BoundaryTag** sides[2] = {&tag->kid[0], &tag->kid[1]};
  while (rest != nullptr) {
    const unsigned side = rest->start > tag->start;
    *sides[side] = rest;
    sides[side] = &rest->kid[1 - side];
    rest = *sides[side];
  }
  *sides[0] = *sides[1] = nullptr;
}

void SpanIndex::remove(BoundaryTag* tag) noexcept {
  // The kids become one tree in the tag's place.
  BoundaryTag** link = place_of(tag);
  BoundaryTag* low = tag->kid[0];
  BoundaryTag* high = tag->kid[1];
  while (low != nullptr && high != nullptr) {
    const unsigned side = low->priority >= high->priority;  // the side of the rest
    BoundaryTag*& top = side != 0 ? low : high;
    *link = top;
    link = &top->kid[side];
    top = *link;
  }
  *link = low != nullptr ? low : high;
}

BoundaryTag* SpanIndex::ceiling(std::uintptr_t address) const noexcept {
  BoundaryTag* best = nullptr;
  for (BoundaryTag* tag = root_; tag != nullptr;) {
    const bool below = tag->start < address;
    if (!below) best = tag;
    tag = tag->kid[below];
  }
  return best;
}

BoundaryTag* SpanIndex::floor(std::uintptr_t address) const noexcept {
  BoundaryTag* best = nullptr;
  for (BoundaryTag* tag = root_; tag != nullptr;) {
    const bool below = tag->start <= address;
    if (below) best = tag;
    tag = tag->kid[below];
  }
  return best;
}

bool SpanIndex::contains(const BoundaryTag* tag) const noexcept {
  const BoundaryTag* one = root_;
  while (one != nullptr && one != tag) {
    const BoundaryTag* const kid = one->kid[tag->start > one->start];
    if (kid != nullptr && kid->priority > one->priority) return false;
    one = kid;
  }
  return one != nullptr;
}

}  // namespace qm
