#pragma once
/// The contents of a capture, in a form for programs: the events of all harts in one order, and also definitions,
/// statistics and gaps. A consumer of captures implements EventHandler; a producer (the reader of captures, the live
/// line, the generator of the tests) calls it.
///
///     on_header                 once for each stream, before its other calls
///     on_event ...              in the order of their numbers; within a hart this is the order of the operations
///     on_gap                    between the events around the missing ones
///     on_statistics, on_mode    at the position where the device sent them
///     on_stream_end             after the last event of a stream that the device ended, with the time of the stop
///     on_end                    once, at the end: whether the capture was complete
///
/// A number in an event is defined before the event, unless the definition was lost on the line: then it may come
/// later, or never. So look up stacks, call sites and contexts at the end.
///
/// A capture has several streams if the device started and stopped several times, or booted again. Streams are
/// independent: between two of them, anything may have been allocated and freed. A stream is identified by its place in
/// the capture, from 1 on, because a device's own numbers begin again with each boot.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace qm::host {

enum class Operation : std::uint8_t { kAllocate, kFree, kReallocate };

/// The exclusive upper bound of the number of caches and arenas of a device, and of their numbers (docs/protocol.md).
inline constexpr std::uint32_t kMostTraceables = 1 << 16;

/// The interface that the operation was called through.
enum class EventKind : std::uint8_t { kHeap, kCache, kArena };

/// One operation. Fields that the stream omits because they can be derived are filled in.
struct Event {
  /// Position in the order of all harts, which agrees with cause and effect; dropped events have numbers too.
  std::uint64_t number = 0;
  std::uint64_t ticks = 0;        ///< the device's clock, StreamHeader::ticks_per_second
  std::uint64_t address = 0;      ///< of the object; of a reallocation the new address
  std::uint64_t old_address = 0;  ///< of a reallocation, else 0
  std::uint64_t requested = 0;    ///< bytes requested; 0 for a free
  /// Bytes allocated. Of a free: the bytes given back for a cache's object, 0 (not known) for an arena's segment.
  std::uint64_t allocated = 0;
  /// number of the cache or arena, below kMostTraceables, a key of Definitions::traceables
  std::uint32_t traceable = 0;
  std::uint32_t old_traceable = 0;  ///< of a reallocation the cache or arena that it left, else 0
  std::uint32_t stack = 0;          ///< a key of Definitions::stacks; 0: none
  std::uint32_t call_site = 0;      ///< a key of Definitions::call_sites; 0: none
  std::uint32_t context = 0;        ///< a key of Definitions::contexts; 0: none
  std::uint32_t flags = 0;          ///< wire::AllocationFlag
  std::uint16_t hart = 0;           ///< hart index
  Operation operation = Operation::kAllocate;
  EventKind kind = EventKind::kCache;
  double weight = 1;  ///< number of operations that it stands for: above 1 where the device samples
};

/// A cache or an arena.
struct Traceable {
  static constexpr std::uint32_t kNoParent = 0xffff'ffff;
  std::uint32_t number = 0;
  EventKind kind = EventKind::kCache;  ///< kHeap: a size class, or an arena, of the heap
  bool arena = false;                  ///< it allocates segments, whose addresses may also be those of objects
  std::string name;
  std::uint64_t object_bytes = 0;  ///< of a cache the usable bytes of an object; of an arena its quantum
  std::uint64_t allocated_bytes =
      /// of a cache the bytes that an object takes; of an arena its quantum and a segment's header
      0;
  std::uint64_t outstanding = 0;     ///< objects or segments that were live when the stream began
  std::uint32_t parent = kNoParent;  ///< number of the arena that it imports from
};

struct Stack {
  std::uint32_t id = 0;               ///< the same in each boot of the same image
  std::vector<std::uint64_t> frames;  ///< return addresses, innermost first
  bool truncated = false;             ///< the stack had more frames
  bool collided = false;              ///< another stack of the same boot has the same id
};

struct CallSite {
  std::string file, module, function;
  std::uint32_t line = 0;
};

/// The part of all operations that becomes events. The device changes the mode by itself when the line cannot keep up.
enum class StreamMode : std::uint8_t { kFull, kSampled, kCounters };

/// The description of a stream, from its header.
struct StreamHeader {
  std::uint16_t schema_major = 1, schema_minor = 0;
  std::uint16_t stream = 0;  ///< number of the stream; the streams of a boot count from 1
  std::uint64_t boot = 0;    ///< distinguishes boots, if the device can
  std::uint8_t pointer_bytes = 8;
  bool big_endian = false;
  std::uint16_t harts = 0;
  std::uint64_t ticks_per_second = 0;
  std::uint64_t start_ticks = 0;
  bool from_boot = false;  ///< the stream began before the first allocation: a free of an unknown object is an error
  StreamMode mode = StreamMode::kFull;  ///< at the start
  std::uint64_t sample_bytes = 0;
  std::uint64_t minimum_bytes = 0;  ///< allocations of fewer bytes are not recorded
  std::string pattern;              ///< pattern for the names of the recorded caches and arenas
  std::uint32_t ring_bytes = 0;     ///< size of each hart's ring
  std::string build_id;             ///< hexadecimal
  std::vector<std::uint32_t> size_classes;
};

