/// Where the slow halves begin, and the middle path: the previous magazine becomes the loaded one, or one of the
/// depot's does, or rounds move between a magazine and their slabs, a few at a time; and the fast path goes on. What is
/// not as plain as that - a closed cell, a state word, a freed null, a reserve that lacks objects, a constructor, a
/// magazine that has to be made - is left as it is, for the slow halves.

#include <qm/cache.hpp>
#include <qm/exhaustion.hpp>

#include "upkeep.hpp"

namespace qm {

constexpr TracedPath kNoTracedPath{&qm_cache_allocate_other, &qm_cache_allocate_other, &qm_cache_free_other,
                                   &qm_cache_free_other, &qm_cache_free_other};

namespace {

Observer* the_observer = nullptr;
constinit TracedPath traced_path = kNoTracedPath;

}  // namespace

Observer* observer() noexcept { return the_observer; }
void set_observer(Observer* observer, const TracedPath& path) noexcept {
  the_observer = observer;
  if constexpr (kMagazines) traced_path = path;
}

/// Whether nothing but the magazines decides how far a cell may be open. Masked, as in expose().
inline bool Cache::is_plain() const noexcept {
  // acquire: as in expose()
  return (state_.load(std::memory_order_acquire) & ~trace_state::kSettled) == 0 && reserve_missing() == 0;
}

// ---- for an allocation ----------------------------------------------------------------------------------------------

/// Makes @p full the loaded magazine of an open cell and @p empty, which is loaded, the previous. @returns the youngest
/// round; nullptr for a freed null, which stays where it is: the slow half finds it below a top that is not at the
/// bottom.
[[gnu::always_inline]] inline void* Cache::turn_to_full(Cell& own, Magazine& empty, Magazine& full) noexcept {
  void** top = full.slots() + full.rounds;
  void* object = top[-1];
  own.turn_to(empty, 0, full, object != nullptr ? top - 1 : top);
  if (object != nullptr) count_allocation();
  return object;
}

/// The loaded magazine, if the running hart has an open cell and it is empty; or nullptr. A closed cell's top is the
/// closed address. Masked.
inline Magazine* Cache::run_empty(const Cell& own) const noexcept {
  Magazine* loaded = own.loaded.load(std::memory_order_relaxed);
  return loaded != nullptr && own.top.load(std::memory_order_relaxed) == loaded->slots() && is_plain() ? loaded
                                                                                                       : nullptr;
}

/// What most slow paths are, by the shortest way. @returns nullptr, and nothing has changed, if the previous magazine
/// is empty too.
[[gnu::always_inline]] inline void* Cache::allocate_from_previous() noexcept {
  const hal::InterruptGuard masked;
  Cell& own = own_cell();
  Magazine* full = own.prev;
  if (full == nullptr || full->rounds == 0) return nullptr;
  Magazine* empty = run_empty(own);
  return empty != nullptr ? turn_to_full(own, *empty, *full) : nullptr;
}

/// Whether @p loaded may be filled from the slabs as it is: no object has to be constructed, no larger magazine is due,
/// and memory is not scarce.
inline bool Cache::may_fill(const Magazine& loaded) const noexcept {
  return !has_constructor() && loaded.capacity >= depot_.rounds() && !exhaustion::scarce();
}

/// Objects of the slabs that there are into the empty loaded magazine, which may_fill(). @returns how many. Masked.
inline unsigned Cache::fill(Magazine& loaded) noexcept {
  const unsigned count = slabs_.take_present(loaded.slots(), loaded.capacity);
  if (count != 0) depot_.count_refill();
  return count;
}

/// Whether allocate_by_exchange() will find nothing for want of a slab, or could fill a magazine while there is upkeep to
/// do. An estimate.
inline bool Cache::wants_one() noexcept {
  return (slabs_.is_spent() || upkeep::is_due()) && !depot_.has_full() && !exhaustion::scarce() && !has_constructor() &&
         run_empty(cell(hal::Port::hart_index())) != nullptr;
}

/// An object of a new slab, or of another and a piece of upkeep. The magazine is left empty, for the next operation to
/// fill: this one has cost enough. @returns nullptr for the slow half, with nothing changed that matters to it.
[[gnu::always_inline]] inline void* Cache::allocate_one() noexcept {
  const bool is_spent = slabs_.is_spent();
  if (!is_spent) upkeep::run();
  void* object = is_spent ? slabs_.take_new() : slabs_.take_one();  // C1
  if (object == nullptr) return nullptr;
  {
    const hal::InterruptGuard masked;
    if (is_plain()) [[likely]] {
      own_cell().count_miss();
      count_allocation();
      return object;
    }
  }
  put_in_slab(object);  // the slow half is to tell of it
  return nullptr;
}

/// A round of a magazine of the depot's, which becomes the loaded one; or the loaded one is filled from the slabs.
/// @param[out] exchanged set if all this was tried. @returns nullptr for the slow half, with
/// nothing changed that matters to it.
[[gnu::always_inline]] inline void* Cache::allocate_by_exchange(bool& exchanged) noexcept {
  const hal::InterruptGuard masked;
  Cell& own = own_cell();
  Magazine* empty = run_empty(own);
  if (empty != nullptr) {
    own.count_miss();
    if (depot_.has_full()) {
      if (Magazine* full = depot_.exchange_for_full(own.prev)) return turn_to_full(own, *empty, *full);
    }
    exchanged = true;
  }
  const unsigned count = empty != nullptr && may_fill(*empty) ? fill(*empty) : 0;
  if (count == 0) return nullptr;
  void** const top = empty->slots() + count - 1;
  store_relaxed(own.top, top);
  count_allocation();
  return *top;
}

/// A round of the own magazines, of the depot's, which goes in against the previous magazine, or of the slabs, with
/// others. Masked, cell closed.
void* Cache::take_from_cell(Cell& own) noexcept {
  for (;;) {
    void* object = nullptr;
    if (own.take(object)) {
      if (object != nullptr) return object;
      refuse(nullptr, SlabLayer::Standing::kOutside);  // I6: somebody freed nullptr
      continue;
    }
    own.count_miss();
    if (Magazine* full = depot_.has_full() ? depot_.exchange_for_full(own.prev) : nullptr) {
      own.set_prev(own.load(full));
    } else {
      Magazine* loaded = own.loaded.load(std::memory_order_relaxed);
      const unsigned count = loaded != nullptr && may_fill(*loaded) ? fill(*loaded) : 0;
      if (count == 0) return nullptr;
      store_relaxed(own.saved_top, loaded->slots() + count);
    }
  }
}

// ---- for a free -----------------------------------------------------------------------------------------------------

/// Makes @p free, which has room, the loaded magazine of an open cell, puts a round into it, and makes @p full, which
/// is loaded, the previous.
[[gnu::always_inline]] inline void Cache::turn_to_free(Cell& own, Magazine& full, Magazine& free,
                                                       void* object) noexcept {
  void** top = free.slots() + free.rounds;
  *top = object;
  own.turn_to(full, full.capacity, free, top + 1);
}

/// As run_empty(), if it is full.
inline Magazine* Cache::run_full(const Cell& own) const noexcept {
  Magazine* loaded = own.loaded.load(std::memory_order_relaxed);
  return loaded != nullptr && own.top.load(std::memory_order_relaxed) == loaded->end() && is_plain() ? loaded : nullptr;
}

/// As allocate_from_previous(). @returns false, and nothing has changed, if the previous magazine is full too.
[[gnu::always_inline]] inline bool Cache::free_to_previous(void* object) noexcept {
  const hal::InterruptGuard masked;
  Cell& own = own_cell();
  Magazine* free = own.prev;
  if (free == nullptr || free->rounds == free->capacity) return false;
  Magazine* full = run_full(own);
  if (full == nullptr) return false;
  turn_to_free(own, *full, *free, object);
  return true;
}

/// Looks at two rounds of the previous magazine, full and about to leave the hart, others each time: whether they are
/// objects that are out of the slab layer. More would cost more than the exchange; if these are not, all that follow are
/// looked at. Masked.
inline void Cache::inspect_previous(Cell& own) noexcept {
  // A checking build has looked at each object when it was freed.
  if (kChecked || own.prev == nullptr || own.prev->rounds == 0) return;
  Magazine& magazine = *own.prev;
  unsigned first = own.inspected;
  if (first + 2 > magazine.rounds) first = 0;
  own.inspected = static_cast<std::uint8_t>(first + 2);
  if (magazine.rounds >= 2 && slabs_.are_out(magazine.slots() + first)) [[likely]]
    return;
  expel_from(magazine, first);
  own.set_prev(&magazine);
}

/// Puts a round into a magazine of the depot's, which becomes the loaded one, or makes room in the slabs.
/// @returns kHere; else what is left to the slow half, with nothing changed that matters to it.
[[gnu::always_inline]] inline Cache::Placed Cache::free_by_exchange(void* object) noexcept {
  Slab* surplus = nullptr;
  {
    const hal::InterruptGuard masked;
    Cell& own = own_cell();
    Magazine* full = run_full(own);
    if (full == nullptr || exhaustion::scarce()) return Placed::kNowhere;
    own.count_miss();
    Magazine* free = own.prev;
    if (free != nullptr && (free->rounds != free->capacity || depot_.turns_away())) {
      if (free->rounds == free->capacity) {
        if (has_destructor()) return Placed::kNowhere;
        surplus = spill(*free);
        depot_.count_passed(free->capacity - free->rounds);
      }
    } else {
      if (!depot_.has_empty()) return Placed::kForNewMagazine;
      inspect_previous(own);
      free = depot_.exchange_for_empty(free);
      if (free == nullptr) return Placed::kForNewMagazine;
    }
    turn_to_free(own, *full, *free, object);
  }
  if (surplus != nullptr) slabs_.release(surplus);
  return Placed::kHere;
}

/// Puts a round into @p empty, a magazine that nobody else sees, which becomes the loaded one. What leaves the hart for it
/// is not looked at: the operation has cost enough. @returns false, and nothing has changed, if the cell is not open and
/// full any more. Saves 150 instructions of install_and_put(), which closes the cell and opens it again.
bool Cache::free_to_new(Magazine& empty, void* object) noexcept {
  const hal::InterruptGuard masked;
  Cell& own = own_cell();
  Magazine* full = run_full(own);
  if (full == nullptr) return false;
  if (own.prev != nullptr) depot_.give(own.prev);
  turn_to_free(own, *full, empty, object);
  return true;
}

/// Loads an empty magazine of the depot's, which comes in against the previous. Masked, cell closed.
inline bool Cache::load_empty(Cell& own) noexcept {
  inspect_previous(own);
  Magazine* empty = depot_.exchange_for_empty(own.prev);
  if (empty == nullptr) return false;
  own.set_prev(own.load(empty));
  return true;
}

/// A place in the own magazines, or in an empty one of the depot's. Masked, cell closed.
Cache::Placed Cache::put_in_cell(Cell& own, void* object) noexcept {
  if (own.put(object)) return Placed::kHere;
  own.count_miss();
  if (own.prev != nullptr && depot_.turns_away()) {
    depot_.count_passed(1);
    return Placed::kForSlab;
  }
  return load_empty(own) && own.put(object) ? Placed::kHere : Placed::kForNewMagazine;
}

// ---- for the observer -----------------------------------------------------------------------------------------------

bool Cache::supply() noexcept {
  const hal::InterruptGuard masked;
  Cell& own = own_cell();
  const bool watching = own.top.load(std::memory_order_relaxed) != closed_address();
  if (watching) own.close();
  const Magazine* previous = own.prev;
  bool found = false;
  if (own.peek_closed() != nullptr || own.loaded.load(std::memory_order_relaxed) == nullptr) {
    found = false;
  } else if (previous != nullptr && previous->rounds != 0) {
    own.swap();
    found = true;
  } else if (depot_.has_full() || !slabs_.is_spent()) {
    void* object = take_from_cell(own);
    found = object != nullptr && own.put(object);  // where it was
  }
  if (watching) expose(hal::Port::hart_index());
  return found;
}

bool Cache::make_room() noexcept {
  Slab* surplus = nullptr;
  bool made = false;
  {
    const hal::InterruptGuard masked;
    Cell& own = own_cell();
    const bool watching = own.top.load(std::memory_order_relaxed) != closed_address();
    if (watching) own.close();
    Magazine* previous = own.prev;
    if (previous == nullptr || own.has_room(own.saved_top.load(std::memory_order_relaxed))) {
      made = false;
    } else if (previous->rounds != previous->capacity) {
      made = true;
      own.swap();
    } else if (!depot_.turns_away()) {
      made = load_empty(own);
      if (made) own.count_miss();
    } else if (!has_destructor() && !exhaustion::scarce()) {
      made = true;
      own.count_miss();
      surplus = spill(*previous);
      depot_.count_passed(previous->capacity - previous->rounds);
      own.swap();
    }
    if (watching) expose(hal::Port::hart_index());
  }
  if (surplus != nullptr) slabs_.release(surplus);
  return made;
}

/// Makes @p magazine, an empty one that nobody else sees, the loaded one, unless it is null, and puts up to @p count
/// rounds. What becomes surplus goes to the depot. @returns how many rounds there was room for.
unsigned Cache::install_and_put(Magazine* magazine, void* const* objects, unsigned count) noexcept {
  const hal::InterruptGuard masked;
  const unsigned hart = hal::Port::hart_index();
  Cell& own = cell(hart);
  own.close();
  if (magazine != nullptr) {
    inspect_previous(own);
    if (own.prev != nullptr) depot_.give(own.prev);
    own.set_prev(own.load(magazine));
  }
  const unsigned placed = own.put(objects, count);
  expose(hart);
  return placed;
}

/// Puts the youngest rounds into their slabs, kPutBatch of them, or fewer; a round that is no object out is told and
/// dropped, and is the last. There is room then. @returns a slab to release, or nullptr.
Slab* Cache::spill(Magazine& magazine) noexcept {
  const unsigned count = magazine.rounds < SlabLayer::kPutBatch ? magazine.rounds : SlabLayer::kPutBatch;
  const SlabLayer::Put put = slabs_.put(magazine.slots() + (magazine.rounds - count), count);
  magazine.rounds = static_cast<std::uint8_t>(magazine.rounds - put.count);
  if (put.next != SlabLayer::Standing::kOut) refuse(magazine.slots()[--magazine.rounds], put.next);
  return put.surplus;
}

}  // namespace qm

