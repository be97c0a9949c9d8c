// <qm/qm.h>: the system, caches and the heap for C; arenas are in c_arenas.cpp and c_arena_create.cpp, and a cache's
// single allocations in cache/cache_exchange.cpp. The functions only translate arguments and results.

#include <qm/config.h>
#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/hal/broadcast.hpp>
#include <qm/heap.hpp>
#include <qm/system.hpp>

#include "heap/c_status.hpp"

namespace {

using namespace qm;

static_assert(QM_ATOMIC == static_cast<qm_flags>(WaitPolicy::kAtomic) &&
              QM_RECLAIM == static_cast<qm_flags>(WaitPolicy::kReclaim));
static_assert(QM_WAIT == static_cast<qm_flags>(WaitPolicy::kWait) &&
              QM_WAIT_MS(70) == static_cast<qm_flags>(wait_at_most(70)));
static_assert(QM_QUIET == static_cast<qm_flags>(WaitPolicy::kQuiet));
static_assert(QM_NO_TOUCH == cache_flags::kNoTouch && QM_NO_TRACE == cache_flags::kNoTrace &&
              QM_NO_POINTERS == cache_flags::kNoPointers);

}  // namespace

extern "C" {

qm_status qm_init(void* ram, std::size_t bytes) noexcept {
  const MemoryRange range{reinterpret_cast<std::uintptr_t>(ram), bytes};
  const Status status = initialize({&range, 1}, hal::Port::kMaxHarts);
  if (status == Status::kOk) attach_hart(hal::Port::hart_index());
  return c_status_of(status);
}

qm_status qm_add_memory(void* ram, std::size_t bytes) noexcept {
  return c_status_of(add_memory({reinterpret_cast<std::uintptr_t>(ram), bytes}));
}

qm_status qm_attach_hart() noexcept { return c_status_of(attach_hart(hal::Port::hart_index())); }
qm_status qm_detach_hart() noexcept { return c_status_of(detach_hart(hal::Port::hart_index())); }
std::size_t qm_reclaim() noexcept { return reclaim(); }
void qm_shutdown() noexcept { shutdown(); }

void qm_on_ipi() noexcept { hal::on_ipi(hal::Port::hart_index()); }
void qm_trap_enter() noexcept { ++hal::hart_local().trap_depth; }
void qm_trap_leave() noexcept { --hal::hart_local().trap_depth; }

// ---- caches ---------------------------------------------------------------------------------------------------------

qm_cache* qm_cache_create(const char* name, std::size_t size, std::size_t align, std::uint32_t flags, qm_arena* source,
                          qm_constructor ctor, qm_destructor dtor, void* priv) noexcept {
  if ((flags & ~(QM_NO_TOUCH | QM_NO_TRACE | QM_NO_POINTERS)) != 0) return nullptr;
  CacheConfig config;
  config.name = name;
  config.object_size = size;
  config.alignment = align;
  config.flags = flags;
  config.source = source;
  config.constructor = ctor;
  config.destructor = dtor;
  config.context = priv;
  return Cache::create(config);
}

std::size_t qm_cache_alloc_bulk_at(const qm_call_site* site, qm_cache* cache, void** objects, std::size_t count,
                                   qm_flags flags) noexcept {
  if (cache == nullptr || objects == nullptr) return 0;
  return cache->allocate_bulk_at(site, objects, count, WaitPolicy{flags});
}
std::size_t qm_cache_alloc_bulk(qm_cache* cache, void** objects, std::size_t count, qm_flags flags) noexcept {
  if (cache == nullptr || objects == nullptr) return 0;
  return cache->allocate_bulk_at(call_sites::untagged(__builtin_return_address(0)), objects, count, WaitPolicy{flags});
}

void qm_cache_free_bulk(qm_cache* cache, void* const* objects, std::size_t count) noexcept {
  if (cache != nullptr && objects != nullptr) cache->free_bulk(objects, count);
}
qm_status qm_cache_reserve(qm_cache* cache, std::size_t count) noexcept {
  return cache == nullptr ? QM_INVALID : c_status_of(cache->reserve(count));
}
qm_status qm_cache_quarantine(qm_cache* cache, std::size_t bytes) noexcept {
  return cache == nullptr ? QM_INVALID : c_status_of(cache->set_quarantine(bytes));
}
std::size_t qm_cache_reap(qm_cache* cache) noexcept { return cache == nullptr ? 0 : cache->reap(); }
qm_status qm_cache_destroy(qm_cache* cache) noexcept {
  return cache == nullptr ? QM_OK : c_status_of(Cache::destroy(cache));
}

void qm_cache_stats(qm_cache* cache, qm_cache_counts* counts) noexcept {
  if (counts == nullptr) return;
  *counts = {};
  if (cache == nullptr) return;
  const CacheStats stats = cache->stats();
  counts->object_size = stats.object_size;
  counts->objects = stats.objects;
  counts->in_use = stats.in_use;
  counts->in_magazines = stats.in_magazines;
  counts->in_depot = stats.in_depot;
  counts->reserved = stats.reserved;
  counts->quarantined = stats.quarantined;
  counts->in_slabs = stats.in_slabs;
  counts->high_water = stats.high_water;
  counts->failures = stats.failures;
  counts->misuses = stats.misuses;
  counts->slabs = stats.slabs;
  counts->slab_bytes = stats.slab_bytes;
}

// ---- the heap, except qm_malloc() and qm_free(), which are its fast path --------------------------------------------

#if !defined(QM_CALL_SITES)  // otherwise it is the fast path
void* qm_malloc_at(const qm_call_site* site, std::size_t size) noexcept { return heap::allocate_at(site, size); }
#endif
void* qm_calloc_at(const qm_call_site* site, std::size_t count, std::size_t size) noexcept {
  return heap::allocate_zeroed_at(site, count, size);
}
void* qm_calloc(std::size_t count, std::size_t size) noexcept {
  return heap::allocate_zeroed_at(call_sites::untagged(__builtin_return_address(0)), count, size);
}
void* qm_realloc_at(const qm_call_site* site, void* block, std::size_t size) noexcept {
  return heap::reallocate_at(site, block, size);
}
void* qm_realloc(void* block, std::size_t size) noexcept {
  return block != nullptr ? heap::reallocate(block, size)
                          : heap::allocate_at(call_sites::untagged(__builtin_return_address(0)), size);
}
void* qm_aligned_alloc_at(const qm_call_site* site, std::size_t alignment, std::size_t size) noexcept {
  return heap::allocate_aligned_at(site, alignment, size);
}
void* qm_aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return heap::allocate_aligned_at(call_sites::untagged(__builtin_return_address(0)), alignment, size);
}
void qm_free_sized(void* block, std::size_t size) noexcept { heap::free_sized(block, size); }
std::size_t qm_usable_size(const void* block) noexcept { return heap::usable_size(block); }

}  // extern "C"
