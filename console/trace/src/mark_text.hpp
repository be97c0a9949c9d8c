#pragma once
/// What the reports since a mark share: leaks, expect, growth.

#include <qm/console/command.hpp>
#include <qm/trace/marks.hpp>

namespace qm::console {

/// Begins the turn of a report and finds the mark that the command's first argument names.
/// @param[out] mark the mark, until the turn ends. @returns kOk, or what the command answers.
CommandStatus find_mark(Invocation& call, trace::StackReport& report, const trace::Mark*& mark) noexcept;

/// Prints why a report since a mark is not complete.
void print_coverage(Invocation& call, const trace::Coverage& coverage) noexcept;

/// Prints the end of a closing line: how long ago, what was traced, what was dropped, the word.
/// @param[in] mark nullptr: no time.
void close_report(Invocation& call, const trace::Mark* mark, const trace::Coverage& coverage, bool aborted,
                  bool whole) noexcept;

/// Offers the names of the marks for the first argument.
void complete_mark(Completion& completion) noexcept;

}  // namespace qm::console
