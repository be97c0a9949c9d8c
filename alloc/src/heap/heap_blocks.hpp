#pragma once
/// Blocks of the heap, for its slow halves: in heap.cpp, and where the fast path continues (heap_entry.cpp).

#include <cstddef>

#include <qm/cache.hpp>

namespace qm::heap {

/// Allocates an object of class @p number, or a large block, also if the class has no cache.
[[nodiscard]] void* allocate_in(unsigned number, const CallSite* site, std::size_t size,
                                WaitPolicy wait_policy) noexcept;

/// Frees a block that lies in no slab of the heap: a large block. Null is ignored, and any other address is reported.
void free_large(void* block) noexcept;

/// Frees an object of a class's cache, and discharges all that was charged for it.
[[gnu::always_inline]] inline void give(Cache& cache, void* block) noexcept {
  if constexpr (kCallSites) cache.discharge(block);
  cache.free(block);
}

/// Frees a block in a slab of @p cache, or one in no slab. It uses the cache's fast path: the heap's may not know the
/// block's page-map leaf.
[[gnu::always_inline]] inline void free_in(Cache* cache, void* block) noexcept {
  if (cache != nullptr) return give(*cache, block);
  free_large(block);
}

}  // namespace qm::heap
