// The recordings in this image; their bytes are in recordings.S.

#include <qm/replay/recording.hpp>

extern "C" {
extern const std::uint8_t qm_recording_sqlite[], qm_recording_sqlite_end[];
extern const std::uint8_t qm_recording_jq[], qm_recording_jq_end[];
extern const std::uint8_t qm_recording_redis_threads[], qm_recording_redis_threads_end[];
}

std::span<const qm::replay::Recording> qm::replay::recordings() noexcept {
  static const Recording all[] = {
      {"sqlite", {qm_recording_sqlite, qm_recording_sqlite_end}},
      {"jq", {qm_recording_jq, qm_recording_jq_end}},
      {"redis-threads", {qm_recording_redis_threads, qm_recording_redis_threads_end}},
  };
  return all;
}

const qm::replay::Recording* qm::replay::find_recording(std::string_view name) noexcept {
  for (const Recording& recording : recordings()) {
    if (recording.name == name) return &recording;
  }
  return nullptr;
}
