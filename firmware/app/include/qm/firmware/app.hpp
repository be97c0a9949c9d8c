#pragma once
/// The allocator and its console in an image with this boot code:
///
///     void qm::firmware::early_main(const BootInfo& info) { start_allocator(info); }
///     void qm::firmware::main(const BootInfo&) { serve_console({.version = "1.0"}); }
///
/// An image that links quartermaster::app has nothing of the trace. One that links quartermaster::app_trace has its books opened and
/// its commands at the console, by the same calls. Who wants another arrangement uses qm::initialize(), Console and
/// TraceBooks as these functions do.

#include <qm/console/console.hpp>
#include <qm/firmware/boot.hpp>

namespace qm::firmware {

/// Opens the books of the trace, in their default size, for records of all RAM of the board; without quartermaster::app_trace
/// does nothing. Panics if the books cannot be opened.
/// Context: within qm::initialize().
void open_books() noexcept;

/// Starts the allocator for all harts of this boot over all free RAM, in as many banks as there are, and attaches hart
/// 0. Each other hart is attached when it has come online, before its tasks, unless the image defines hart_main():
/// that calls qm::attach_hart() itself then.
/// Panics if the allocator cannot start: no bank has 16 pages (Status::kInvalid), the memory does not suffice for what
/// caches are made of (kNoMemory), or it was started before (kBusy).
/// @param[in] open called when caches can be made and none has been: see qm::initialize(). nullptr: nobody.
/// Complexity: O(banks) and O(harts).
/// Context:    hart 0, in early_main().
void start_allocator(const BootInfo& info, void (*open)() noexcept = open_books) noexcept;

/// @returns @p config with the facts of this boot: always `harts`; and, where they are not given, `build_id`, `ram_bytes`, the names of
///          functions (`resolver`, `finder`), `describe`, and a `wake` that ends a wait for console_input().
/// Context: the console's task. The resolver keeps one name: it serves one console at a time.
[[nodiscard]] console::ConsoleConfig of_this_boot(console::ConsoleConfig config) noexcept;

/// Runs a console on the board's line: prints its banner, then reads and answers for ever, and sleeps while there is
/// nothing to do. Its configuration is of_this_boot(@p config). With quartermaster::app_trace it has the commands of the trace.
/// Nothing can fail. Call it once.
/// Context: a task of the boot hart, as main() is; the handlers of its commands run in it. Other tasks of the hart run
///          while it waits and between the lines of a report.
[[noreturn]] void serve_console(const console::ConsoleConfig& config = {}) noexcept;

/// The console that serve_console() runs, for Console::notify(); nullptr before that.
/// Context: any hart, any interrupt level.
[[nodiscard]] console::Console* served_console() noexcept;

}  // namespace qm::firmware
