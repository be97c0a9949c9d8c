/// The middle path: the previous magazine becomes the loaded one, or one of the depot's does, or rounds move between a magazine
/// and their slabs, a few at a time; and the fast path goes on. What is not as plain as that - a closed cell, a state word, a freed
/// null, a reserve that lacks objects, a constructor, a slab or a magazine that has to be made - is left as it is, for the slow halves.

#include <qm/cache.hpp>
#include <qm/exhaustion.hpp>

namespace qm {

/// Whether nothing but the magazines decides how far a cell may be open. Masked, as in expose().
inline bool Cache::is_plain() const noexcept {
  // acquire: as in expose()
  return (state_.load(std::memory_order_acquire) & ~trace_state::kSettled) == 0 && reserve_.missing() == 0;
}

// ---- for an allocation ----------------------------------------------------------------------------------------------

void* Cache::allocate_by_exchange() noexcept {
  const hal::InterruptGuard masked;
  Cell& own = cell(hal::Port::hart_index());
  Magazine* empty = own.loaded.load(std::memory_order_relaxed);
  // A closed cell's top is the closed address.
  if (empty == nullptr || own.top.load(std::memory_order_relaxed) != empty->slots() || !is_plain()) return nullptr;
  Magazine* full = own.prev;
  if (full == nullptr || full->rounds == 0) {
    full = depot_.has_full() ? depot_.exchange_for_full(full) : nullptr;
    if (full == nullptr) return refill_in_place(own, *empty);
    own.count_miss();
  }
  empty->rounds = 0;
  void** top = full->slots() + full->rounds;
  void* object = top[-1];
  // A freed null stays where it is: the slow half finds it below a top that is not at the bottom.
  own.turn_to(full, object != nullptr ? top - 1 : top);
  if (object != nullptr) count_allocation();
  return object;
}

/// Objects of slabs that there are into the empty loaded magazine of an open cell. One that finds nothing counts as a miss: the
/// slow half's will. Masked.
void* Cache::refill_in_place(Cell& own, Magazine& loaded) noexcept {
  if (constructor_ != nullptr || loaded.capacity < depot_.rounds() || exhaustion::scarce()) return nullptr;
  const unsigned count = slabs_.take(loaded.slots(), loaded.capacity, SlabLayer::Growth::kForbidden).count;
  if (count == 0) return nullptr;
  own.count_miss();
  depot_.count_refill();
  own.top.store(loaded.slots() + count - 1, std::memory_order_relaxed);
  count_allocation();
  return loaded.slots()[count - 1];
}

// ---- for a free -----------------------------------------------------------------------------------------------------

bool Cache::free_by_exchange(void* object) noexcept {
  Slab* surplus = nullptr;
  {
    const hal::InterruptGuard masked;
    Cell& own = cell(hal::Port::hart_index());
    Magazine* full = own.loaded.load(std::memory_order_relaxed);
    if (full == nullptr || own.top.load(std::memory_order_relaxed) != full->end() || !is_plain()) return false;
    full->rounds = full->capacity;
    Magazine* free = own.prev;
    if (free == nullptr || free->rounds == free->capacity) free = make_room(own, surplus);
    if (free == nullptr) return false;
    void** top = free->slots() + free->rounds;
    *top = object;
    own.turn_to(free, top + 1);
  }
  if (surplus != nullptr) slabs_.release(surplus);
  return true;
}

/// A magazine with room, to take the place of the full previous one: that itself, with some rounds gone to their slabs, or an empty
/// one of the depot's for it. @returns nullptr if there is none without the slow half. Masked.
Magazine* Cache::make_room(Cell& own, Slab*& surplus) noexcept {
  if (exhaustion::scarce()) return nullptr;
  Magazine* full = own.prev;
  if (full != nullptr && depot_.turns_away()) {
    if (destructor_ != nullptr) return nullptr;
    surplus = spill(*full);
    depot_.count_passed(full->capacity - full->rounds);
    own.count_miss();
    return full;
  }
  inspect_previous(own);
  Magazine* empty = depot_.exchange_for_empty(full);
  if (empty != nullptr) own.count_miss();
  return empty;
}

/// Puts the youngest rounds into their slabs, kPutBatch of them, or fewer; a round that is no object out is told and dropped, and is
/// the last. There is room then. @returns a slab to release, or nullptr.
Slab* Cache::spill(Magazine& magazine) noexcept {
  const unsigned count = magazine.rounds < SlabLayer::kPutBatch ? magazine.rounds : SlabLayer::kPutBatch;
  const SlabLayer::Put put = slabs_.put(magazine.slots() + (magazine.rounds - count), count);
  magazine.rounds = static_cast<std::uint16_t>(magazine.rounds - put.count);
  if (put.next != SlabLayer::Standing::kOut) refuse(magazine.slots()[--magazine.rounds], put.next);
  return put.surplus;
}

}  // namespace qm
