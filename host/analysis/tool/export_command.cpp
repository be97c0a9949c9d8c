#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include <qm/analysis/export.hpp>
#include <qm/host/error.hpp>

#include "commands.hpp"
#include "sources.hpp"

namespace qm::analysis {
namespace {

struct Close {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};

void export_events(const ExportOptions& options, const Report& report) {
  if (options.format == "sqlite") {
    const auto made = export_sqlite(report, options.output);
    read_capture(options.file, *made);
    made->finish();
    return;
  }
  std::unique_ptr<std::FILE, Close> opened;
  if (!options.output.empty()) {
    opened.reset(std::fopen(options.output.c_str(), "wb"));
    if (!opened) throw host::Error(host::Fault::kOpen, "cannot write " + options.output + ": " + std::strerror(errno));
  }
  std::FILE* const file = opened ? opened.get() : stdout;
  const auto made = options.format == "csv"         ? export_csv(report, file)
                    : options.format == "heaptrack" ? export_heaptrack(report, file)
                                                    : export_perfetto(report, file);
  read_capture(options.file, *made);
  made->finish();
}

}  // namespace

int export_capture(const ExportOptions& options) {
  const bool binary = options.format == "pprof" || options.format == "sqlite";
  if (binary && options.output.empty())
    throw host::Error(host::Fault::kUsage, options.format + " goes to a file: give one with -o");
  require_another_file(options.output, options.file);
  Summary summary({0, options.cache, options.stream});
  read_capture(options.file, summary);
  require_cache(summary, options.file);
  const std::optional<Symbols> symbols = symbols_of(options.file, options.image, summary.definitions().header.build_id);
  const Report report = make_report(summary, symbols ? &*symbols : nullptr, SortKey::kBytes,
                                    std::filesystem::path(options.file).filename().string());
  if (summary.stream() == 0) throw host::Error(host::Fault::kInput, options.file + ": " + report.problems.front());
  for (const std::string& problem : report.problems) std::fprintf(stderr, "qm: incomplete: %s\n", problem.c_str());
  if (options.format == "pprof") {
    write_file(options.output, export_pprof(report));
  } else if (options.format == "folded") {
    write_file(options.output,
               export_folded(report, options.value == "allocated" ? Value::kAllocatedBytes : Value::kLiveBytes));
  } else if (options.format == "speedscope") {
    write_file(options.output, export_speedscope(report));
  } else {
    export_events(options, report);
  }
  return 0;
}

}  // namespace qm::analysis
