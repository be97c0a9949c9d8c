/// Inspection of a cache in use: the place of an object, and the soundness of the per-hart caches. Also the refusal of
/// invalid frees.

#include <algorithm>

#include <qm/cache.hpp>
#include <qm/detail/checked.hpp>
#include <qm/hal/broadcast.hpp>
#include <qm/system.hpp>

namespace qm {

// ---- misuse ---------------------------------------------------------------------------------------------------------

void Cache::count_misuse() noexcept {
  if (is_dead()) return;
  const hal::InterruptGuard masked;
  HartCounts::add_one(own_counts().misuses);
}

void Cache::report(MisuseReport& report) noexcept {
  count_misuse();
  if constexpr (kChecked) {
    if (!is_dead()) checked::add_stacks(report);
  }
  internal::tell_misuse(report);
}

/// Counts an invalid free or a use after the destroy, and reports it if a misuse handler is set.
void Cache::refuse(void* address, SlabLayer::ObjectState object_state) noexcept {
  // acquire: pairs with the release in set_misuse_handler().
  const internal::MisuseCalls* calls = internal::misuse_calls.load(std::memory_order_acquire);
  if (calls == nullptr) return count_misuse();
  calls->refused(*this, address, object_state);
}

/// Counts and reports an allocation of more bytes than an object has. @returns nullptr.
void* Cache::refuse_size(std::size_t requested) noexcept {
  count_failure();
  MisuseReport told;
  told.kind = Misuse::kTooLarge;
  told.cache = this;
  told.count = requested;
  report(told);
  return nullptr;
}

/// Finds the kind of an invalid free, and reports it.
void Cache::tell_refused(Cache& cache, void* address, SlabLayer::ObjectState object_state) noexcept {
  MisuseReport told;
  told.cache = &cache;
  told.object = address;
  told.kind = address == nullptr ? Misuse::kNull : Misuse::kForeign;
  // Of a destroyed cache, only the name is still valid.
  if (cache.is_dead()) {
    told.kind = Misuse::kAfterDestroy;
    return cache.report(told);
  }
  ObjectPlace place;
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  if (object_state == SlabLayer::ObjectState::kFree || object_state == SlabLayer::ObjectState::kOut) {
    told.kind = Misuse::kDoubleFree;
  } else if (object_state == SlabLayer::ObjectState::kInside && cache.slabs_.locate(start, place) &&
             place.object != nullptr) {
    told.kind = Misuse::kInterior;
  }
  // A slab of another cache may itself be an object of a quantum cache, so quantum caches are searched last.
  for (const std::uint32_t kind : {std::uint32_t{0}, cache_flags::kQuantumCache}) {
    RegistryCursor<Cache> caches;
    while (Cache* other = told.kind == Misuse::kForeign ? caches.next() : nullptr) {
      if (other == &cache || (other->flags() & cache_flags::kQuantumCache) != kind) continue;
      if (!other->slabs_.locate(start, place) || place.object == nullptr || !place.is_out) continue;
      told.kind = Misuse::kWrongCache;
      told.owner = other;
    }
  }
  if (told.kind == Misuse::kInterior || told.kind == Misuse::kWrongCache) {
    told.object = place.object;
    told.offset = place.offset;
  }
  cache.report(told);
}

bool Cache::refuse_last_freed(void* object) noexcept {
  if constexpr (!kMagazines) return false;
  {
    const hal::InterruptGuard masked;
    const HartCache& own = own_hart_cache();
    void** top = own.top.load(std::memory_order_relaxed);
    if (top == closed_address()) top = own.saved_top.load(std::memory_order_relaxed);
    if (top[-1] != object) return false;  // the word below slot 0, and below the closed address, is null
  }
  refuse(object, SlabLayer::ObjectState::kFree);
  return true;
}

/// Reports and removes each object, from the @p first on, that is not allocated or is a duplicate of an earlier one. No
/// other hart can reach the magazine.
void Cache::expel_from(Magazine& magazine, unsigned first) noexcept {
  void** const rounds = magazine.slots();
  const auto is_sound = [&](unsigned at, SlabLayer::ObjectState object_state) noexcept {
    return object_state == SlabLayer::ObjectState::kOut && std::find(rounds, rounds + at, rounds[at]) == rounds + at;
  };
  while (first < magazine.rounds) {
    const SlabLayer::ObjectState object_state = slabs_.classify(rounds[first]);
    if (is_sound(first, object_state)) {
      ++first;
    } else {
      refuse(rounds[first], object_state);
      rounds[first] = rounds[--magazine.rounds];
    }
  }
}

// ---- for whatis and verify ------------------------------------------------------------------------------------------

namespace {

/// Whether one of the running hart's magazines holds @p object. Interrupts masked.
bool holds(const HartCache& own, const void* object) noexcept {
  void** real = own.top.load(std::memory_order_relaxed);
  if (real == closed_address()) real = own.saved_top.load(std::memory_order_relaxed);
  Magazine* loaded = own.loaded.load(std::memory_order_relaxed);
  for (void** slot = loaded != nullptr ? loaded->slots() : real; slot != real; ++slot) {
    if (*slot == object) return true;
  }
  for (unsigned i = 0; own.prev != nullptr && i < own.prev->rounds; ++i) {
    if (own.prev->slots()[i] == object) return true;
  }
  return false;
}

/// Checks the running hart's per-hart cache against the table of modes in magazine.hpp. Interrupts masked.
bool is_sound(const HartCache& own) noexcept {
  void** top = own.top.load(std::memory_order_relaxed);
  void** limit = own.limit.load(std::memory_order_relaxed);
  Magazine* loaded = own.loaded.load(std::memory_order_relaxed);
  const bool open = top != closed_address();
  if (loaded == nullptr) return !open && limit == nullptr;
  void** real = open ? top : own.saved_top.load(std::memory_order_relaxed);
  if (real < loaded->slots() || real > loaded->end() || loaded->bottom != nullptr) return false;
  if (limit != nullptr && (!open || limit != loaded->end())) return false;
  return own.prev_rounds.load(std::memory_order_relaxed) == (own.prev != nullptr ? own.prev->rounds : 0);
}

}  // namespace

Cache::Whereabouts Cache::look_for(void* object) noexcept {
  struct Search {
    Cache* cache;
    void* object;
    std::atomic<bool> found{false};
    unsigned hart = 0;
  } search{this, object};
  if (slabs_.classify(object) != SlabLayer::ObjectState::kOut) return {Place::kSlab, 0};
  Quarantine::Entry entry;
  if (quarantine() != nullptr && quarantine()->find(object, entry)) return {Place::kQuarantine, 0};
  if constexpr (!kMagazines) return {};
  const hal::BroadcastResult broadcast = hal::run_on_harts(
      magazine_harts(),
      [](unsigned hart, void* argument) noexcept {
        auto& wanted = *static_cast<Search*>(argument);
        if (!holds(wanted.cache->hart_cache(hart), wanted.object)) return;
        wanted.hart = hart;
        wanted.found.store(true, std::memory_order_release);
      },
      &search);
  if (search.found.load(std::memory_order_acquire)) return {Place::kMagazine, search.hart};
  if (!broadcast.ok()) return {Place::kUnknown, broadcast.hart};
  if (depot_.holds(object)) return {Place::kDepot, 0};
  CacheExtra* extra = this->extra();
  return {extra != nullptr && extra->reserve.holds(object) ? Place::kReserve : Place::kUser, 0};
}

Status Cache::verify_hart_caches() noexcept {
  if constexpr (!kMagazines) return Status::kOk;
  struct Check {
    Cache* cache;
    std::atomic<bool> sound{true};
  } check{this};
  const hal::BroadcastResult broadcast = hal::run_on_harts(
      hal::online_harts(),
      [](unsigned hart, void* argument) noexcept {
        auto& on = *static_cast<Check*>(argument);
        HartCache& own = on.cache->hart_cache(hart);
        const bool open = own.top.load(std::memory_order_relaxed) != closed_address();
        const bool known = (on.cache->magazine_harts() & bit(hart)) != 0;  // C2
        if (!is_sound(own) || (open && !known)) on.sound.store(false, std::memory_order_relaxed);
      },
      &check);
  if (!check.sound.load(std::memory_order_relaxed)) return Status::kMismatch;
  return status_of(broadcast.status);
}

}  // namespace qm
