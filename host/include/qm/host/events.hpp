#pragma once
/// What a capture tells of the allocator, as a program wants it: events of all harts in one order, and beside them
/// definitions, statistics and what is missing. Who explains a capture implements EventHandler; who delivers one - the reader of
/// captures, the live line, the generator of the tests - calls it.
///
///     on_header                 once for each stream, before anything else of it
///     on_event ...              in the order of their numbers; within a hart that is the order of the operations
///     on_gap                    between the events around the place where some are missing
///     on_statistics, on_mode    where the device sent them
///     on_end                    once, after everything: whether the capture was whole
///
/// Definitions may arrive later than the events that use them (a repeated definition after a loss), so a handler looks them up
/// at the end, or takes an unknown id for one that is not known yet.

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace qm::host {

enum class Operation : std::uint8_t { kAllocate, kFree, kReallocate };

/// The face that an operation went through.
enum class EventKind : std::uint8_t { kHeap, kCache, kArena };

/// One operation. What the stream leaves out because it can be derived is filled in where it says so.
struct Event {
  std::uint64_t number = 0;      ///< in the one order of all harts, which agrees with cause and effect; counts dropped events
  std::uint64_t ticks = 0;       ///< the device's clock, StreamHeader::ticks_per_second
  std::uint64_t address = 0;     ///< of the object; of a reallocation the new one
  std::uint64_t old_address = 0;  ///< of a reallocation, else 0
  std::uint64_t requested = 0;   ///< bytes asked for; 0 of a free
  std::uint64_t allocated = 0;   ///< bytes handed out; 0 of a free
  std::uint32_t traceable = 0;   ///< id of the cache or arena, a key of Definitions::traceables
  std::uint32_t old_traceable = 0;  ///< of a reallocation the one that it left, else 0
  std::uint32_t call_site = 0;   ///< a key of Definitions::call_sites; 0: none
  std::uint32_t stack = 0;       ///< stack id, a key of Definitions::stacks; 0: none
  std::uint32_t context = 0;     ///< a key of Definitions::contexts; 0: none
  std::uint32_t flags = 0;       ///< allocation flags, as docs/protocol.md
  std::uint16_t hart = 0;        ///< hart index
  Operation operation = Operation::kAllocate;
  EventKind kind = EventKind::kCache;
  double weight = 1;             ///< how many operations it stands for: above 1 where the device samples
};

/// A cache or an arena.
struct Traceable {
  std::uint32_t id = 0;
  EventKind kind = EventKind::kCache;
  std::string name;
  std::uint64_t object_bytes = 0;  ///< object size of a cache, quantum of an arena
  std::string source;              ///< the arena that it draws from; empty: none or not known
};

/// A call stack. @see Definitions::stacks
struct Stack {
  std::vector<std::uint64_t> frames;  ///< return addresses, the innermost first
  bool truncated = false;             ///< the walk ended before the stack did
};

/// What a stream says of itself.
struct StreamHeader {
  std::uint16_t schema_major = 0, schema_minor = 0;
  std::uint8_t pointer_bytes = 8;
  bool big_endian = false;
  std::uint16_t harts = 0;
  std::uint64_t ticks_per_second = 0;
  std::uint64_t start_ticks = 0;
  std::string build_id;        ///< hexadecimal
  bool from_boot = false;      ///< it began before the first allocation: a free of an unknown object is an error
};

struct Definitions {
  StreamHeader header;
  std::map<std::uint32_t, Traceable> traceables;
  std::unordered_map<std::uint32_t, Stack> stacks;
  std::unordered_map<std::uint32_t, std::string> call_sites;  ///< "firmware/demo/net.cpp:41 [demo] func:packet_alloc"
  std::unordered_map<std::uint32_t, std::string> contexts;  ///< "task net-rx", "irq 10"
};

/// Why events are not there.
enum class Missing : std::uint8_t {
  kOverrun,   ///< the device had no room: its rings were too small, or the line too slow
  kLine,      ///< frames were lost or damaged on the line
  kCapture,   ///< the capture itself is damaged
};

struct Gap {
  Missing why = Missing::kOverrun;
  std::uint16_t hart = 0;       ///< whose events; kAnyHart where it is not known
  std::uint64_t events = 0;     ///< how many; 0: not known
  std::uint64_t before = 0;     ///< number of the next event that is there
  static constexpr std::uint16_t kAnyHart = 0xffff;
};

/// The device's own counters since the start of the stream, counted where events are written.
struct Counters {
  std::uint64_t allocations = 0, frees = 0, reallocations = 0;
  std::uint64_t requested = 0, allocated = 0, freed = 0;  ///< bytes
  friend bool operator==(const Counters&, const Counters&) = default;
};
struct HartCounters {
  std::uint64_t events = 0;    ///< numbers taken: written or dropped
  std::uint64_t overruns = 0;  ///< of these dropped
  friend bool operator==(const HartCounters&, const HartCounters&) = default;
};
struct Statistics {
  std::uint64_t ticks = 0;
  std::uint64_t number = 0;  ///< they count the events below this number
  std::map<std::uint32_t, Counters> traceables;
  std::vector<HartCounters> harts;
};

/// How much the device sends: it changes by itself when the line cannot keep up.
enum class StreamMode : std::uint8_t { kFull, kSampled, kCounters, kStopped };
struct ModeChange {
  StreamMode mode = StreamMode::kFull;
  std::uint64_t ticks = 0;
  std::uint64_t number = 0;
};

/// What is known at the end of a capture.
struct CaptureEnd {
  bool complete = true;               ///< everything that was sent is there
  std::vector<std::string> problems;  ///< what is wrong, a line each
  std::uint64_t unknown_frames = 0;   ///< of a later minor version, skipped
};

class EventHandler {
 public:
  virtual ~EventHandler() = default;
  /// @p definitions grow while the capture is read, and stay where they are until on_end() has returned.
  virtual void on_header(const Definitions& definitions) { (void)definitions; }
  virtual void on_event(const Event& event) = 0;
  virtual void on_gap(const Gap& gap) { (void)gap; }
  virtual void on_statistics(const Statistics& statistics) { (void)statistics; }
  virtual void on_mode(const ModeChange& change) { (void)change; }
  virtual void on_end(const CaptureEnd& end) { (void)end; }
};

}  // namespace qm::host
