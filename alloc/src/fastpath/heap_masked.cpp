/// The heap's fast path for a port without the trap-entry hook.

#include <qm/config.h>
#include <qm/detail/inline_masked.hpp>

#include "heap/size_classes.hpp"

namespace {

/// The cache of the class that serves @p size bytes; nullptr for sizes of the slow half: those that the table does not
/// know, 0 included, and those of a class whose cache is not made yet.
[[gnu::always_inline]] inline qm::Cache* cache_for(std::size_t size) noexcept {
  const std::size_t last = size - 1;
  if (last >= QM_CLASS_STEPS * qm::heap::kClassStep) [[unlikely]]
    return nullptr;
  return qm::heap::cache_of_tag(qm_heap_class_tags[last >> QM_CLASS_STEP_LOG2]);
}

/// The page-map leaf of this hart's latest free, as heap_sections.S remembers it. It is one word, so an interrupt, or a
/// task that continues on another hart, never leaves a half-written one: leaves do not change. If each free looked its
/// leaf up, a pair of mixed sizes would take 8.5 ns instead of 7.9 ns on the host.
using LatestLeaf = std::atomic<const qm::PageMap::Leaf*>;
#if defined(QM_TP) || !defined(QM_TARGET)
constinit thread_local LatestLeaf own_latest_leaf{qm::PageMap::no_leaf()};
[[gnu::always_inline]] inline LatestLeaf& latest_leaf() noexcept { return own_latest_leaf; }
#else
struct OfHart {
  LatestLeaf leaf{qm::PageMap::no_leaf()};
};
constinit OfHart latest_leaves[qm::hal::Port::kMaxHarts];
[[gnu::always_inline]] inline LatestLeaf& latest_leaf() noexcept {
  return latest_leaves[qm::hal::Port::hart_index()].leaf;
}
#endif

/// Frees a block that is not in the latest leaf.
[[gnu::noinline]] void free_in_other_leaf(void* block) noexcept {
  const qm::PageMap::Leaf* leaf = qm::page_map.leaf_of(reinterpret_cast<std::uintptr_t>(block));
  if (leaf == nullptr) return qm_heap_free_slow(block);
  latest_leaf().store(leaf, std::memory_order_relaxed);
  qm_free(block);
}

}  // namespace

#if defined(QM_CALL_SITES)
void* qm_malloc_at(const qm::CallSite* site, std::size_t size) noexcept {
  qm::Cache* cache = cache_for(size);
  void* block = cache != nullptr ? qm::internal::pop_masked(*cache) : nullptr;
  if (block != nullptr) [[likely]]
    return cache->charge(block, site, size);
  return qm_heap_allocate_slow_at(site, size);
}
#else
void* qm_malloc(std::size_t size) noexcept {
  qm::Cache* cache = cache_for(size);
  void* block = cache != nullptr ? qm::internal::pop_masked(*cache) : nullptr;
  if (block != nullptr) [[likely]]
    return block;
  return qm_heap_allocate_slow(size);
}
#endif

void qm_free(void* block) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  const qm::PageMap::Leaf* const leaf = latest_leaf().load(std::memory_order_relaxed);
  if (!leaf->has(address)) [[unlikely]]
    return free_in_other_leaf(block);
  qm::Cache* cache = qm::heap::cache_of_tag(leaf->tag(address));
  if constexpr (qm::kCallSites) {
    if (cache != nullptr) cache->discharge(block);
  }
  if (cache != nullptr && qm::internal::push_masked(*cache, block)) [[likely]]
    return;
  qm_heap_free_slow(block);
}

void qm::internal::reset_heap_pointers() noexcept {
  latest_leaf().store(qm::PageMap::no_leaf(), std::memory_order_relaxed);
}
