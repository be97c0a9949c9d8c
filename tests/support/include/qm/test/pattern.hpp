#pragma once
/// Regular expressions over what was printed. On the host only, and compiled once: <regex> costs five seconds a source.

#include <string>
#include <vector>

namespace qm::test {

/// The whole of a match in [0], its groups behind it; empty where there is none.
using Match = std::vector<std::string>;

/// A regular expression as ECMAScript writes it. Throws std::regex_error if @p pattern is none.
/// @returns the first match in @p text. O(text), more for patterns that go back.
[[nodiscard]] Match find(const std::string& text, const std::string& pattern);
/// @returns every match, in order, none overlapping another.
[[nodiscard]] std::vector<Match> find_all(const std::string& text, const std::string& pattern);
/// Whether all of @p text matches.
[[nodiscard]] bool matches(const std::string& text, const std::string& pattern);
/// @returns the text with each match replaced by @p with, in which $& is the match.
[[nodiscard]] std::string replace_all(const std::string& text, const std::string& pattern, const std::string& with);

}  // namespace qm::test
