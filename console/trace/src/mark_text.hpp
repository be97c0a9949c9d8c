#pragma once
/// Code that the reports since a mark share: leaks, expect, growth.

#include <qm/console/command.hpp>
#include <qm/console/query.hpp>
#include <qm/console/row.hpp>
#include <qm/trace/marks.hpp>
#include <qm/trace/stack_report.hpp>

namespace qm::console {

/// Begins the turn of a report, and finds the mark that the command's first argument names.
/// @param[out] mark the mark, which is valid until the turn ends.
/// @returns kOk, or the status that the command returns; the error has been printed.
CommandStatus find_mark(Invocation& call, trace::StackReport& report, const trace::Mark*& mark) noexcept;

/// The scope of a report on live objects since a mark, which the command's arguments select. It includes the caches and
/// arenas that patterns name. Without such patterns it includes all caches and arenas except `kmem_cache`, whose
/// objects belong to the allocator, and the firmware's background. In both cases patterns with a `-` in front leave out
/// the caches and arenas that they name. Slabs of caches and spans of arenas never count. With `older T`, only objects
/// older than T count.
class Scope {
 public:
  explicit Scope(Invocation& call) noexcept : background_(background_of(call)) {}
  /// Reads the scope from @p query. @returns kOk, or the status that the command returns; the error has been printed.
  CommandStatus read(Invocation& call, const Query& query) noexcept;
  /// Records with this number or a higher one are too young.
  [[nodiscard]] std::uint64_t before() const noexcept { return before_; }
  [[nodiscard]] bool includes(Traceable& source) const noexcept;
  [[nodiscard]] trace::Coverage coverage_since(const trace::Mark* mark) const noexcept;

  /// Counts the objects that are left out when no pattern is given. Then begins @p report, which has the turn, again
  /// and selects the caches and arenas of the scope.
  void select(trace::StackReport& report, const trace::Mark& mark) noexcept;
  /// The objects that select() left out.
  [[nodiscard]] const trace::StackTotals& left_out() const noexcept { return left_out_; }
  /// Prints what was left out. @param[in] own_objects number of slabs and spans, which have @p own_bytes bytes.
  void print_left_out(Invocation& call, std::uint64_t own_objects, std::uint64_t own_bytes) const noexcept;

 private:
  static std::string_view background_of(Invocation& call) noexcept;

  std::string_view patterns_[Query::kMaxPatterns];  ///< patterns that leave out keep their `-`
  unsigned count_ = 0;
  bool named_ = false;  ///< there is a pattern without a `-`
  std::uint64_t before_ = UINT64_MAX;
  std::string_view background_;
  trace::StackTotals left_out_;
};

/// Prints why a report since a mark is incomplete.
void print_coverage(Invocation& call, const trace::Coverage& coverage) noexcept;

/// Prints the end of a closing line: the time since the mark, how many caches were traced, how many allocations were
/// dropped, and the closing word. @param[in] mark nullptr: prints no time.
void close_report(Row& row, const trace::Mark* mark, const trace::Coverage& coverage, bool aborted,
                  bool whole) noexcept;

/// Offers the names of the marks for the first argument.
void complete_mark(Completion& completion) noexcept;
/// Offers the names of the marks.
void offer_marks(Completion& completion) noexcept;

}  // namespace qm::console
