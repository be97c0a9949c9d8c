#include <qm/bench/replayed.hpp>

std::span<const qm::replay::Recording> qm::bench::replayed() noexcept { return replay::recordings(); }
