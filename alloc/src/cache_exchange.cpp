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
    own.count_miss();
    full = depot_.has_full() ? depot_.exchange_for_full(full) : nullptr;
    if (full == nullptr) {
      const unsigned count = refill_in_place(*empty);
      if (count == 0) return nullptr;
      store_relaxed(own.top, empty->slots() + count - 1);
      count_allocation();
      return empty->slots()[count - 1];
    }
  }
  empty->rounds = 0;
  void** top = full->slots() + full->rounds;
  void* object = top[-1];
  // A freed null stays where it is: the slow half finds it below a top that is not at the bottom.
  own.turn_to(full, object != nullptr ? top - 1 : top);
  if (object != nullptr) count_allocation();
  return object;
}

/// Objects of slabs that there are into the empty loaded magazine. @returns how many: none where one has to be constructed, a
/// larger magazine is due or memory is scarce. Masked.
unsigned Cache::refill_in_place(Magazine& loaded) noexcept {
  if (constructor_ != nullptr || loaded.capacity < depot_.rounds() || exhaustion::scarce()) return 0;
  const unsigned count = slabs_.take_present(loaded.slots(), loaded.capacity);
  if (count != 0) depot_.count_refill();
  return count;
}

// ---- for a free -----------------------------------------------------------------------------------------------------

Cache::Placed Cache::free_by_exchange(void* object) noexcept {
  Slab* surplus = nullptr;
  {
    const hal::InterruptGuard masked;
    Cell& own = cell(hal::Port::hart_index());
    Magazine* full = own.loaded.load(std::memory_order_relaxed);
    if (full == nullptr || own.top.load(std::memory_order_relaxed) != full->end() || !is_plain()) return Placed::kNowhere;
    full->rounds = full->capacity;
    Magazine* free = own.prev;
    if (free == nullptr || free->rounds == free->capacity) {
      if (exhaustion::scarce()) return Placed::kNowhere;
      own.count_miss();
      if (free != nullptr && depot_.turns_away()) {
        if (destructor_ != nullptr) return Placed::kNowhere;
        surplus = spill(*free);
        depot_.count_passed(free->capacity - free->rounds);
      } else {
        if (!depot_.has_empty()) return Placed::kForNewMagazine;
        inspect_previous(own);
        free = depot_.exchange_for_empty(free);
        if (free == nullptr) return Placed::kForNewMagazine;
      }
    }
    void** top = free->slots() + free->rounds;
    *top = object;
    own.turn_to(free, top + 1);
  }
  if (surplus != nullptr) slabs_.release(surplus);
  return Placed::kHere;
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
