#pragma once
/// Resources of the demo that the processor does not access: addresses of a device window, and identifiers.

#include <qm/arena.hpp>

namespace qm::demo {

struct Arenas {
  Arena dma;        ///< 16 MiB of the PCIe window of `virt`, allocated to devices with a quantum of 64 bytes
  Arena inode_ids;  ///< 1 to 65535; a freed id is reused as late as possible
};

/// Creates the arenas, and allocates the rings of four devices: 4 KiB each, aligned to 4 KiB, none across a 64 KiB
/// boundary, in the lower half.
/// @returns false if there is no memory for an arena or a ring.
bool create_arenas() noexcept;
[[nodiscard]] Arenas& arenas() noexcept;

}  // namespace qm::demo
