#pragma once
/// `qm top`: what the caches of a running target hold, and how fast they are used, shown again and again.

#include <string>

#include <qm/host/target.hpp>

namespace qm::tool {

struct TopOptions {
  std::string serial;
  unsigned baud = 115200;
  double every_seconds = 1;
  double seconds = 0;                     ///< 0: until q or Ctrl-C
  std::string sort = "bytes";             ///< bytes, growth, objects, allocs, frees or name
  std::string filter;                     ///< part of the names to show, or a pattern; empty: all
  std::string start = "kmemtrace start";  ///< the command that starts the stream; empty: none
  host::TargetTimeouts timeouts;
};

/// On a terminal it takes the whole screen and gives it back; else it prints one table after the other.
int top(const TopOptions& options);

}  // namespace qm::tool
