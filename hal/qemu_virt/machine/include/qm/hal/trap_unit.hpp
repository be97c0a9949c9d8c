#pragma once
/// The trap unit of M-mode: physical memory protection (PMP), with windows of whole words.
///
/// PMP applies to M-mode only if its entry is locked until reset, or if loads and stores are made with the privilege of
/// another mode: mstatus.MPRV, with U-mode in mstatus.MPP. While a hart is armed both are set. A trap sets MPP to
/// M-mode, so a handler's own accesses are not checked; `mret` sets it to U-mode again. A trap exit must restore MPP as
/// the entry found it, and leave MPRV as it is: the handler may have armed the hart.

#include <cstddef>
#include <cstdint>

namespace qm::hal {

struct PmpTrapUnit {
  static constexpr std::size_t kSlotBytes = 2048;
  static constexpr std::size_t kEdgeBytes = 64;
  static constexpr std::size_t kGrainBytes = 4;
  /// An entry for the pool's start, two for each slot, one for the last edge; entry 15 allows the rest, and 14 is unused.
  static constexpr bool kOfOneHart = true;
  static constexpr unsigned kMostSlots = 6;
  static constexpr std::size_t kAlign = 64;
  static constexpr std::size_t kNoCross = 0;
  static constexpr std::size_t kTableBytes = 0;

  static bool prepare(std::uintptr_t pool, unsigned slots, std::uintptr_t tables) noexcept;
  static void arm() noexcept;
  static void disarm() noexcept;
  static void show(unsigned slot, std::uintptr_t low, std::uintptr_t high) noexcept;
  static void open(std::uintptr_t address) noexcept;
  static void refresh() noexcept;
};

using SelectedTrapUnit = PmpTrapUnit;

}  // namespace qm::hal
