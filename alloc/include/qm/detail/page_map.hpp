#pragma once
/// The page map: the size class whose slab lies in each page of memory, one byte for each page. heap::free() gets only
/// an address: the tag of its page says which size class's slab contains it. A page without a tag means that the
/// address is in a block, or was never the heap's.
///
///     heads[0] -> leaf -> leaf
///     heads[1] ---------------> leaf | number, tags | -> | 0 0 3 3 0 8 8 8 8 ... |   a byte for each page of kLeafBytes
///     ...
///
/// A page-map leaf is created when a slab of the heap is created in its range for the first time: so the map's size
/// follows the memory in use, not the memory there is. A page-map leaf is found by its number, the upper bits of its
/// addresses. A hart's fast path first tries the page-map leaf of its last free, which it keeps in a hart-local
/// (rewind.cpp, heap_masked.cpp).
///
/// Besides the tags, the map has the memory regions (class Region), the ranges of existing memory: addresses between two
/// of them must not be read.
///
/// Invariants
/// - P1 A page's tag is set before the first object of its slab is allocated and cleared after the last was freed.
/// - P2 Page-map leaves and memory regions in use are added, never removed, and the number and place of a leaf do not
///      change. A hart that holds an address got it after the page was tagged, so its list has the leaf.
/// - P3 The first words of a page-map leaf are its number and its tags: heap_sections.S reads them.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/detail/bits.hpp>
#include <qm/config.h>
#include <qm/detail/lock.hpp>
#include <qm/detail/magazine.hpp>
#include <qm/status.hpp>

namespace qm {

class PageMap {
 public:
  static constexpr unsigned kMaxRegions = 16;
  static constexpr std::size_t kPageBytes = std::size_t{1} << QM_PAGE_LOG2;
  static constexpr unsigned kLeafLog2 = 2 * QM_PAGE_LOG2;
  /// Bytes of memory that a page of tags covers.
  static constexpr std::size_t kLeafBytes = std::size_t{1} << kLeafLog2;
  static constexpr std::uintptr_t kNoNumber = UINTPTR_MAX;  ///< a number that no page-map leaf has
  using Tag = std::atomic<std::uint8_t>;

  /// The tag of the heap's class @p number: its number times the bytes of a word. No class has tag 0.
  static constexpr std::uint8_t tag_of(unsigned number) { return static_cast<std::uint8_t>(number * sizeof(void*)); }

  /// Adds a memory region. @returns kNoMemory if there are kMaxRegions already. Context: one hart at a time.
  Status add_region(std::uintptr_t start, std::uintptr_t end) noexcept;
  /// Removes the newest memory region, from which nothing was allocated yet.
  void drop_region() noexcept;

  /// Tags the pages of a slab, [start, start + bytes), which contain no multiple of kLeafBytes except at the start.
  /// @param[in] tag not 0.
  /// @returns false, and no page is tagged, if a new page-map leaf is needed and base_arena() has no memory for it.
  /// Complexity: O(pages); a new page of tags is cleared. Context: any, no lock held.
  [[nodiscard, gnu::always_inline]] bool mark(std::uintptr_t start, std::size_t bytes, std::uint8_t tag) noexcept {
    return write(start, bytes, tag) || mark_in_new(start, bytes, tag);
  }
  void clear(std::uintptr_t start, std::size_t bytes) noexcept;
  /// Prepares a cleared page for the tags of the next page-map leaf, before a slab needs it. It takes two calls, each
  /// of which clears half of the page. @returns false, and nothing has changed, if there is one already, or no memory.
  /// Context: as mark().
  bool prepare() noexcept;
  /// Frees the prepared page. @returns its bytes, or 0.
  std::size_t trim() noexcept;
  /// Bytes of the prepared page, or 0.
  [[nodiscard]] std::size_t spare_bytes() const noexcept {
    return spare_.load(std::memory_order_relaxed) != 0 ? kPageBytes : 0;
  }
  /// prepares_first(): whether to call prepare() for the first leaf. prepares_next(): whether to call it for a further
  /// leaf, that is, whether there is more memory than one leaf covers.
  [[nodiscard]] bool prepares_first() const noexcept { return kPrepares && is_empty(); }
  [[nodiscard]] bool prepares_next() const noexcept;

  /// A page-map leaf: the tags of kLeafBytes of memory. Does not change once it is in a list.
  struct Leaf {
    std::uintptr_t number = kNoNumber;
    std::uintptr_t tags = 0;  ///< address that the tag of page 0 of all memory would have
    Leaf* next = nullptr;
    [[nodiscard]] bool has(std::uintptr_t address) const noexcept { return address >> kLeafLog2 == number; }
    [[nodiscard]] Tag* place(std::uintptr_t address) const noexcept {
      return reinterpret_cast<Tag*>(tags + address / kPageBytes);
    }
    [[nodiscard]] std::uint8_t tag(std::uintptr_t address) const noexcept {
      return place(address)->load(std::memory_order_relaxed);
    }
  };

