#pragma once
/// Data of a checking build (QM_CHECKED) about each object, beside the free bitmap of its slab; empty in other builds.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/config.h>

namespace qm {

#if defined(QM_CHECKED)
inline constexpr bool kChecked = true;
#else
inline constexpr bool kChecked = false;
#endif

struct ObjectCheck {
  enum Life : std::uint32_t {
    kFresh,  ///< never used
    kUsed,
    kIdle,
    kChanging,  ///< an allocation or a free is changing it
    kLooking,   ///< a pass over the slab is reading it, briefly
  };
  std::size_t requested = 0;  ///< used: bytes requested
  std::atomic<std::uint32_t> life{kFresh};
  std::uint32_t sum = 0;           ///< idle: checksum of the contents
  std::uint32_t allocated_by = 0;  ///< stack of the last allocation
  std::uint32_t freed_by = 0;      ///< idle: stack of the last free; else of the free before the last allocation
};

/// Bytes of checks for an object in this build, and the least number of bytes between two objects.
inline constexpr std::size_t kCheckBytes = kChecked ? sizeof(ObjectCheck) : 0;
inline constexpr std::size_t kRedzoneBytes = kChecked ? 8 : 0;

}  // namespace qm
