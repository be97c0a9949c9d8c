#include <qm/cache.hpp>

#include <new>

#include <qm/arena.hpp>
#include <qm/hal/round.hpp>
#include <qm/system.hpp>

namespace qm {
namespace {

MisuseHandler misuse_handler = nullptr;
Observer* the_observer = nullptr;

constexpr hal::HartMask bit(unsigned hart) { return hal::HartMask{1} << hart; }

}  // namespace

void set_misuse_handler(MisuseHandler handler) noexcept { misuse_handler = handler; }

Observer* observer() noexcept { return the_observer; }
void set_observer(Observer* observer) noexcept { the_observer = observer; }

void Cache::report(Misuse kind, void* object) noexcept {
  misuses_.fetch_add(1, std::memory_order_relaxed);
  if (misuse_handler != nullptr) misuse_handler(kind, *this, object);
}

// ---- exposure -------------------------------------------------------------------------------------------------------

void Cache::expose(unsigned hart) noexcept {
  Cell& own = cell(hart);
  Magazine* loaded = own.loaded.load(std::memory_order_relaxed);
  if (loaded == nullptr) return;
  if ((magazine_harts_.load(std::memory_order_relaxed) & bit(hart)) == 0) {
    magazine_harts_.fetch_or(bit(hart), std::memory_order_seq_cst);
    // C2: the bit before the word. Pairs with the fence between a change of the word and the look at the bits.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  const std::uint32_t word = state_.load(std::memory_order_acquire);
  if ((word & trace_state::kHold) != 0) return;
  own.limit.store((word & trace_state::kWatch) != 0 ? nullptr : loaded->end(), std::memory_order_relaxed);
  own.top.store(own.saved_top.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

// ---- allocate -------------------------------------------------------------------------------------------------------

bool Cache::record(const Allocation& allocation, void* object, Observer::Prepared& prepared) noexcept {
  // acquire: pairs with the compare-and-swap of a start or a stop; read in the section that inserts (O2).
  if ((state_.load(std::memory_order_acquire) & trace_state::kRecord) == 0) return true;
  return prepared.ready && observer()->record(allocation, object, prepared);
}

/// Counts an allocation that no section counted. Masked.
void Cache::count_allocation() noexcept {
  if constexpr (kCounted) {
    Cell& own = cell(hal::Port::hart_index());
    own.allocs.store(own.allocs.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
}

void* Cache::allocate_slow(const Allocation& allocation, Effort effort) noexcept {
  Observer::Prepared prepared;
  if (recording()) observer()->prepare(allocation, nullptr, prepared);
  void* object = nullptr;
  bool settled = false;
  if ((flags_ & cache_flags::kDirect) == 0) {
    const hal::InterruptGuard masked;
    const unsigned hart = hal::Port::hart_index();
    cell(hart).close();
    object = take_from_cell(cell(hart));
    if (object != nullptr) {
      settled = record(allocation, object, prepared);
      if (settled) count_allocation();
    }
    expose(hart);
  }
  if (object == nullptr) object = refill_or_reclaim(effort);
  while (object != nullptr && !settled) {
    if (recording()) observer()->prepare(allocation, object, prepared);
    const hal::InterruptGuard masked;
    settled = record(allocation, object, prepared);
    if (settled) count_allocation();
  }
  if (prepared.ready) observer()->release(prepared);
  if (object == nullptr) failures_.fetch_add(1, std::memory_order_relaxed);
  return object;
}

/// A round of the own magazines or of the depot's, which goes in against the previous magazine. Masked, cell closed.
void* Cache::take_from_cell(Cell& own) noexcept {
  for (;;) {
    void* object = nullptr;
    if (own.take(object)) {
      if (object != nullptr) return object;
      report(Misuse::kNull, nullptr);  // I6: somebody freed nullptr
      continue;
    }
    own.misses.fetch_add(1, std::memory_order_relaxed);
    Magazine* full = depot_.take_full();
    if (full == nullptr) return nullptr;
    if (own.prev != nullptr) depot_.give(own.prev);
    own.set_prev(own.load(full));
  }
}

void* Cache::refill_or_reclaim(Effort effort) noexcept {
  void* object = refill();
  if (object != nullptr || effort == Effort::kAtomic || !hal::may_wait() || hal::hart_local().reclaiming) return object;
  hal::hart_local().reclaiming = true;
  reclaim();
  hal::hart_local().reclaiming = false;
  return refill();
}

/// A batch from the slabs: one round for the caller, the others as a magazine. Without a magazine, one object.
void* Cache::refill() noexcept {
  void* objects[SlabLayer::kBatch];
  Magazine* magazine = (flags_ & cache_flags::kDirect) == 0 ? empty_magazine() : nullptr;
  unsigned want = 1;
  if (magazine != nullptr) want = magazine->capacity < SlabLayer::kBatch ? magazine->capacity : SlabLayer::kBatch;
  unsigned count = take_constructed(objects, want);
  if (magazine != nullptr) {
    for (magazine->rounds = 0; magazine->rounds + 1 < count; ++magazine->rounds) {
      magazine->slots()[magazine->rounds] = objects[magazine->rounds + 1];
    }
    if (count != 0) {
      install(magazine);
    } else {
      depot_.give(magazine);
    }
  }
  return count != 0 ? objects[0] : nullptr;
}

unsigned Cache::take_constructed(void** objects, unsigned count) noexcept {
  const unsigned taken = slabs_.take(objects, count);
  if (constructor_ == nullptr) return taken;
  unsigned made = 0;
  for (unsigned i = 0; i < taken; ++i) {
    if (constructor_(objects[i], context_)) {
      objects[made++] = objects[i];
    } else {
      slabs_.put(objects[i]);
    }
  }
  return made;
}

/// An empty magazine that nobody else sees: the depot's or a new one.
Magazine* Cache::empty_magazine() noexcept {
  Magazine* magazine = depot_.take_empty();
  return magazine != nullptr ? magazine : internal::create_magazine(magazine_rounds_);
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

// ---- free -----------------------------------------------------------------------------------------------------------

void Cache::free_slow(void* object) noexcept {
  if (object == nullptr) return report(Misuse::kNull, object);
  if (slabs_.find(object) == nullptr) return report(Misuse::kNotAnObject, object);
  bool placed = false;
  {
    const hal::InterruptGuard masked;
    // acquire: as in record(); the record goes before the object does (O1).
    if ((state_.load(std::memory_order_acquire) & trace_state::kWatch) != 0) observer()->forget(*this, object);
    if ((flags_ & cache_flags::kDirect) == 0) {
      const unsigned hart = hal::Port::hart_index();
      cell(hart).close();
      placed = put_in_cell(cell(hart), object);
      expose(hart);
    }
  }
  if (placed) return;
  Magazine* magazine = (flags_ & cache_flags::kDirect) == 0 ? internal::create_magazine(magazine_rounds_) : nullptr;
  if (magazine == nullptr || !install_empty_and_put(magazine, object)) put_in_slab(object);
}

/// A place in the own magazines, or in an empty one of the depot's, which comes in against the previous. Masked, cell closed.
bool Cache::put_in_cell(Cell& own, void* object) noexcept {
  if (own.put(object)) return true;
  own.misses.fetch_add(1, std::memory_order_relaxed);
  Magazine* empty = depot_.take_empty();
  if (empty == nullptr) return false;
  if (own.prev != nullptr) depot_.give(own.prev);
  own.set_prev(own.load(empty));
  return own.put(object);
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
    if (own.prev != nullptr) depot_.give(own.prev);
    own.set_prev(own.load(magazine));
    placed = own.put(object);
  }
  expose(hart);
  return placed;
}

void Cache::put_in_slab(void* object) noexcept {
  if (object == nullptr) return report(Misuse::kNull, object);  // I6
  if (destructor_ != nullptr && slabs_.is_out(object)) destructor_(object, context_);
  const Status status = slabs_.put(object);
  if (status != Status::kOk) report(status == Status::kNotFound ? Misuse::kDoubleFree : Misuse::kNotAnObject, object);
}

// ---- idle memory ----------------------------------------------------------------------------------------------------

void Cache::detach_magazines(unsigned hart) noexcept {
  Cell& own = cell(hart);
  own.close();
  Magazine* previous = own.prev;
  own.set_prev(nullptr);
  Magazine* loaded = own.load(nullptr);
  if (loaded != nullptr) depot_.give(loaded);
  if (previous != nullptr) depot_.give(previous);
  magazine_harts_.fetch_and(~bit(hart), std::memory_order_seq_cst);
}

Status Cache::drain() noexcept {
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

/// Empties the depot into the slabs.
std::size_t Cache::flush() noexcept {
  std::size_t objects = 0;
  while (Magazine* full = depot_.take_full()) {
    for (std::uint32_t i = 0; i < full->rounds; ++i) put_in_slab(full->slots()[i]);
    objects += full->rounds;
    full->rounds = 0;
    internal::free_magazine(full);
  }
  while (Magazine* empty = depot_.take_empty()) internal::free_magazine(empty);
  return objects;
}

std::size_t Cache::reap() noexcept {
  if (magazine_harts() != 0 && hal::may_wait()) drain();
  const std::size_t before = slabs_.stats().bytes;
  flush();
  slabs_.reap();
  const std::size_t after = slabs_.stats().bytes;
  return before > after ? before - after : 0;
}

// ---- create and destroy ---------------------------------------------------------------------------------------------

Status Cache::initialize(const CacheConfig& config, unsigned harts) noexcept {
  static std::atomic<std::uint32_t> numbers{0};
  Status status = set_name(*this, config.name);
  if (status != Status::kOk) return status;
  flags_ = config.flags;
  constructor_ = config.constructor;
  destructor_ = config.destructor;
  context_ = config.context;
  magazine_rounds_ = internal::magazine_rounds(config.magazine_rounds);
  do {
    number_ = (numbers.fetch_add(1, std::memory_order_relaxed) + 1) & 0xffff;
  } while (number_ == 0);
  SlabConfig slabs;
  slabs.cache = this;
  slabs.source = config.source != nullptr ? config.source : &page_arena();
  slabs.object_size = config.object_size;
  slabs.alignment = config.alignment;
  slabs.no_touch = (config.flags & cache_flags::kNoTouch) != 0;
  slabs.quantum_cache = (config.flags & cache_flags::kQuantumCache) != 0;
  slabs.headers = internal::slab_headers();
  status = slabs_.initialize(slabs);
  if (status != Status::kOk) return status;
  for (unsigned hart = 0; hart < harts; ++hart) new (&cell(hart)) Cell;
  importing_ = !slabs.quantum_cache;
  if (importing_) slabs.source->add_importer();
  return Status::kOk;
}

Cache* Cache::create(const CacheConfig& config, Status* why) noexcept {
  Status status = Status::kNoMemory;
  void* place = internal::allocate_cache();
  Cache* cache = nullptr;
  if (place != nullptr) {
    cache = new (place) Cache;
    status = cache->initialize(config, hart_count());
    if (status == Status::kOk && observer() != nullptr) observer()->created(*cache);
    if (status == Status::kOk) status = registry_add(kRegistryKind, *cache);
    if (status != Status::kOk) {
      cache->abandon();
      cache = nullptr;
    }
  }
  if (cache != nullptr && observer() != nullptr) observer()->created(*cache);
  if (why != nullptr) *why = status;
  return cache;
}

Status Cache::destroy(Cache* cache) noexcept {
  Status status = registry_hide(*cache);
  if (status != Status::kOk) return status;
  status = cache->drain();
  if (status == Status::kOk && cache->stats().in_use != 0) status = Status::kBusy;
  if (status != Status::kOk) {
    registry_show(*cache);
    return status;
  }
  if (observer() != nullptr) observer()->destroyed(*cache);
  cache->flush();
  status = cache->slabs_.destroy();
  if (status != Status::kOk) hal::Port::fatal("cache: objects are out though none is in use");
  registry_remove(*cache);
  cache->abandon();
  return Status::kOk;
}

/// Gives the structure itself back.
void Cache::abandon() noexcept {
  if (importing_) source().remove_importer();
  this->~Cache();
  internal::free_cache(this);
}

// ---- what it says of itself -----------------------------------------------------------------------------------------

CacheStats Cache::stats() noexcept {
  CacheStats stats;
  const SlabStats slabs = slabs_.stats();
  const Depot::Stats depot = depot_.stats();
  for (unsigned hart = 0; hart < hart_count(); ++hart) {
    const Cell& one = cell(hart);
    stats.in_magazines += one.rounds();
    stats.misses += one.misses.load(std::memory_order_relaxed);
    stats.allocations += one.allocs.load(std::memory_order_relaxed);
  }
  stats.object_size = slabs_.object_size();
  stats.objects = slabs.objects_total;
  stats.in_depot = depot.rounds;
  stats.in_slabs = slabs.objects_total - slabs.objects_out;
  const std::size_t idle = stats.in_magazines + stats.in_depot;
  stats.in_use = slabs.objects_out > idle ? slabs.objects_out - idle : 0;
  stats.high_water = slabs.objects_out_high;
  stats.failures = failures_.load(std::memory_order_relaxed);
  stats.misuses = misuses_.load(std::memory_order_relaxed);
  stats.slabs = slabs.slabs;
  stats.slab_bytes = slabs_.slab_bytes();
  stats.depot_full = depot.full;
  stats.depot_empty = depot.empty;
  stats.magazine_rounds = magazine_rounds_;
  return stats;
}

bool Cache::validate() noexcept {
  if (!slabs_.validate()) return false;
  for (unsigned hart = 0; hart < hart_count(); ++hart) {
    const Cell& one = cell(hart);
    const bool open = one.top.load(std::memory_order_relaxed) != closed_address();
    if (open && (magazine_harts() & bit(hart)) == 0) return false;  // C2
    if (!open && one.limit.load(std::memory_order_relaxed) != nullptr) return false;
  }
  const SlabStats slabs = slabs_.stats();
  const CacheStats all = stats();
  return all.in_use + all.in_magazines + all.in_depot == slabs.objects_out;
}

std::uint32_t* Cache::handle(void* object) noexcept {
  Slab* slab = slabs_.find(object);
  if (slab == nullptr) return nullptr;
  // acquire: pairs with the release in adopt_handles(), so that the zeroed words are seen.
  std::uint32_t* handles = slab->handles.load(std::memory_order_acquire);
  const unsigned index = slabs_.index(*slab, object);
  return handles != nullptr && index != SlabLayer::kNoIndex ? handles + index : nullptr;
}

bool Cache::adopt_handles(void* object, std::uint32_t* handles) noexcept {
  Slab* slab = slabs_.find(object);
  std::uint32_t* none = nullptr;
  return slab != nullptr && slab->handles.compare_exchange_strong(none, handles, std::memory_order_acq_rel);
}

}  // namespace qm

void* qm_cache_allocate_slow(qm::Cache* cache, const qm::CallSite* site, std::size_t requested, qm::Effort effort) noexcept {
  qm::Allocation allocation;
  allocation.cache = cache;
  allocation.requested = requested != 0 ? requested : cache->object_size();
  allocation.site = site;
  allocation.frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return cache->allocate_slow(allocation, effort);
}

void qm_cache_free_slow(qm::Cache* cache, void* object) noexcept { cache->free_slow(object); }
