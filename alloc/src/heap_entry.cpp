/// Where the heap's fast path goes on: what jumps, as the slow halves of a cache do (QM_JUMPS() in observer.hpp).

#include <qm/config.h>
#include <qm/heap.hpp>
#include <qm/observer.hpp>
#include <qm/page_map.hpp>

#include "heap_blocks.hpp"
#include "size_classes.hpp"

namespace qm::heap {

void* reallocate(void* block, std::size_t size) noexcept {
  QM_JUMPS();
  const CallSite* site = nullptr;
  if constexpr (kCallSites) site = block != nullptr ? site_of(block) : call_sites::untagged();
  return reallocate_at(site, block, size);
}

}  // namespace qm::heap

#if defined(QM_CALL_SITES)
void* qm_heap_allocate_slow_at(const qm::CallSite* site, std::size_t size) noexcept {
#else
void* qm_heap_allocate_slow(std::size_t size) noexcept {
  constexpr const qm::CallSite* site = nullptr;
#endif
  QM_JUMPS();
  // Above the table - and there is size 0 - the section does not know the class: its magazine is still to be tried.
  const std::size_t step = (size - 1) >> QM_CLASS_STEP_LOG2;
  qm::Cache* const cache = step < QM_CLASS_STEPS ? qm::heap::cache_of_tag(qm_heap_class_tags[step]) : nullptr;
  if (cache == nullptr) return qm::heap::allocate_in(qm::heap::class_of(size), site, size, qm::Effort::kAuto);
  return qm_cache_allocate_slow(cache, site, size, qm::Effort::kAuto);
}

void qm_heap_free_slow(void* block) noexcept {
  QM_JUMPS();
  qm::heap::free_in(qm::heap::cache_of(block), block);
}
