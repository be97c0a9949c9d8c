#pragma once
/// The page map: what lies in each page of memory, a byte a page. heap::free() is given nothing but an address: its page's tag
/// says which size class's slab the address is in, and without one that it is a large block's, or was never the heap's.
///
///     window 0 -> | low, pages | 0 0 3 3 0 8 8 8 8 ... |     tags of the pages from `low` on
///     window 1 -> none                                       another window where memory lies far from the first's
///
/// The fast path reads the first two windows. A window is made where a slab of the heap lies for the first time, and grows by
/// being copied: so it costs what is used of the memory, not what there is. The old one stays, for a reader that is at it; all of
/// them together are smaller than the last.
///
/// Beside the tags the map knows the banks, the ranges of memory there are: what lies between two of them must not be read.
///
/// Invariants
/// - P1 A page's tag is set before the first object of its slab is handed out and cleared after the last has come back.
/// - P2 Windows and banks are added, never removed. Who holds an address got it after its page was tagged, so whatever window it
///      then reads has that tag.
/// - P3 A window's first words are its bounds: heap_sections.S reads them and the tags through one pointer.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/lock.hpp>
#include <qm/status.hpp>

namespace qm {

class PageMap {
 public:
  static constexpr unsigned kMaxBanks = 16;
  static constexpr std::size_t kPageBytes = 4096;
  /// A window grows over a hole of so many pages at most; further off another begins.
  static constexpr std::size_t kMostHole = 16384;

  /// The tag of the heap's class @p number: its number in words. Tag 0 is no class's.
  static constexpr std::uint8_t tag_of(unsigned number) { return static_cast<std::uint8_t>(number * sizeof(void*)); }

  /// Enters a bank. @returns kNoMemory after kMaxBanks. Context: one hart at a time.
  Status add_bank(std::uintptr_t start, std::uintptr_t end) noexcept;

  /// Tags [start, start + bytes), whole pages, as those of a slab. @param[in] tag not 0.
  /// @returns false, and nothing is tagged, if a window has to grow and base_arena() has no memory for that.
  /// Complexity: O(pages); a window that grows is copied. Context: any, no lock held.
  [[nodiscard]] bool mark(std::uintptr_t start, std::size_t bytes, std::uint8_t tag) noexcept;
  void clear(std::uintptr_t start, std::size_t bytes) noexcept;

  /// The tag of the page that has @p address, any number at all; 0: no slab of the heap lies there.
  /// Complexity: a dozen instructions for an address in the first window, ten more a window behind it.
  [[nodiscard, gnu::always_inline]] std::uint8_t tag(std::uintptr_t address) const noexcept {
    for (const WindowPointer& window : windows_) {
      const Window* at = window.at.load(std::memory_order_acquire);  // pairs with the release in install()
      const std::size_t page = (address - at->low) / kPageBytes;
      if (page < at->pages) return at->tags()[page].load(std::memory_order_relaxed);
      if (at->pages == 0) break;
    }
    return 0;
  }

  /// The same, 0 also in another window than the first.
  [[nodiscard, gnu::always_inline]] std::uint8_t tag_in_first(std::uintptr_t address) const noexcept {
    const Window* at = windows_[0].at.load(std::memory_order_acquire);  // as in tag()
    const std::size_t page = (address - at->low) / kPageBytes;
    return page < at->pages ? at->tags()[page].load(std::memory_order_relaxed) : std::uint8_t{0};
  }

  /// The number of the bank that has @p address; kMaxBanks if none has. Context: any.
  [[nodiscard]] unsigned bank_of(std::uintptr_t address) const noexcept {
    unsigned bank = 0;
    while (bank < kMaxBanks && address - banks_[bank].low >= banks_[bank].bytes) ++bank;
    return bank;
  }

  /// Forgets all, for a test that sets up anew.
  void reset() noexcept;

 private:
  using Tag = std::atomic<std::uint8_t>;
  struct Window {
    std::uintptr_t low = 0;  ///< a page's start
    std::size_t pages = 0;   ///< 0: no window
    [[nodiscard]] Tag* tags() noexcept { return reinterpret_cast<Tag*>(this + 1); }
    [[nodiscard]] const Tag* tags() const noexcept { return reinterpret_cast<const Tag*>(this + 1); }
  };
  struct Bank {
    std::uintptr_t low = 0;
    std::size_t bytes = 0;  ///< 0: no bank yet
  };
  static Window none_;
  struct WindowPointer {
    std::atomic<Window*> at{&none_};
  };

  [[nodiscard]] bool write(std::uintptr_t start, std::size_t bytes, std::uint8_t tag) noexcept;
  [[nodiscard]] bool grow(std::uintptr_t start, std::size_t bytes) noexcept;
  [[nodiscard]] bool install(Window& grown, std::uintptr_t start, std::size_t bytes) noexcept;
  [[nodiscard]] WindowPointer* nearest(std::uintptr_t start, std::size_t bytes, Window& wanted) noexcept;

  WindowPointer windows_[kMaxBanks];
  Bank banks_[kMaxBanks];
  Lock lock_;  ///< held for a write of tags, and for the copy of a window
};

/// The one instance, under a name that the sections know.
extern constinit PageMap page_map asm("qm_page_map");

}  // namespace qm
