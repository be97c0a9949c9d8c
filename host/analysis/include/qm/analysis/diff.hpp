#pragma once
/// Two states of the same firmware, compared stack by stack: captures, or dumps of the console.
///
/// A stack is known by its id, which is the same in each boot of the same image, and its call site. The console's dumps
/// have no call sites: a capture is compared with one by stacks alone. A dump is what `qm exec --json` prints of a command
/// with rows of objects or stacks (docs/protocol.md).

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <qm/analysis/report.hpp>
#include <qm/host/report_row.hpp>

namespace qm::analysis {

/// What one side knows of one origin.
struct Holding {
  double objects = 0, bytes = 0;
  std::string name;                 ///< the call site, else the innermost frame
  std::vector<std::string> frames;  ///< as text, innermost first
  bool call_site_in_front = false;  ///< the first frame is a call site, and none of the stack
};

/// What is out, by stack.
struct Holdings {
  std::string source;          ///< the file
  bool has_call_sites = true;  ///< false: dumps do not tell them
  bool complete = true;
  std::map<Origin, Holding> stacks;
};

/// @returns what is live at the end of a capture.
[[nodiscard]] Holdings holdings_of(const Report& report);

/// Adds up the rows of a report by stack. One whose last row is missing is not complete.
/// @param[in] symbols for names of stacks; nullptr: as they are there.
/// @throws host::Error kInput if there is no report, or more than one: two moments make no sum.
[[nodiscard]] Holdings holdings_of(std::span<const host::ReportRow> rows, const Symbols* symbols, std::string source);

/// @returns the rows in @p text, lines of JSON as `qm exec --json` prints them; what is none is left out.
[[nodiscard]] std::vector<host::ReportRow> rows_of_json(std::string_view text);

/// One origin that holds more or less than before.
struct Change {
  Origin origin;
  Holding before, after;
  [[nodiscard]] double objects() const noexcept { return after.objects - before.objects; }
  [[nodiscard]] double bytes() const noexcept { return after.bytes - before.bytes; }
};

struct Difference {
  Holdings before, after;
  std::vector<Change> changes;  ///< what grew most first, what shrank most last; what is the same is left out
};

[[nodiscard]] Difference difference(Holdings before, Holdings after);

/// @param[in] top so many of those that grew, and of those that shrank; 0: all.
[[nodiscard]] std::string difference_text(const Difference& of, std::size_t top);
[[nodiscard]] std::string difference_json(const Difference& of);

}  // namespace qm::analysis
