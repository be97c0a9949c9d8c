#pragma once
/// A report on stacks: each distinct stack once with what is out of it, largest first, while the system allocates.
///
///     trace::StackReport report;
///     trace::StackRow row;
///     if (report.begin() != Status::kOk) return;      // another report is under way
///     report.select(cache);                           // or several, or select_all()
///     report.count_live(threshold);                   // or count_since(number)
///     while (!interrupted() && report.next(row)) print(row);
///
/// The depot has an entry for each (cache, stack). Entries of several caches for one stack have one id (D2), so they
/// lie in one bucket (D3), and the oldest of them speaks for all.
///
/// Invariants
/// - K1 One pass counts the records into the snapshots of the entries that speak, and one over the entries adds what
///      caches that keep counts have out; rows are selected from the snapshots, in strict order of bytes, objects and
///      handle. So a stack is shown at most once, nothing that happens meanwhile moves a row, and the sum is that of
///      the records.
/// - K2 An entry that has no part in the report has the snapshot kUnreported; so does one that is stored meanwhile.
/// - K3 Snapshots belong to the one report under way.
/// - K4 Nothing is allocated, and no lock is held.
///
/// Each row is found by a walk over the depot: n stacks take n walks of a few instructions an entry, between which the
/// caller may let others run.

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
struct SourceBooks;
struct StackThen;

/// One stack.
struct StackRow {
  StackHandle handle = kNoStack;  ///< for stack_of()
  std::uint32_t id = 0;
  bool collided = false;  ///< the id is not the hash of the stack alone, as another stack has that
  std::uint32_t objects = 0;
  std::uint32_t bytes = 0;  ///< asked for; modulo 2^32
  CallStack stack;
};

/// What the records of one stack say besides. What is only counted has none of it.
struct StackDetails {
  std::uint32_t records = 0;
  /// That the objects take, slack included, where StackRow::bytes is what was asked for.
  std::uint64_t held_bytes = 0;
  std::uint64_t oldest_ticks = 0;  ///< ages, as DumpEntry::age_ticks
  std::uint64_t mean_ticks = 0;
  hal::HartMask harts = 0;
  std::uint32_t contexts[1U << (kContextIdBits - 5)] = {};  ///< a bit for each context id

  [[nodiscard]] bool has_context(std::uint32_t id) const noexcept { return (contexts[id / 32] >> id % 32 & 1) != 0; }
};
/// The label of a context, without the hart; empty for one that could not be kept. Context: any.
[[nodiscard]] std::string_view context_label(std::uint32_t id) noexcept;

/// What a count has found.
struct StackTotals {
  std::uint32_t stacks = 0;     ///< with a row
  std::uint32_t hidden = 0;     ///< with fewer objects than the threshold
  std::uint32_t truncated = 0;  ///< of both, with objects out
  std::uint32_t collided = 0;   ///< of both
  std::uint64_t objects = 0;    ///< of all stacks, and of none
  std::uint64_t bytes = 0;
  std::uint64_t hidden_objects = 0;
  std::uint64_t hidden_bytes = 0;
  std::uint64_t lost_objects = 0;  ///< recorded without a stack, as the depot was full
  std::uint64_t lost_bytes = 0;
  std::uint64_t older_objects = 0;  ///< recorded before the number of count_since()
  std::uint64_t older_bytes = 0;
  std::uint64_t own_objects = 0;  ///< left out by Own::kLeaveOut
  std::uint64_t own_bytes = 0;
  // Of the caches selected, when they were selected:
  std::uint32_t known = 0;  ///< traced at some time
  /// Of these: what they have out is an estimate, each record weighed with Keeping::every.
  std::uint32_t sampled = 0;
  std::uint32_t counting = 0;  ///< of these: their objects count with their whole size
  std::uint64_t dropped = 0;   ///< allocations without a record
  /// Whether what is out is all told with its whole stacks.
  [[nodiscard]] bool complete() const noexcept {
    return known != 0 && dropped == 0 && lost_objects == 0 && truncated == 0 && sampled == 0;
  }
};

