#pragma once
/// The subcommands that explain, after their options have been read. Each returns the program's exit status, 0, and
/// throws host::Error: kUsage for what cannot be meant (status 2), anything else for bad input (status 1).

#include <cstddef>
#include <cstdint>
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

struct ReportOptions {
  ImageOptions image;
  std::string file;
  std::string sort = "bytes";
  std::size_t top = 0;  ///< lines of each table; 0: 20 in text, all in JSON
  double since_seconds = 0;
  std::string cache;         ///< a pattern; empty: all
  std::uint32_t stream = 0;  ///< 0: the last
  bool stacks = false, lifetimes = false, leaks = false, timeline = false, all = false;
  bool json = false;
  std::string html;  ///< where to; empty: no page
};

/// `qm report`.
int report(const ReportOptions& options);

struct ExportOptions {
  ImageOptions image;
  std::string file, output;  ///< output empty: standard output
  std::string format;
  std::string value = "live";  ///< of folded stacks: live or allocated
  std::string cache;
  std::uint32_t stream = 0;
};

/// `qm export`.
int export_capture(const ExportOptions& options);

struct DiffOptions {
  ImageOptions image;
  std::string before, after;  ///< captures, or the console's output
  std::string cache;
  std::size_t top = 20;  ///< of those that grew, and of those that shrank
  bool json = false;
};

/// `qm diff`.
int diff(const DiffOptions& options);

}  // namespace qm::analysis
