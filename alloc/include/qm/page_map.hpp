#pragma once
/// The page map: which pages of memory are slabs of the heap. heap::free() is given nothing but an address and has to tell an
/// object in a slab from a large block and from what was never the heap's.
///
///     bank 0    [low, low + bytes)    bits --> 0 0 1 1 0 ...        one bit a page: a slab of the heap lies here
///     bank 1    ...                                                 one bank a range of memory: what lies between two
///                                                                   ranges, however far apart, costs nothing
///
/// Invariants
/// - P1 A page's bit is set before the first object of its slab is handed out and cleared after the last has come back.
/// - P2 Banks are added, never removed. Whoever holds an address in a bank got it after the bank was entered.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/status.hpp>

namespace qm {

class PageMap {
 public:
  static constexpr unsigned kMaxBanks = 16;
  static constexpr std::size_t kPageBytes = 4096;

  /// Bytes of the bits for the memory from @p start to @p end.
  [[nodiscard]] static std::size_t bits_bytes(std::uintptr_t start, std::uintptr_t end) noexcept;

  /// Enters a bank.
  /// @param[in] bits memory of bits_bytes(), for ever the map's; cleared here.
  /// @returns kNoMemory after kMaxBanks.
  /// Context: one hart at a time.
  Status add_bank(std::uintptr_t start, std::uintptr_t end, void* bits) noexcept;

  /// Says that a slab of the heap lies in [start, start + bytes), whole pages of one bank.
  /// @returns false, and nothing is marked, if no bank has them.
  [[nodiscard]] bool mark(std::uintptr_t start, std::size_t bytes) noexcept;
  void clear(std::uintptr_t start, std::size_t bytes) noexcept;

  /// Whether @p address, any number at all, lies in a slab of the heap.
  /// Complexity: a dozen instructions for an address in the first bank, four more a bank behind it.
  [[nodiscard, gnu::always_inline]] bool holds_slab(std::uintptr_t address) const noexcept {
    for (const Bank& bank : banks_) {
      const std::uintptr_t offset = address - bank.low;
      if (offset < bank.bytes) return (word(bank, offset).load(std::memory_order_relaxed) & bit(offset)) != 0;
    }
    return false;
  }

  /// The number of the bank that has @p address; kMaxBanks if none has. Context: any.
  [[nodiscard]] unsigned bank_of(std::uintptr_t address) const noexcept {
    unsigned bank = 0;
    while (bank < kMaxBanks && address - banks_[bank].low >= banks_[bank].bytes) ++bank;
    return bank;
  }

  /// Forgets all banks, for a test that sets up anew.
  void reset() noexcept;

 private:
  using Word = std::atomic<std::uint32_t>;
  struct Bank {
    std::uintptr_t low = 0;
    std::size_t bytes = 0;  ///< 0: no bank yet
    Word* bits = nullptr;
  };
  [[nodiscard]] static Word& word(const Bank& bank, std::uintptr_t offset) noexcept {
    return bank.bits[offset / kPageBytes / 32];
  }
  [[nodiscard]] static std::uint32_t bit(std::uintptr_t offset) noexcept {
    return std::uint32_t{1} << (offset / kPageBytes % 32);
  }
  [[nodiscard]] const Bank* find(std::uintptr_t start, std::size_t bytes) const noexcept;

  Bank banks_[kMaxBanks];
};

/// The one instance.
extern constinit PageMap page_map;

}  // namespace qm
