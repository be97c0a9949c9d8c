#pragma once
/// The console after a panic.

#include <cstdint>

#include <qm/console/console.hpp>

namespace qm::demo {

/// From here on a panic ends in a console of its own, with the commands that only look, if a key is pressed within @p seconds
/// (0: however long it takes).
void enable_panic_shell(const console::ConsoleConfig& config, std::uint32_t seconds) noexcept;

}  // namespace qm::demo
