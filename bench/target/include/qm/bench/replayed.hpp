#pragma once
/// The programs that replay.cpp replays: two sets, each with an image of its own.

#include <span>

#include <qm/replay/recording.hpp>

namespace qm::bench {

/// @returns the recordings of the firmware in the bench `replay`, the others in the bench `programs`.
[[nodiscard]] std::span<const replay::Recording> replayed() noexcept;

}  // namespace qm::bench
