#pragma once
/// Upkeep: what the next operation that makes something would need, had ready by an earlier one. An operation that could
/// fill a magazine from the slabs does the piece that is due, if one is, takes a single object, and leaves the magazine to
/// the next: so none pays for more than one costly thing.

#include <atomic>
#include <cstdint>

#include <qm/slab.hpp>

#include "extents.hpp"

namespace qm::upkeep {

/// What is due: nothing, an extent, or a slab of the layer with this address. A hint: where two pieces are due the later
/// stays, and the other is seen to be wanted again, or made by who needs it.
enum Piece : std::uintptr_t { kNothing, kExtent };
inline constinit std::atomic<std::uintptr_t> due{kNothing};

[[nodiscard]] inline bool is_due() noexcept { return due.load(std::memory_order_relaxed) != kNothing; }
inline void want_nothing() noexcept { due.store(kNothing, std::memory_order_relaxed); }
inline void want_extent() noexcept { due.store(kExtent, std::memory_order_relaxed); }
inline void want_slab(SlabLayer& layer) noexcept {
  due.store(reinterpret_cast<std::uintptr_t>(&layer), std::memory_order_relaxed);
}
/// Does the piece that is due if it is still wanted. Nothing is due again for its having failed. Complexity: constant.
/// Context: any, no lock held.
inline void run() noexcept {
  const std::uintptr_t piece = due.load(std::memory_order_relaxed);
  want_nothing();
  if (piece > kExtent) return reinterpret_cast<SlabLayer*>(piece)->prepare();
  if (piece == kExtent) Extents::prepare();
}

}  // namespace qm::upkeep
