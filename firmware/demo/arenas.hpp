#pragma once
/// Resources of the demo that the processor never touches: addresses of a device window, and identifiers.

#include <qm/arena.hpp>

namespace qm::demo {

struct Arenas {
  Arena dma;        ///< 16 MiB of the PCIe window of `virt`, handed out to devices by 64 bytes
  Arena inode_ids;  ///< 1 to 65535, put off from being used again
};

/// Creates them, and gives four devices their rings: a page each, aligned to 4 KiB, none across 64 KiB, in the lower
/// half.
/// @returns false if there is no memory for one.
bool create_arenas() noexcept;
[[nodiscard]] Arenas& arenas() noexcept;

}  // namespace qm::demo