// These jump: what they go on with returns to the user, and stacks begin there.

/// A function of its own, so that who jumps past it to the observer saves no arguments for it.
[[gnu::noinline]] static void* allocate_plain(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                                              qm::Effort effort) noexcept {
  QM_JUMPS();
  if (void* object = cache->allocate_from_previous(); object != nullptr) {
    if constexpr (qm::kCallSites) cache->charge(object, site, requested);
    return object;
  }
  return qm_cache_allocate_other(cache, site, requested, effort);
}

/// As allocate_plain().
[[gnu::noinline]] static void* allocate_one(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                                            qm::Effort effort) noexcept {
  qm::keep_frame();  // a slab's segment may be recorded
  if (void* object = cache->allocate_one(); object != nullptr) {
    if constexpr (qm::kCallSites) cache->charge(object, site, requested);
    return object;
  }
  return cache->allocate_slow(site, requested, effort, false);
}

/// As allocate_plain().
[[gnu::noinline]] static void* allocate_by_exchange(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                                                    qm::Effort effort) noexcept {
  QM_JUMPS();
  bool exchanged = false;
  if (void* object = cache->allocate_by_exchange(exchanged); object != nullptr) {
    if constexpr (qm::kCallSites) cache->charge(object, site, requested);
    return object;
  }
  return cache->allocate_slow(site, requested, effort, exchanged);
}

