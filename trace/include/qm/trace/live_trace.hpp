#pragma once
/// The live trace: which objects of traced caches and which segments of traced arenas are in use, which code allocated
/// them, from which context and when. Below, "cache" means both. An arena has no per-hart caches, because each of its
/// operations runs the arena's code and reads its state word. To trace the segments that an arena's quantum caches
/// serve, trace those caches.
///
///     start    off, draining -> on         two phases: each hart closes its per-hart cache, then recording begins
///     stop     on -> draining -> off       ends recording; frees still remove records; off when the last one is removed
///     reset                                drops the records and zeroes the figures; the state stays
///
/// While a cache is on, the trace keeps a record of each object, or of some objects (`sampled`), or no records but the
/// number of live objects of each stack (`counts`). With counts, the handle beside an object is all that the trace
/// keeps of it. A cache keeps one of these ways until it is off.
///
///     state word   RECORD WATCH HOLD       on
///                         WATCH HOLD       stopping: a hart has not answered the stop (for a moment also: starting)
///                         WATCH   SETTLED  draining
///                         -                off
///
/// Invariants
/// - L1 Before a record of a cache can exist, every push (a free into a magazine) of that cache takes the slow path on
///      every hart (the broadcast of start).
/// - L2 SETTLED is set after every hart has left each section that could read RECORD (the broadcast of stop). The mode
///      watching ends by a compare-and-swap of exactly WATCH|SETTLED, with no record left.
/// - L3 A record belongs to the figures in which it was counted. When a reset's broadcast reaches a hart, the hart
///      reports the number up to which its records are dead, and its counts so far, both in one masked section.
/// - L4 Nothing is committed before every hart has answered: a command that fails changes nothing. The exception is
///      stop, which leaves the caches `stopping`; a second stop finishes it.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <qm/hal/broadcast.hpp>
#include <qm/detail/page_map.hpp>
#include <qm/status.hpp>

namespace qm {
class Arena;
class Cache;
class Traceable;
}  // namespace qm

