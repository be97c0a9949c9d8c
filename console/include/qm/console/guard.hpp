#pragma once
/// The command `guard`.

namespace qm::console {

/// Links the command and guarded samples (<qm/guards.hpp>) into the image. No other call is needed.
void add_guard() noexcept;

}  // namespace qm::console
