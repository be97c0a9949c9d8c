#pragma once
/// Interrupts: handlers, the periodic tick, and a report on each hart.

#include <cstdint>
#include <string_view>

namespace qm::firmware {

using InterruptHandler = void (*)(void* argument);

/// External interrupts have the PLIC's source numbers, 1 to 127. Lines from this number on are raised by software, for
/// devices that exist only in software; the IPI calls their handlers.
inline constexpr unsigned kSoftwareLine = 128;
inline constexpr unsigned kSoftwareLines = 32;

/// Registers @p handler for interrupt @p line. It is called with interrupts masked, and may enable them.
/// @param[in] hart the hart that serves an external line. A software line is served by the hart it is raised on.
/// @returns false if the line already has a handler, if there is no such line, or if the hart has no PLIC context.
bool register_interrupt(unsigned line, InterruptHandler handler, void* argument, unsigned hart = 0) noexcept;

/// Makes software line @p line pending on hart @p hart. Raising a pending line again has no effect.
/// Context: any hart, any interrupt level.
void raise_interrupt(unsigned hart, unsigned line) noexcept;

/// Makes the timer interrupt call @p handler at every tick of every hart; null: no handler. A tick does not wake an
/// idle hart. Ticks that fall due while the hart sleeps are served as one tick when it wakes, and count as neither
/// missed nor late.
void set_tick_handler(InterruptHandler handler, void* argument) noexcept;

/// The default tick rate: a period of 1 ms.
inline constexpr std::uint32_t kTickHz = 1000;

/// Sets hart @p hart's tick period. @param[in] period_ticks in units of the timebase; 0: no ticks.
void set_tick_period(unsigned hart, std::uint32_t period_ticks) noexcept;

/// A report on a hart, readable from any hart. Counts wrap.
struct HartReport {
  unsigned long hart_id = 0;
  bool online = false;
  bool idle = false;
  std::uint32_t period_ticks = 0;
  std::uint32_t ticks = 0;
  std::uint32_t missed_ticks = 0;  ///< ticks that fell due while an earlier tick had not been served
  /// The longest time between a tick's due time and its handler since the last reset, in units of the timebase.
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
