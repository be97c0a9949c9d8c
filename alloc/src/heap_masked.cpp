/// The heap's fast path for a port without the trap-entry hook.

#include <qm/inline_masked.hpp>

#include "size_classes.hpp"

#if defined(QM_CALL_SITES)
void* qm_malloc_at(const qm::CallSite* site, std::size_t size) noexcept {
  const std::size_t step = (size - 1) >> QM_CLASS_STEP_LOG2;  // size 0 is left to the slow half
  if (step < QM_CLASS_STEPS) [[likely]] {
    qm::Cache* cache = qm::heap::cache_of_tag(qm_heap_class_tags[step]);
    void* block = cache != nullptr ? qm::internal::pop_masked(*cache) : nullptr;
    if (block != nullptr) [[likely]]
      return cache->charge(block, site, size);
  }
  return qm_heap_allocate_slow_at(site, size);
}
#else
void* qm_malloc(std::size_t size) noexcept {
  const std::size_t step = (size - 1) >> QM_CLASS_STEP_LOG2;  // size 0 is left to the slow half
  if (step < QM_CLASS_STEPS) [[likely]] {
    qm::Cache* cache = qm::heap::cache_of_tag(qm_heap_class_tags[step]);
    void* object = cache != nullptr ? qm::internal::pop_masked(*cache) : nullptr;
    if (object != nullptr) [[likely]]
      return object;
  }
  return qm_heap_allocate_slow(size);
}
#endif

void qm_free(void* block) noexcept {
  qm::Cache* cache = qm::heap::cache_of_tag(qm::page_map.tag(reinterpret_cast<std::uintptr_t>(block)));
  if constexpr (qm::kCallSites) {
    if (cache != nullptr) cache->discharge(block);
  }
  if (cache != nullptr && qm::internal::push_masked(*cache, block)) [[likely]]
    return;
  qm_heap_free_slow(block);
}
