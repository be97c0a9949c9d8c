#pragma once
/// What replay.cpp replays: an image of its own for each of two sets.

#include <span>

#include <qm/replay/recording.hpp>

namespace qm::bench {

/// Of the bench `replay` the recordings that the firmware has, of `programs` the others.
[[nodiscard]] std::span<const replay::Recording> replayed() noexcept;

}  // namespace qm::bench
