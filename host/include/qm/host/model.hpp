#pragma once
/// The live objects, replayed from events. If no events are missing, objects, counts and bytes are those of the device.
///
/// An object is identified by its address and its cache or arena, because addresses coincide: a slab begins where its
/// first object does, the slab is an object of a quantum cache, the slab of that cache is a segment, and arenas may
/// allocate numbers. Memory grows with the live objects and with those freed recently.

#include <cstdint>
#include <map>
#include <unordered_map>

#include <qm/host/events.hpp>

namespace qm::host {

/// The reason why an event contradicts the events before it.
enum class Misfit : std::uint8_t {
  kNone,
  /// a free of an object that the stream does not know: the object is older, or its allocation is missing
  kUnknown,
  kDoubleFree,  ///< a free of an object that was freed and not allocated again
  kWrongCache,  ///< a free to another cache than the one that allocated it
  kStillOut,    ///< an allocation at the address of a live object
};
[[nodiscard]] const char* name(Misfit misfit) noexcept;
inline constexpr std::size_t kMisfits = 5;

/// A live object.
struct LiveObject {
  std::uint64_t address = 0;
  std::uint64_t requested = 0, allocated = 0;
  std::uint64_t ticks = 0, number = 0;  ///< time and event number of its allocation
  std::uint32_t traceable = 0, stack = 0, call_site = 0, context = 0;
  std::uint16_t hart = 0;
  double weight = 1;
};

class Model {
 public:
  /// @param[in] definitions the definitions of the stream, which must outlive this object.
  explicit Model(const Definitions& definitions) : definitions_(definitions) {}

  struct Step {
    Misfit misfit = Misfit::kNone;
    bool had_object = false;  ///< `before` is valid
    LiveObject before;        ///< the object before a free or a reallocation
    bool crossed = false;     ///< another hart frees it than allocated it
  };

  /// Takes the next event in order. Complexity: O(1).
  Step apply(const Event& event);

  /// Counters in the way the device counts. @see Statistics
  [[nodiscard]] const std::map<std::uint32_t, Counters>& traceables() const noexcept { return traceables_; }
  [[nodiscard]] const std::map<std::uint32_t, HartCounters>& harts() const noexcept { return harts_; }
  [[nodiscard]] std::uint64_t events() const noexcept { return events_; }
  [[nodiscard]] std::uint64_t crossed() const noexcept { return crossed_; }
  [[nodiscard]] std::uint64_t live_objects() const noexcept { return live_.size(); }
  [[nodiscard]] std::uint64_t live_bytes() const noexcept { return live_bytes_; }
  /// Calls @p visit with each live object, in unspecified order.
  template <class Visit>
  void for_each_live(Visit visit) const {
    for (const auto& [key, object] : live_) visit(object);
  }
  /// The number of frees of objects that the stream does not know, by cache or arena.
  [[nodiscard]] const std::map<std::uint32_t, std::uint64_t>& unknown_frees() const noexcept { return unknown_; }
  /// Whether `freed` of @p traceable includes all freed bytes: only the device knows the size of an arena's segment
  /// that is older than the stream.
  [[nodiscard]] bool knows_freed_bytes(std::uint32_t traceable) const noexcept {
    return !is_arena(traceable) || !unknown_.contains(traceable);
  }

 private:
  struct Key {
    std::uint64_t address = 0;
    std::uint32_t traceable = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept {
      std::uint64_t mixed = (key.address + key.traceable) * 0x9e37'79b9'7f4a'7c15;
      mixed ^= mixed >> 32;
      return static_cast<std::size_t>(mixed * 0xd6e8'feb8'6659'fd93);
    }
  };

  [[nodiscard]] bool is_arena(std::uint32_t traceable) const noexcept;
  [[nodiscard]] const Traceable* find(std::uint32_t traceable) const noexcept;
  [[nodiscard]] std::uint32_t cache_that_has(std::uint64_t address) const noexcept;
  void take(const Event& event, Step& step);
  void give_back(const Event& event, Key key, Step& step);
  void remember_freed(Key key, std::uint64_t event_number);

  const Definitions& definitions_;
  std::unordered_map<Key, LiveObject, Hash> live_;
  // freed objects that were not allocated again, with the event number of the free
  std::unordered_map<Key, std::uint64_t, Hash> freed_;
  std::map<std::uint32_t, Counters> traceables_;
  std::map<std::uint32_t, HartCounters> harts_;
  std::map<std::uint32_t, std::uint64_t> unknown_;
  std::uint64_t events_ = 0;
  std::uint64_t crossed_ = 0;
  std::uint64_t live_bytes_ = 0;
};

}  // namespace qm::host
