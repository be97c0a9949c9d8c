#pragma once
/// The console on the serial line: a task reads input, runs commands, and prints the results of ended workloads.

#include <string_view>

#include <qm/console/boot_options.hpp>
#include <qm/firmware/boot.hpp>

namespace qm::demo {

/// A warning about the boot options, which the console prints when it runs; empty: none.
extern constinit std::string_view boot_warning;

/// Runs the console for ever. Context: a task of hart 0.
[[noreturn]] void run_console(const firmware::BootInfo& info) noexcept;

}  // namespace qm::demo
