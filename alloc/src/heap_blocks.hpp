#pragma once
/// Blocks of the heap, for its slow halves: in heap.cpp, and where the fast path goes on (heap_entry.cpp).

#include <cstddef>

#include <qm/cache.hpp>

namespace qm::heap {

/// An object of class @p number, or a large block, which also serves where a class cannot be had.
[[nodiscard]] void* allocate_in(unsigned number, const CallSite* site, std::size_t size, Effort effort) noexcept;

/// Frees what is in no slab of the heap: a large block; null is ignored, and anything else told.
void free_large(void* block) noexcept;

/// Frees an object of a class's cache, and takes back whole what is charged for it.
[[gnu::always_inline]] inline void give(Cache& cache, void* block) noexcept {
  if constexpr (kCallSites) cache.discharge(block);
  cache.free(block);
}

/// Frees a block in a slab of @p cache, or what is in none. By the cache's fast path: the heap's may not know the
/// block's leaf.
[[gnu::always_inline]] inline void free_in(Cache* cache, void* block) noexcept {
  if (cache != nullptr) return give(*cache, block);
  free_large(block);
}

}  // namespace qm::heap
