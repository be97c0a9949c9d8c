#pragma once
/// Extents: segments of `base` that slabs share. To draw a slab from the arena takes several times the instructions, and a
/// boundary tag of 112 bytes for each.
///
///     | slab | slab | slab of two | free | slab | free of two |     eight pages, aligned to their size; one boundary tag
///
/// A slab's place in an extent is aligned to the slab's size, as its mask wants it. The tag keeps a bit for each free
/// page and links extents of like use: a slab is drawn from one whose largest free place is the least that will do, so
/// that extents are used up, or become free as a whole and go back.
///
/// An extent is drawn ahead, by upkeep, when no place for the largest slab is left. Where there is little memory,
/// or few slabs, there are none: what idles in them would be too large a part. Where memory runs out, they are dissolved:
/// each slab becomes a segment of its own, and what is free is the arena's.
///
/// Invariants
/// - E1 An extent is an allocated segment of `base` of owner kSlabs and kBytes; its tag's `pages` says which no slab has, and
///      which are not the first of theirs. It is on the list of its largest free place, unless it has none. One that is free
///      as a whole may be on its way back: it is on no list, and `pages` is 0.
/// - E2 But for the counts, all is under the lock of `base`, held for as long as to allocate; to split one, seven times that.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/arena.hpp>
#include <qm/magazine.hpp>
#include <qm/page_map.hpp>

namespace qm {

/// Whether slabs are drawn from extents. Their pages lie idle: where magazines are left out, so are they.
inline constexpr bool kExtents = kMagazines;

class Extents {
 public:
  static constexpr std::size_t kPageBytes = 4096;  ///< smaller slabs lie outside
  static constexpr std::size_t kPages = 8;
  static constexpr std::size_t kBytes = kPages * kPageBytes;
  static constexpr unsigned long kAllPages = (1UL << kPages) - 1;
  /// The largest slab; a slab is one, two or four pages.
  static constexpr std::size_t kMostBytes = 4 * kPageBytes;
  /// There are none in an arena of fewer bytes.
  static constexpr std::size_t kLeastTotal = 64 * kBytes;
  /// No extent is drawn while fewer bytes of slabs lie outside.
  static constexpr std::size_t kOutside = 8 * kBytes;

  /// Draws from @p arena, whose quantum is a page, from now on, and forgets everything it had.
  void initialize(Arena& arena) noexcept;
  [[nodiscard]] bool are_of(const Arena& arena) const noexcept { return kExtents && arena_ == &arena; }
  /// A place for a slab of @p bytes. @returns 0 if the slab is to lie outside: there is no place, and few slabs lie outside
  /// or no extent can be drawn.
  [[nodiscard]] std::uintptr_t take(std::size_t bytes) noexcept {
    if (count_.load(std::memory_order_relaxed) != 0) [[likely]] {
      if (const std::uintptr_t start = take_place(bytes); start != 0) [[likely]]
        return start;
    }
    return are_few_outside() ? 0 : take_of_new(bytes);
  }
  /// A slab that take() had no place for lies outside.
  void note_outside(std::size_t bytes) noexcept { outside_.fetch_add(bytes, std::memory_order_relaxed); }
  /// @returns false if the slab lies outside: the arena is to have it back.
  [[nodiscard]] bool give(std::uintptr_t start, std::size_t bytes) noexcept {
    if (count_.load(std::memory_order_relaxed) != 0 && give_place(start, bytes)) return true;
    outside_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  /// Draws an extent if the next slab could want it, or the tags that this will take: one of the two is enough for an
  /// operation.
  static void prepare() noexcept;
  /// Gives back what is free as a whole.
  void trim() noexcept;
  /// Gives back all pages that no slab has: extents that have some are split into segments. @returns their bytes.
  /// Complexity: O(extents), constant in a hold of the lock.
  std::size_t dissolve() noexcept;

  /// Bytes of extents that no slab has. The lock of their arena is held.
  [[nodiscard]] std::size_t idle_locked() const noexcept {
    return count_.load(std::memory_order_relaxed) * kBytes - in_slabs_;
  }
  /// The pages of @p extent that no slab has, a bit each. The lock of its arena is held.
  [[nodiscard]] static unsigned long free_pages(const BoundaryTag& extent) noexcept { return extent.pages & kAllPages; }
  /// Whether @p extent keeps E1. The lock of its arena is held.
  [[nodiscard]] bool keeps_locked(const BoundaryTag& extent) const noexcept;

 private:
  static constexpr unsigned kLists = 4;  ///< by the logarithm of the pages of the largest free place
  [[nodiscard]] std::uintptr_t take_place(std::size_t bytes) noexcept;
  [[nodiscard]] std::uintptr_t take_of_new(std::size_t bytes) noexcept;
  [[nodiscard]] bool give_place(std::uintptr_t start, std::size_t bytes) noexcept;
  void release(std::uintptr_t start) noexcept;
  struct Run {
    std::uintptr_t start;
    std::size_t bytes;
  };
  static constexpr unsigned kRuns = kPages / 2;  ///< that an extent in use can have free
  [[nodiscard]] bool split(Run (&free)[kRuns], unsigned& runs) noexcept;
  [[nodiscard]] bool draw(bool ahead) noexcept;
  /// Whether no place for the largest slab is left.
  [[nodiscard]] bool is_low() const noexcept { return lists_[kLists - 2] == nullptr && lists_[kLists - 1] == nullptr; }
  [[nodiscard]] bool are_few_outside() const noexcept { return outside_.load(std::memory_order_relaxed) < kOutside; }
  void enter_locked(BoundaryTag& extent, BoundaryTag*& first) noexcept;
  void leave_locked(BoundaryTag& extent, BoundaryTag*& first) noexcept;
  void retire_locked(BoundaryTag& extent) noexcept;

  Arena* arena_ = nullptr;
  BoundaryTag* lists_[kLists] = {};
  std::size_t in_slabs_ = 0;             ///< bytes of extents that slabs have
  std::atomic<std::size_t> count_{0};    ///< of extents
  std::atomic<std::size_t> outside_{0};  ///< bytes of slabs that could share one and do not
};

extern constinit Extents extents;

}  // namespace qm
