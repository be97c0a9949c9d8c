#pragma once
/// `qm top`: shows repeatedly how many objects and bytes the caches of a running target have allocated, and how fast
/// they are used.

#include <string>

#include <qm/host/target.hpp>

namespace qm::tool {

struct TopOptions {
  std::string serial;
  unsigned baud = 115200;
  double every_seconds = 1;
  double seconds = 0;                     ///< 0: until q or Ctrl-C
  std::string sort = "bytes";             ///< bytes, growth, objects, allocs, frees or name
  std::string filter;                     ///< part of the shown names, or a pattern; empty: all
  std::string start = "kmemtrace start";  ///< the command that starts the stream; empty: none
  host::TargetTimeouts timeouts;
};

/// On a terminal, uses the whole screen and restores it at the end; otherwise prints one table after another.
int top(const TopOptions& options);

}  // namespace qm::tool
