#pragma once
/// The report of `slab_trace print`, read back into objects and stacks. The format is fixed in docs/console.md.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qm::host {

struct TraceReport {
  struct Frame {
    std::uint64_t pc = 0;
    std::string name;  ///< "(null)" where the image has no symbol
    friend bool operator==(const Frame&, const Frame&) = default;
  };
  struct Object {
    std::uint64_t address = 0;
    std::string context;  ///< "hart 2 task net-rx"
    std::vector<Frame> frames;
    bool truncated = false;
  };

  std::vector<Object> objects;
  std::vector<std::string> sources;        ///< caches and arenas, by their header lines
  std::vector<std::string> closing_lines;  ///< one for each of them
  std::vector<std::string> notes;          ///< lines `note: TEXT`, without `note: `
  std::vector<std::string> unknown_lines;  ///< lines that are no part of the format

  /// @returns whether there is a closing line, one for each cache or arena, and each ends with "complete".
  [[nodiscard]] bool complete() const;
};

/// Reads @p text, lines ended by LF or CR LF.
[[nodiscard]] TraceReport parse_trace_report(std::string_view text);

/// @returns the addresses of the lines `leaked ADDRESS` in a workload's output, in order.
[[nodiscard]] std::vector<std::uint64_t> parse_leaked(std::string_view text);

}  // namespace qm::host