namespace qm::trace {

/// Bytes that the trace keeps for each live record: the record and the handle beside the object.
inline constexpr std::size_t kBytesPerRecord = 28;
/// Bytes that it keeps for each object of a cache with counts: the handle.
inline constexpr std::size_t kBytesPerCount = 4;

/// What the trace keeps of the allocations of a cache that is on.
struct Keeping {
  static constexpr std::uint32_t kMostEvery = 65535;
  std::uint32_t every = 1;  ///< above 1: sampled. One of so many allocations has a record, chosen at random
  /// No records, only the number of live objects of each stack. For caches only: the segments of an arena have many
  /// sizes.
  bool counts = false;
  friend bool operator==(const Keeping&, const Keeping&) = default;
};

/// Range of the addresses that records can express, on targets whose addresses may lie outside. For a cache whose
/// objects are aligned to only 4, 2 or 1 bytes the range is a half, a quarter or an eighth.
inline constexpr std::uint64_t kRecordedBytes = std::uint64_t{1} << 35;

struct Config {
  std::size_t stack_bytes = 262144;  ///< for stacks; 256 bytes to 32 MiB
  std::size_t record_bytes =
      1048576;  ///< for records, kBytesPerRecord each; allocated in chunks of kChunkRecords when needed
  std::uintptr_t object_base = 0;  ///< objects in memory lie in [object_base, object_base + kRecordedBytes)
  /// Most distinct context labels, a power of two from 2 to 512; and most caches traced at once, up to 65535. Fewer if
  /// pages are smaller than 4096 bytes (QM_PAGE_BYTES).
  unsigned contexts = PageMap::kPageBytes == 4096 ? 128 : PageMap::kPageBytes / 64;
  unsigned caches = PageMap::kPageBytes == 4096 ? 256 : PageMap::kPageBytes / 8;
  /// Allocate the memory for stacks, tables and all records now, not when it is needed. A report of misuse has no stack
  /// until the memory for stacks is allocated.
  bool at_once = false;
};

/// Sets the trace up and installs it as qm::observer(). When the first cache is traced, the trace allocates one page
/// from the base arena, and more if there are more than four harts. It allocates further memory for stacks, records and
/// tables when it needs it; with `at_once` it allocates all of these here.
/// @returns kOk; kInvalid (a number out of range); kBusy if the trace is set up already; kNoMemory, also if `at_once`
///          would take more than half of the free memory; kUnsafe before qm::initialize().
/// Context: one hart, called by qm::initialize() or after it.
Status initialize(const Config& config) noexcept;

/// Returns to the state before initialize(), for a test that sets up again; qm::shutdown() follows. Context: no cache
/// in use.
void shutdown() noexcept;

/// The result of a command.
struct CommandResult {
  Status status = Status::kOk;
  unsigned hart = 0;    ///< kTimedOut, kAborted: the first hart that had not answered, or hal::BroadcastResult::kNobody
  unsigned caches = 0;  ///< caches the command applied to
  unsigned skipped = 0;  ///< no-trace caches that the glob matched; with counts also arenas
  bool partly = false;   ///< kTimedOut, kAborted of a reset: it is done except for some counts
};

/// Records every later allocation of the caches that @p pattern (a name or a glob) matches. Older records are kept.
/// @returns kNotFound: no such cache; kRefused: the plain name of a no-trace cache, or of an arena if @p keeping asks
///          for counts; kMismatch: a cache is not off and keeps in another way; kInvalid: @p keeping; kTimedOut with
///          the hart that did not answer, kAborted, kNoMemory, kUnsafe. In all these cases nothing has changed. kBusy:
///          another command did not end before the deadline.
/// Complexity: a broadcast to the harts that use the caches, 16 caches a visit.
/// Context: hal::may_wait(), or no other hart online.
CommandResult start(std::string_view pattern, hal::AbortTest abort = nullptr,
                    std::uint32_t deadline_ms = hal::kBroadcastDeadlineMs, const Keeping& keeping = {}) noexcept;

/// Ends recording. After it has returned kOk, no allocation is being recorded. It drops the patterns of
/// trace_from_creation() that are @p pattern or that it matches.
/// @returns as start(); after kTimedOut and kAborted no new allocation is recorded, but the caches are `stopping`.
CommandResult stop(std::string_view pattern, hal::AbortTest abort = nullptr,
                   std::uint32_t deadline_ms = hal::kBroadcastDeadlineMs) noexcept;

/// Whether a stop waits for a hart (State::kStopping). O(1), any context: tells an idle loop when to call
/// finish_stopping().
[[nodiscard]] bool is_stopping() noexcept;

/// Tries again to finish every stop that a hart has not answered (State::kStopping). Call it when idle, and before a
/// status.
/// @returns as start(), with the number of caches that were `stopping`.
CommandResult finish_stopping(std::uint32_t deadline_ms) noexcept;

/// Drops the records and zeroes the figures; objects that are in use now count as allocated before the start.
/// @returns as start(). kTimedOut and kAborted with `partly` mean that the reset is done, but some counts of a cache
///          that keeps counts stay until the next reset.
/// Complexity: a broadcast to all harts for every 16 caches, then a sweep over all records, or over the slabs of caches
///             that keep counts, in short lock holds.
CommandResult reset(std::string_view pattern, hal::AbortTest abort = nullptr,
                    std::uint32_t deadline_ms = hal::kBroadcastDeadlineMs) noexcept;

/// Starts to trace the existing caches that @p pattern matches, as start() does, and traces every matching cache that
/// is created later from its first allocation, until stop() drops the pattern.
/// @returns as start(), except that no match is no error; kInvalid for an empty or overlong pattern; kNoMemory after 8
///          patterns.
CommandResult trace_from_creation(std::string_view pattern, hal::AbortTest abort = nullptr,
                                  std::uint32_t deadline_ms = hal::kBroadcastDeadlineMs) noexcept;

// ---- the trace's state and figures ----------------------------------------------------------------------------------

enum class State : std::uint8_t { kOff, kOn, kDraining, kStopping };
[[nodiscard]] const char* name(State state) noexcept;

/// Why an allocation of a traced cache has no record.
enum class Drop : std::uint8_t {
  kRecordsFull,   ///< all of Config::record_bytes is in use
  kRecordMemory,  ///< the base arena could not supply a chunk of records
  kHandleMemory,  ///< the base arena could not supply a slab's array of handles
  kOutOfRange,    ///< the object's address cannot be kept in a record (see Config::object_base)
};
inline constexpr unsigned kDropReasons = 4;
[[nodiscard]] const char* name(Drop reason) noexcept;

/// Counts since the first start or the last reset. recorded + dropped + left_out = allocations during recording.
struct Figures {
  std::uint64_t recorded = 0;  ///< with counts: counted
  std::uint64_t left_out = 0;  ///< not chosen for the sample
  std::uint64_t dropped[kDropReasons] = {};
  std::uint64_t truncated_stacks = 0;  ///< records whose stack is truncated
  std::uint64_t lost_stacks = 0;       ///< records without a stack: the stack depot was full
  std::uint64_t lost_contexts = 0;     ///< records without a context: the context table was full
  [[nodiscard]] std::uint64_t all_dropped() const noexcept {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : dropped) sum += count;
    return sum;
  }
};

struct CacheTrace {
  State state = State::kOff;
  bool known = false;  ///< it was traced at some time; otherwise all figures are 0
  Figures figures;
  std::uint32_t live = 0;  ///< records; with counts: objects
  Keeping keeping;
  /// Objects without a record that were in use at the last start or reset and still are. An upper bound; exact if each
  /// allocation since then has a record, and no hart allocates or frees while either count (then, now) is made.
  std::size_t from_before_start = 0;
};
[[nodiscard]] CacheTrace cache_trace(Traceable& source) noexcept;

struct Totals {
  unsigned caches = 0;               ///< all caches and all arenas
  unsigned traced = 0;               ///< those that are not off
  std::size_t record_bytes = 0;      ///< live records, kBytesPerRecord each
  std::size_t record_capacity = 0;   ///< Config::record_bytes
  std::size_t records_reserved = 0;  ///< allocated so far, in chunks
  std::size_t stack_bytes = 0;
  std::size_t stack_capacity = 0;
  std::uint32_t stacks = 0;
  std::uint32_t stack_collisions = 0;  ///< stacks marked because another stack's id is their hash
  std::uint32_t contexts = 0;
  std::uint32_t context_capacity = 0;
  std::uint64_t dropped = 0;  ///< over all caches that were traced
};
[[nodiscard]] Totals totals() noexcept;

/// Checks the trace's data for consistency. Context: no hart allocates from a traced cache meanwhile.
[[nodiscard]] bool validate() noexcept;

}  // namespace qm::trace
