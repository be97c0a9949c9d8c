#pragma once
// The port's masks for the tests: mstatus.MIE, as without such a header; or, after test_masks_to_level was set, only
// the timer's interrupt, so that the software interrupt is above the level.

extern "C" volatile std::uint8_t test_masks_to_level;

namespace qm::freertos {
inline constexpr std::uintptr_t kUnmasked = 8;
inline std::uintptr_t mask_level() noexcept {
  std::uintptr_t before;
  if (test_masks_to_level == 0) {
    asm volatile("csrrci %0, mstatus, 8" : "=r"(before) : : "memory");
    return before & 8;
  }
  asm volatile("csrrc %0, mie, %1" : "=r"(before) : "r"(0x80) : "memory");
  return (before & 0x80) != 0 ? 8 : 0;
}
inline void restore_level(std::uintptr_t before) noexcept {
  if (test_masks_to_level == 0) asm volatile("csrs mstatus, %0" : : "r"(before) : "memory");
  else asm volatile("csrs mie, %0" : : "r"(before << 4) : "memory");
}
}  // namespace qm::freertos
