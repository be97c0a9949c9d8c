#pragma once
/// A reader of Linux's /proc/allocinfo, version 2.0, in the way of programs written for Linux:
///
///     allocinfo - version: 2.0
///     #     <size>  <calls> <tag info>
///          4096      64 firmware/demo/background.cpp:46 [demo] func:timer_task accurate:no
///
/// Lines that begin with # are comments; the module in brackets and the pairs key:value after the function may be
/// missing. Host only.

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
  std::map<std::string, std::string> others;  ///< the pairs after the function
  [[nodiscard]] bool is_accurate() const;
};

struct Allocinfo {
  std::vector<AllocinfoRow> rows;
  std::string wrong;  ///< the first line with a wrong format; empty: there is none

  /// @returns the sum of the sizes of all rows except those of @p module.
  [[nodiscard]] std::int64_t size_but_of(std::string_view module) const;
  /// @returns the row of a function; nullptr if there is none.
  [[nodiscard]] const AllocinfoRow* of(std::string_view function) const;
};

/// Reads all of @p text, whose lines end with LF or CR LF.
[[nodiscard]] Allocinfo parse_allocinfo(const std::string& text);

}  // namespace qm::test
