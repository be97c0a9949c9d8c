#pragma once
/// Upkeep: what the next operation that makes something would need, had ready by an earlier one. An operation that could
/// fill a magazine from the slabs does the piece that is due, if one is, takes a single object, and leaves the magazine to
/// the next: so none pays for more than one costly thing.

#include <atomic>

namespace qm::upkeep {

/// Does its work if that is still wanted. Nothing is due again for its having failed. Complexity: constant. Context: any,
/// no lock held.
using Piece = void (*)() noexcept;

/// A hint: where two are due the later stays, and the other is seen to be wanted again, or made by who needs it.
inline constinit std::atomic<Piece> due{nullptr};

[[nodiscard]] inline bool is_due() noexcept { return due.load(std::memory_order_relaxed) != nullptr; }
inline void want(Piece piece) noexcept { due.store(piece, std::memory_order_relaxed); }
inline void run() noexcept {
  const Piece piece = due.load(std::memory_order_relaxed);
  want(nullptr);
  if (piece != nullptr) piece();
}

}  // namespace qm::upkeep