void* qm_cache_allocate_other(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                              qm::Effort effort) noexcept {
  QM_JUMPS();
  if constexpr (!qm::kMagazines) return cache->allocate_slow(site, requested, effort, true);
  if (cache->wants_one()) return allocate_one(cache, site, requested, effort);
  return allocate_by_exchange(cache, site, requested, effort);
}

void* qm_cache_allocate_slow(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                             qm::Effort effort) noexcept {
  QM_JUMPS();
  if constexpr (!qm::kMagazines) return cache->allocate_slow(site, requested, effort, true);
  using namespace qm::trace_state;
  const std::intptr_t word = qm::load_relaxed(cache->state());
  if (word == 0) return allocate_plain(cache, site, requested, effort);
  if ((word & (kRecord | kFault | kStream | kThin)) == kRecord) {
    return qm::traced_path.allocate(cache, site, requested, effort);
  }
  if ((word & kHearsAllocation) != 0) return qm::traced_path.allocate_mixed(cache, site, requested, effort);
  return qm_cache_allocate_other(cache, site, requested, effort);
}

/// As allocate_plain().
[[gnu::noinline]] static void free_plain(qm::Cache* cache, void* object) noexcept {
  QM_JUMPS();
  if (!cache->free_to_previous(object)) qm_cache_free_other(cache, object);
}

void qm_cache_free_slow(qm::Cache* cache, void* object) noexcept {
  QM_JUMPS();
  if constexpr (!qm::kMagazines) return cache->free_slow(object);
  using namespace qm::trace_state;
  const std::intptr_t word = qm::load_relaxed(cache->state());
  if (word == 0) return free_plain(cache, object);
  if (word < 0) return qm::traced_path.free(cache, object);  // kOwned
  if ((word & kWatch) != 0) return qm::traced_path.free_watched(cache, object);
  if ((word & kStream) != 0) return qm::traced_path.free_told(cache, object);
  return qm_cache_free_other(cache, object);
}

void qm_cache_free_other(qm::Cache* cache, void* object) noexcept {
  qm::keep_frame();  // a misuse may be told, with who has called
  if constexpr (!qm::kMagazines) return cache->free_slow(object);
  const qm::Cache::Placed placed = cache->free_by_exchange(object);
  if (placed != qm::Cache::Placed::kHere) cache->free_slow(object, placed);
}
