#pragma once
/// The live trace of the core form (QM_FULL=OFF, QM_TRACE=ON): which objects are out, who drew them, from where.
///
///     start    off, draining -> on
///     stop     on -> draining -> off       no allocation is recorded any more; frees go on removing records; off with the last
///     reset                                records and figures so far are gone; draining -> off
///
///     sources by number  | - | heap | a cache | an arena | ...      each has a trie of its records, by object
///     records            | record | record | ...                    where they are they stay; the free ones are a list
///     stacks             the stack depot, as in the full form
///
/// A source is a cache, an arena, or the heap, whose name is `kmalloc`: its size classes, also those that are made later,
/// and its large blocks together. All of it lies in one piece of memory, which is never more: what finds no record free
/// is counted as dropped, and what finds no room for a new stack has a record without one.
///
/// Invariants
/// - L1 A record is made and removed under one lock, a leaf, which is held for constant work; a stack is walked and
///      stored before, without it.
/// - L2 A source's state is changed under that lock, and an allocation looks at it there: what start, stop and reset
///      say holds from when they return.
/// - L3 A record whose number is not above its source's last reset is dead: nobody sees it, and a sweep frees it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/status.hpp>
#include <qm/traceable.hpp>

namespace qm::trace {

/// Bytes of a record.
inline constexpr std::size_t kBytesPerRecord = sizeof(void*) == 8 ? 40 : 28;
/// What the heap is called.
inline constexpr std::string_view kHeapName = "kmalloc";

struct Config {
  std::size_t stack_bytes = 8192;   ///< for stacks, 28 + 4 for each frame, from 256 to 32 MiB; 1/32 more is a table
  std::size_t record_bytes = 8192;  ///< for records, kBytesPerRecord each
  unsigned caches = 8;              ///< caches and arenas beside the heap, from a first start to their end; up to 29
  /// Where all that is; else, if it is empty, it is taken from base_arena(). See bytes_of().
  std::span<std::byte> memory{};
};

/// What @p config takes. @returns 0 for a number out of range.
[[nodiscard]] std::size_t bytes_of(const Config& config) noexcept;

/// Opens the books, with nothing traced.
/// @returns kOk; kInvalid (a number out of range; memory that is not aligned to 8); kBusy (open already); kNoMemory.
/// Context: one hart, after qm::initialize().
Status initialize(const Config& config) noexcept;

/// Closes them, and gives the memory back. qm::shutdown() follows, or nobody uses a traced source. Context: one hart.
void shutdown() noexcept;

/// What a command answers.
struct CommandResult {
  Status status = Status::kOk;
  unsigned caches = 0;   ///< sources it applied to
  unsigned skipped = 0;  ///< no-trace caches that the pattern matched
};

/// Records every later allocation of what @p pattern (a name or a glob) names: caches - all of that name -, and the
/// heap. Older records are kept.
/// @returns kNotFound: nothing of that name; kRefused: nothing but no-trace caches; kNoMemory: more sources than
///          Config::caches, the others are started; kUnsafe: the books are not open.
/// Complexity: O(caches) with the list of caches locked. Context: any; so of all commands.
CommandResult start(std::string_view pattern) noexcept;
/// The same of one source: cache->traceable(), arena.traceable(), heap::traceable(). @param[in] out its objects that
/// are out: see CacheTrace::from_before_start.
Status start(Traceable& source, std::size_t out) noexcept;
inline Status start(Cache& cache) noexcept { return start(cache.traceable(), cache.in_use()); }
inline Status start(Arena& arena) noexcept { return start(arena.traceable(), arena.stats().segments_allocated); }

/// Ends recording. @returns as start().
CommandResult stop(std::string_view pattern) noexcept;
Status stop(Traceable& source) noexcept;
inline Status stop(Cache& cache) noexcept { return stop(cache.traceable()); }
inline Status stop(Arena& arena) noexcept { return stop(arena.traceable()); }

/// Drops the records and zeroes the figures; what users hold now counts as from before the start.
/// @returns as start(). Complexity: besides, a sweep over all records, one in a lock hold.
CommandResult reset(std::string_view pattern) noexcept;
Status reset(Traceable& source, std::size_t out) noexcept;
inline Status reset(Cache& cache) noexcept { return reset(cache.traceable(), cache.in_use()); }
inline Status reset(Arena& arena) noexcept { return reset(arena.traceable(), arena.stats().segments_allocated); }

// ---- what the books say of themselves -------------------------------------------------------------------------------

enum class State : std::uint8_t { kOff, kOn, kDraining };

/// Counts since the first start or the last reset. recorded + dropped = allocations while recording.
struct Figures {
  std::uint64_t recorded = 0;
  std::uint64_t dropped = 0;  ///< not recorded, since all records were in use; also by dead ones, during a reset
  std::uint64_t truncated_stacks = 0;  ///< records whose stack is truncated
  std::uint64_t lost_stacks = 0;       ///< records without a stack: there was no room for a new one
  [[nodiscard]] std::uint64_t all_dropped() const noexcept { return dropped; }
};

struct CacheTrace {
  State state = State::kOff;
  bool known = false;  ///< it was traced at some time; else all figures are 0
  Figures figures;
  std::uint32_t live = 0;  ///< records
  /// Objects users held at the last start or reset without a record; exact if nobody allocated or freed at that moment.
  std::size_t from_before_start = 0;
};
/// Of the heap, a cache, an arena; O(1), any context.
[[nodiscard]] CacheTrace cache_trace(const Traceable& source) noexcept;
[[nodiscard]] inline CacheTrace cache_trace(Cache& cache) noexcept { return cache_trace(cache.traceable()); }
[[nodiscard]] inline CacheTrace cache_trace(Arena& arena) noexcept { return cache_trace(arena.traceable()); }

struct Totals {
  unsigned traced = 0;              ///< sources that are not off
  std::size_t record_bytes = 0;     ///< live records, kBytesPerRecord each
  std::size_t record_capacity = 0;  ///< room for them
  std::size_t stack_bytes = 0;
  std::size_t stack_capacity = 0;
  std::size_t stack_table = 0;  ///< bytes of the stack depot's buckets, fixed
  std::uint32_t stacks = 0;
  std::uint64_t dropped = 0;  ///< over all sources
};
[[nodiscard]] Totals totals() noexcept;

/// Checks what the books can check of themselves. Complexity: O(records). Context: nobody else uses them meanwhile.
[[nodiscard]] bool validate() noexcept;

}  // namespace qm::trace
