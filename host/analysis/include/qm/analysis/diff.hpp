#pragma once
/// Compares two states of the same firmware stack by stack. A state is a capture or a dump of the console.
///
/// A stack is identified by its id, which is the same in each boot of the same image, and by its call site. The
/// console's dumps have no call sites, so a capture and a dump are compared by stacks alone. A dump is the output of
/// `qm exec --json` for a command with rows of objects or stacks (docs/protocol.md).

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <qm/analysis/report.hpp>
#include <qm/host/report_row.hpp>

namespace qm::analysis {

/// The figures of one origin in one state.
struct Holding {
  double objects = 0, bytes = 0;
  std::string name;                 ///< the call site if there is one, else the innermost frame
  std::vector<std::string> frames;  ///< as text, innermost first
  bool call_site_in_front = false;  ///< the first frame is the call site and not part of the stack
};

/// The live objects of one state, by stack.
struct Holdings {
  std::string source;          ///< the file
  bool has_call_sites = true;  ///< false: a dump, which has no call sites
  bool complete = true;
  std::map<Origin, Holding> stacks;
};

/// @returns the objects that are live at the end of a capture.
[[nodiscard]] Holdings holdings_of(const Report& report);

/// Adds up the rows of a report by stack. A report whose last row is missing is not complete.
/// @param[in] symbols names the stacks; nullptr: the names in the rows are used.
/// @throws host::Error kInput if there is no report, or more than one: states of two moments cannot be added.
[[nodiscard]] Holdings holdings_of(std::span<const host::ReportRow> rows, const Symbols* symbols, std::string source);

/// @returns the rows in @p text, lines of JSON as `qm exec --json` prints them; other lines are left out.
[[nodiscard]] std::vector<host::ReportRow> rows_of_json(std::string_view text);

/// An origin that holds more or less than before.
struct Change {
  Origin origin;
  Holding before, after;
  [[nodiscard]] double objects() const noexcept { return after.objects - before.objects; }
  [[nodiscard]] double bytes() const noexcept { return after.bytes - before.bytes; }
};

struct Difference {
  Holdings before, after;
  std::vector<Change> changes;  ///< the largest growth first, the largest decrease last; unchanged origins are left out
};

[[nodiscard]] Difference difference(Holdings before, Holdings after);

/// @param[in] top at most this many origins that grew, and as many that shrank; 0: all.
[[nodiscard]] std::string difference_text(const Difference& of, std::size_t top);
[[nodiscard]] std::string difference_json(const Difference& of);

}  // namespace qm::analysis
