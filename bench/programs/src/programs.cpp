#include <qm/bench/program.hpp>

extern "C" {
extern const std::uint8_t qm_recording_cc1plus[], qm_recording_cc1plus_end[];
extern const std::uint8_t qm_recording_bash[], qm_recording_bash_end[];
extern const std::uint8_t qm_recording_python[], qm_recording_python_end[];
extern const std::uint8_t qm_recording_ld[], qm_recording_ld_end[];
}

namespace qm::bench {

std::span<const Program> programs() noexcept {
  static const Program all[] = {
      {*replay::find_recording("sqlite"), Use::kTuning},
      {*replay::find_recording("jq"), Use::kTuning},
      {*replay::find_recording("redis-threads"), Use::kTuning},
      {{"cc1plus", {qm_recording_cc1plus, qm_recording_cc1plus_end}}, Use::kTuning},
      {{"bash", {qm_recording_bash, qm_recording_bash_end}}, Use::kTuning},
      {{"python", {qm_recording_python, qm_recording_python_end}}, Use::kKeptApart},
      {{"ld", {qm_recording_ld, qm_recording_ld_end}}, Use::kKeptApart},
  };
  return all;
}

}  // namespace qm::bench
