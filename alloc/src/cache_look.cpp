/// Looks at a cache while others use it: where an object is, and whether the harts' cells are sound. And what becomes
/// of a free that cannot be.

#include <algorithm>

#include <qm/cache.hpp>
#include <qm/checked.hpp>
#include <qm/hal/round.hpp>
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

/// Counts a free that cannot be, or a use after the destroy, and tells it if anybody wants to know.
void Cache::refuse(void* address, SlabLayer::Standing standing) noexcept {
  // acquire: pairs with the release in set_misuse_handler().
  const internal::MisuseCalls* calls = internal::misuse_calls.load(std::memory_order_acquire);
  if (calls == nullptr) return count_misuse();
  calls->refused(*this, address, standing);
}

/// Counts and tells an allocation of more bytes than an object has. @returns nullptr.
void* Cache::refuse_size(std::size_t requested) noexcept {
  count_failure();
  MisuseReport told;
  told.kind = Misuse::kTooLarge;
  told.cache = this;
  told.count = requested;
  report(told);
  return nullptr;
}

/// Finds out what is wrong with such a free, and tells it.
void Cache::tell_refused(Cache& cache, void* address, SlabLayer::Standing standing) noexcept {
  MisuseReport told;
  told.cache = &cache;
  told.object = address;
  told.kind = address == nullptr ? Misuse::kNull : Misuse::kForeign;
  // Nothing of a destroyed cache but its name can be relied on.
  if (cache.is_dead()) {
    told.kind = Misuse::kAfterDestroy;
    return cache.report(told);
  }
  ObjectPlace place;
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  if (standing == SlabLayer::Standing::kFree || standing == SlabLayer::Standing::kOut) {
    told.kind = Misuse::kDoubleFree;
  } else if (standing == SlabLayer::Standing::kInside && cache.slabs_.locate(start, place) && place.object != nullptr) {
    told.kind = Misuse::kInterior;
  }
  // A slab of another cache is an object of a quantum cache: that is the owner only if nobody else is.
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
    const Cell& own = own_cell();
    void** top = own.top.load(std::memory_order_relaxed);
    if (top == closed_address()) top = own.saved_top.load(std::memory_order_relaxed);
    if (top[-1] != object) return false;  // below slot 0, and below the closed address, lies a null
  }
  refuse(object, SlabLayer::Standing::kFree);
  return true;
}

/// Tells of each round from the @p first on that is no object out, or is one of those before it, and takes it out. The
/// magazine is nobody else's.
void Cache::expel_from(Magazine& magazine, unsigned first) noexcept {
  void** const rounds = magazine.slots();
  const auto is_sound = [&](unsigned at, SlabLayer::Standing standing) noexcept {
    return standing == SlabLayer::Standing::kOut && std::find(rounds, rounds + at, rounds[at]) == rounds + at;
  };
  while (first < magazine.rounds) {
    const SlabLayer::Standing standing = slabs_.judge(rounds[first]);
    if (is_sound(first, standing)) {
      ++first;
    } else {
      refuse(rounds[first], standing);
      rounds[first] = rounds[--magazine.rounds];
    }
  }
}

// ---- for whatis and verify ------------------------------------------------------------------------------------------

namespace {

/// Whether one of the running hart's magazines has @p object. Masked.
bool holds(const Cell& own, const void* object) noexcept {
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

/// The table of exposures (magazine.hpp) for the running hart's cell. Masked.
bool is_sound(const Cell& own) noexcept {
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
  if (slabs_.judge(object) != SlabLayer::Standing::kOut) return {Place::kSlab, 0};
  if constexpr (!kMagazines) return {};
  const hal::RoundResult round = hal::run_on_harts(
      magazine_harts(),
      [](unsigned hart, void* argument) noexcept {
        auto& wanted = *static_cast<Search*>(argument);
        if (!holds(wanted.cache->cell(hart), wanted.object)) return;
        wanted.hart = hart;
        wanted.found.store(true, std::memory_order_release);
      },
      &search);
  if (search.found.load(std::memory_order_acquire)) return {Place::kMagazine, search.hart};
  if (!round.ok()) return {Place::kUnknown, round.hart};
  if (depot_.holds(object)) return {Place::kDepot, 0};
  CacheExtra* extra = this->extra();
  return {extra != nullptr && extra->reserve.holds(object) ? Place::kReserve : Place::kUser, 0};
}

Status Cache::verify_cells() noexcept {
  if constexpr (!kMagazines) return Status::kOk;
  struct Check {
    Cache* cache;
    std::atomic<bool> sound{true};
  } check{this};
  const hal::RoundResult round = hal::run_on_harts(
      hal::online_harts(),
      [](unsigned hart, void* argument) noexcept {
        auto& on = *static_cast<Check*>(argument);
        Cell& own = on.cache->cell(hart);
        const bool open = own.top.load(std::memory_order_relaxed) != closed_address();
        const bool known = (on.cache->magazine_harts() & bit(hart)) != 0;  // C2
        if (!is_sound(own) || (open && !known)) on.sound.store(false, std::memory_order_relaxed);
      },
      &check);
  if (!check.sound.load(std::memory_order_relaxed)) return Status::kMismatch;
  return status_of(round.status);
}

}  // namespace qm
