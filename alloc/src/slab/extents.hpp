#pragma once
/// Extents: segments of `base` that slabs share. A slab that is a segment of its own costs several times the
/// instructions, and a boundary tag of 112 bytes.
///
///     | slab | slab | slab of two | free | slab | free of two |     eight pages, aligned to their size; one boundary tag
///
/// A slab's place in an extent is aligned to the slab's size, as its mask requires. The tag keeps a bit for each free
/// page and links extents of like use. A slab is placed in an extent whose largest free place is the smallest that
/// suffices, so that extents are used up, or become free as a whole and go back.
///
/// Upkeep allocates an extent in advance when no place for the largest slab is left. With little memory, or few slabs,
/// there are no extents: the idle memory in them would be too large a part. When memory runs out, extents are
/// dissolved: each slab becomes a segment of its own, and the free pages go back to the arena.
///
/// Invariants
/// - E1 An extent is an allocated segment of `base` of owner kSlabs and kBytes; its tag's `pages` says which pages no
///   slab has, and which are not the first of their slab. The extent is on the list of its largest free place, unless
///   it has none. An extent that is free as a whole may be about to go back: then it is on no list, and `pages` is 0.
/// - E2 Except for the counts, everything is under the lock of `base`. A hold takes as long as that of an allocation;
///   to split an extent takes seven times as long.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/arena.hpp>
#include <qm/detail/magazine.hpp>
#include <qm/detail/page_map.hpp>

namespace qm {

/// Whether slabs lie in extents. Their free pages are idle memory, so a build without magazines has no extents either.
inline constexpr bool kExtents = kMagazines;

class Extents {
 public:
  static constexpr std::size_t kPageBytes = 4096;  ///< smaller slabs lie outside
  static constexpr std::size_t kPages = 8;
  static constexpr std::size_t kBytes = kPages * kPageBytes;
  static constexpr unsigned long kAllPages = (1UL << kPages) - 1;
  /// The largest slab; a slab is one, two or four pages.
  static constexpr std::size_t kMostBytes = 4 * kPageBytes;
  /// An arena of fewer bytes has no extents.
  static constexpr std::size_t kLeastTotal = 64 * kBytes;
  /// No extent is allocated while fewer bytes of slabs lie outside.
  static constexpr std::size_t kOutside = 8 * kBytes;

  /// Allocates from @p arena, whose quantum is a page, from now on, and forgets all extents.
  void initialize(Arena& arena) noexcept;
  [[nodiscard]] bool are_of(const Arena& arena) const noexcept { return kExtents && arena_ == &arena; }
  /// A place for a slab of @p bytes. @returns 0 if the slab has to lie outside: there is no place, and few slabs lie
  /// outside or no extent can be allocated.
  [[nodiscard]] std::uintptr_t take(std::size_t bytes) noexcept {
    if (count_.load(std::memory_order_relaxed) != 0) [[likely]] {
      if (const std::uintptr_t start = take_place(bytes); start != 0) [[likely]]
        return start;
    }
    return are_few_outside() ? 0 : take_of_new(bytes);
  }
  /// Counts a slab that lies outside because take() had no place for it.
  void note_outside(std::size_t bytes) noexcept { outside_.fetch_add(bytes, std::memory_order_relaxed); }
  /// @returns false if the slab lies outside: the caller frees it in the arena.
  [[nodiscard]] bool give(std::uintptr_t start, std::size_t bytes) noexcept {
    if (count_.load(std::memory_order_relaxed) != 0 && give_place(start, bytes)) return true;
    outside_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  /// Allocates an extent if the next slab could need one, or else the tags that this takes: one of the two is enough
  /// for an operation.
  static void prepare() noexcept;
  /// Gives back the extents that are free as a whole.
  void trim() noexcept;
  /// Gives back all pages that no slab has: extents with such pages are split into segments. @returns their bytes.
  /// Complexity: O(extents), constant per hold of the lock.
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
  static constexpr unsigned kRuns = kPages / 2;  ///< most free runs of an extent in use
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
  std::atomic<std::size_t> outside_{0};  ///< bytes of slabs that could lie in an extent and do not
};

extern constinit Extents extents;

}  // namespace qm
