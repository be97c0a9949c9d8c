/// Magazines of a cache: filled from the slabs, exchanged with the depot, emptied into the slabs.

#include <qm/cache.hpp>
#include <qm/checked.hpp>
#include <qm/hal/round.hpp>
#include <qm/system.hpp>

namespace qm {

// ---- for an allocation ----------------------------------------------------------------------------------------------

/// A round of the own magazines or of the depot's, which goes in against the previous magazine. Masked, cell closed.
void* Cache::take_from_cell(Cell& own) noexcept {
  for (;;) {
    void* object = nullptr;
    if (own.take(object)) {
      if (object != nullptr) return object;
      refuse(nullptr, SlabLayer::Standing::kOutside);  // I6: somebody freed nullptr
      continue;
    }
    own.misses.fetch_add(1, std::memory_order_relaxed);
    Magazine* full = depot_.exchange_for_full(own.prev);
    if (full == nullptr) return nullptr;
    own.set_prev(own.load(full));
  }
}

/// A batch from the slabs: a full magazine, and one object for the caller.
void* Cache::refill() noexcept {
  Magazine* magazine = may_fill_magazine() ? empty_magazine() : nullptr;
  void* object = nullptr;
  if (magazine == nullptr) return take_constructed(&object, 1, SlabLayer::Growth::kAllowed).count != 0 ? object : nullptr;
  const SlabLayer::Taken taken = fill(*magazine);
  if (taken.count == 0) {
    depot_.give(magazine);
    return nullptr;
  }
  if (taken.created || take_constructed(&object, 1, SlabLayer::Growth::kForbidden).count == 0) {
    object = magazine->slots()[--magazine->rounds];
  }
  install(magazine);
  if (reserve_.missing() != 0) static_cast<void>(replenish());
  return object;
}

/// Fills an empty magazine as far as slabs that exist have objects; only if they have none, from a new one.
SlabLayer::Taken Cache::fill(Magazine& magazine) noexcept {
  SlabLayer::Taken all;
  SlabLayer::Taken taken;
  SlabLayer::Growth growth = SlabLayer::Growth::kAllowed;
  do {
    taken = take_constructed(magazine.slots() + all.count, magazine.capacity - all.count, growth);
    all.count += taken.count;
    all.created = all.created || taken.created;
    growth = SlabLayer::Growth::kForbidden;
  } while (taken.count != 0 && !taken.created && all.count != magazine.capacity);
  magazine.rounds = static_cast<std::uint16_t>(all.count);
  return all;
}

/// Objects from the slabs, constructed; those that cannot be go back.
SlabLayer::Taken Cache::take_constructed(void** objects, unsigned count, SlabLayer::Growth growth) noexcept {
  SlabLayer::Taken taken = slabs_.take(objects, count, growth);
  if (constructor_ == nullptr) return taken;
  unsigned made = 0;
  // What makes one construction fail makes the next fail too: each may cost a pursuit of its own.
  while (made < taken.count && construct(objects[made])) ++made;
  for (unsigned i = made; i < taken.count; ++i) slabs_.put(objects[i]);
  taken.count = made;
  return taken;
}

bool Cache::construct(void* object) noexcept {
  if constexpr (kChecked) checked::unseal(*this, object);
  const bool made = constructor_(object, context_);
  if constexpr (kChecked) checked::seal(*this, object);
  return made;
}

/// An empty magazine of the present size that nobody else sees, the depot's or a new one; of another size if there is no
/// memory for that.
Magazine* Cache::empty_magazine() noexcept {
  Magazine* old = depot_.take_empty();
  if (old != nullptr && old->capacity == depot_.rounds()) return old;
  Magazine* magazine = internal::create_magazine(depot_.rounds());
  if (magazine == nullptr) return old;
  if (old != nullptr) internal::free_magazine(old);
  return magazine;
}

/// Puts a magazine, filled outside, into the running hart's cell; what becomes surplus goes to the depot.
void Cache::install(Magazine* magazine) noexcept {
  const hal::InterruptGuard masked;
  const unsigned hart = hal::Port::hart_index();
  Cell& own = cell(hart);
  own.close();
  Magazine* loaded = own.loaded.load(std::memory_order_relaxed);
  Magazine* surplus = own.prev;
  if (loaded == nullptr || own.saved_top.load(std::memory_order_relaxed) == loaded->slots()) {
    own.set_prev(own.load(magazine));
  } else {
    own.set_prev(magazine);  // an interrupt has refilled the cell meanwhile
  }
  if (surplus != nullptr) depot_.give(surplus);
  expose(hart);
}

// ---- for a free -----------------------------------------------------------------------------------------------------

/// A place in the own magazines, or in an empty one of the depot's, which comes in against the previous. Masked, cell closed.
Cache::Placed Cache::put_in_cell(Cell& own, void* object) noexcept {
  if (own.put(object)) return Placed::kHere;
  own.misses.fetch_add(1, std::memory_order_relaxed);
  if (depot_.turns_away()) return Placed::kForSlab;
  inspect_previous(own);
  Magazine* empty = depot_.exchange_for_empty(own.prev);
  if (empty == nullptr) return Placed::kForNewMagazine;
  own.set_prev(own.load(empty));
  return own.put(object) ? Placed::kHere : Placed::kForNewMagazine;
}

bool Cache::install_empty_and_put(Magazine* magazine, void* object) noexcept {
  const hal::InterruptGuard masked;
  const unsigned hart = hal::Port::hart_index();
  Cell& own = cell(hart);
  own.close();
  bool placed = own.put(object);  // an interrupt may have made room meanwhile
  if (placed) {
    depot_.give(magazine);
  } else {
    inspect_previous(own);
    if (own.prev != nullptr) depot_.give(own.prev);
    own.set_prev(own.load(magazine));
    placed = own.put(object);
  }
  expose(hart);
  return placed;
}

void Cache::put_in_slab(void* object) noexcept {
  const SlabLayer::Standing standing = slabs_.judge(object);
  if (standing != SlabLayer::Standing::kOut) return refuse(object, standing);  // a freed nullptr, too (I6)
  if (destructor_ != nullptr) {
    if constexpr (kChecked) checked::unseal(*this, object);
    destructor_(object, context_);
    if constexpr (kChecked) checked::seal(*this, object);
  }
  if (slabs_.put(object) != Status::kOk) refuse(object, SlabLayer::Standing::kFree);
}

// ---- idle memory ----------------------------------------------------------------------------------------------------

void Cache::detach_magazines(unsigned hart) noexcept {
  Cell& own = cell(hart);
  own.close();
  if (cell_pointer_ != kNoCellPointer) internal::set_cell_pointer(cell_pointer_, closed_cell());
  Magazine* previous = own.prev;
  own.set_prev(nullptr);
  Magazine* loaded = own.load(nullptr);
  if (loaded != nullptr) depot_.give(loaded);
  if (previous != nullptr) depot_.give(previous);
  magazine_harts_.fetch_and(~bit(hart), std::memory_order_seq_cst);
}

Status Cache::drain() noexcept {
  if (magazine_harts() == 0) return Status::kOk;
  const hal::RoundResult result = hal::run_on_harts(
      magazine_harts(), [](unsigned hart, void* cache) noexcept { static_cast<Cache*>(cache)->detach_magazines(hart); }, this);
  switch (result.status) {
    case hal::RoundStatus::kDone: return Status::kOk;
    case hal::RoundStatus::kTimedOut: return Status::kTimedOut;
    case hal::RoundStatus::kAborted: return Status::kAborted;
    case hal::RoundStatus::kUnsafe: break;
  }
  return Status::kUnsafe;
}

/// Gives a magazine back, its rounds to the slabs. @returns how many these were.
std::size_t Cache::empty_into_slabs(Magazine* full) noexcept {
  const std::size_t objects = full->rounds;
  for (std::uint32_t i = 0; i < full->rounds; ++i) put_in_slab(full->slots()[i]);
  full->rounds = 0;
  internal::free_magazine(full);
  return objects;
}

/// Empties the depot into the slabs.
std::size_t Cache::flush() noexcept {
  std::size_t objects = 0;
  while (Magazine* full = depot_.take_full()) objects += empty_into_slabs(full);
  while (Magazine* empty = depot_.take_empty()) internal::free_magazine(empty);
  return objects;
}

Cache::Returned Cache::give_back() noexcept {
  const std::size_t before = slabs_.stats().bytes;
  Returned returned;
  returned.objects = flush();
  slabs_.reap();
  const std::size_t after = slabs_.stats().bytes;
  returned.bytes = before > after ? before - after : 0;
  return returned;
}

std::size_t Cache::reap() noexcept {
  if (magazine_harts() != 0 && hal::may_wait()) drain();
  return give_back().bytes;
}

std::size_t Cache::trim() noexcept {
  const std::size_t before = slabs_.stats().bytes;
  bool quiet = false;
  Depot::Unused unused = depot_.end_interval(quiet);
  for (; unused.full != 0; --unused.full) {
    if (Magazine* full = depot_.take_full()) empty_into_slabs(full);
  }
  for (; unused.empty != 0; --unused.empty) {
    if (Magazine* empty = depot_.take_empty()) internal::free_magazine(empty);
  }
  while (reserve_.missing() != 0 && replenish()) {
  }
  if (quiet) slabs_.reap();
  const std::size_t after = slabs_.stats().bytes;
  return before > after ? before - after : 0;
}

}  // namespace qm
