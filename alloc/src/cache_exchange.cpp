/// Where the slow halves begin, and the middle path: the previous magazine becomes the loaded one, or one of the depot's does, or
/// rounds move between a magazine and their slabs, a few at a time; and the fast path goes on. What is not as plain as that - a closed
/// cell, a state word, a freed null, a reserve that lacks objects, a constructor, a slab or a magazine that has to be made - is left
/// as it is, for the slow halves.

#include <qm/cache.hpp>
#include <qm/exhaustion.hpp>

namespace qm {

constexpr TracedPath kNoTracedPath{&qm_cache_allocate_other, &qm_cache_allocate_other, &qm_cache_free_other};

namespace {

Observer* the_observer = nullptr;
constinit TracedPath traced_path = kNoTracedPath;

}  // namespace

Observer* observer() noexcept { return the_observer; }
void set_observer(Observer* observer, const TracedPath& path) noexcept {
  the_observer = observer;
  traced_path = path;
}

/// Whether nothing but the magazines decides how far a cell may be open. Masked, as in expose().
inline bool Cache::is_plain() const noexcept {
  // acquire: as in expose()
  return (state_.load(std::memory_order_acquire) & ~trace_state::kSettled) == 0 && reserve_missing() == 0;
}

// ---- for an allocation ----------------------------------------------------------------------------------------------

/// Makes @p full the loaded magazine of an open cell and @p empty, which is loaded, the previous. @returns the youngest round;
/// nullptr for a freed null, which stays where it is: the slow half finds it below a top that is not at the bottom.
[[gnu::always_inline]] inline void* Cache::turn_to_full(Cell& own, Magazine& empty, Magazine& full) noexcept {
  void** top = full.slots() + full.rounds;
  void* object = top[-1];
  own.turn_to(empty, 0, full, object != nullptr ? top - 1 : top);
  if (object != nullptr) count_allocation();
  return object;
}

/// The loaded magazine, if the running hart has an open cell and it is empty; or nullptr. A closed cell's top is the closed
/// address. Masked.
inline Magazine* Cache::run_empty(const Cell& own) const noexcept {
  Magazine* loaded = own.loaded.load(std::memory_order_relaxed);
  return loaded != nullptr && own.top.load(std::memory_order_relaxed) == loaded->slots() && is_plain() ? loaded : nullptr;
}

/// What most slow paths are, by the shortest way. @returns nullptr, and nothing has changed, if the previous magazine is empty too.
[[gnu::always_inline]] inline void* Cache::allocate_from_previous() noexcept {
  const hal::InterruptGuard masked;
  Cell& own = cell(hal::Port::hart_index());
  Magazine* full = own.prev;
  if (full == nullptr || full->rounds == 0) return nullptr;
  Magazine* empty = run_empty(own);
  return empty != nullptr ? turn_to_full(own, *empty, *full) : nullptr;
}

void* Cache::allocate_by_exchange() noexcept {
  const hal::InterruptGuard masked;
  Cell& own = cell(hal::Port::hart_index());
  Magazine* empty = run_empty(own);
  if (empty == nullptr) return nullptr;
  own.count_miss();
  if (Magazine* full = depot_.has_full() ? depot_.exchange_for_full(own.prev) : nullptr) return turn_to_full(own, *empty, *full);
  const unsigned count = refill_in_place(*empty);
  if (count == 0) return nullptr;
  store_relaxed(own.top, empty->slots() + count - 1);
  count_allocation();
  return empty->slots()[count - 1];
}

/// Objects of slabs that there are into the empty loaded magazine. @returns how many: none where one has to be constructed, a
/// larger magazine is due or memory is scarce. Masked.
unsigned Cache::refill_in_place(Magazine& loaded) noexcept {
  if (has_constructor() || loaded.capacity < depot_.rounds() || exhaustion::scarce()) return 0;
  const unsigned count = slabs_.take_present(loaded.slots(), loaded.capacity);
  if (count != 0) depot_.count_refill();
  return count;
}

// ---- for a free -----------------------------------------------------------------------------------------------------

/// Makes @p free, which has room, the loaded magazine of an open cell, puts a round into it, and makes @p full, which is loaded,
/// the previous.
[[gnu::always_inline]] inline void Cache::turn_to_free(Cell& own, Magazine& full, Magazine& free, void* object) noexcept {
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
  Cell& own = cell(hal::Port::hart_index());
  Magazine* free = own.prev;
  if (free == nullptr || free->rounds == free->capacity) return false;
  Magazine* full = run_full(own);
  if (full == nullptr) return false;
  turn_to_free(own, *full, *free, object);
  return true;
}

Cache::Placed Cache::free_by_exchange(void* object) noexcept {
  Slab* surplus = nullptr;
  {
    const hal::InterruptGuard masked;
    Cell& own = cell(hal::Port::hart_index());
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

// These jump: what they go on with returns to the user, and stacks begin there.

/// A function of its own, so that who jumps past it to the observer saves no arguments for it.
[[gnu::noinline]] QM_JUMPS static void* allocate_plain(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                                                       qm::Effort effort) noexcept {
  if (void* object = cache->allocate_from_previous(); object != nullptr) {
    if constexpr (qm::kCallSites) cache->charge(object, site, requested);
    return object;
  }
  return qm_cache_allocate_other(cache, site, requested, effort);
}

QM_JUMPS void* qm_cache_allocate_slow(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                                      qm::Effort effort) noexcept {
  using namespace qm::trace_state;
  const std::intptr_t word = qm::load_relaxed(cache->state());
  if (word == 0) return allocate_plain(cache, site, requested, effort);
  const std::intptr_t recorded = word & (kRecord | kFault | kStream | kThin);
  if (recorded == kRecord) return qm::traced_path.allocate(cache, site, requested, effort);
  if ((recorded & ~std::intptr_t{kThin}) == kRecord) return qm::traced_path.allocate_thin(cache, site, requested, effort);
  return qm_cache_allocate_other(cache, site, requested, effort);
}

QM_JUMPS void qm_cache_free_slow(qm::Cache* cache, void* object) noexcept {
  if ((cache->state().load(std::memory_order_relaxed) & qm::trace_state::kWatch) != 0) {
    return qm::traced_path.free(cache, object);
  }
  if (!cache->free_to_previous(object)) qm_cache_free_other(cache, object);
}
