/// The fast path for a port without the trap-entry hook: the same cells, words and rounds, with interrupts masked around the
/// pop and the push in place of restartable sections.

#include <qm/cache.hpp>
#include <qm/rewind.hpp>

namespace {

void* pop(qm::Cache* cache) noexcept {
  const qm::hal::InterruptGuard masked;
  qm::Cell& cell = cache->cell(qm::hal::Port::hart_index());
  void** top = cell.top.load(std::memory_order_relaxed);
  void* object = top[-1];
  if (object == nullptr) return nullptr;
  cell.top.store(top - 1, std::memory_order_relaxed);
  if constexpr (qm::kCounted) {
    cell.allocs.store(cell.allocs.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  return object;
}

bool push(qm::Cache* cache, void* object) noexcept {
  const qm::hal::InterruptGuard masked;
  qm::Cell& cell = cache->cell(qm::hal::Port::hart_index());
  void** top = cell.top.load(std::memory_order_relaxed);
  if (top >= cell.limit.load(std::memory_order_relaxed)) return false;
  *top = object;
  cell.top.store(top + 1, std::memory_order_relaxed);
  return true;
}

}  // namespace

void* qm_cache_allocate(qm::Cache* cache) noexcept {
  void* object = pop(cache);
  return object != nullptr ? object : qm_cache_allocate_slow(cache, nullptr, 0, qm::Effort::kAuto);
}

void* qm_cache_allocate_at(qm::Cache* cache, const qm::CallSite* site, std::size_t requested, qm::Effort effort) noexcept {
  void* object = pop(cache);
  return object != nullptr ? object : qm_cache_allocate_slow(cache, site, requested, effort);
}

void qm_cache_free(qm::Cache* cache, void* object) noexcept {
  if (!push(cache, object)) qm_cache_free_slow(cache, object);
}

std::uintptr_t qm_rewind(std::uintptr_t pc, const std::uintptr_t*) noexcept { return pc; }
