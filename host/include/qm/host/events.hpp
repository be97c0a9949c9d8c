#pragma once
/// What a capture tells of the allocator, as a program wants it: events of all harts in one order, and beside them
/// definitions, statistics and what is missing. Who explains a capture implements EventHandler; who delivers one - the
/// reader of captures, the live line, the generator of the tests - calls it.
///
///     on_header                 once for each stream, before anything else of it
///     on_event ...              in the order of their numbers; within a hart that is the order of the operations
///     on_gap                    between the events around the place where some are missing
///     on_statistics, on_mode    where the device sent them
///     on_stream_end             after the last event of a stream that the device ended, with the time of the stop
///     on_end                    once, after everything: whether the capture was whole
///
/// What a number in an event means is told before the event, unless that was lost on the line: then it may be told
/// later, or never. So look up stacks, call sites and contexts at the end.
///
/// A capture has several streams if the device started and stopped several times, or booted again. Each stands for
/// itself: between two of them anything may have been allocated and freed. It is known by its place in the capture,
/// from 1 on: a device's own numbers begin anew with each boot.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace qm::host {

enum class Operation : std::uint8_t { kAllocate, kFree, kReallocate };

/// A device has fewer caches and arenas than this, and so fewer numbers of them (docs/protocol.md).
inline constexpr std::uint32_t kMostTraceables = 1 << 16;

/// The face that an operation went through.
enum class EventKind : std::uint8_t { kHeap, kCache, kArena };

/// One operation. What the stream leaves out because it can be derived is filled in.
struct Event {
  /// In the one order of all harts, which agrees with cause and effect; dropped events count.
  std::uint64_t number = 0;
  std::uint64_t ticks = 0;        ///< the device's clock, StreamHeader::ticks_per_second
  std::uint64_t address = 0;      ///< of the object; of a reallocation the new one
  std::uint64_t old_address = 0;  ///< of a reallocation, else 0
  std::uint64_t requested = 0;    ///< bytes asked for; 0 of a free
  /// Bytes handed out; of a free of a cache's object those given back, of an arena's segment 0: not told.
  std::uint64_t allocated = 0;
  std::uint32_t traceable = 0;      ///< below kMostTraceables: of the cache or arena, a key of Definitions::traceables
  std::uint32_t old_traceable = 0;  ///< of a reallocation the one that it left, else 0
  std::uint32_t stack = 0;          ///< a key of Definitions::stacks; 0: none
  std::uint32_t call_site = 0;      ///< a key of Definitions::call_sites; 0: none
  std::uint32_t context = 0;        ///< a key of Definitions::contexts; 0: none
  std::uint32_t flags = 0;          ///< wire::AllocationFlag
  std::uint16_t hart = 0;           ///< hart index
  Operation operation = Operation::kAllocate;
  EventKind kind = EventKind::kCache;
  double weight = 1;  ///< how many operations it stands for: above 1 where the device samples
};

/// A cache or an arena.
struct Traceable {
  static constexpr std::uint32_t kNoParent = 0xffff'ffff;
  std::uint32_t number = 0;
  EventKind kind = EventKind::kCache;  ///< kHeap: a size class, or an arena, of the heap
  bool arena = false;                  ///< it hands out segments, whose addresses are those of objects as well
  std::string name;
  std::uint64_t object_bytes = 0;  ///< of a cache what the user may use of an object; of an arena its quantum
  std::uint64_t allocated_bytes =
      0;                          ///< of a cache what an object takes; of an arena its quantum and a segment's header
  std::uint64_t outstanding = 0;  ///< objects or segments that were out when the stream began
  std::uint32_t parent = kNoParent;  ///< number of the arena that it draws from
};

struct Stack {
  std::uint32_t id = 0;               ///< the same in each boot of the same image
  std::vector<std::uint64_t> frames;  ///< return addresses, the innermost first
  bool truncated = false;             ///< there were more frames
  bool collided = false;              ///< another stack of this boot has the same id
};

struct CallSite {
  std::string file, module, function;
  std::uint32_t line = 0;
};

/// How much of what happens becomes an event: the device changes it by itself when the line cannot keep up.
enum class StreamMode : std::uint8_t { kFull, kSampled, kCounters };

