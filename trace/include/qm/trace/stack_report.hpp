#pragma once
/// A report on stacks shows each distinct stack once, with its live objects, largest first, while the system continues
/// to allocate.
///
///     trace::StackReport report;
///     trace::StackRow row;
///     if (report.begin() != Status::kOk) return;      // another report is running
///     report.select(cache);                           // or several, or select_all()
///     report.count_live(threshold);                   // or count_since(number)
///     while (!interrupted() && report.next(row)) print(row);
///
/// The depot has an entry for each (cache, stack). Entries of several caches for one stack have one id (D2), so they
/// lie on one path (D3). The oldest of them represents all.
///
/// Invariants
/// - K1 One pass over the records counts them into the snapshots of the representing entries; one pass over the entries
///      adds the live objects of caches that keep counts. Rows are selected from the snapshots, in strict order of
///      bytes, objects and handle. So a stack is shown at most once, no later allocation or free moves a row, and the
///      sum is that of the records.
/// - K2 An entry that is not part of the report has the snapshot kUnreported; so does one that is stored during the
///      report.
/// - K3 Snapshots belong to the one report that is running.
/// - K4 A report allocates nothing and holds no lock.
///
/// A walk over the depot finds each row: n stacks take n walks of a few instructions an entry. Between walks the caller
/// may let other tasks run.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <qm/status.hpp>
#include <qm/trace/context_table.hpp>
#include <qm/trace/live_trace.hpp>
#include <qm/trace/stack_depot.hpp>
#include <qm/trace/unwind.hpp>

namespace qm::trace {

struct Mark;
struct TracedSource;
struct StackThen;

/// One stack.
struct StackRow {
  StackHandle handle = kNoStack;  ///< the argument for stack_of()
  std::uint32_t id = 0;
  bool collided = false;  ///< the id is not the plain hash of the stack, because another stack has that hash
  std::uint32_t objects = 0;
  std::uint32_t bytes = 0;  ///< requested; modulo 2^32
  CallStack stack;
};

/// More figures from the records of one stack. Objects that are only counted have none of these.
struct StackDetails {
  std::uint32_t records = 0;
  /// Bytes that the objects occupy, including slack; StackRow::bytes is what was requested.
  std::uint64_t held_bytes = 0;
  std::uint64_t oldest_ticks = 0;  ///< an age, as DumpEntry::age_ticks; so is the mean
  std::uint64_t mean_ticks = 0;
  hal::HartMask harts = 0;
  std::uint32_t contexts[1U << (kContextIdBits - 5)] = {};  ///< one bit for each context id

  [[nodiscard]] bool has_context(std::uint32_t id) const noexcept { return (contexts[id / 32] >> id % 32 & 1) != 0; }
};
/// The label of a context, without the hart; empty if the label could not be stored. Context: any.
[[nodiscard]] std::string_view context_label(std::uint32_t id) noexcept;

/// The totals of a count.
struct StackTotals {
  std::uint32_t stacks = 0;     ///< with a row
  std::uint32_t hidden = 0;     ///< with fewer objects than the threshold, so without a row
  std::uint32_t truncated = 0;  ///< of `stacks` and `hidden`, those with live objects
  std::uint32_t collided = 0;   ///< of `stacks` and `hidden`
  std::uint64_t objects = 0;    ///< of all stacks, and of objects without a stack
  std::uint64_t bytes = 0;
  std::uint64_t hidden_objects = 0;
  std::uint64_t hidden_bytes = 0;
  std::uint64_t lost_objects = 0;  ///< recorded without a stack, because the depot was full
  std::uint64_t lost_bytes = 0;
  std::uint64_t older_objects = 0;  ///< recorded before the number given to count_since()
  std::uint64_t older_bytes = 0;
  std::uint64_t own_objects = 0;  ///< left out by Own::kLeaveOut
  std::uint64_t own_bytes = 0;
  // Figures of the selected caches, from the time of select():
  std::uint32_t known = 0;  ///< traced at some time
  /// Of these: sampled caches. Their live objects are an estimate, each record weighted with Keeping::every.
  std::uint32_t sampled = 0;
  std::uint32_t counting = 0;  ///< of these: caches with counts. Their objects count with the full object size
  std::uint64_t dropped = 0;   ///< allocations without a record
  /// Whether the report shows all live objects with their whole stacks.
  [[nodiscard]] bool complete() const noexcept {
    return known != 0 && dropped == 0 && lost_objects == 0 && truncated == 0 && sampled == 0;
  }
};

/// The live objects that one context allocated, from the records.
struct ContextSum {
  std::uint32_t id = 0;  ///< the argument for context_label()
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;  ///< requested
};
/// Sums up the live objects that were recorded before number @p before, by context, for the contexts from id @p first
/// on, as many as @p sums has room for. Id 0 stands for contexts whose label could not be stored.
/// @returns the number of contexts; if it is less than the room, no context is left.
/// Complexity: O(records) and O(contexts). Context: a task; allocates nothing and holds no lock.
[[nodiscard]] std::size_t sum_contexts(std::uint32_t first, std::uint64_t before, std::span<ContextSum> sums) noexcept;
/// A number above the numbers of all records that exist, for sum_contexts(). Context: any.
[[nodiscard]] std::uint64_t next_record() noexcept;

class StackReport {
 public:
  StackReport() noexcept = default;
  /// Ends this report, so that the next one may begin.
  ~StackReport();
  StackReport(const StackReport&) = delete;
  StackReport& operator=(const StackReport&) = delete;

