#pragma once
/// A dump: the records of one cache or arena or of all, oldest first, while the system allocates.
///
///     trace::Dump dump;                       // 2 KiB: static rather than on a small stack
///     trace::DumpEntry entry;
///     dump.begin(cache);
///     while (!interrupted() && dump.next(entry)) print(entry);
///     const trace::DumpSummary summary = dump.finish();
///
/// Invariants
/// - U1 What is shown was recorded before begin(): its sequence number is lower than the one begin() took.
/// - U2 Numbers are shown in rising order. Each record that is live from begin() to finish() is shown exactly once, no
///      record twice; one freed meanwhile may be left out.
/// - U3 Nothing is allocated, no lock is held and no interrupt masked.
///
/// The next kBatch records in order are found by a scan of the whole table, so n records take n/kBatch scans: with 10^5
/// records 391 scans, an instruction or two for each character printed.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <qm/trace/live_trace.hpp>
#include <qm/trace/record_table.hpp>
#include <qm/trace/unwind.hpp>

namespace qm::trace {

struct SourceBooks;

/// One live object.
struct DumpEntry {
  std::uintptr_t object = 0;
  std::size_t requested = 0;    ///< bytes asked for
  std::uint64_t age_ticks = 0;  ///< Port::tick_rate() ticks, to about a millisecond; wraps after 24 days or more
  std::uint64_t sequence = 0;
  unsigned hart = 0;
  std::string_view context;    ///< label without the hart; stays valid
  std::uint32_t stack_id = 0;  ///< below kFirstId: no stack
  unsigned depth = 0;
  bool truncated = false;           ///< the walk did not reach the stack's end, or there is no stack
  std::uintptr_t pcs[kStackDepth];  ///< return addresses, innermost first
};

/// The record of one object.
/// @returns false if @p object has none. Complexity: O(1).
/// Context: any; the object's slab stays where it is meanwhile (somebody holds an object of it).
bool find(Cache& cache, void* object, DumpEntry& entry) noexcept;

/// The record of the segment of @p arena that begins at @p start.
/// @returns false if it has none. Complexity: O(1). Context: any.
bool find(Arena& arena, std::uintptr_t start, DumpEntry& entry) noexcept;

/// The stack that a handle in a MisuseReport names.
/// @param[out] id the stack's id. @returns false if @p handle names none. Complexity: O(depth). Context: any.
bool stack_of(StackHandle handle, CallStack& stack, std::uint32_t& id) noexcept;

/// What the closing line says.
struct DumpSummary {
  std::size_t shown = 0;              ///< records that next() has given
  std::size_t outstanding = 0;        ///< the same; of a dump that was cut short, all records at its end
  Figures figures;                    ///< of the cache, or summed over all
  std::size_t truncated_shown = 0;    ///< of the records shown, without a whole stack
  std::size_t from_before_start = 0;  ///< see CacheTrace; at begin(), or of all at finish()
  /// Recorded at begin(), gone before they were shown; an estimate while others run.
  std::size_t freed_meanwhile = 0;
  std::size_t allocated_meanwhile = 0;  ///< recorded since begin(), not shown
  State state = State::kOff;
  Keeping keeping;
  std::size_t counted = 0;  ///< objects that are out and have no record, as only counts are kept
  bool known = false;       ///< the cache was traced at some time
  bool reset = false;       ///< a reset fell into the dump
  bool destroyed = false;   ///< the cache was destroyed during the dump; the figures are those at begin()
  bool ended = false;       ///< next() had nothing left; else the dump was cut short
  /// Whether everything that was out and recorded has been shown, with its whole stack, and nothing was dropped.
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

  /// Begins a dump of a cache or an arena, which may be destroyed meanwhile. Two dumps may run at once.
  /// Context: any outside interrupt handlers.
  void begin(Traceable& source) noexcept;
  /// Begins a dump of all caches and arenas together.
  void begin_all() noexcept;
  /// Leaves out records older than @p sequence ("since a mark"). After begin(), before next().
  void since(std::uint64_t sequence) noexcept { last_ = sequence == 0 ? 0 : sequence - 1; }

  /// @returns false when there is nothing left.
  /// Complexity: one record; each kBatch records a scan over all.
  bool next(DumpEntry& entry) noexcept;

  /// @returns what there is to say at the end; also after a dump that was cut short.
  [[nodiscard]] DumpSummary finish() noexcept;

 private:
  void begin_window(Traceable* source) noexcept;
  void collect() noexcept;
  void offer(std::uint64_t key) noexcept;
  void sift_down(unsigned root, unsigned count) noexcept;
  void sort() noexcept;
  [[nodiscard]] bool alive() const noexcept;

  SourceBooks* one_ = nullptr;  ///< nullptr: all caches, or one that was never traced
  bool all_ = false;
  std::uint32_t incarnation_ = 0;
  std::uint32_t resets_ = 0;
  std::uint64_t window_ = 0;  ///< numbers from here on are younger than the dump
  std::uint64_t last_ = 0;    ///< every number up to here is done
  DumpSummary at_begin_;
  std::size_t live_at_begin_ = 0;
  std::size_t shown_ = 0;
  std::size_t truncated_ = 0;
  bool ended_ = false;
  bool more_ = true;  ///< the last scan left records for another
  unsigned count_ = 0;
  unsigned at_ = 0;
  std::uint64_t keys_[kBatch] = {};  ///< sequence << 21 | cursor behind it: a max-heap while collecting, then sorted
};

}  // namespace qm::trace
