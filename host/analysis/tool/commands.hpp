#pragma once
/// The subcommands that explain, after their options have been read. Each returns the program's exit status, 0, and throws
/// host::Error: kUsage for what cannot be meant (status 2), anything else for bad input (status 1).

#include <string>

namespace qm::analysis {

struct ImageOptions {
  std::string elf;     ///< empty: none
  bool force = false;  ///< take an image of another build id
};

struct SymbolizeOptions {
  ImageOptions image;
  std::string file;  ///< empty: standard input
};

/// `qm symbolize`: a filter.
int symbolize(const SymbolizeOptions& options);

}  // namespace qm::analysis
