#pragma once
/// Interrupts: handlers, the periodic tick, and what each hart did.

#include <cstdint>
#include <string_view>

namespace qm::firmware {

using InterruptHandler = void (*)(void* argument);

/// External interrupts have the PLIC's source numbers, 1 to 127. Lines from here on are raised by software, for devices
/// that exist in software only; their handlers run from the IPI.
inline constexpr unsigned kSoftwareLine = 128;
inline constexpr unsigned kSoftwareLines = 32;

/// Calls @p handler for interrupt @p line, with interrupts masked; it may enable them.
/// @param[in] hart the hart that serves an external line. A software line is served by the hart it is raised on.
/// @returns false if the line has a handler, there is no such line, or the hart has no PLIC context.
bool register_interrupt(unsigned line, InterruptHandler handler, void* argument, unsigned hart = 0) noexcept;

/// Makes software line @p line pending on hart @p hart. Raising a pending line again does nothing more.
/// Context: any hart, any interrupt level.
void raise_interrupt(unsigned hart, unsigned line) noexcept;

/// Calls @p handler at every tick of every hart, in the timer interrupt. Null: nobody. A tick does not wake an idle hart:
/// those that fall due while it sleeps are served as one when something else wakes it, and count as neither missed nor
/// late.
void set_tick_handler(InterruptHandler handler, void* argument) noexcept;

/// Default distance of two ticks, 1 ms.
inline constexpr std::uint32_t kTickHz = 1000;

/// Sets hart @p hart's tick period. @param[in] period_ticks in units of the timebase; 0: no ticks.
void set_tick_period(unsigned hart, std::uint32_t period_ticks) noexcept;

/// One hart as others see it. Counts wrap.
struct HartReport {
  unsigned long hart_id = 0;
  bool online = false;
  bool idle = false;
  std::uint32_t period_ticks = 0;
  std::uint32_t ticks = 0;
  std::uint32_t missed_ticks = 0;  ///< ticks that fell due while an earlier one was still waiting to be served
  /// Most timebase ticks between a tick's due time and its handler, since the last reset.
  std::uint32_t worst_lateness = 0;
  std::uint32_t external_interrupts = 0;
  std::uint32_t ipis = 0;
  std::string_view task;  ///< the task it runs; the text may change if that task ends
};

/// Context: any.
[[nodiscard]] HartReport hart_report(unsigned hart) noexcept;

/// Sets hart @p hart's worst lateness back to 0.
void reset_worst_lateness(unsigned hart) noexcept;

}  // namespace qm::firmware