/// What is out of one context's allocations, as the records say.
struct ContextSum {
  std::uint32_t id = 0;  ///< for context_label()
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;  ///< asked for
};
/// Adds up what is out, was recorded before number @p before, and is of the next contexts from id @p first on, as many as @p sums
/// has room for. Id 0 stands for those that could not be kept.
/// @returns how many contexts there were; fewer than there is room for: no other follows.
/// Complexity: O(records) and O(contexts). Context: a task; nothing is allocated, and no lock is held.
[[nodiscard]] std::size_t sum_contexts(std::uint32_t first, std::uint64_t before, std::span<ContextSum> sums) noexcept;
/// A number above that of each record there is, for sum_contexts(). Context: any.
[[nodiscard]] std::uint64_t next_record() noexcept;

class StackReport {
 public:
  StackReport() noexcept = default;
  /// The next report may begin.
  ~StackReport();
  StackReport(const StackReport&) = delete;
  StackReport& operator=(const StackReport&) = delete;

  /// @returns kBusy while another report is under way. Context: any outside interrupt handlers.
  [[nodiscard]] Status begin() noexcept;
  enum class Own : std::uint8_t { kCount, kLeaveOut };
  /// Has what was drawn from @p source counted, which may be destroyed meanwhile; with Own::kLeaveOut count_since() leaves
  /// out what the allocator itself holds of it, as slabs of caches and spans of arenas.
  void select(Traceable& source, Own own = Own::kCount) noexcept;
  /// Has everything counted, also what was drawn from what is destroyed by now: its stacks are kept with no object.
  void select_all() noexcept;

  /// Counts what is out. Stacks with fewer than @p threshold objects are hidden; 0 shows those without any, too.
  /// Complexity: O(stacks) and O(records).
  void count_live(std::uint32_t threshold) noexcept;
  /// Counts what is out of what was recorded from number @p sequence on, up to now or to number @p before, exclusive.
  /// Complexity: as count_live().
  void count_since(std::uint64_t sequence, std::uint64_t before = UINT64_MAX) noexcept;

  /// Counts what is out, and shows only the stacks that have more bytes out than at @p mark, with what they have more;
  /// as many bytes and more objects count as more. nullptr: more than nothing. The totals are those of what has grown.
  /// Complexity: as count_live().
  void count_growth(const Mark* mark) noexcept;
  /// Copies what was counted. @returns how many rows it took.
  std::uint32_t copy(std::span<StackThen> rows) const noexcept;

  [[nodiscard]] const StackTotals& totals() const noexcept { return totals_; }

  /// @returns false when there is none left. Complexity: O(stacks).
  bool next(StackRow& row) noexcept;

  /// @returns what the records that count in @p row say: of those that are out now.
  /// Complexity: O(records).
  [[nodiscard]] StackDetails details(const StackRow& row) const noexcept;

 private:
  /// A place in the order of the rows.
  struct Rank {
    std::uint64_t size = 0;  ///< bytes and, below them, objects
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
  void note(SourceBooks& one) noexcept;
  [[nodiscard]] bool includes(std::uint32_t owner) const noexcept;

  bool holds_ = false;
  bool all_ = false;
  std::uint32_t threshold_ = 0;
  std::uint64_t since_ = 0;   ///< records from this number on count
  std::uint64_t window_ = 0;  ///< up to this one
  Rank last_;
  bool started_ = false;
  StackTotals totals_;
};

/// Whether the allocator itself holds what @p source has handed out at @p start: a slab of a cache, or a span of an
/// arena that draws from it. Complexity: O(caches and arenas). Context: a task.
[[nodiscard]] bool is_own(Traceable& source, std::uintptr_t start) noexcept;

}  // namespace qm::trace
