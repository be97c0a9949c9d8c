#pragma once
/// An invented run of an allocator, the same for the same seed: events as a device sends them, with definitions and
/// statistics that agree with them. For the tests of everything that reads captures.

#include <cstdint>
#include <map>
#include <vector>

#include <qm/host/events.hpp>
#include <qm/test/seed.hpp>

namespace qm::test {

struct SyntheticOptions {
  std::uint64_t events = 1000;
  std::uint16_t harts = 4;
  std::uint32_t caches = 12;
  std::uint32_t stacks = 300;
  std::uint32_t depth = 16;   ///< frames of each stack
  std::uint32_t live = 1000;  ///< approximate number of live objects
  std::uint64_t seed = 1;
  std::uint64_t base_pc = 0x80200000;  ///< addresses of frames begin here, 4 bytes apart
  std::uint64_t statistics_every = 100'000;
  std::uint64_t quiet_ticks = 0;  ///< from the last event to the stop
  std::uint64_t drain_ticks = 0;  ///< from the stop to the last statistics
  std::uint16_t stream = 1;
  std::uint64_t boot = 0;
  std::uint8_t pointer_bytes = 8;
  host::StreamMode mode = host::StreamMode::kFull;  ///< the mode in the header; all events are delivered nevertheless
};

class Synthetic {
 public:
  explicit Synthetic(const SyntheticOptions& options);

  /// Delivers the whole run: header, events, statistics at intervals and after the last event, end.
  void deliver(host::EventHandler& handler);

  [[nodiscard]] const host::Definitions& definitions() const noexcept { return definitions_; }
  /// @returns the counters that a device would have at this point.
  [[nodiscard]] const host::Statistics& statistics() const noexcept { return statistics_; }

 private:
  struct Object {
    std::uint64_t address = 0, requested = 0, allocated = 0;
    std::uint32_t traceable = 0;
  };

  void define();
  [[nodiscard]] host::Event next_event();
  void allocate(host::Event& event);
  void free(host::Event& event);
  void reallocate(host::Event& event);
  [[nodiscard]] std::uint64_t take_address(std::uint64_t bytes);

  SyntheticOptions options_;
  Random random_;
  host::Definitions definitions_;
  host::Statistics statistics_;
  std::vector<Object> live_;
  std::map<std::uint64_t, std::vector<std::uint64_t>> free_addresses_;
  std::uint64_t next_address_ = 0x80400000;
  std::uint64_t ticks_ = 1'000'000;
  std::uint64_t number_ = 0;
};

}  // namespace qm::test
