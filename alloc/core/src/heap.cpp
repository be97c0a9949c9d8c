/// The heap of the core form: size classes over caches, each made by its first allocation, and `kheap` above them.

#include <qm/config.h>
#include <qm/heap.hpp>

#include <cstring>

#include <qm/arena.hpp>
#include <qm/bits.hpp>
#include <qm/cache.hpp>
#include <qm/qm.h>
#include <qm/system.hpp>
#include <qm/traceable.hpp>

namespace qm::heap {
namespace {

// Classes, by number from 1 on: to 256 in steps of 16, to 512 of 32, to kMaxClassBytes of 64.
constexpr unsigned kClasses = 34;

/// The number of the class that serves @p size bytes; 0 if none does. Size 0 counts as 1.
unsigned class_of(std::size_t size) noexcept {
  if (size == 0) return 1;
  if (size <= 256) return static_cast<unsigned>((size + 15) / 16);
  if (size <= 512) return static_cast<unsigned>((size + 31) / 32) + 8;
  return size <= kMaxClassBytes ? static_cast<unsigned>((size + 63) / 64) + 16 : 0;
}

/// The same of those whose objects lie at multiples of @p alignment, a power of two: whose size is one.
unsigned class_of(std::size_t size, std::size_t alignment) noexcept {
  unsigned number = class_of(size);
  while (number != 0 && class_bytes(number) % alignment != 0) number = (number + 1) % kClasses;
  return number;
}

constinit Arena large;  // `kheap`
constinit std::atomic<Cache*> classes[kClasses];
constinit std::atomic<std::uint32_t> refused_frees{0};
/// Of all blocks: of those in slabs here, while the classes' caches are not traced; of large ones in `kheap`.
[[maybe_unused]] constinit Traceable source(kHeapSource);

void refuse() noexcept { refused_frees.fetch_add(1, std::memory_order_relaxed); }

Cache* cache_of(unsigned number) noexcept {
  return classes[number].load(std::memory_order_acquire);  // pairs with the release in create_class()
}

/// The class's cache, made if there is none yet. @returns nullptr if there is no memory.
Cache* create_class(unsigned number) noexcept {
  Cache* present = cache_of(number);
  if (present != nullptr) return present;
  CacheConfig config;
  config.object_size = class_bytes(number);
  if constexpr (kTraced) config.flags = cache_flags::kNoTrace;
  config.alignment = config.object_size & (~config.object_size + 1);  // what its multiples are aligned to
  Cache* const cache = Cache::create(config);
  if (cache == nullptr) return nullptr;
  if (classes[number].compare_exchange_strong(present, cache, std::memory_order_acq_rel)) return cache;
  Cache::destroy(cache);  // another hart was faster
  return present;
}

/// The class's cache of a block in a slab of the heap's; nullptr of everything else.
Cache* owner_of(const void* block) noexcept {
  Cache* const cache = Cache::of(block);
  return cache != nullptr && cache == cache_of(class_of(cache->object_size())) ? cache : nullptr;
}

void* allocate_large(std::size_t size, std::size_t alignment) noexcept {
  if (size == 0) size = 1;
  std::uintptr_t start = large.allocate_aligned(size, alignment);
  if (start == 0 && reclaim() != 0) start = large.allocate_aligned(size, alignment);
  return reinterpret_cast<void*>(start);
}

/// An object of class @p number; of class 0, and where the class cannot be had, a large block.
void* allocate_in(unsigned number, std::size_t size, std::size_t alignment) noexcept {
  if (large.quantum() == 0) return nullptr;  // before initialize()
  Cache* const cache = number != 0 ? create_class(number) : nullptr;
  if (cache == nullptr) return allocate_large(size, alignment);
  void* const block = cache->allocate();
  source.taken(reinterpret_cast<std::uintptr_t>(block), size);
  return block;
}

/// Frees @p block, or says that it is none. @param[in] size 0: not known.
void free_block(void* block, std::size_t size, unsigned number) noexcept {
  if (block == nullptr) return;
  if (Cache* const cache = owner_of(block); cache != nullptr) {
    if (size != 0 && cache != cache_of(number)) return refuse();
    source.going(reinterpret_cast<std::uintptr_t>(block));
    return cache->free(block);
  }
  const std::size_t bytes = size != 0 ? size : Arena::kAnySize;
  if (large.free(reinterpret_cast<std::uintptr_t>(block), bytes) != Status::kOk) refuse();
}

}  // namespace

Status initialize() noexcept {
  shutdown();
  refused_frees.store(0, std::memory_order_relaxed);
  large.traceable().set_number(kHeapSource);
  return large.initialize(
      {.name = "kheap", .quantum = kLargeQuantum, .source = &base_arena(), .minimum_import = kLargeImport});
}

void shutdown() noexcept {
  for (auto& one : classes) one.store(nullptr, std::memory_order_relaxed);
  large.reset();
}

#if defined(QM_TRACED)
Traceable& traceable() noexcept { return source; }

std::size_t blocks_out() noexcept {
  std::size_t blocks = large.stats().segments_allocated;
  for (unsigned number = 1; number != kClasses; ++number) {
    if (Cache* const cache = cache_of(number); cache != nullptr) blocks += cache->in_use();
  }
  return blocks;
}
#endif

std::size_t misuses() noexcept { return refused_frees.load(std::memory_order_relaxed); }

std::size_t class_bytes(unsigned number) noexcept {
  if (number <= 16) return number * 16;
  if (number <= 24) return (number - 8) * 32;
  return number < kClasses ? (number - 16) * 64 : 0;
}

void* allocate_at(const CallSite*, std::size_t size, Effort) noexcept { return qm_malloc(size); }

void* allocate_zeroed_at(const CallSite*, std::size_t count, std::size_t size) noexcept {
  std::size_t bytes = 0;
  void* const block = __builtin_mul_overflow(count, size, &bytes) ? nullptr : qm_malloc(bytes);
  return block != nullptr ? std::memset(block, 0, bytes) : nullptr;
}

void* allocate_aligned_at(const CallSite*, std::size_t alignment, std::size_t size) noexcept {
  return is_power_of_two(alignment) ? allocate_in(class_of(size, alignment), size, alignment) : nullptr;
}

std::size_t usable_size(const void* block) noexcept {
  if (Cache* const cache = owner_of(block); cache != nullptr) return cache->has_out(block) ? cache->object_size() : 0;
  return large.size_of(reinterpret_cast<std::uintptr_t>(block));
}

void* reallocate_at(const CallSite*, void* block, std::size_t size) noexcept {
  if (block == nullptr) return qm_malloc(size);
  const std::size_t old = usable_size(block);
  if (old == 0) {
    refuse();
    return nullptr;
  }
  const unsigned number = class_of(size);
  const unsigned before = owner_of(block) != nullptr ? class_of(old) : 0;
  if (number == before) {
    if (number != 0) {
      source.resized(reinterpret_cast<std::uintptr_t>(block), size);
      return block;
    }
    if (large.resize_in_place(reinterpret_cast<std::uintptr_t>(block), old, size) == Status::kOk) return block;
  }
  void* const moved = qm_malloc(size);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, block, old < size ? old : size);
  qm_free(block);
  return moved;
}

void* reallocate(void* block, std::size_t size) noexcept { return reallocate_at(nullptr, block, size); }

const CallSite* site_of(void*) noexcept { return nullptr; }

void free_sized(void* block, std::size_t size, std::size_t alignment) noexcept {
  free_block(block, size != 0 ? size : 1, class_of(size, alignment));
}

}  // namespace qm::heap

void* qm_malloc(std::size_t size) noexcept {
  return qm::heap::allocate_in(qm::heap::class_of(size), size, qm::heap::kAlignment);
}

void qm_free(void* block) noexcept { qm::heap::free_block(block, 0, 0); }
