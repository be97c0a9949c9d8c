#pragma once
/// A dump lists the records of one cache or arena, or of all, oldest first, while the system continues to allocate.
///
///     trace::Dump dump;                       // 2 KiB: static rather than on a small stack
///     trace::DumpEntry entry;
///     dump.begin(cache);
///     while (!interrupted() && dump.next(entry)) print(entry);
///     const trace::DumpSummary summary = dump.finish();
///
/// Invariants
/// - U1 Every record shown was made before begin(): its sequence number is lower than the one that begin() took.
/// - U2 Records are shown in rising order of their numbers. Each record that is live from begin() to finish() is shown
///      exactly once, and no record twice; a record freed meanwhile may be left out.
/// - U3 A dump allocates nothing, holds no lock and masks no interrupts.
///
/// A scan of the whole table finds the next kBatch records in order, so n records take n/kBatch scans: 10^5 records
/// take 391 scans, an instruction or two for each character printed.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <qm/trace/live_trace.hpp>
#include <qm/trace/record_table.hpp>
#include <qm/trace/unwind.hpp>

namespace qm::trace {

struct TracedSource;

/// One live object.
struct DumpEntry {
  std::uintptr_t object = 0;
  std::size_t requested = 0;    ///< in bytes
  std::uint64_t age_ticks = 0;  ///< in ticks of Port::tick_rate(), to about a millisecond; wraps after 24 days or more
  std::uint64_t sequence = 0;
  unsigned hart = 0;
  std::string_view context;    ///< label of the context without the hart; stays valid
  std::uint32_t stack_id = 0;  ///< below kFirstId: no stack
  unsigned depth = 0;
  bool truncated = false;           ///< the walk did not reach the end of the stack, or there is no stack
  std::uintptr_t pcs[kStackDepth];  ///< return addresses, innermost first
};

/// Finds the record of one object.
/// @returns false if @p object has none. Complexity: O(1).
/// Context: any; the object's slab must not be freed meanwhile (an object of it is in use).
bool find(Cache& cache, void* object, DumpEntry& entry) noexcept;

/// Finds the record of the segment of @p arena that begins at @p start.
/// @returns false if it has none. Complexity: O(1). Context: any.
bool find(Arena& arena, std::uintptr_t start, DumpEntry& entry) noexcept;

/// Finds the stack that a handle in a MisuseReport names.
/// @param[out] id the stack's id. @returns false if @p handle names none. Complexity: O(depth). Context: any.
bool stack_of(StackHandle handle, CallStack& stack, std::uint32_t& id) noexcept;

/// The figures for the closing line.
struct DumpSummary {
  std::size_t shown = 0;              ///< records that next() has returned
  std::size_t outstanding = 0;        ///< the same; if the dump was cut short, all records at its end
  Figures figures;                    ///< of the cache, or summed over all
  std::size_t truncated_shown = 0;    ///< records shown whose stack is not complete
  std::size_t from_before_start = 0;  ///< see CacheTrace; at begin(), or for a dump of all at finish()
  /// Records that existed at begin() and were gone before they were shown; an estimate while other harts run.
  std::size_t freed_meanwhile = 0;
  std::size_t allocated_meanwhile = 0;  ///< recorded since begin(), so not shown
  State state = State::kOff;
  Keeping keeping;
  std::size_t counted = 0;  ///< live objects without a record, because only counts are kept
  bool known = false;       ///< the cache was traced at some time
  bool reset = false;       ///< a reset happened during the dump
  bool destroyed = false;   ///< the cache was destroyed during the dump; the figures are those at begin()
  bool ended = false;       ///< next() had nothing left; otherwise the dump was cut short
  /// Whether the dump showed a record, with its whole stack, of every recorded object in use, and no allocation was
  /// dropped.
  [[nodiscard]] bool complete() const noexcept {
    return known && ended && !reset && !destroyed && truncated_shown == 0 && figures.all_dropped() == 0 &&
           figures.left_out == 0 && !keeping.counts;
  }
};

class Dump {
 public:
  static constexpr unsigned kBatch = 256;

  Dump() noexcept = default;
  Dump(const Dump&) = delete;
  Dump& operator=(const Dump&) = delete;

  /// Begins a dump of a cache or an arena, which may be destroyed during the dump. Two dumps may run at once.
  /// Context: any outside interrupt handlers.
  void begin(Traceable& source) noexcept;
  /// Begins a dump of all caches and arenas together.
  void begin_all() noexcept;
  /// Leaves out records with numbers below @p sequence ("since a mark"). Call it after begin() and before next().
  void since(std::uint64_t sequence) noexcept { last_ = sequence == 0 ? 0 : sequence - 1; }

  /// @returns false if no record is left.
  /// Complexity: O(1); a scan over all records for every kBatch records.
  bool next(DumpEntry& entry) noexcept;

  /// @returns the closing figures, also after a dump that was cut short.
  [[nodiscard]] DumpSummary finish() noexcept;

 private:
  void begin_window(Traceable* source) noexcept;
  void collect() noexcept;
  void offer(std::uint64_t key) noexcept;
  void sift_down(unsigned root, unsigned count) noexcept;
  void sort() noexcept;
  [[nodiscard]] bool alive() const noexcept;

  TracedSource* one_ = nullptr;  ///< nullptr: all caches, or a cache that was never traced
  bool all_ = false;
  std::uint32_t incarnation_ = 0;
  std::uint32_t resets_ = 0;
  std::uint64_t window_ = 0;  ///< records with this number or a higher one are younger than the dump
  std::uint64_t last_ = 0;    ///< all records up to this number are done
  DumpSummary at_begin_;
  std::size_t live_at_begin_ = 0;
  std::size_t shown_ = 0;
  std::size_t truncated_ = 0;
  bool ended_ = false;
  bool more_ = true;  ///< the last scan left records for another scan
  unsigned count_ = 0;
  unsigned at_ = 0;
  std::uint64_t keys_[kBatch] = {};  ///< sequence << 21 | cursor behind it: a max-heap while collecting, then sorted
};

}  // namespace qm::trace