struct Definitions {
  StreamHeader header;
  std::map<std::uint32_t, Traceable> traceables;
  std::unordered_map<std::uint32_t, Stack> stacks;
  std::unordered_map<std::uint32_t, CallSite> call_sites;
  std::unordered_map<std::uint32_t, std::string> contexts;  ///< "task net-rx", "irq 10"
};

/// The reason why events are missing.
enum class Missing : std::uint8_t {
  kOverrun,  ///< the device had no room: its rings were too small, or the line was too slow
  kLine,     ///< frames did not arrive, or arrived damaged, or are missing in the capture
};

struct Gap {
  Missing why = Missing::kOverrun;
  std::uint16_t hart = 0;    ///< the hart whose events are missing
  std::uint64_t events = 0;  ///< how many
  std::uint64_t after = 0;   ///< number of the hart's last event before the gap; 0: there is none
};

/// The device's own counters since the start of the stream, counted where events are written. A reallocation counts for
/// the cache or arena of the new block: all of its bytes are allocated there, and all bytes of the old block are freed
/// where that was.
struct Counters {
  std::uint64_t allocations = 0, frees = 0, reallocations = 0;
  std::uint64_t requested = 0, allocated = 0;  ///< bytes, by allocations and reallocations
  std::uint64_t freed = 0;                     ///< bytes, by frees and reallocations
  friend bool operator==(const Counters&, const Counters&) = default;
};
struct HartCounters {
  std::uint64_t events = 0;    ///< events written
  std::uint64_t overruns = 0;  ///< further events, which were dropped
  friend bool operator==(const HartCounters&, const HartCounters&) = default;
};
struct Statistics {
  std::uint64_t ticks = 0;  ///< time of sending: earlier events may still be in the device's rings
  bool final = false;       ///< every hart had stopped: the counters equal the events, number for number
  std::map<std::uint32_t, Counters> traceables;
  std::map<std::uint32_t, HartCounters> harts;
};

struct ModeChange {
  StreamMode mode = StreamMode::kFull;
  std::uint64_t sample_bytes = 0;
  std::uint16_t hart = 0;  ///< the hart whose mode changes at this point
  std::uint64_t ticks = 0;
  std::uint64_t number = 0;
};

/// A reason why a capture is not complete.
struct Problem {
  std::string text;  ///< one line
  /// place in the capture of the stream that has the problem, from 1 on; 0: the whole capture
  std::uint32_t stream = 0;
};

/// The findings at the end of a capture.
struct CaptureEnd {
  bool complete = true;            ///< nothing that was sent is missing, and every stream was ended
  std::vector<Problem> problems;   ///< the reasons if it is not complete
  std::vector<std::string> notes;  ///< other remarks, one line each
  std::uint64_t unknown = 0;       ///< number of frames and fields of a later minor version, which were skipped

  /// @returns whether @p problem makes the stream at @p place incomplete.
  [[nodiscard]] static bool concerns(const Problem& problem, std::uint32_t place) noexcept {
    return problem.stream == 0 || problem.stream == place;
  }
  /// @returns whether the stream at @p place is complete, regardless of other streams.
  [[nodiscard]] bool whole(std::uint32_t place) const noexcept {
    return complete || (!problems.empty() && std::none_of(problems.begin(), problems.end(),
                                                          [=](const Problem& each) { return concerns(each, place); }));
  }
};

class EventHandler {
 public:
  virtual ~EventHandler() = default;
  /// @p definitions grow while the stream is read; the reference is valid until on_end() has returned.
  virtual void on_header(const Definitions& definitions) { (void)definitions; }
  virtual void on_event(const Event& event) = 0;
  virtual void on_gap(const Gap& gap) { (void)gap; }
  virtual void on_statistics(const Statistics& statistics) { (void)statistics; }
  virtual void on_mode(const ModeChange& change) { (void)change; }
  /// @param[in] stop_ticks time at which the device stopped recording; it drained its rings afterwards. 0: not known,
  ///          for a device of schema 1.0.
  virtual void on_stream_end(std::uint64_t stop_ticks) { (void)stop_ticks; }
  virtual void on_end(const CaptureEnd& end) { (void)end; }
};

}  // namespace qm::host
