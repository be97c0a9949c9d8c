#pragma once
/// Starts the allocator and its console in an image with this boot code:
///
///     void qm::firmware::early_main(const BootInfo& info) { start_allocator(info); }
///     void qm::firmware::main(const BootInfo&) { serve_console({.version = "1.0"}); }
///
/// An image that links quartermaster::app has no trace. In an image that links quartermaster::app_trace, the same calls
/// also start the trace and add its commands to the console. An image that needs another arrangement uses
/// qm::initialize(), Console and Trace itself, as these functions do.

#include <qm/console/console.hpp>
#include <qm/firmware/boot.hpp>

namespace qm::firmware {

/// Initializes the trace in its default size, with records for objects in all RAM of the board. Does nothing without
/// quartermaster::app_trace. Panics if the trace cannot be initialized.
/// Context: within qm::initialize().
void open_trace() noexcept;

/// Starts the allocator for all harts of this boot over all free RAM, in any number of memory regions, and attaches
/// hart 0. Each other hart is attached when it has come online, before its tasks. If the image defines hart_main(),
/// that function has to call qm::attach_hart() itself.
/// Panics if the allocator cannot start: no memory region has 16 pages (Status::kInvalid), the memory is too small for
/// the allocator's own caches (kNoMemory), or the allocator was started before (kBusy).
/// @param[in] open called when caches can be made and none exists: see qm::initialize(). nullptr: no call.
/// Complexity: O(memory regions) and O(harts).
/// Context:    hart 0, in early_main().
void start_allocator(const BootInfo& info, void (*open)() noexcept = open_trace) noexcept;

/// @returns @p config completed with the facts of this boot: always `harts`; and each of these that @p config leaves
///          empty: `build_id`, `ram_bytes`, the symbols (`resolver`, `finder` with `symbols`), `describe`, and a `wake`
///          that ends a wait for console_input().
/// Context: the console's task. The resolver stores one name, so it serves one console at a time.
[[nodiscard]] console::ConsoleConfig of_this_boot(console::ConsoleConfig config) noexcept;

/// Runs a console on the board's serial line: prints its banner, then reads and answers for ever, and sleeps while
/// there is no work. Its configuration is of_this_boot(@p config). With quartermaster::app_trace it has the commands of
/// the trace. It prints each misuse, unless the firmware has called set_misuse_handler(). It cannot fail. It is called
/// once.
/// Context: a task of the boot hart, such as main(). Commands run in this task. Other tasks of the hart run while it
///          waits and between the lines of a report.
[[noreturn]] void serve_console(const console::ConsoleConfig& config = {}) noexcept;

/// The console that serve_console() runs, for Console::notify(); nullptr before that.
/// Context: any hart, any interrupt level.
[[nodiscard]] console::Console* served_console() noexcept;

}  // namespace qm::firmware
