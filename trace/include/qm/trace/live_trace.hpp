#pragma once
/// The live trace: which objects of traced caches, and which segments of traced arenas, are out, who drew them, from
/// where, when. What follows says cache for both; an arena has no cells, since each of its operations passes its code
/// and reads its state word. What an arena's quantum caches serve is traced by tracing those.
///
///     start    off, draining -> on         two phases: every hart's cell closed, then recording
///     stop     on -> draining -> off       no allocation is recorded any more; frees go on removing records; off with the last
///     reset                                records and figures so far are gone, the state stays
///
/// What is kept of a cache that is on is a record of each object, or of some (`sampled`), or no records at all but how
/// many objects of each stack are out (`counts`): then the handle beside an object is all there is of it. A cache goes
/// on in one way until it is off.
///
///     state word   RECORD WATCH HOLD       on
///                         WATCH HOLD       stopping: a hart has not answered the stop (for a moment also: starting)
///                         WATCH   SETTLED  draining
///                         -                off
///
/// Invariants
/// - L1 Before a record of a cache can exist every push of that cache is slow on every hart (the round of start).
/// - L2 SETTLED is set after every hart has left each section that could read RECORD (the round of stop). The watch
///      ends by a compare-and-swap of exactly WATCH|SETTLED, with no record left.
/// - L3 A record belongs to the figures in which it was counted: at a reset each hart says, in its visit, up to which
///      number its records are dead and how far its counts were, both in one masked section.
/// - L4 Nothing is committed before every hart has answered: a command that fails changes nothing. Except stop, which
///      leaves the caches `stopping`; stopping them again finishes it.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <qm/hal/round.hpp>
#include <qm/page_map.hpp>
#include <qm/status.hpp>

namespace qm {
class Arena;
class Cache;
class Traceable;
}  // namespace qm

