#pragma once
/// Whether a port does what the allocator relies on. Linked with the port and run on the board, before anything else of
/// it:
///
///     hart 0           check_port({print, memory, harts})     -> true: the port conforms
///     every other one  attend_port_check()                    -> returns when hart 0 is done
///
/// Both are called when the hart is set up as it will be for good: traps, hart-locals, IPIs, and interrupts enabled.
/// The check sets the allocator up over the memory it is given and shuts it down again.
///
/// A line a check, its name before its verdict, so that what hangs is known:
///
///     port: masking: ok
///     port: ticks: FAILED: they stand still: 1000000 readings are all 12345
///
/// fatal() is not called: it ends the system.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace qm::conformance {

struct PortCheck {
  void (*write)(std::string_view text) = nullptr;  ///< prints; called on hart 0 with interrupts enabled, no lock held
  std::span<std::byte> memory;                     ///< at least 256 KiB, for the allocator while the check runs
  unsigned harts = 1;                              ///< harts that take part: hart 0 and those that attend
  std::uint32_t wait_ms = 5000;                    ///< how long to wait for those
  /// Has a timer interrupt hart 0 about @p ticks ticks from now, once or again and again; its handler calls
  /// on_interrupt(). Called on hart 0, also from there. nullptr: hart 0 is interrupted by nobody, and of the others
  /// only by IPIs. A port for one hart with restartable sections does not conform without it.
  void (*interrupt_in)(std::uint32_t ticks) = nullptr;
};

/// Least memory for the check, in bytes.
inline constexpr std::size_t kCheckBytes = 256 * 1024;

/// Runs every check that the ones before it allow. @returns whether none failed.
/// Complexity: below a second of ticks, where the port conforms; else up to some ten.
/// Context: hart 0, interrupts enabled, once at a time; the allocator is not set up.
bool check_port(const PortCheck& check) noexcept;

/// What the handler of PortCheck::interrupt_in()'s interrupt calls. Does nothing at any other time and on another hart. Context: that handler.
void on_interrupt() noexcept;

/// Does on the calling hart what check_port() asks for, until that is done. Context: as check_port(), on each further
/// hart.
void attend_port_check() noexcept;

}  // namespace qm::conformance
