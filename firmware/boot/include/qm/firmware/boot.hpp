#pragma once
/// The interface between an image and the boot code.
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
#include <qm/hal/port_contract.hpp>

namespace qm::firmware {

/// Facts about this boot. The text and the id live as long as the system.
struct BootInfo {
  /// Free RAM in whole 4 KiB pages: RAM without the image, the device tree and reserved ranges.
  std::span<const hal::MemoryRange> memory;
  std::size_t ram_bytes = 0;               ///< all RAM of the board
  unsigned hart_count = 0;                 ///< harts to start, hart 0 included: 1 to hal::Port::kMaxHarts
  unsigned harts_left_out = 0;             ///< further harts of the board, which are not started
  std::uint64_t timebase_hz = 0;           ///< rate of hal::Port::ticks()
  std::string_view bootargs;               ///< /chosen/bootargs
  std::span<const std::uint8_t> build_id;  ///< SHA-1 of the image as the linker wrote it; empty if there is none
};

/// The image's entry. Runs as the task "main" of hart 0 when all harts that answered are online. A hart that did not
/// answer counts in `hart_count` but is not in hal::online_harts(). When it returns, the system ends with status 0.
void main(const BootInfo& info);

/// Optional: runs on hart 0 before any other hart runs, outside a task, so it must not wait. An image sets up its
/// allocator here.
void early_main(const BootInfo& info);

/// Optional: runs on each hart except hart 0 when it has come online, before its tasks. It runs outside a task, so it
/// must not wait.
void hart_main(unsigned hart);

/// Makes the boot code call @p start on each hart except hart 0, in an image that does not define hart_main().
/// Context: early_main().
using HartStart = void (*)(unsigned hart) noexcept;
void set_hart_start(HartStart start) noexcept;

/// The facts that main() is given.
[[nodiscard]] const BootInfo& boot_info() noexcept;

/// Ends the emulator with exit status @p status, of which it keeps the lower 8 bits. A board without a finisher is shut
/// down.
[[noreturn]] void exit(unsigned status) noexcept;

/// Restarts the board through the SBI.
[[noreturn]] void reboot() noexcept;

/// Stops the system: halts the other harts, prints @p reason, this hart's context and a backtrace, runs the panic shell
/// if there is one, and ends with kPanicStatus. An exception does the same. Context: any; takes no lock.
[[noreturn]] void panic(const char* reason) noexcept;

/// Runs after the report of a panic, for a user at the serial line. The other harts are halted, interrupts stay masked
/// for ever, and it has a stack of kPanicStackBytes. When it returns, the system ends. If it faults, the fault is
/// reported and it is called again. If it then faults before it has read a byte, the system ends.
using PanicShell = void (*)() noexcept;
inline constexpr unsigned kPanicStackBytes = 16384;
void set_panic_shell(PanicShell shell) noexcept;

/// The stack of the panic shell.
[[nodiscard]] hal::StackBounds panic_stack() noexcept;

/// A hart that was not halted at an interrupt, so that it may be in the middle of anything: it did not halt, or it is
/// in a panic of its own. hal::BroadcastResult::kNobody: there is none. Context: the panic shell.
[[nodiscard]] unsigned busy_hart() noexcept;

/// The serial line for a panic shell: polled, without a lock. panic_read() does not wait. panic_pause() waits for at
/// most 1 ms. Bytes received before the panic are dropped.
std::size_t panic_read(std::span<char> bytes) noexcept;
void panic_write(std::string_view bytes) noexcept;
void panic_pause() noexcept;

/// The emulator's exit status after a panic or an exception.
inline constexpr unsigned kPanicStatus = 101;

}  // namespace qm::firmware
