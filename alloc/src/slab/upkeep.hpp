#pragma once
/// Upkeep: an operation prepares what a later operation would have to make. An operation that could fill a magazine
/// from the slabs does the piece that is due, if one is, takes a single object, and leaves the magazine to the next
/// operation. So no operation does more than one costly step. The pages that base needs for itself, for boundary tags
/// or the page map, cost more: an allocation of an existing block of the heap leaves time for them. Without magazines
/// there is no upkeep.

#include <atomic>
#include <cstdint>

#include <qm/detail/page_map.hpp>
#include <qm/detail/slab.hpp>

#include "segments/boundary_tag_pool.hpp"
#include "slab/extents.hpp"

namespace qm::upkeep {

/// What is due: nothing, an extent, or a slab of the layer with this address. A hint: if two pieces are due, the later
/// one stays. The other is requested again, or made by the operation that needs it.
enum Piece : std::uintptr_t { kNothing, kExtent };
inline constinit std::atomic<std::uintptr_t> due{kNothing};
/// Whether pages may be due.
inline constinit std::atomic<std::uint32_t> pages_due{0};

[[nodiscard]] inline bool is_due() noexcept { return due.load(std::memory_order_relaxed) != kNothing; }
inline void want_nothing() noexcept {
  due.store(kNothing, std::memory_order_relaxed);
  pages_due.store(0, std::memory_order_relaxed);
}
inline void want_extent() noexcept { due.store(kExtent, std::memory_order_relaxed); }
inline void want_slab(SlabLayer& layer) noexcept {
  due.store(reinterpret_cast<std::uintptr_t>(&layer), std::memory_order_relaxed);
}
inline void want_pages() noexcept { pages_due.store(1, std::memory_order_relaxed); }

/// Does the piece that is due if it is still needed. A piece that fails is not due again. Complexity: constant.
/// Context: any, no lock held.
inline void run() noexcept {
  const std::uintptr_t piece = due.load(std::memory_order_relaxed);
  due.store(kNothing, std::memory_order_relaxed);
  if (piece > kExtent) return reinterpret_cast<SlabLayer*>(piece)->prepare();
  if (piece == kExtent) Extents::prepare();
}

/// Does the piece that is due; if none is, makes one of the pages that are due. Complexity, context: as run().
inline void run_long() noexcept {
  if (is_due()) return run();
  if (pages_due.load(std::memory_order_relaxed) == 0) return;
  if (boundary_tag_pool.prepare() || (page_map.prepares_next() && page_map.prepare())) return;
  pages_due.store(0, std::memory_order_relaxed);
}

}  // namespace qm::upkeep
