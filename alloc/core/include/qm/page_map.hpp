#pragma once
/// The page map of the core form: a byte a page says whether a slab lies there, and how far back it begins. So any
/// address is known to be in a slab or not, and its slab is found whatever its size.
///
///     bank    | 0 0 1 2 3 0 1 1 0 0 ... | first tags | memory of `base`                         |
///               ^ of each page from here on: 0, or one more than the pages from its slab's first page
///
/// Invariants
/// - P1 A page's byte is set before the first object of its slab is handed out and cleared after the last has come back.
/// - P2 Banks are added, never removed or changed.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/status.hpp>

namespace qm {

class PageMap {
 public:
  static constexpr unsigned kMaxBanks = 8;
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::size_t kMostPages = 255;  ///< of a slab

  /// Enters [start, end), whole pages, and keeps a byte for each of them at its start.
  /// @returns kOverlap with what it has; kNoMemory after kMaxBanks. Context: one hart at a time.
  Status add_bank(std::uintptr_t start, std::uintptr_t end) noexcept;

  /// Whether [start, start + bytes) is memory: of one bank.
  [[nodiscard]] bool covers(std::uintptr_t start, std::size_t bytes) const noexcept {
    return place_of(start, bytes) != nullptr;
  }
  /// Enters a slab of at most kMostPages, of one bank, and takes it out. Complexity: O(pages). Context: any.
  void mark(std::uintptr_t start, std::size_t bytes) noexcept;
  void clear(std::uintptr_t start, std::size_t bytes) noexcept;

  /// @returns where the slab begins that has @p address, any number at all; 0: none has.
  /// Complexity: a dozen instructions, and some for each bank but the first. Context: any.
  [[nodiscard]] std::uintptr_t slab_of(std::uintptr_t address) const noexcept;

  /// Forgets all, for a test that sets up anew.
  void reset() noexcept { bank_count_.store(0, std::memory_order_relaxed); }

 private:
  struct Bank {
    std::uintptr_t low;
    std::uintptr_t end;
  };
  /// The byte of the page at @p start; nullptr if [start, start + bytes) is not in a bank.
  [[nodiscard]] std::uint8_t* place_of(std::uintptr_t start, std::size_t bytes) const noexcept;

  std::atomic<unsigned> bank_count_{0};
  Bank banks_[kMaxBanks] = {};
};

extern constinit PageMap page_map;

}  // namespace qm
