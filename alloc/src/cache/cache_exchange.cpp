/// The entries of the slow halves, and the middle path. The middle path makes the previous magazine or one of the
/// depot's the loaded one, or moves a few objects between a magazine and the slabs; then the fast path serves again.
/// It changes nothing and leaves the operation to the slow halves if the per-hart cache is closed, the state word is
/// not plain, a freed null lies on top, the reserve lacks objects, the cache has a constructor, or a magazine has to be
/// made.

#include <qm/cache.hpp>
#include <qm/exhaustion.hpp>
#include <qm/guards.hpp>
#include <qm/qm.h>

#include "slab/upkeep.hpp"

namespace qm {

constexpr TracedPath kNoTracedPath{&qm_cache_allocate_other, &qm_cache_allocate_other, &qm_cache_free_other,
                                   &qm_cache_free_other, &qm_cache_free_other};

namespace {

Observer* the_observer = nullptr;
constinit TracedPath traced_path = kNoTracedPath;

}  // namespace

Observer* observer() noexcept { return the_observer; }
TracedPath& current_traced_path() noexcept { return traced_path; }
void set_observer(Observer* observer, const TracedPath& path) noexcept {
  the_observer = observer;
  if constexpr (kMagazines) {
    traced_path = path;
    if (const guards::internal::Calls* guards = guards::internal::linked(); guards != nullptr)
      guards->wrap(traced_path);
  }
}

/// Whether a per-hart cache may be open: neither the state word nor the reserve requires another mode. Interrupts
/// masked, as in open_hart_cache().
inline bool Cache::is_plain() const noexcept {
  // acquire: as in open_hart_cache()
  constexpr std::uint32_t kOpen = trace_state::kSettled | trace_state::kGuard;
  return (state_.load(std::memory_order_acquire) & ~kOpen) == 0 && reserve_missing() == 0;
}

// ---- for an allocation ----------------------------------------------------------------------------------------------

/// Makes @p full the loaded magazine of an open per-hart cache and @p empty, which is loaded, the previous one.
/// @returns the newest object; nullptr for a freed null, which stays where it is: the slow half finds it, because top
///          is not at the bottom.
[[gnu::always_inline]] inline void* Cache::turn_to_full(HartCache& own, Magazine& empty, Magazine& full) noexcept {
  void** top = full.slots() + full.rounds;
  void* object = top[-1];
  own.turn_to(empty, 0, full, object != nullptr ? top - 1 : top);
  if (object != nullptr) count_allocation();
  return object;
}

/// The loaded magazine, if the running hart's per-hart cache is open and that magazine is empty; else nullptr. (The top
/// of a closed per-hart cache is the closed address.) Interrupts masked.
inline Magazine* Cache::run_empty(const HartCache& own) const noexcept {
  Magazine* loaded = own.loaded.load(std::memory_order_relaxed);
  return loaded != nullptr && own.top.load(std::memory_order_relaxed) == loaded->slots() && is_plain() ? loaded
                                                                                                       : nullptr;
}

/// The most frequent and shortest slow path. @returns nullptr, with nothing changed, if the previous magazine is empty
/// too.
[[gnu::always_inline]] inline void* Cache::allocate_from_previous() noexcept {
  const hal::InterruptGuard masked;
  HartCache& own = own_hart_cache();
  Magazine* full = own.prev;
  if (full == nullptr || full->rounds == 0) return nullptr;
  Magazine* empty = run_empty(own);
  return empty != nullptr ? turn_to_full(own, *empty, *full) : nullptr;
}

/// Whether @p loaded may be filled from the slabs in place: no object has to be constructed, no larger magazine is due,
/// and memory is not under pressure.
inline bool Cache::may_fill(const Magazine& loaded) const noexcept {
  return !has_constructor() && loaded.capacity >= depot_.rounds() && !exhaustion::under_pressure();
}

/// Fills the empty loaded magazine, which may_fill(), from the existing slabs. @returns the number of objects.
/// Interrupts masked.
inline unsigned Cache::fill(Magazine& loaded) noexcept {
  const unsigned count = slabs_.take_present(loaded.slots(), loaded.capacity);
  if (count != 0) depot_.count_refill();
  return count;
}

/// Whether allocate_by_exchange() would fail because no slab has a free object, or could fill a magazine while upkeep
/// is due. An estimate.
inline bool Cache::wants_one() noexcept {
  return (slabs_.is_spent() || upkeep::is_due()) && !depot_.has_full() && !exhaustion::under_pressure() &&
         !has_constructor() && run_empty(hart_cache(hal::Port::hart_index())) != nullptr;
}

/// Allocates one object from a new slab if no slab has a free object; else does a piece of upkeep and allocates one
/// from an existing slab. The magazine stays empty, and the next operation fills it: this one has cost enough.
/// @returns nullptr if the slow half has to continue; nothing that matters to it has changed.
[[gnu::always_inline]] inline void* Cache::allocate_one() noexcept {
  const bool is_spent = slabs_.is_spent();
  if (!is_spent) upkeep::run();
  void* object = is_spent ? slabs_.take_new() : slabs_.take_one();  // C1
  if (object == nullptr) return nullptr;
  {
    const hal::InterruptGuard masked;
    if (is_plain()) [[likely]] {
      own_hart_cache().count_miss();
      count_allocation();
      return object;
    }
  }
  put_in_slab(object);  // tracing has begun: the slow half allocates and records
  return nullptr;
}

/// Exchanges the previous magazine at the depot for a full one, loads that and takes an object from it; or fills the
/// loaded magazine from the slabs and takes an object from it.
/// @param[out] exchanged set if both were tried.
/// @returns nullptr if the slow half has to continue; nothing that matters to it has changed.
[[gnu::always_inline]] inline void* Cache::allocate_by_exchange(bool& exchanged) noexcept {
  const hal::InterruptGuard masked;
  HartCache& own = own_hart_cache();
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

/// Takes an object from the hart's magazines, or from a full magazine of the depot, exchanged for the previous one, or
/// from the slabs, which then fill the loaded magazine. Interrupts masked, per-hart cache closed.
void* Cache::take_from_hart_cache(HartCache& own) noexcept {
  for (;;) {
    void* object = nullptr;
    if (own.take(object)) {
      if (object != nullptr) return object;
      refuse(nullptr, SlabLayer::ObjectState::kOutside);  // I6: nullptr was freed
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

/// Makes @p free, which has room, the loaded magazine of an open per-hart cache, puts @p object into it, and makes @p
/// full, which is loaded, the previous one.
[[gnu::always_inline]] inline void Cache::turn_to_free(HartCache& own, Magazine& full, Magazine& free,
                                                       void* object) noexcept {
  void** top = free.slots() + free.rounds;
  *top = object;
  own.turn_to(full, full.capacity, free, top + 1);
}

/// As run_empty(), for a full loaded magazine.
inline Magazine* Cache::run_full(const HartCache& own) const noexcept {
  Magazine* loaded = own.loaded.load(std::memory_order_relaxed);
  return loaded != nullptr && own.top.load(std::memory_order_relaxed) == loaded->end() && is_plain() ? loaded : nullptr;
}

/// As allocate_from_previous(). @returns false, with nothing changed, if the previous magazine is full too.
[[gnu::always_inline]] inline bool Cache::free_to_previous(void* object) noexcept {
  const hal::InterruptGuard masked;
  HartCache& own = own_hart_cache();
  Magazine* free = own.prev;
  if (free == nullptr || free->rounds == free->capacity) return false;
  Magazine* full = run_full(own);
  if (full == nullptr) return false;
  turn_to_free(own, *full, *free, object);
  return true;
}

/// Checks that two objects of the previous magazine, which is full and about to leave the hart, are allocated from the
/// slab layer; each call checks the next two. To check more would cost more than the exchange. If the two fail, all
/// that follow are checked. Interrupts masked.
inline void Cache::inspect_previous(HartCache& own) noexcept {
  // A checking build has checked each object when it was freed.
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

/// Puts an object into an empty magazine of the depot, which becomes the loaded one, or makes room by a spill into the
/// slabs.
/// @returns kHere, or what remains for the slow half; nothing that matters to it has changed.
[[gnu::always_inline]] inline Cache::Placed Cache::free_by_exchange(void* object) noexcept {
  Slab* surplus = nullptr;
  {
    const hal::InterruptGuard masked;
    HartCache& own = own_hart_cache();
    Magazine* full = run_full(own);
    if (full == nullptr || exhaustion::under_pressure()) return Placed::kNowhere;
    own.count_miss();
    Magazine* free = own.prev;
    if (free != nullptr && (free->rounds != free->capacity || depot_.turns_away())) {
      if (free->rounds == free->capacity) {
        if (has_destructor()) return Placed::kNowhere;
        surplus = spill(*free);
        depot_.count_overflow(free->capacity - free->rounds);
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

/// Puts an object into @p empty, a magazine that no other hart can reach, which becomes the loaded one. The magazine
/// that leaves the hart is not inspected: the operation has cost enough. This saves 150 instructions against
/// install_and_put(), which closes and opens the per-hart cache.
/// @returns false, with nothing changed, if the per-hart cache is not open or its loaded magazine is not full any more.
bool Cache::free_to_new(Magazine& empty, void* object) noexcept {
  const hal::InterruptGuard masked;
  HartCache& own = own_hart_cache();
  Magazine* full = run_full(own);
  if (full == nullptr) return false;
  if (own.prev != nullptr) depot_.give(own.prev);
  turn_to_free(own, *full, empty, object);
  return true;
}

/// Exchanges the previous magazine at the depot for an empty one and loads that. Interrupts masked, per-hart cache
/// closed.
inline bool Cache::load_empty(HartCache& own) noexcept {
  inspect_previous(own);
  Magazine* empty = depot_.exchange_for_empty(own.prev);
  if (empty == nullptr) return false;
  own.set_prev(own.load(empty));
  return true;
}

/// Puts @p object into the hart's magazines, or into an empty one of the depot. Interrupts masked, per-hart cache
/// closed.
Cache::Placed Cache::put_in_hart_cache(HartCache& own, void* object) noexcept {
  if (own.put(object)) return Placed::kHere;
  own.count_miss();
  if (own.prev != nullptr && depot_.turns_away()) {
    depot_.count_overflow(1);
    return Placed::kForSlab;
  }
  return load_empty(own) && own.put(object) ? Placed::kHere : Placed::kForNewMagazine;
}

// ---- for the observer -----------------------------------------------------------------------------------------------

bool Cache::supply() noexcept {
  const hal::InterruptGuard masked;
  HartCache& own = own_hart_cache();
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
    void* object = take_from_hart_cache(own);
    found = object != nullptr && own.put(object);  // back where it was
  }
  if (watching) open_hart_cache(hal::Port::hart_index());
  return found;
}

bool Cache::make_room() noexcept {
  Slab* surplus = nullptr;
  bool made = false;
  {
    const hal::InterruptGuard masked;
    HartCache& own = own_hart_cache();
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
    } else if (!has_destructor() && !exhaustion::under_pressure()) {
      made = true;
      own.count_miss();
      surplus = spill(*previous);
      depot_.count_overflow(previous->capacity - previous->rounds);
      own.swap();
    }
    if (watching) open_hart_cache(hal::Port::hart_index());
  }
  if (surplus != nullptr) slabs_.release(surplus);
  return made;
}

/// Makes @p magazine the loaded one, unless it is null, and gives the previous one to the depot. The magazine is empty,
/// and no other hart can reach it. Then puts up to @p count objects. @returns how many there was room for.
unsigned Cache::install_and_put(Magazine* magazine, void* const* objects, unsigned count) noexcept {
  const hal::InterruptGuard masked;
  const unsigned hart = hal::Port::hart_index();
  HartCache& own = hart_cache(hart);
  own.close();
  if (magazine != nullptr) {
    inspect_previous(own);
    if (own.prev != nullptr) depot_.give(own.prev);
    own.set_prev(own.load(magazine));
  }
  const unsigned placed = own.put(objects, count);
  open_hart_cache(hart);
  return placed;
}

/// Returns the newest objects of @p magazine to their slabs, at most kPutBatch. It stops at one that is not an
/// allocated object, which it reports and drops. The magazine has room afterwards. @returns a slab to release, or
/// nullptr.
Slab* Cache::spill(Magazine& magazine) noexcept {
  const unsigned count = magazine.rounds < SlabLayer::kPutBatch ? magazine.rounds : SlabLayer::kPutBatch;
  const SlabLayer::Put put = slabs_.put(magazine.slots() + (magazine.rounds - count), count);
  magazine.rounds = static_cast<std::uint8_t>(magazine.rounds - put.count);
  if (put.next != SlabLayer::ObjectState::kOut) refuse(magazine.slots()[--magazine.rounds], put.next);
  return put.surplus;
}

}  // namespace qm

// These functions jump to the function that continues: it returns to the user, and recorded stacks begin there.

/// A separate function, so that a jump past it to the observer saves no registers for it.
[[gnu::noinline]] static void* allocate_plain(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                                              qm::WaitPolicy wait_policy) noexcept {
  QM_JUMPS();
  if (void* object = cache->allocate_from_previous(); object != nullptr) {
    if constexpr (qm::kCallSites) cache->charge(object, site, requested);
    return object;
  }
  return qm_cache_allocate_other(cache, site, requested, wait_policy);
}

/// As allocate_plain().
[[gnu::noinline]] static void* allocate_one(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                                            qm::WaitPolicy wait_policy) noexcept {
  qm::keep_frame();  // the segment of a new slab may be recorded
  if (void* object = cache->allocate_one(); object != nullptr) {
    if constexpr (qm::kCallSites) cache->charge(object, site, requested);
    return object;
  }
  return cache->allocate_slow(site, requested, wait_policy, false);
}

/// As allocate_plain().
[[gnu::noinline]] static void* allocate_by_exchange(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                                                    qm::WaitPolicy wait_policy) noexcept {
  QM_JUMPS();
  bool exchanged = false;
  if (void* object = cache->allocate_by_exchange(exchanged); object != nullptr) {
    if constexpr (qm::kCallSites) cache->charge(object, site, requested);
    return object;
  }
  return cache->allocate_slow(site, requested, wait_policy, exchanged);
}

/// Allocates a guarded object; an ordinary one if that fails.
[[gnu::noinline]] static void* allocate_guarded(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                                                qm::WaitPolicy wait_policy) noexcept {
  const std::uintptr_t frame = qm::guards::internal::current_frame();
  void* const sample = qm::guards::internal::linked()->allocate(cache, requested, 0, frame);
  return sample != nullptr ? sample : qm_cache_allocate_other(cache, site, requested, wait_policy);
}

/// Allocates from a cache that the guards have selected: a guarded object if a sample is due. Else it counts about the
/// objects of the magazine from which the next allocations come.
[[gnu::noinline]] static void* allocate_selected(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                                                 qm::WaitPolicy wait_policy) noexcept {
  QM_JUMPS();
  if (!qm::guards::internal::may_pass(cache->weight())) return allocate_guarded(cache, site, requested, wait_policy);
  return allocate_plain(cache, site, requested, wait_policy);
}

void* qm_cache_allocate_other(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                              qm::WaitPolicy wait_policy) noexcept {
  QM_JUMPS();
  if constexpr (!qm::kMagazines) return cache->allocate_slow(site, requested, wait_policy, false);
  if (cache->wants_one()) return allocate_one(cache, site, requested, wait_policy);
  return allocate_by_exchange(cache, site, requested, wait_policy);
}

void* qm_cache_allocate_slow(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                             qm::WaitPolicy wait_policy) noexcept {
  QM_JUMPS();
  using namespace qm::trace_state;
  if constexpr (!qm::kMagazines) return cache->allocate_slow(site, requested, wait_policy, true);
  const std::intptr_t word = qm::load_relaxed(cache->state());
  if (word == 0) return allocate_plain(cache, site, requested, wait_policy);
  if ((word & kAboutSamples) == kGuard) return allocate_selected(cache, site, requested, wait_policy);
  if ((word & (kRecord | kFault | kStream | kThin)) == kRecord) {
    return qm::traced_path.allocate(cache, site, requested, wait_policy);
  }
  if ((word & kHearsAllocation) != 0) return qm::traced_path.allocate_mixed(cache, site, requested, wait_policy);
  return qm_cache_allocate_other(cache, site, requested, wait_policy);
}

/// As allocate_plain().
[[gnu::noinline]] static void free_plain(qm::Cache* cache, void* object) noexcept {
  QM_JUMPS();
  if (!cache->free_to_previous(object)) qm_cache_free_other(cache, object);
}

/// As free_plain(), to a cache that the guards have selected. A separate function: with two calls of free_plain() in
/// qm_cache_free_slow() the compiler would move the arguments for all cases.
[[gnu::noinline]] static void free_selected(qm::Cache* cache, void* object) noexcept {
  QM_JUMPS();
  free_plain(cache, object);
}

void qm_cache_free_slow(qm::Cache* cache, void* object) noexcept {
  QM_JUMPS();
  if constexpr (!qm::kMagazines) return cache->free_slow(object);
  using namespace qm::trace_state;
  const std::intptr_t word = qm::load_relaxed(cache->state());
  if (word == 0) return free_plain(cache, object);
  if (word < 0) return qm::traced_path.free(cache, object);  // kOwned
  if (word == kGuard) return free_selected(cache, object);
  if ((word & kWatch) != 0) return qm::traced_path.free_watched(cache, object);
  if ((word & kStream) != 0) return qm::traced_path.free_told(cache, object);
  return qm_cache_free_other(cache, object);
}

void qm_cache_free_other(qm::Cache* cache, void* object) noexcept {
  qm::keep_frame();  // a misuse report has the caller's address
  if constexpr (!qm::kMagazines) return cache->free_slow(object);
  const qm::Cache::Placed placed = cache->free_by_exchange(object);
  if (placed != qm::Cache::Placed::kHere) cache->free_slow(object, placed);
}

// A single allocation in C. It jumps to the fast path, so the C program's call begins the recorded stack here too.

[[gnu::always_inline]] static inline void* allocate_in_c(const qm::CallSite* site, qm::Cache* cache,
                                                         qm_flags flags) noexcept {
  if (cache == nullptr) [[unlikely]]
    return nullptr;
  if (flags == 0) [[likely]]
    return cache->allocate_at(site);
  return cache->allocate_at(site, 0, qm::WaitPolicy{flags});
}

void* qm_cache_alloc_at(const qm_call_site* site, qm_cache* cache, qm_flags flags) noexcept {
  QM_JUMPS();
  return allocate_in_c(site, cache, flags);
}

void* qm_cache_alloc(qm_cache* cache, qm_flags flags) noexcept {
  QM_JUMPS();
  return allocate_in_c(qm::call_sites::untagged(__builtin_return_address(0)), cache, flags);
}
