#pragma once
/// Access to control and status registers, by their own names or by those of privilege.h, which stand for S-mode's or
/// M-mode's.

#include <cstdint>

#include <qm/hal/privilege.h>

#define QM_CSR_TEXT_AS_IS(name) #name
#define QM_CSR_TEXT(name) QM_CSR_TEXT_AS_IS(name)
#define QM_CSR_READ(name)                                                      \
  ([]() noexcept {                                                             \
    std::uintptr_t qm_value;                                                   \
    asm volatile("csrr %0, " QM_CSR_TEXT(name) : "=r"(qm_value) : : "memory"); \
    return qm_value;                                                           \
  }())
#define QM_CSR_WRITE(name, value) \
  asm volatile("csrw " QM_CSR_TEXT(name) ", %0" : : "rK"(static_cast<std::uintptr_t>(value)) : "memory")
#define QM_CSR_SET(name, bits) \
  asm volatile("csrs " QM_CSR_TEXT(name) ", %0" : : "rK"(static_cast<std::uintptr_t>(bits)) : "memory")
#define QM_CSR_CLEAR(name, bits) \
  asm volatile("csrc " QM_CSR_TEXT(name) ", %0" : : "rK"(static_cast<std::uintptr_t>(bits)) : "memory")
