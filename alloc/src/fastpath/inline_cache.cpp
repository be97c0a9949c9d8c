#include <qm/inline_cache.hpp>

#include <qm/rewind.hpp>

namespace qm::internal {

/// Whether an inlined cache may be created.
Status prepare_inlined(const std::atomic<Cache*>& cache, std::uintptr_t hart_cache_pointer) noexcept {
  if (cache.load(std::memory_order_relaxed) != nullptr) return Status::kBusy;
  if (hart_cache_pointer > kNoHartCachePointer) return Status::kInvalid;  // 64 KiB of hart-locals lie before it
  if (!inlined_sections_in_order()) hal::Port::fatal("the linker has not sorted qm_sections as the text");
  return Status::kOk;
}

Status destroy_inlined(std::atomic<Cache*>& cache) noexcept {
  Cache* made = cache.load(std::memory_order_acquire);
  if (made == nullptr) return Status::kNotFound;
  const Status status = Cache::destroy(made);
  if (status == Status::kOk) cache.store(nullptr, std::memory_order_relaxed);
  return status;
}

void forget_inlined(std::atomic<Cache*>& cache, std::uintptr_t hart_cache_pointer) noexcept {
  cache.store(nullptr, std::memory_order_relaxed);
  const hal::InterruptGuard masked;
  if (hart_cache_pointer < kNoHartCachePointer)
    set_hart_cache_pointer(static_cast<std::uint16_t>(hart_cache_pointer), closed_hart_cache());
}

void* allocate_inlined_slow(const std::atomic<Cache*>& cache, const CallSite* site, WaitPolicy wait_policy) noexcept {
  Cache* made = cache.load(std::memory_order_acquire);
  return made != nullptr ? qm_cache_allocate_slow(made, site, 0, wait_policy) : nullptr;
}

void free_inlined_slow(const std::atomic<Cache*>& cache, void* object) noexcept {
  Cache* made = cache.load(std::memory_order_acquire);
  if (made == nullptr) hal::Port::fatal("an object is freed to an inlined cache that does not exist");
  qm_cache_free_slow(made, object);
}

}  // namespace qm::internal
