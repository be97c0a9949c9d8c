/// The fast path for a port without the trap-entry hook: inline_masked.hpp out of line.

#include <qm/config.h>
#include <qm/detail/inline_masked.hpp>
#include <qm/rewind.hpp>

#if defined(QM_CALL_SITES)
void* qm_cache_allocate(qm::Cache* cache, const qm::CallSite* site) noexcept {
  return qm_cache_allocate_at(cache, site, 0, qm::WaitPolicy::kAuto);
}
#else
void* qm_cache_allocate(qm::Cache* cache) noexcept {
  void* object = qm::internal::pop_masked(*cache);
  if (object != nullptr) [[likely]]
    return object;
  return qm_cache_allocate_slow(cache, nullptr, 0, qm::WaitPolicy::kAuto);
}
#endif

void* qm_cache_allocate_at(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                           qm::WaitPolicy wait_policy) noexcept {
  void* object = qm::internal::pop_masked(*cache);
  if (object != nullptr) [[likely]]
    return qm::kCallSites ? cache->charge(object, site, requested) : object;
  return qm_cache_allocate_slow(cache, site, requested, wait_policy);
}

void qm_cache_free(qm::Cache* cache, void* object) noexcept {
  if constexpr (qm::kCallSites) cache->discharge(object);
  if (!qm::internal::push_masked(*cache, object)) [[unlikely]]
    qm_cache_free_slow(cache, object);
}

std::uintptr_t qm_rewind_from(std::uintptr_t pc, const std::uintptr_t*) noexcept { return pc; }
bool qm::inlined_sections_in_order() noexcept { return true; }
void qm::internal::set_hart_cache_pointer(std::uint16_t, HartCache*) noexcept {}
std::uint16_t qm::internal::heap_hart_cache_pointer(std::uint8_t) noexcept { return kNoHartCachePointer; }
