#pragma once
/// Extents: segments of `base` that slabs share. To draw a slab from the arena takes five times the instructions, and a
/// boundary tag of 112 bytes for each.
///
///     | slab | slab | slab of two | free | slab | free of two |     eight pages, aligned to their size; one boundary tag
///
/// A slab's place in an extent is aligned to the slab's size, as its mask wants it. The tag keeps a bit for each free
/// page and links extents of like use: a slab is drawn from one whose largest free place is the least that will do, so
/// that extents are used up, or become free as a whole and go back.
///
/// An extent is drawn ahead, by upkeep, when no place for the largest slab is left. While `base` is small there are none:
/// they would keep too much of it from others.
///
/// Invariants
/// - E1 An extent is an allocated segment of `base` of owner kSlabs and kBytes; a set bit of `free_pages` is a page that no
///      slab has. It is on the list of its largest free place, unless it has none.
/// - E2 All is under the lock of `base`, held for constant work.

#include <cstddef>
#include <cstdint>

#include <qm/arena.hpp>

namespace qm {

class Extents {
 public:
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::size_t kPages = 8;
  static constexpr std::size_t kBytes = kPages * kPageBytes;
  /// The largest slab; a slab is one, two or four pages.
  static constexpr std::size_t kMostBytes = 4 * kPageBytes;
  /// An arena is small below so many bytes.
  static constexpr std::size_t kLeastTotal = 64 * kBytes;

  /// Draws from @p arena, whose quantum is a page, from now on, and forgets everything it had.
  void initialize(Arena& arena) noexcept;
  /// A place for a slab of @p bytes. @returns 0 if there is none, and none can be made.
  [[nodiscard]] std::uintptr_t take(std::size_t bytes) noexcept;
  /// @returns false, and nothing has changed, if the slab lies in no extent.
  [[nodiscard]] bool give(std::uintptr_t start, std::size_t bytes) noexcept;
  /// Draws an extent if the next slab could want it, or the tags that this will take: one of the two is enough for an
  /// operation.
  static void prepare() noexcept;
  /// Gives back what is free as a whole.
  void trim() noexcept;

  /// Whether @p extent keeps E1. The lock of its arena is held.
  [[nodiscard]] bool keeps_locked(const BoundaryTag& extent) const noexcept;

 private:
  static constexpr unsigned kLists = 4;  ///< by the logarithm of the pages of the largest free place
  [[nodiscard]] bool draw(bool ahead) noexcept;
  /// Whether no place for the largest slab is left.
  [[nodiscard]] bool is_low() const noexcept { return lists_[kLists - 2] == nullptr && lists_[kLists - 1] == nullptr; }
  void enter_locked(BoundaryTag& extent, unsigned list) noexcept;
  void leave_locked(BoundaryTag& extent, unsigned list) noexcept;

  Arena* arena_ = nullptr;
  BoundaryTag* lists_[kLists] = {};
};

extern constinit Extents extents;

}  // namespace qm
