#pragma once
/// The functions that differ between S-mode and M-mode: in S-mode they call OpenSBI.

#include <cstdint>

#include <qm/hal/csr.hpp>
#include <qm/hal/sbi.hpp>

namespace qm::hal::privilege {

#if __riscv_xlen == 64
inline std::uint64_t ticks() noexcept {
  std::uint64_t now;
  asm volatile("rdtime %0" : "=r"(now));
  return now;
}
#else
inline std::uint64_t ticks() noexcept {
  std::uint32_t low, high, again;
  do {  // both halves are consistent if the upper one has not changed
    asm volatile("rdtimeh %0\n\trdtime %1\n\trdtimeh %2" : "=&r"(high), "=&r"(low), "=r"(again));
  } while (high != again);
  return static_cast<std::uint64_t>(high) << 32 | low;
}
#endif

/// Sets this hart's next timer interrupt to @p deadline_ticks, and clears a pending one. All ones: never.
inline void set_timer(std::uint64_t deadline_ticks) noexcept { sbi::set_timer(deadline_ticks); }

/// Makes a software interrupt pending on the hart with id @p hart_id. That hart's handler sees the writes before this
/// call.
inline void send_ipi(std::uintptr_t hart_id) noexcept { sbi::send_ipi(hart_id); }

/// Clears this hart's pending software interrupt.
inline void clear_ipi() noexcept { QM_CSR_CLEAR(sip, 1u << QM_SOFTWARE_INTERRUPT); }

/// Makes the hart with id @p hart_id start at @p entry.
inline void start_hart(std::uintptr_t hart_id, std::uintptr_t entry) noexcept { sbi::hart_start(hart_id, entry, 0); }

/// Both return if the board cannot do it.
inline void shut_down() noexcept { sbi::system_reset(sbi::ResetType::kShutdown); }
inline void restart() noexcept { sbi::system_reset(sbi::ResetType::kColdReboot); }

}  // namespace qm::hal::privilege
