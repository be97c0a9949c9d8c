#pragma once
/// Adds explanations to text that contains addresses, line by line.

#include <iosfwd>
#include <string>
#include <string_view>

#include <qm/analysis/symbols.hpp>

namespace qm::analysis {

enum class Match { kRequired, kForced };

class TextSymbolizer {
 public:
  /// @param[in] match kRequired: refuse text with the build id of another image.
  explicit TextSymbolizer(const Symbols& symbols, Match match = Match::kRequired) : symbols_(symbols), match_(match) {}

  /// @returns the text to print after @p line, which is given without its line end: a line for each frame of each
  ///          address of the image's code in it, where an address is `0x` and at least four hex digits, or
  ///          `NAME+0xOFFSET/0xSIZE`; empty if there is no such address.
  /// @throws host::Error kInput if the line has the build id of another image: a word of as many hexadecimal digits as
  ///          the image's own build id, which has 32 or more.
  [[nodiscard]] std::string explain(std::string_view line) const;

  /// Copies @p in to @p out line by line, with explanations. Each line is written as soon as it is complete.
  void filter(std::istream& in, std::ostream& out) const;

 private:
  const Symbols& symbols_;
  Match match_;
};

/// @returns @p frame as `packet_alloc (firmware/demo/net.cpp:41)`; without the parenthesis if file and line are not
///          known.
[[nodiscard]] std::string describe(const Frame& frame);

}  // namespace qm::analysis
