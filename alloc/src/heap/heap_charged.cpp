/// malloc in a build with call sites, for a caller that gives none.

#include <qm/heap.hpp>

void* qm_malloc(std::size_t size) noexcept {
  return qm_malloc_at(qm::call_sites::untagged(__builtin_return_address(0)), size);
}
