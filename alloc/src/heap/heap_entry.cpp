/// Where the heap's fast path continues: functions that jump, as the slow halves of a cache do (QM_JUMPS() in
/// observer.hpp).

#include <qm/config.h>
#include <qm/heap.hpp>
#include <qm/detail/observer.hpp>
#include <qm/detail/page_map.hpp>

#include "heap/heap_blocks.hpp"
#include "heap/size_classes.hpp"

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
  // The section does not know the class of a size above the table, nor of size 0: the magazine has yet to be tried.
  const std::size_t step = (size - 1) >> QM_CLASS_STEP_LOG2;
  qm::Cache* const cache = step < QM_CLASS_STEPS ? qm::heap::cache_of_tag(qm_heap_class_tags[step]) : nullptr;
  if (cache == nullptr) return qm::heap::allocate_in(qm::heap::class_of(size), site, size, qm::WaitPolicy::kAuto);
  return qm_cache_allocate_slow(cache, site, size, qm::WaitPolicy::kAuto);
}

void qm_heap_free_slow(void* block) noexcept {
  QM_JUMPS();
  qm::heap::free_in(qm::heap::cache_of(block), block);
}
