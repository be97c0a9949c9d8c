#pragma once
/// Supervisor-mode control and status registers.

#include <cstdint>

namespace qm::hal {

inline constexpr std::uintptr_t kSstatusSie = 1u << 1;    ///< interrupts enabled
inline constexpr std::uintptr_t kSstatusSpie = 1u << 5;   ///< interrupts enabled before the trap
inline constexpr std::uintptr_t kSstatusSpp = 1u << 8;    ///< trapped from S-mode
inline constexpr std::uintptr_t kSstatusFs = 3u << 13;    ///< floating point state, 0: off
inline constexpr std::uintptr_t kInterruptSoftware = 1u << 1;
inline constexpr std::uintptr_t kInterruptTimer = 1u << 5;
inline constexpr std::uintptr_t kInterruptExternal = 1u << 9;

}  // namespace qm::hal

#define QM_CSR_READ(name)                                       \
  ([]() noexcept {                                              \
    std::uintptr_t qm_value;                                    \
    asm volatile("csrr %0, " #name : "=r"(qm_value) : : "memory"); \
    return qm_value;                                            \
  }())
#define QM_CSR_WRITE(name, value) asm volatile("csrw " #name ", %0" : : "rK"(static_cast<std::uintptr_t>(value)) : "memory")
#define QM_CSR_SET(name, bits) asm volatile("csrs " #name ", %0" : : "rK"(static_cast<std::uintptr_t>(bits)) : "memory")
#define QM_CSR_CLEAR(name, bits) asm volatile("csrc " #name ", %0" : : "rK"(static_cast<std::uintptr_t>(bits)) : "memory")