namespace qm::trace {

/// Bytes the books keep for each live record: the record and the handle beside the object.
inline constexpr std::size_t kBytesPerRecord = 28;
/// And for each object of a cache that keeps counts only: the handle.
inline constexpr std::size_t kBytesPerCount = 4;

/// What is kept of the allocations of a cache that is on.
struct Keeping {
  static constexpr std::uint32_t kMostEvery = 65535;
  std::uint32_t every = 1;  ///< above 1: sampled. One of so many allocations has a record, which ones is left to chance
  /// No records, only how many objects of each stack are out. Of caches only: what is out of an arena is of many sizes.
  bool counts = false;
  friend bool operator==(const Keeping&, const Keeping&) = default;
};

/// Range of the addresses that records can keep, where that is more than an address. Of a cache whose objects lie at
/// multiples of 4, 2 or 1 it is a half, a quarter or an eighth of that.
inline constexpr std::uint64_t kRecordedBytes = std::uint64_t{1} << 35;

struct Config {
  std::size_t stack_bytes = 262144;  ///< for stacks; at most 32 MiB
  std::size_t record_bytes =
      1048576;  ///< for records, kBytesPerRecord each; taken in chunks of kChunkRecords as they are needed
  std::uintptr_t object_base = 0;  ///< objects of memory lie in [object_base, object_base + kRecordedBytes)
  /// Distinct context labels, a power of two from 2 to 512; and caches traced at once, up to 65535. Fewer where pages are
  /// small because the memory is (QM_PAGE_BYTES).
  unsigned contexts = PageMap::kPageBytes == 4096 ? 128 : PageMap::kPageBytes / 64;
  unsigned caches = PageMap::kPageBytes == 4096 ? 256 : PageMap::kPageBytes / 8;
  /// Take the memory now, for stacks, tables and all records, not when it is needed. Until that for stacks is taken a
  /// report of misuse has no stack.
  bool at_once = false;
};

/// Sets the books up and installs them as qm::observer(). Stacks and tables are taken from the base arena when the
/// first cache is traced, records when they are needed, both unless `at_once`; handles when they are needed.
/// @returns kOk; kInvalid (a number out of range); kBusy if that was done already; kNoMemory, also if `at_once` would
///          take more than half of the free memory; kUnsafe before qm::initialize().
/// Context: one hart, called by qm::initialize() or after it.
Status initialize(const Config& config) noexcept;

/// Forgets everything, for a test that sets up anew; qm::shutdown() follows. Context: no cache in use.
void shutdown() noexcept;

/// What a command answers.
struct CommandResult {
  Status status = Status::kOk;
  unsigned hart = 0;     ///< kTimedOut, kAborted: the first hart that had not answered, or hal::RoundResult::kNobody
  unsigned caches = 0;   ///< caches the command applied to
  unsigned skipped = 0;  ///< no-trace caches that the glob matched, and arenas, for counts
  bool partly = false;   ///< kTimedOut, kAborted of a reset: but for some counts it is done
};

/// Records every later allocation of the caches that @p pattern (a name or a glob) names. Older records are kept.
/// @returns kNotFound: no such cache; kRefused: the plain name of a no-trace cache, or of an arena for counts;
///          kMismatch: a cache is not off, and keeps in another way; kInvalid: @p keeping; kTimedOut with the hart that
///          did not answer, kAborted, kNoMemory, kUnsafe. In all these nothing has changed; kBusy: another command has
///          not ended before the deadline.
/// Complexity: a round over the harts that use the caches, 16 caches a visit.
/// Context: hal::may_wait(), or no other hart online.
CommandResult start(std::string_view pattern, hal::AbortTest abort = nullptr,
                    std::uint32_t deadline_ms = hal::kRoundDeadlineMs, const Keeping& keeping = {}) noexcept;

/// Ends recording. When it answers kOk, no allocation is being recorded any more. Patterns of trace_from_creation() that
/// are @p pattern, or that it matches, are dropped.
/// @returns as start(); after kTimedOut and kAborted no new allocation is recorded, but the caches are `stopping`.
CommandResult stop(std::string_view pattern, hal::AbortTest abort = nullptr,
                   std::uint32_t deadline_ms = hal::kRoundDeadlineMs) noexcept;

/// Whether a stop waits for a hart (State::kStopping). O(1), any context: for an idle loop, to know when
/// finish_stopping() has something to do.
[[nodiscard]] bool is_stopping() noexcept;

/// Tries again to end every stop that a hart has not answered (State::kStopping). For an idle moment, and before a
/// status.
/// @returns as start(), with the number of caches that were `stopping`.
CommandResult finish_stopping(std::uint32_t deadline_ms) noexcept;

/// Drops the records and zeroes the figures; what users hold now counts as from before the start.
/// @returns as start(). kTimedOut, kAborted may come after that, with `partly`: of a cache that keeps counts not all are
///          dropped, until the next reset.
/// Complexity: a round over all harts for 16 caches each, then a sweep over all records, or over the slabs of caches
///             that keep counts, in short lock holds.
CommandResult reset(std::string_view pattern, hal::AbortTest abort = nullptr,
                    std::uint32_t deadline_ms = hal::kRoundDeadlineMs) noexcept;

/// Starts tracing the existing caches that @p pattern matches, as start(), and makes every one created later be traced
/// from its first allocation, until stop() drops the pattern.
/// @returns as start(), except that no match is no error; kInvalid for an empty or overlong pattern; kNoMemory after 8.
CommandResult trace_from_creation(std::string_view pattern, hal::AbortTest abort = nullptr,
                                  std::uint32_t deadline_ms = hal::kRoundDeadlineMs) noexcept;

// ---- what the books say of themselves -------------------------------------------------------------------------------

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

/// Counts since the first start or the last reset. recorded + dropped + left_out = allocations while recording.
struct Figures {
  std::uint64_t recorded = 0;  ///< or counted, where counts are kept
  std::uint64_t left_out = 0;  ///< of a sample
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
  bool known = false;  ///< it was traced at some time; else all figures are 0
  Figures figures;
  std::uint32_t live = 0;  ///< records; objects, where counts are kept
  Keeping keeping;
  /// Objects without a record that users held at the last start or reset and hold still: at most that many, and exactly
  /// if each allocation since then has a record and nobody allocates or frees at the moment of the two counts.
  std::size_t from_before_start = 0;
};
[[nodiscard]] CacheTrace cache_trace(Traceable& source) noexcept;

struct Totals {
  unsigned caches = 0;               ///< all, and all arenas
  unsigned traced = 0;               ///< not off
  std::size_t record_bytes = 0;      ///< live records, kBytesPerRecord each
  std::size_t record_capacity = 0;   ///< Config::record_bytes
  std::size_t records_reserved = 0;  ///< bytes of chunks taken so far
  std::size_t stack_bytes = 0;
  std::size_t stack_capacity = 0;
  std::size_t stack_table = 0;  ///< bytes of the stack depot's buckets, fixed
  std::uint32_t stacks = 0;
  std::uint32_t stack_collisions = 0;  ///< stacks whose id is another stack's hash, and marked
  std::uint32_t contexts = 0;
  std::uint32_t context_capacity = 0;
  std::uint64_t dropped = 0;  ///< over all caches that were traced
};
[[nodiscard]] Totals totals() noexcept;

/// Checks what the books can check of themselves. Context: nobody allocates from a traced cache meanwhile.
[[nodiscard]] bool validate() noexcept;

}  // namespace qm::trace
