#include <array>

#include <qm/bench/program.hpp>
#include <qm/bench/replayed.hpp>

std::span<const qm::replay::Recording> qm::bench::replayed() noexcept {
  static std::array<replay::Recording, 16> others;
  std::size_t count = 0;
  for (const Program& program : programs()) {
    if (replay::find_recording(program.recording.name) == nullptr) others[count++] = program.recording;
  }
  return {others.data(), count};
}
