/// `kpages`, linked into programs that call page_arena().

#include <new>

#include <qm/arena.hpp>
#include <qm/qm.h>
#include <qm/system.hpp>

namespace qm {
namespace {

constexpr std::size_t kQuantumCacheMax = 8192;

constinit Arena pages;

}  // namespace

Status internal::initialize_page_arena() noexcept {
  const bool has_caches = base_arena().stats().total >= internal::kLeastToPrepareCaches;
  // Constructed anew: shutdown() leaves it as it was.
  return (new (&pages) Arena)
      ->initialize({.name = "kpages", .source = &base_arena(), .quantum_cache_max = has_caches ? kQuantumCacheMax : 0});
}

Arena& page_arena() noexcept { return pages; }

}  // namespace qm

qm_arena* qm_page_arena() noexcept { return qm::hart_count() != 0 ? &qm::page_arena() : nullptr; }
