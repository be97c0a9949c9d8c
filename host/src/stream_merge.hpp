#pragma once
/// Merges the events of all harts into one order. See StreamReader, invariants 1 and 2.

#include <array>
#include <cstdint>
#include <deque>
#include <map>

#include <qm/host/events.hpp>
#include <qm/wire/event.hpp>

namespace qm::host {

inline constexpr std::uint32_t kMostHarts = 256;

class StreamMerge {
 public:
  explicit StreamMerge(EventHandler& handler) : handler_(handler) {}

  void set_harts(std::uint32_t harts, std::uint32_t ring_bytes);
  void set_mode(wire::StreamMode mode, std::uint64_t sample_bytes);

  /// Begins a frame of @p hart whose first event is the hart's number @p hart_number: events between the last one and
  /// this one are missing.
  void begin_frame(std::uint32_t hart, std::uint64_t hart_number);
  void put(const wire::Event& event, const Definitions& definitions);
  /// Delivers the events that are certain to be next.
  void deliver();
  /// Delivers all waiting events.
  void flush();
  /// After the last event: releases the queues of all harts.
  void close() noexcept { harts_ = {}; }
  /// After the last event: finds out from the device's own counters which events are missing at the end of each hart.
  void settle(const Statistics& final);

  [[nodiscard]] std::uint64_t misplaced() const noexcept { return misplaced_; }
  /// The number of events of each hart that the device dropped, and that did not arrive.
  [[nodiscard]] const std::map<std::uint32_t, std::uint64_t>& overruns() const noexcept { return overruns_; }
  [[nodiscard]] const std::map<std::uint32_t, std::uint64_t>& missing() const noexcept { return missing_; }

 private:
  struct Item {
    enum class What : std::uint8_t { kEvent, kOverrun, kMissing, kMode } what = What::kEvent;
    Event event;  // of a note: hart, number and ticks; `requested` is the count or the sample size, `flags` the mode
  };
  struct Hart {
    std::deque<Item> queue;
    std::uint64_t expected = 0;  // number of its next event
    std::uint64_t arrived = 0;
    std::uint64_t last_number = 0;
    bool has_number = false;
    wire::StreamMode mode = wire::StreamMode::kFull;
    std::uint64_t sample_bytes = 0;
  };

  void grow_to(std::uint32_t harts);
  Hart& hart(std::uint32_t index);
  [[nodiscard]] std::uint64_t unwrapped(std::uint32_t number) noexcept;
  void put_note(Hart& hart, Item::What what, std::uint32_t index, std::uint64_t count, std::uint64_t number,
                std::uint64_t ticks);
  void deliver_first_of(Hart& hart);
  [[nodiscard]] Hart* least() noexcept;

  EventHandler& handler_;
  std::vector<Hart> harts_;
  std::size_t waiting_ = 0;  // items in all queues
  std::size_t window_ = 65536;
  std::uint64_t highest_ = 0;
  bool has_highest_ = false;
  std::uint64_t next_ = 0;  // number after that of the event delivered last
  bool has_next_ = false;
  std::uint64_t last_delivered_ = 0;
  std::uint64_t misplaced_ = 0;
  wire::StreamMode mode_ = wire::StreamMode::kFull;
  std::uint64_t sample_bytes_ = 0;
  std::map<std::uint32_t, std::uint64_t> overruns_, missing_;
};

}  // namespace qm::host
