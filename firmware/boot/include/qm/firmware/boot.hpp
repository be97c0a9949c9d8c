#pragma once
/// What an image supplies to the boot code, and what it gets from it.
///
///     _start -> device tree, hart 0's traps, timer and console -> early_main() -> the other harts start, each calls
///     hart_main() and goes idle -> main() runs as hart 0's first task, "main"
///
/// Hart index 0 is the hart that booted, whatever its hart id; the others follow in ascending hart id.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <qm/hal/chip/memory_map.hpp>

namespace qm::firmware {

/// Facts about this boot. The text and the id live as long as the system.
struct BootInfo {
  /// Free RAM, in whole 4 KiB pages: without image, device tree, reservations.
  std::span<const hal::MemoryRange> memory;
  std::size_t ram_bytes = 0;               ///< all RAM of the board
  unsigned hart_count = 0;                 ///< harts that are to be online, 1 to hal::Port::kMaxHarts
  unsigned harts_left_out = 0;             ///< harts of the board beyond that
  std::uint64_t timebase_hz = 0;           ///< rate of hal::Port::ticks()
  std::string_view bootargs;               ///< /chosen/bootargs
  std::span<const std::uint8_t> build_id;  ///< SHA-1 of the image as the linker wrote it; empty if there is none
};

/// The image's entry. Runs as the task "main" of hart 0 with every hart online that answered; harts that did not are
/// counted by `hart_count` but absent from hal::online_harts(). Returning ends the system with status 0.
void main(const BootInfo& info);

/// Optional: runs on hart 0 before any other hart runs, outside a task (it must not wait). The place to set up an
/// allocator.
void early_main(const BootInfo& info);

/// Optional: runs on each hart but hart 0 when it has come online, before its tasks, outside a task (it must not wait).
void hart_main(unsigned hart);

/// Has @p start called in the place of hart_main(), in an image that does not define that.
/// Context: early_main().
using HartStart = void (*)(unsigned hart) noexcept;
void set_hart_start(HartStart start) noexcept;

/// The facts that main() is given.
[[nodiscard]] const BootInfo& boot_info() noexcept;

/// Ends the emulator with exit status @p status, of which it keeps the lower 8 bits; on a board without a finisher,
/// shuts down.
[[noreturn]] void exit(unsigned status) noexcept;

/// Restarts the board through the SBI.
[[noreturn]] void reboot() noexcept;

/// Stops the system: prints @p reason, where this hart is and a backtrace, halts the other harts, ends with
/// kPanicStatus, after the panic shell if there is one. So does an exception. Context: anywhere; takes no lock.
[[noreturn]] void panic(const char* reason) noexcept;

/// What follows the report of a panic, for whoever sits at the line. It has the processor to itself, with the other
/// harts halted and interrupts masked for ever, on a stack of kPanicStackBytes. The system ends when it returns. If it
/// faults, that is reported and it is called again; if it faults a second time before it has read a byte, the system
/// ends.
using PanicShell = void (*)() noexcept;
inline constexpr unsigned kPanicStackBytes = 16384;
void set_panic_shell(PanicShell shell) noexcept;

/// The line, for a panic shell: polled, without a lock. panic_read() does not wait; panic_pause() does, for a byte or a
/// millisecond. Bytes that came before the panic are dropped.
std::size_t panic_read(std::span<char> bytes) noexcept;
void panic_write(std::string_view bytes) noexcept;
void panic_pause() noexcept;

/// The emulator's exit status after a panic or an exception.
inline constexpr unsigned kPanicStatus = 101;

}  // namespace qm::firmware
