/// How a cache is created and destroyed.

#include <cstring>
#include <new>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/detail/checked.hpp>
#include <qm/fault.hpp>
#include <qm/guards.hpp>
#include <qm/system.hpp>

namespace qm {

/// Whether the cache's name is that of a size class.
static NameOf name_of(const CacheConfig& config) noexcept {
  return config.heap_class != 0 ? NameOf::kSizeClass : NameOf::kAny;
}

Status Cache::initialize(const CacheConfig& config, const NoTouchCalls* no_touch, unsigned harts) noexcept {
  static std::atomic<std::uint32_t> numbers{0};
  const char* name = config.name;
  if ((config.flags & cache_flags::kQuantumCache) != 0) {
    CacheExtra* extra = need_extra();
    if (extra == nullptr) return Status::kNoMemory;
    name = static_cast<const char*>(std::memcpy(extra->name, name, kNameBytes));
  }
  Status status = set_name(*this, name, name_of(config));
  if (status != Status::kOk) return status;
  flags_ = static_cast<std::uint8_t>(config.flags);
  no_trace_ = (config.flags & cache_flags::kNoTrace) != 0;
  hart_cache_pointer_ = config.hart_cache_pointer;
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
      cache_flags::kNoMagazines | cache_flags::kNoTrace;  // both flags: one of the allocator's own caches
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
  if (config.limit != 0) status = set_limit(config.limit, config.limit_callback);
  if (status != Status::kOk) return status;
  for (unsigned hart = 0; hart < harts; ++hart) new (&reinterpret_cast<HartPart*>(this + 1)[hart]) HartPart;
  if (!slabs.quantum_cache) slabs.source->add_importer();
  return Status::kOk;
}

Cache* Cache::create(const CacheConfig& config, const NoTouchCalls* no_touch, Status* why) noexcept {
  const unsigned harts = hart_count();
  Status status = harts != 0 ? Status::kNoMemory : Status::kInvalid;
  void* place = harts != 0 ? internal::allocate_cache() : nullptr;
  Cache* cache = nullptr;
  if (place != nullptr) {
    cache = new (place) Cache;
    status = cache->initialize(config, no_touch, harts);
    if (status != Status::kOk) {
      cache->free_extra();
      internal::free_cache(place);
      cache = nullptr;
    }
  }
  if (cache != nullptr) {
    status = registry_add(kRegistryKind, *cache, name_of(config));
    if (status != Status::kOk) {
      cache->abandon();
      cache = nullptr;
    }
  }
  if (cache != nullptr && observer() != nullptr) observer()->created(*cache);
  if (const guards::internal::Calls* guards = guards::internal::linked(); cache != nullptr && guards != nullptr)
    guards->created(*cache);
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
    flush();  // first: an object freed twice and still in a magazine would hide a live object
    const CacheExtra* extra = this->extra();
    const std::size_t out =
        slabs_.objects_out() - (extra != nullptr ? extra->reserve.held() : 0);  // magazines are empty
    const guards::internal::Calls* const guards = guards::internal::linked();
    if (out != 0 || (guards != nullptr && guards->holds(*this))) status = Status::kBusy;
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
  if (cache->quarantine() != nullptr) quarantine_calls().end(*cache);
  if (cache->slabs_.destroy() != Status::kOk) hal::Port::fatal("cache: objects are out though none is in use");
  registry_remove(kRegistryKind, *cache);
  cache->abandon();
}

/// Frees the structure itself. Its per-hart caches stay closed, and nothing in it needs a destructor. So a use after
/// the end takes the slow path, which reports it, as long as the memory is not allocated again.
void Cache::abandon() noexcept {
  if ((flags_ & cache_flags::kQuantumCache) == 0) source().remove_importer();
  std::atomic_ref(number_).store(0, std::memory_order_relaxed);  // is_dead() for a slow path after the end
  free_extra();
  internal::free_cache(this);
}

}  // namespace qm
