#pragma once
/// The page map: what lies in each page of memory, a byte a page. heap::free() is given nothing but an address: its
/// page's tag says which size class's slab the address is in, and without one that it is a block's, or was never
/// the heap's.
///
///     heads[0] -> leaf -> leaf
///     heads[1] ---------------> leaf | number, tags | -> | 0 0 3 3 0 8 8 8 8 ... |   a byte for each page of kLeafBytes
///     ...
///
/// A leaf is made where a slab of the heap lies for the first time: so the map costs what is used of the memory, not
/// what there is. A leaf is found by its number, the upper bits of its addresses. A hart's fast path looks first in
/// the one in which its latest free was, which it keeps in a hart-local (rewind.cpp, heap_masked.cpp).
///
/// Beside the tags the map knows the banks, the ranges of memory there are: what lies between two of them must not be
/// read.
///
/// Invariants
/// - P1 A page's tag is set before the first object of its slab is handed out and cleared after the last has come back.
/// - P2 Leaves and banks in use are added, never removed, and a leaf's number and place do not change. Who holds an address
///      got it after its page was tagged, so its leaf is in its list.
/// - P3 A leaf's first words are its number and its tags: heap_sections.S reads them.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/bits.hpp>
#include <qm/config.h>
#include <qm/lock.hpp>
#include <qm/status.hpp>

namespace qm {

class PageMap {
 public:
  static constexpr unsigned kMaxBanks = 16;
  static constexpr std::size_t kPageBytes = std::size_t{1} << QM_PAGE_LOG2;
  static constexpr unsigned kLeafLog2 = 2 * QM_PAGE_LOG2;
  /// Of memory whose pages' tags are a page.
  static constexpr std::size_t kLeafBytes = std::size_t{1} << kLeafLog2;
  static constexpr std::uintptr_t kNoNumber = UINTPTR_MAX;  ///< of a leaf
  using Tag = std::atomic<std::uint8_t>;

  /// The tag of the heap's class @p number: its number in words. Tag 0 is no class's.
  static constexpr std::uint8_t tag_of(unsigned number) { return static_cast<std::uint8_t>(number * sizeof(void*)); }

  /// Enters a bank. @returns kNoMemory after kMaxBanks. Context: one hart at a time.
  Status add_bank(std::uintptr_t start, std::uintptr_t end) noexcept;
  /// Forgets the latest, of which nothing has been handed out.
  void drop_bank() noexcept;

  /// Tags [start, start + bytes), whole pages, as those of a slab: they cross no multiple of kLeafBytes. @param[in] tag
  /// not 0.
  /// @returns false, and nothing is tagged, if they need a leaf and base_arena() has no memory for it.
  /// Complexity: O(pages); a leaf that is made is cleared. Context: any, no lock held.
  [[nodiscard, gnu::always_inline]] bool mark(std::uintptr_t start, std::size_t bytes, std::uint8_t tag) noexcept {
    return write(start, bytes, tag) || mark_in_new(start, bytes, tag);
  }
  void clear(std::uintptr_t start, std::size_t bytes) noexcept;

  /// The tags of kLeafBytes of memory. Does not change once it is in a list.
  struct Leaf {
    std::uintptr_t number = kNoNumber;
    std::uintptr_t tags = 0;  ///< where page 0 of all memory would have its tag
    Leaf* next = nullptr;
    [[nodiscard]] bool has(std::uintptr_t address) const noexcept { return address >> kLeafLog2 == number; }
    [[nodiscard]] Tag* place(std::uintptr_t address) const noexcept {
      return reinterpret_cast<Tag*>(tags + address / kPageBytes);
    }
    [[nodiscard]] std::uint8_t tag(std::uintptr_t address) const noexcept {
      return place(address)->load(std::memory_order_relaxed);
    }
  };

  /// The leaf that has @p address, any number at all; nullptr: no slab of the heap ever lay there.
  /// Complexity: as tag().
  [[nodiscard, gnu::always_inline]] const Leaf* leaf_of(std::uintptr_t address) const noexcept {
    return find(address >> kLeafLog2);
  }
  /// The tag of the page that has @p address, any number at all; 0: no slab of the heap lies there.
  /// Complexity: a dozen instructions; a few more for each kHeads leaves that there are.
  [[nodiscard, gnu::always_inline]] std::uint8_t tag(std::uintptr_t address) const noexcept {
    const Leaf* leaf = leaf_of(address);
    return leaf != nullptr ? leaf->tag(address) : std::uint8_t{0};
  }

  /// A leaf that has no page, for the fast path.
  [[nodiscard]] static constexpr const Leaf* no_leaf() noexcept { return &none_; }

  /// A range of memory. Does not change, so whoever has found it may keep it.
  struct Bank {
    std::uintptr_t low = 0;
    std::size_t bytes = 0;
    [[nodiscard]] bool has(std::uintptr_t address) const noexcept { return address - low < bytes; }
  };
  /// Has nothing.
  static const Bank kNoBank;

  /// The bank that has @p address, or kNoBank. Context: any.
  [[nodiscard]] const Bank& bank_of(std::uintptr_t address) const noexcept {
    // acquire: pairs with the release in add_bank().
    const Bank* const end = banks_ + bank_count_.load(std::memory_order_acquire);
    for (const Bank* bank = banks_; bank != end; ++bank) {
      if (bank->has(address)) return *bank;
    }
    return kNoBank;
  }

  /// Forgets all, for a test that sets up anew.
  void reset() noexcept;

 private:
  static constexpr unsigned kHeads = 32;
  static constexpr unsigned kFirstLeaves = 8;  ///< for which no page has to be had
  struct Head {
    std::atomic<Leaf*> first{&none_};
  };
  static Leaf none_;  ///< ends every list

  [[nodiscard, gnu::always_inline]] Leaf* find(std::uintptr_t number) const noexcept {
    Leaf* leaf = heads_[number % kHeads].first.load(kFollowed);  // pairs with the release in add_leaf()
    while (leaf != nullptr && leaf->number != number) leaf = leaf->next;
    return leaf;
  }
  /// Sets the tags of whole pages, at least one. @returns false if there is no leaf for them.
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
  [[nodiscard]] bool add_leaf(std::uintptr_t number) noexcept;

  Head heads_[kHeads];
  Leaf first_leaves_[kFirstLeaves];
  Leaf* fresh_ = first_leaves_;  ///< never used yet: [fresh_, fresh_end_)
  Leaf* fresh_end_ = first_leaves_ + kFirstLeaves;
  std::atomic<unsigned> bank_count_{0};
  Bank banks_[kMaxBanks];
  Lock lock_;  ///< held for the entry of a leaf
};

/// The one instance, under a name that the sections know.
extern constinit PageMap page_map asm("qm_page_map");

}  // namespace qm
