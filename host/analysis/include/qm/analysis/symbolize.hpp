#pragma once
/// Text with addresses in it, explained line by line.

#include <iosfwd>
#include <string>
#include <string_view>

#include <qm/analysis/symbols.hpp>

namespace qm::analysis {

enum class Match { kRequired, kForced };

class TextSymbolizer {
 public:
  /// @param[in] match kRequired: refuse text that names the build id of another image.
  explicit TextSymbolizer(const Symbols& symbols, Match match = Match::kRequired) : symbols_(symbols), match_(match) {}

  /// @returns what to print behind @p line, a text without its end: for each address of the image's code in it, `0x`
  ///          and at least four hex digits, and for each `NAME+0xOFFSET/0xSIZE`, a line a frame; empty if there is
  ///          none.
  /// @throws host::Error kInput if the line is a banner of another image (`Quartermaster VERSION build BUILD-ID, ...`).
  [[nodiscard]] std::string explain(std::string_view line) const;

  /// Copies @p in to @p out with explanations, line by line, each as soon as it is whole.
  void filter(std::istream& in, std::ostream& out) const;

 private:
  const Symbols& symbols_;
  Match match_;
};

/// @returns @p frame as `packet_alloc (firmware/demo/net.cpp:41)`, without the parenthesis if its place is not known.
[[nodiscard]] std::string describe(const Frame& frame);

}  // namespace qm::analysis