/// What a stream says of itself.
struct StreamHeader {
  std::uint16_t schema_major = 1, schema_minor = 0;
  std::uint16_t stream = 0;  ///< streams of a boot count from 1
  std::uint64_t boot = 0;    ///< tells one boot from another, as far as the device can
  std::uint8_t pointer_bytes = 8;
  bool big_endian = false;
  std::uint16_t harts = 0;
  std::uint64_t ticks_per_second = 0;
  std::uint64_t start_ticks = 0;
  bool from_boot = false;  ///< it began before the first allocation: a free of an unknown object is an error
  StreamMode mode = StreamMode::kFull;  ///< at the start
  std::uint64_t sample_bytes = 0;
  std::uint64_t minimum_bytes = 0;  ///< allocations of fewer bytes are left out
  std::string pattern;              ///< names of what is recorded
  std::uint32_t ring_bytes = 0;     ///< of each hart
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

/// Why events are not there.
enum class Missing : std::uint8_t {
  kOverrun,  ///< the device had no room: its rings were too small, or the line too slow
  kLine,     ///< frames did not arrive, or arrived damaged, or the capture has lost them
};

struct Gap {
  Missing why = Missing::kOverrun;
  std::uint16_t hart = 0;    ///< whose events
  std::uint64_t events = 0;  ///< how many
  std::uint64_t after = 0;   ///< number of the hart's last event before them; 0: none
};

/// The device's own counters since the start of the stream, counted where events are written. A reallocation counts for
/// where the block is then; it takes all of it anew there, and gives all of it back where it was.
struct Counters {
  std::uint64_t allocations = 0, frees = 0, reallocations = 0;
  std::uint64_t requested = 0, allocated = 0;  ///< bytes, by allocations and reallocations
  std::uint64_t freed = 0;                     ///< bytes, by frees and reallocations
  friend bool operator==(const Counters&, const Counters&) = default;
};
struct HartCounters {
  std::uint64_t events = 0;    ///< written
  std::uint64_t overruns = 0;  ///< dropped, besides
  friend bool operator==(const HartCounters&, const HartCounters&) = default;
};
struct Statistics {
  std::uint64_t ticks = 0;  ///< when they were sent: events of before may still wait in the device's rings
  bool final = false;       ///< every hart had stopped: equal to the events, number for number
  std::map<std::uint32_t, Counters> traceables;
  std::map<std::uint32_t, HartCounters> harts;
};

struct ModeChange {
  StreamMode mode = StreamMode::kFull;
  std::uint64_t sample_bytes = 0;
  std::uint16_t hart = 0;  ///< for which it changes here
  std::uint64_t ticks = 0;
  std::uint64_t number = 0;
};

/// Why a capture is not complete.
struct Problem {
  std::string text;          ///< one line
  std::uint32_t stream = 0;  ///< place in the capture of the stream that it is of, from 1 on; 0: of all there is
};

/// What is known at the end of a capture.
struct CaptureEnd {
  bool complete = true;            ///< everything that was sent is there, and every stream was ended
  std::vector<Problem> problems;   ///< why it is not
  std::vector<std::string> notes;  ///< what else there is to say, a line each
  std::uint64_t unknown = 0;       ///< frames and fields of a later minor version, skipped

  /// @returns whether @p problem keeps the stream at @p place from being whole.
  [[nodiscard]] static bool concerns(const Problem& problem, std::uint32_t place) noexcept {
    return problem.stream == 0 || problem.stream == place;
  }
  /// @returns whether the stream at @p place is whole, whatever is wrong with others.
  [[nodiscard]] bool whole(std::uint32_t place) const noexcept {
    return complete || (!problems.empty() && std::none_of(problems.begin(), problems.end(),
                                                          [=](const Problem& each) { return concerns(each, place); }));
  }
};

class EventHandler {
 public:
  virtual ~EventHandler() = default;
  /// @p definitions grow while the stream is read, and stay where they are until on_end() has returned.
  virtual void on_header(const Definitions& definitions) { (void)definitions; }
  virtual void on_event(const Event& event) = 0;
  virtual void on_gap(const Gap& gap) { (void)gap; }
  virtual void on_statistics(const Statistics& statistics) { (void)statistics; }
  virtual void on_mode(const ModeChange& change) { (void)change; }
  /// @param[in] stop_ticks when the device stopped recording; its rings were drained after that. 0: not told, by a
  ///            device of schema 1.0.
  virtual void on_stream_end(std::uint64_t stop_ticks) { (void)stop_ticks; }
  virtual void on_end(const CaptureEnd& end) { (void)end; }
};

}  // namespace qm::host
