#pragma once
/// The subcommands of the analysis, after their options were read. Each returns the program's exit status, 0, and
/// throws host::Error: kUsage for impossible arguments (status 2), another fault for bad input (status 1).

#include <cstddef>
#include <cstdint>
#include <string>

namespace qm::analysis {

struct ImageOptions {
  std::string elf;     ///< empty: none
  bool force = false;  ///< accept an image with another build id
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
  std::size_t top = 0;  ///< lines in each table; 0: 20 in text, all in JSON
  double since_seconds = 0;
  std::string cache;         ///< a pattern; empty: all
  std::uint32_t stream = 0;  ///< 0: the last stream
  bool stacks = false, lifetimes = false, leaks = false, timeline = false, all = false;
  bool frag = false;
  bool json = false;
  std::string html;  ///< path of the page; empty: no page
};

/// `qm report`.
int report(const ReportOptions& options);

struct ExportOptions {
  ImageOptions image;
  std::string file, output;  ///< output empty: standard output
  std::string format;
  std::string value = "live";  ///< value of folded stacks: live or allocated
  std::string cache;
  std::uint32_t stream = 0;
};

/// `qm export`.
int export_capture(const ExportOptions& options);

struct DiffOptions {
  ImageOptions image;
  std::string before, after;  ///< captures, or output of the console
  std::string cache;
  std::size_t top = 20;  ///< at most this many origins that grew, and as many that shrank
  bool json = false;
};

/// `qm diff`.
int diff(const DiffOptions& options);

}  // namespace qm::analysis
