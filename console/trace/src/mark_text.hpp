#pragma once
/// What the reports since a mark share: leaks, expect, growth.

#include <qm/console/command.hpp>
#include <qm/console/query.hpp>
#include <qm/console/row.hpp>
#include <qm/trace/marks.hpp>
#include <qm/trace/stack_report.hpp>

namespace qm::console {

/// Begins the turn of a report and finds the mark that the command's first argument names.
/// @param[out] mark the mark, until the turn ends. @returns kOk, or what the command answers.
CommandStatus find_mark(Invocation& call, trace::StackReport& report, const trace::Mark*& mark) noexcept;

/// What a report on what is out since a mark is about, as words of the command say: the caches and arenas that patterns
/// name, or, without any, all but `kmem_cache`, whose objects are the allocator's, and the firmware's background; in
/// either case without those that patterns behind a `-` name. Slabs of caches and spans of arenas never count. With
/// `older T` it is about what is older than that.
class Scope {
 public:
  explicit Scope(Invocation& call) noexcept : background_(background_of(call)) {}
  /// Takes what @p query says. @returns kOk, or what the command answers.
  CommandStatus read(Invocation& call, const Query& query) noexcept;
  /// Records with this number and higher ones are too young.
  [[nodiscard]] std::uint64_t before() const noexcept { return before_; }
  [[nodiscard]] bool includes(Traceable& source) const noexcept;
  [[nodiscard]] trace::Coverage coverage_since(const trace::Mark* mark) const noexcept;

  /// Counts what is left out without a pattern; then has @p report, whose turn it is, begin anew and selects the rest.
  void select(trace::StackReport& report, const trace::Mark& mark) noexcept;
  /// What select() has counted.
  [[nodiscard]] const trace::StackTotals& left_out() const noexcept { return left_out_; }
  /// Says what was left out; @p own_objects of @p own_bytes are slabs and spans.
  void print_left_out(Invocation& call, std::uint64_t own_objects, std::uint64_t own_bytes) const noexcept;

 private:
  static std::string_view background_of(Invocation& call) noexcept;

  std::string_view patterns_[Query::kMaxPatterns];  ///< those that leave out with their `-`
  unsigned count_ = 0;
  bool named_ = false;  ///< there is one without a `-`
  std::uint64_t before_ = UINT64_MAX;
  std::string_view background_;
  trace::StackTotals left_out_;
};

/// Prints why a report since a mark is not complete.
void print_coverage(Invocation& call, const trace::Coverage& coverage) noexcept;

/// Prints the end of a closing line: how long ago, what was traced, what was dropped, the word.
/// @param[in] mark nullptr: no time.
void close_report(Row& row, const trace::Mark* mark, const trace::Coverage& coverage, bool aborted,
                  bool whole) noexcept;

/// Offers the names of the marks for the first argument.
void complete_mark(Completion& completion) noexcept;
/// Offers them.
void offer_marks(Completion& completion) noexcept;

}  // namespace qm::console