  /// The page-map leaf for @p address, which may be any number; nullptr: no slab of the heap ever lay in its range.
  /// Complexity: as tag().
  [[nodiscard, gnu::always_inline]] const Leaf* leaf_of(std::uintptr_t address) const noexcept {
    return find(address >> kLeafLog2);
  }
  /// The tag of the page with @p address, which may be any number; 0: no slab of the heap lies there.
  /// Complexity: a dozen instructions; a few more for each kHeads leaves in the map.
  [[nodiscard, gnu::always_inline]] std::uint8_t tag(std::uintptr_t address) const noexcept {
    const Leaf* leaf = leaf_of(address);
    return leaf != nullptr ? leaf->tag(address) : std::uint8_t{0};
  }

  /// A page-map leaf for no address, for the fast path.
  [[nodiscard]] static constexpr const Leaf* no_leaf() noexcept { return &none_; }

  /// A memory region. Does not change, so a pointer to it stays valid.
  struct Region {
    std::uintptr_t low = 0;
    std::size_t bytes = 0;
    [[nodiscard]] bool has(std::uintptr_t address) const noexcept { return address - low < bytes; }
  };
  /// An empty region.
  static const Region kNoRegion;

  /// The memory region that contains @p address, or kNoRegion. Context: any.
  [[nodiscard]] const Region& region_of(std::uintptr_t address) const noexcept {
    // acquire: pairs with the release in add_region().
    const Region* const end = regions_ + region_count_.load(std::memory_order_acquire);
    for (const Region* region = regions_; region != end; ++region) {
      if (region->has(address)) return *region;
    }
    return kNoRegion;
  }

  /// Number of memory regions; the region with a number below that.
  [[nodiscard]] unsigned region_count() const noexcept { return region_count_.load(std::memory_order_acquire); }
  [[nodiscard]] const Region& region(unsigned number) const noexcept { return regions_[number]; }

  /// Empties the map, for a test that sets up the allocator again.
  void reset() noexcept;

 private:
  static constexpr unsigned kHeads = 32;
  static constexpr bool kPrepares = kMagazines && kPageBytes >= 2048;  ///< a smaller page is cleared quickly
  static constexpr unsigned kFirstLeaves = 8;                          ///< leaves that need no page for themselves
  struct Head {
    std::atomic<Leaf*> first{&none_};
  };
  static Leaf none_;  ///< ends every list

  [[nodiscard, gnu::always_inline]] Leaf* find(std::uintptr_t number) const noexcept {
    Leaf* leaf = heads_[number % kHeads].first.load(kFollowed);  // pairs with the release in add_leaf()
    while (leaf != nullptr && leaf->number != number) leaf = leaf->next;
    return leaf;
  }
  /// Sets the tags of whole pages, at least one. @returns false if the map has no leaf for them.
  [[nodiscard, gnu::always_inline]] bool write(std::uintptr_t start, std::size_t bytes, std::uint8_t tag) noexcept {
    const Leaf* const leaf = find(start >> kLeafLog2);
    if (leaf == nullptr) return false;
    Tag* place = leaf->place(start);
    Tag* const end = place + bytes / kPageBytes;
    do place++->store(tag, std::memory_order_relaxed);
    while (place != end);
    return true;
  }
  [[nodiscard]] bool mark_in_new(std::uintptr_t start, std::size_t bytes, std::uint8_t tag) noexcept;
  [[nodiscard]] bool is_empty() const noexcept { return fresh_.load(std::memory_order_relaxed) == first_leaves_; }
  [[nodiscard]] std::uintptr_t clear_page() noexcept;
  [[nodiscard]] bool add_leaf(std::uintptr_t number) noexcept;

  Head heads_[kHeads];
  Leaf first_leaves_[kFirstLeaves];
  std::atomic<Leaf*> fresh_{first_leaves_};  ///< unused leaves: [fresh_, fresh_end_)
  Leaf* fresh_end_ = first_leaves_ + kFirstLeaves;
  static constexpr std::uintptr_t kHalf = 1;
  /// A prepared page for the next leaf's tags, or 0; plus kHalf if its upper half is not cleared yet.
  std::atomic<std::uintptr_t> spare_{0};
  std::atomic<unsigned> region_count_{0};
  Region regions_[kMaxRegions];
  Lock lock_;  ///< held to add a leaf
};

/// The one instance, under a name that the sections know.
extern constinit PageMap page_map asm("qm_page_map");

}  // namespace qm
