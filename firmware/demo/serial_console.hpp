#pragma once
/// The console on the serial line: the task that reads, runs commands, and prints what workloads say at their end.

#include <string_view>

#include <qm/console/boot_options.hpp>
#include <qm/firmware/boot.hpp>

namespace qm::demo {

/// What there is to say of the boot options once the console runs; empty: nothing.
extern constinit std::string_view boot_warning;

/// Runs the console for ever. Context: a task of hart 0.
[[noreturn]] void run_console(const firmware::BootInfo& info) noexcept;

}  // namespace qm::demo
