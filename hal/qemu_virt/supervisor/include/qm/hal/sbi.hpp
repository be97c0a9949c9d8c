#pragma once
/// Calls to the supervisor binary interface (SBI 1.0): base, TIME, IPI, HSM, SRST.

#include <cstdint>

namespace qm::hal::sbi {

struct Result {
  long error = 0;  ///< 0: success; otherwise an SBI error number, negative
  long value = 0;
};

enum Extension : unsigned long {
  kBase = 0x10,
  kTime = 0x54494D45,
  kIpi = 0x735049,
  kHsm = 0x48534D,
  kReset = 0x53525354,
};

/// One call. Costs a trap into the SBI: 250 to 800 instructions.
inline Result call(unsigned long extension, unsigned long function, unsigned long argument0 = 0,
                   unsigned long argument1 = 0, unsigned long argument2 = 0) noexcept {
  register unsigned long a0 asm("a0") = argument0;
  register unsigned long a1 asm("a1") = argument1;
  register unsigned long a2 asm("a2") = argument2;
  register unsigned long a6 asm("a6") = function;
  register unsigned long a7 asm("a7") = extension;
  asm volatile("ecall" : "+r"(a0), "+r"(a1) : "r"(a2), "r"(a6), "r"(a7) : "memory");
  return {static_cast<long>(a0), static_cast<long>(a1)};
}

/// Whether the SBI has @p extension.
inline bool has(Extension extension) noexcept { return call(kBase, 3, extension).value != 0; }

/// Sets this hart's next timer interrupt to @p deadline_ticks, and clears a pending one. All ones: never.
inline void set_timer(std::uint64_t deadline_ticks) noexcept {
  if constexpr (sizeof(long) == 8) {
    call(kTime, 0, deadline_ticks);
  } else {
    call(kTime, 0, static_cast<unsigned long>(deadline_ticks), static_cast<unsigned long>(deadline_ticks >> 32));
  }
}

/// Makes a software interrupt pending on the hart with id @p hart_id. That hart's handler sees the writes before this
/// call.
inline void send_ipi(unsigned long hart_id) noexcept { call(kIpi, 0, 1, hart_id); }

/// Starts a stopped hart at @p entry with its id in a0 and @p opaque in a1.
inline Result hart_start(unsigned long hart_id, std::uintptr_t entry, std::uintptr_t opaque) noexcept {
  return call(kHsm, 0, hart_id, entry, opaque);
}

enum class ResetType : unsigned long { kShutdown = 0, kColdReboot = 1, kWarmReboot = 2 };

/// Resets or shuts down. Returns only if the SBI cannot do it.
inline void system_reset(ResetType type) noexcept { call(kReset, 0, static_cast<unsigned long>(type), 0); }

}  // namespace qm::hal::sbi
