#pragma once
/// The console after a panic.

#include <cstdint>

#include <qm/console/console.hpp>

namespace qm::demo {

/// From here on a panic starts a console in place of @p console, with the read-only commands. The system ends if no key
/// is pressed within
/// @p seconds (0: no limit).
void enable_panic_shell(console::Console& console, std::uint32_t seconds) noexcept;

}  // namespace qm::demo
