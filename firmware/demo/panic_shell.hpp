#pragma once
/// The console after a panic.

#include <cstdint>

#include <qm/console/console.hpp>

namespace qm::demo {

/// From here on a panic ends in a console in place of @p console, with the commands that only look, if a key is pressed
/// within
/// @p seconds (0: however long it takes).
void enable_panic_shell(console::Console& console, std::uint32_t seconds) noexcept;

}  // namespace qm::demo