  /// @returns kBusy while another report is running. Context: any outside interrupt handlers.
  [[nodiscard]] Status begin() noexcept;
  enum class Own : std::uint8_t { kCount, kLeaveOut };
  /// Selects what was allocated from @p source, which may be destroyed during the report. With Own::kLeaveOut,
  /// count_since() leaves out segments that the allocator itself holds, such as slabs of caches and spans of arenas.
  void select(Traceable& source, Own own = Own::kCount) noexcept;
  /// Selects everything, including the stacks of destroyed caches and arenas, which are kept with no objects.
  void select_all() noexcept;

  /// Counts the live objects. Stacks with fewer than @p threshold objects are hidden; 0 also shows stacks without
  /// objects.
  /// Complexity: O(stacks) and O(records).
  void count_live(std::uint32_t threshold) noexcept;
  /// Counts the live objects that were recorded from number @p sequence on, up to now or to number @p before,
  /// exclusive.
  /// Complexity: as count_live().
  void count_since(std::uint64_t sequence, std::uint64_t before = UINT64_MAX) noexcept;

  /// Counts the live objects, and shows only the stacks with more live bytes than at @p mark, with the increase. Equal
  /// bytes and more objects count as an increase. With nullptr the comparison is with nothing. The totals are those of
  /// the increase.
  /// Complexity: as count_live().
  void count_growth(const Mark* mark) noexcept;
  /// Copies the counts into @p rows. @returns the number of rows that it filled.
  std::uint32_t copy(std::span<StackThen> rows) const noexcept;

  [[nodiscard]] const StackTotals& totals() const noexcept { return totals_; }

  /// @returns false if no row is left. Complexity: O(stacks).
  bool next(StackRow& row) noexcept;

  /// @returns the details of the records that are counted in @p row and still live.
  /// Complexity: O(records).
  [[nodiscard]] StackDetails details(const StackRow& row) const noexcept;

 private:
  /// A place in the order of the rows.
  struct Rank {
    std::uint64_t size = 0;  ///< bytes, with objects in the lower bits
    StackHandle handle = kNoStack;
    [[nodiscard]] bool before(const Rank& other) const noexcept {
      return size != other.size ? size > other.size : handle > other.handle;
    }
  };

  void clear() noexcept;
  void count_records(std::uint64_t sequence, std::uint64_t before = UINT64_MAX) noexcept;
  void count_counted() noexcept;
  void sum_up(std::uint32_t threshold) noexcept;
  void add(StackEntry& entry, std::uint32_t objects, std::uint32_t bytes) noexcept;
  void note(TracedSource& one) noexcept;
  [[nodiscard]] bool includes(std::uint32_t owner) const noexcept;

  bool holds_ = false;
  bool all_ = false;
  std::uint32_t threshold_ = 0;
  std::uint64_t since_ = 0;   ///< records with this number or a higher one count
  std::uint64_t window_ = 0;  ///< records below this number count
  Rank last_;
  bool started_ = false;
  StackTotals totals_;
};

/// Whether the allocator itself holds the segment of @p source that begins at @p start: a slab of a cache, or a span of
/// an arena that imports from @p source. Complexity: O(caches and arenas). Context: a task.
[[nodiscard]] bool is_own(Traceable& source, std::uintptr_t start) noexcept;

}  // namespace qm::trace
