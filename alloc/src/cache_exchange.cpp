/// The middle path: the previous magazine becomes the loaded one, or one of the depot's does, and the fast path goes on. What
/// is not as plain as that - a closed cell, a state word, a freed null, a reserve that lacks objects, an empty depot - is left
/// as it is, for the slow halves.

#include <qm/cache.hpp>

namespace qm {

/// Whether nothing but the magazines decides how far a cell may be open. Masked, as in expose().
inline bool Cache::is_plain() const noexcept {
  // acquire: as in expose()
  return (state_.load(std::memory_order_acquire) & ~trace_state::kSettled) == 0 && reserve_.missing() == 0;
}

void* Cache::allocate_by_exchange() noexcept {
  const hal::InterruptGuard masked;
  Cell& own = cell(hal::Port::hart_index());
  Magazine* empty = own.loaded.load(std::memory_order_relaxed);
  // A closed cell's top is the closed address.
  if (empty == nullptr || own.top.load(std::memory_order_relaxed) != empty->slots() || !is_plain()) return nullptr;
  Magazine* full = own.prev;
  if (full == nullptr || full->rounds == 0) {
    // One that finds nothing counts as a miss: the slow half's will.
    full = depot_.has_full() ? depot_.exchange_for_full(full) : nullptr;
    if (full == nullptr) return nullptr;
    own.misses.store(own.misses.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  empty->rounds = 0;
  void** top = full->slots() + full->rounds;
  void* object = top[-1];
  // A freed null stays where it is: the slow half finds it below a top that is not at the bottom.
  own.turn_to(full, object != nullptr ? top - 1 : top);
  if (object != nullptr) count_allocation();
  return object;
}

bool Cache::free_by_exchange(void* object) noexcept {
  const hal::InterruptGuard masked;
  Cell& own = cell(hal::Port::hart_index());
  Magazine* full = own.loaded.load(std::memory_order_relaxed);
  if (full == nullptr || own.top.load(std::memory_order_relaxed) != full->end() || !is_plain()) return false;
  Magazine* free = own.prev;
  if (free == nullptr || free->rounds == free->capacity) return false;
  full->rounds = full->capacity;
  void** top = free->slots() + free->rounds;
  *top = object;
  own.turn_to(free, top + 1);
  return true;
}

}  // namespace qm
