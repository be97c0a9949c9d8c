#pragma once
/// A reader of Linux's /proc/allocinfo, version 2.0, as a program written for that reads it:
///
///     allocinfo - version: 2.0
///     #     <size>  <calls> <tag info>
///          4096      64 firmware/demo/background.cpp:46 [demo] func:timer_task accurate:no
///
/// What begins with # is a comment; the module in brackets and the pairs key:value behind the function may be missing.
/// On the host.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qm::test {

struct AllocinfoRow {
  std::int64_t size = 0;
  std::uint64_t calls = 0;
  std::string file;
  unsigned line = 0;
  std::string module;  ///< empty: none
  std::string function;
  std::map<std::string, std::string> others;  ///< what follows the function
  [[nodiscard]] bool is_accurate() const;
};

struct Allocinfo {
  std::vector<AllocinfoRow> rows;
  std::string wrong;  ///< the first line that is not of the format; empty: all are

  /// Sum of the sizes of all rows but those of @p module.
  [[nodiscard]] std::int64_t size_but_of(std::string_view module) const;
  /// The row of a function; nullptr if there is none.
  [[nodiscard]] const AllocinfoRow* of(std::string_view function) const;
};

/// Reads all of @p text, whose lines end in LF or CR LF.
[[nodiscard]] Allocinfo parse_allocinfo(const std::string& text);

}  // namespace qm::test
