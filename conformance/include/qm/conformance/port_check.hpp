#pragma once
/// The test whether a port does what the allocator relies on. Link it with the port and run it on the board, before any
/// other code uses the allocator:
///
///     hart 0           check_port({.write = print, .memory = memory, .harts = 4, .interrupt_in = set_timer})
///                                              -> true: the port conforms
///     every other hart attend_port_check()     -> returns when hart 0 has finished
///
/// Call both when the hart is completely set up: traps, hart-locals, IPIs, and interrupts enabled. The check sets the
/// allocator up over the given memory and shuts it down again.
///
/// Each check prints a line, its name before its verdict, so a check that hangs can be identified:
///
///     port: masking: ok
///     port: ticks: FAILED: they stand still: 1000000 readings are all 12345
///
/// It does not call fatal(), which ends the system.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace qm::conformance {

struct PortCheck {
  void (*write)(std::string_view text) = nullptr;  ///< prints; called on hart 0 with interrupts enabled, no lock held
  std::span<std::byte> memory;                     ///< at least 256 KiB, for the allocator during the check
  unsigned harts = 1;                              ///< number of harts that take part, including hart 0
  std::uint32_t wait_ms = 5000;                    ///< how long to wait for the other harts, in milliseconds
  /// Makes a timer interrupt hart 0 about @p ticks ticks from now, once or repeatedly; the interrupt's handler calls
  /// on_interrupt(). Called on hart 0, also from that handler. nullptr: nothing interrupts hart 0, and only IPIs
  /// interrupt the other harts. Without this function a port for one hart with restartable sections does not conform.
  void (*interrupt_in)(std::uint32_t ticks) = nullptr;
};

/// Least size of the memory for the check, in bytes.
inline constexpr std::size_t kCheckBytes = 256 * 1024;

/// Runs every check that the earlier results allow. @returns whether none failed.
/// Complexity: less than a second if the port conforms, otherwise up to about ten seconds.
/// Context: hart 0, interrupts enabled, one check at a time; the allocator is not set up.
bool check_port(const PortCheck& check) noexcept;

/// To be called by the handler of PortCheck::interrupt_in()'s interrupt. Does nothing at any other time and on other
/// harts. Context: that handler.
void on_interrupt() noexcept;

/// Carries out the requests of check_port() on the calling hart until the check is over. Context: as check_port(), on
/// each further hart.
void attend_port_check() noexcept;

}  // namespace qm::conformance
