#pragma once
/// Regular expressions for printed text. Host only, and compiled once: <regex> costs five seconds a source.

#include <string>
#include <vector>

namespace qm::test {

/// [0] is the whole match, its groups follow; empty if there is no match.
using Match = std::vector<std::string>;

/// @param[in] pattern a regular expression in ECMAScript syntax; throws std::regex_error if it is not valid.
/// @returns the first match in @p text. Complexity: O(text), more for patterns that backtrack.
[[nodiscard]] Match find(const std::string& text, const std::string& pattern);
/// @returns all matches, in order, without overlaps.
[[nodiscard]] std::vector<Match> find_all(const std::string& text, const std::string& pattern);
/// Whether all of @p text matches.
[[nodiscard]] bool matches(const std::string& text, const std::string& pattern);
/// @returns the text with each match replaced by @p with, in which $& stands for the match.
[[nodiscard]] std::string replace_all(const std::string& text, const std::string& pattern, const std::string& with);

}  // namespace qm::test
