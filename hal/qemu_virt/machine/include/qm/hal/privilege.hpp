#pragma once
/// The functions that differ between S-mode and M-mode: in M-mode no lower layer exists, and they write the board's
/// timer and registers.
///
///     CLINT       +0      msip, 4 bytes a hart
///                 +4000   mtimecmp, 8 bytes a hart
///                 +bff8   mtime

#include <cstdint>

#include <qm/hal/csr.hpp>

namespace qm::hal::privilege {

inline constexpr std::uintptr_t kClint = 0x2000000, kTimeCompare = kClint + 0x4000, kTime = kClint + 0xbff8;
inline constexpr std::uintptr_t kFinisher = 0x100000;

inline volatile std::uint32_t& word_at(std::uintptr_t address) noexcept {
  return *reinterpret_cast<volatile std::uint32_t*>(address);
}

#if __riscv_xlen == 64
inline std::uint64_t ticks() noexcept { return *reinterpret_cast<volatile std::uint64_t*>(kTime); }
#else
inline std::uint64_t ticks() noexcept {
  for (;;) {  // both halves are consistent if the upper one has not changed
    const std::uint32_t high = word_at(kTime + 4), low = word_at(kTime);
    if (word_at(kTime + 4) == high) return static_cast<std::uint64_t>(high) << 32 | low;
  }
}
#endif

/// Sets this hart's next timer interrupt to @p deadline_ticks, and clears a pending one. All ones: never.
inline void set_timer(std::uint64_t deadline_ticks) noexcept {
  const std::uintptr_t compare = kTimeCompare + 8 * QM_CSR_READ(mhartid);
  word_at(compare + 4) = ~0u;  // so that no intermediate value is an earlier deadline than both
  word_at(compare) = static_cast<std::uint32_t>(deadline_ticks);
  word_at(compare + 4) = static_cast<std::uint32_t>(deadline_ticks >> 32);
}

/// Makes a software interrupt pending on the hart with id @p hart_id. That hart's handler sees the writes before this
/// call.
inline void send_ipi(std::uintptr_t hart_id) noexcept {
  asm volatile("fence rw, o" : : : "memory");
  word_at(kClint + 4 * hart_id) = 1;
}

/// Clears this hart's pending software interrupt.
inline void clear_ipi() noexcept {
  word_at(kClint + 4 * QM_CSR_READ(mhartid)) = 0;
  asm volatile("fence o, rw" : : : "memory");
}

/// Starts the hart with id @p hart_id: at reset all harts entered the image, and they wait there for this IPI.
inline void start_hart(std::uintptr_t hart_id, std::uintptr_t) noexcept { send_ipi(hart_id); }

/// Both return if the board cannot do it.
inline void shut_down() noexcept { word_at(kFinisher) = 0x5555; }
inline void restart() noexcept { word_at(kFinisher) = 0x7777; }

}  // namespace qm::hal::privilege
