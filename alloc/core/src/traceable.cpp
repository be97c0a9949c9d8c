/// What only builds with the trace have.

#include <qm/traceable.hpp>

#include <qm/cache.hpp>

namespace qm {

constinit Observer* observer = nullptr;
constinit std::atomic<std::uint8_t> source_states[kMaxSources];

void Cache::for_each(void (*visit)(Cache& cache, void* context) noexcept, void* context) noexcept {
  const LockGuard hold(list_lock_);
  for (Cache* cache = list_; cache != nullptr; cache = cache->next_) visit(*cache, context);
}

}  // namespace qm
