#pragma once
/// The trap unit of S-mode: page tables. Sv39 on RV64, Sv32 on RV32; a page is an edge or a window
/// (NoTrapUnit).
///
/// While a hart is armed, every address below 256 GiB (RV64) or of the whole address space (RV32) means the same
/// physical address, as without page tables. Only the pages of the pool can be inaccessible. An image with page
/// tables of its own cannot use the unit; one with devices above 256 GiB must not, which is not checked.

#include <cstddef>
#include <cstdint>

namespace qm::hal {

struct PageTrapUnit {
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kSlotBytes = 2 * kPage;
  static constexpr std::size_t kEdgeBytes = kPage;
  static constexpr std::size_t kGrainBytes = kPage;
  static constexpr bool kOfOneHart = true;
  static constexpr unsigned kMostSlots = 255;
  static constexpr std::size_t kAlign = kPage;
  /// What one table of the last level spans, so that the pool needs one.
  static constexpr std::size_t kNoCross = sizeof(void*) == 8 ? 2 << 20 : 4 << 20;
  static constexpr std::size_t kTableBytes = (sizeof(void*) == 8 ? 3 : 2) * kPage;

  static bool prepare(std::uintptr_t pool, unsigned slots, std::uintptr_t tables) noexcept;
  static void arm() noexcept;
  static void disarm() noexcept;
  static void show(unsigned slot, std::uintptr_t low, std::uintptr_t high) noexcept;
  static void open(std::uintptr_t address) noexcept;
  static void refresh() noexcept;
};

using SelectedTrapUnit = PageTrapUnit;

}  // namespace qm::hal
