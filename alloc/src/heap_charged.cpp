/// The heap's face for C in a build with call sites: blocks are charged, so both go through the class's cache.

#include <qm/heap.hpp>

void* qm_malloc(std::size_t size) noexcept {
  return qm::heap::allocate_at(qm::call_sites::untagged(__builtin_return_address(0)), size);
}

void qm_free(void* block) noexcept { qm_heap_free_slow(block); }
