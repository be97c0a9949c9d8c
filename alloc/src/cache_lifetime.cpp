/// How a cache comes and goes.

#include <cstring>
#include <new>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/checked.hpp>
#include <qm/fault.hpp>
#include <qm/system.hpp>

namespace qm {

Status Cache::initialize(const CacheConfig& config, const UntouchedCalls* no_touch, unsigned harts) noexcept {
  static std::atomic<std::uint32_t> numbers{0};
  const char* name = config.name;
  if ((config.flags & cache_flags::kQuantumCache) != 0) {
    CacheExtra* extra = need_extra();
    if (extra == nullptr) return Status::kNoMemory;
    name = static_cast<const char*>(std::memcpy(extra->name, name, kNameBytes));
  }
  Status status = set_name(*this, name);
  if (status != Status::kOk) return status;
  flags_ = static_cast<std::uint8_t>(config.flags);
  no_trace_ = (config.flags & cache_flags::kNoTrace) != 0;
  cell_pointer_ = config.cell_pointer;
  do {
    number_ = static_cast<std::uint16_t>(numbers.fetch_add(1, std::memory_order_relaxed) + 1);
  } while (number_ == 0);
  SlabConfig slabs;
  slabs.source = config.source != nullptr ? config.source : &base_arena();
  slabs.object_size = config.object_size;
  slabs.alignment = config.alignment;
  slabs.no_touch = no_touch;
  slabs.quantum_cache = (config.flags & cache_flags::kQuantumCache) != 0;
  constexpr std::uint32_t kOwn =
      cache_flags::kDirect | cache_flags::kNoTrace;  // with both: nobody's but the allocator's
  if constexpr (kCallSites) slabs.tagged = no_touch == nullptr && (config.flags & kOwn) != kOwn;
  slabs.heap_class = config.heap_class;
  slabs.least_slab = config.least_slab;
  status = slabs_.initialize(slabs);
  if (status != Status::kOk) return status;
  if constexpr (kCallSites) {
    if (slabs.tagged) charge_.set(slabs_.object_size(), config.heap_class != 0);
  }
  depot_.initialize(slabs_.object_size(), config.magazine_rounds);
  if (config.constructor != nullptr || config.destructor != nullptr || config.context != nullptr) {
    CacheExtra* extra = need_extra();
    if (extra == nullptr) return Status::kNoMemory;
    extra->constructor = config.constructor;
    extra->destructor = config.destructor;
    extra->context = config.context;
  }
  status = set_limit(config.limit, config.limit_callback);
  if (status != Status::kOk) return status;
  for (unsigned hart = 0; hart < harts; ++hart) new (&reinterpret_cast<HartPart*>(this + 1)[hart]) HartPart;
  if (!slabs.quantum_cache) slabs.source->add_importer();
  return Status::kOk;
}

Cache* Cache::create(const CacheConfig& config, const UntouchedCalls* no_touch, Status* why) noexcept {
  Status status = hart_count() != 0 ? Status::kNoMemory : Status::kInvalid;
  void* place = hart_count() != 0 ? internal::allocate_cache() : nullptr;
  Cache* cache = nullptr;
  if (place != nullptr) {
    cache = new (place) Cache;
    status = cache->initialize(config, no_touch, hart_count());
    if (status != Status::kOk) {
      cache->free_extra();
      internal::free_cache(place);
      cache = nullptr;
    }
  }
  if (cache != nullptr) {
    status = registry_add(kRegistryKind, *cache);
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
  const Status status = cache->retire();
  if (status == Status::kOk) end(cache);
  return status;
}

Status Cache::retire() noexcept {
  if (!registry_has(kRegistryKind, *this)) return Status::kNotFound;
  Status status = registry_hide(*this);
  if (status != Status::kOk) return status;
  status = drain();
  if (status == Status::kOk) {
    flush();  // first: a round that was freed twice would hide an object that is out
    const CacheExtra* extra = this->extra();
    const std::size_t out =
        slabs_.objects_out() - (extra != nullptr ? extra->reserve.held() : 0);  // magazines are empty
    if (out != 0) status = Status::kBusy;
    if constexpr (kChecked) {
      if (out != 0) checked::report_holders(*this, out);
    }
  }
  if (status != Status::kOk) registry_show(*this);
  return status;
}

void Cache::end(Cache* cache) noexcept {
  if (observer() != nullptr) observer()->destroyed(*cache);
  fault::forget(*cache);
  cache->end_reserve();
  if (cache->slabs_.destroy() != Status::kOk) hal::Port::fatal("cache: objects are out though none is in use");
  registry_remove(kRegistryKind, *cache);
  cache->abandon();
}

/// Gives the structure itself back. Its cells stay closed, and nothing in it needs a destructor: what is used after the
/// end takes the slow path and is told, while nobody else has the place.
void Cache::abandon() noexcept {
  if ((flags_ & cache_flags::kQuantumCache) == 0) source().remove_importer();
  std::atomic_ref(number_).store(0, std::memory_order_relaxed);  // for a slow path that comes after the end: is_dead()
  free_extra();
  internal::free_cache(this);
}

}  // namespace qm
