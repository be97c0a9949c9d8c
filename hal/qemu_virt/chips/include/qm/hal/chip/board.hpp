#pragma once
/// The board as the device tree describes it: the discovery half of every driver.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <qm/hal/chip/fdt.hpp>
#include <qm/hal/chip/memory_map.hpp>

namespace qm::hal {

/// A board. An address is 0 if the tree has no such device.
struct Board {
  static constexpr std::size_t kMaxHarts = 32;
  static constexpr unsigned kNoContext = ~0u;

  struct Hart {
    std::uint64_t id = 0;                ///< the hart id
    std::uint32_t interrupt_handle = 0;  ///< phandle of the hart's own interrupt controller
    unsigned plic_context = kNoContext;  ///< the PLIC's context for this hart's external interrupt
  };
  enum class UartKind { k16550, kSifive, kHtif };
  struct Device {
    std::uintptr_t base = 0;
    unsigned interrupt = 0;       ///< PLIC source, 0: none
    unsigned register_shift = 0;  ///< log2 of the distance between two registers
  };

  MemoryMap memory;                     ///< RAM
  MemoryMap reserved;                   ///< the part of RAM that the tree reserves
  std::array<Hart, kMaxHarts> harts{};  ///< usable harts in the tree's order
  std::size_t hart_count = 0;
  std::size_t harts_left_out = 0;     ///< harts beyond kMaxHarts
  std::size_t reserved_left_out = 0;  ///< ranges of reserved memory that did not fit in `reserved`
  std::uint64_t timebase_hz = 0;
  std::string_view bootargs;  ///< points into the blob
  Device uart, plic, finisher, htif;
  UartKind uart_kind = UartKind::k16550;
};

/// Reads @p tree into @p board.
/// @param[in] external the cause of external interrupts in the caller's mode: 9 in S-mode, 11 in M-mode.
/// @returns whether the walk reached the tree's end; if not, @p board has the data from before the break.
/// Complexity: O(blob), no allocation.
bool discover(const Fdt& tree, Board& board, std::uint32_t external = 9) noexcept;

}  // namespace qm::hal
