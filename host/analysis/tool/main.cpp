// qm-analysis: the analysis subcommands of qm. A user types `qm report`, and qm starts this program, which lies in the
// same folder.

#include <fmt/core.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include <qm/host/error.hpp>
#include <qm/host/standard_streams.hpp>

#include "commands.hpp"

namespace {

using namespace qm;

/// Options for the image, which all subcommands have.
void add_image(CLI::App& app, analysis::ImageOptions& image) {
  app.add_option("--elf", image.elf, "the image, as the linker wrote it: names, files and lines are read from it");
  app.add_flag("--force", image.force, "take it even if its build id is another");
}

void add_symbolize(CLI::App& app, analysis::SymbolizeOptions& options) {
  CLI::App* symbolize = app.add_subcommand(
      "symbolize", "explain addresses in any text: function, file, line, and the calls that were inlined there");
  add_image(*symbolize, options.image);
  symbolize->get_option("--elf")->required();
  symbolize->add_option("file", options.file, "the text; without it, standard input");
}

/// A validator for seconds: a number, optionally with s, ms or us after it.
CLI::Validator duration() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        char* unit = nullptr;
        const double value = std::strtod(text.c_str(), &unit);
        const std::string rest = unit;
        const double scale = rest.empty() || rest == "s" ? 1 : rest == "ms" ? 1e-3 : rest == "us" ? 1e-6 : 0;
        if (unit == text.c_str() || scale == 0 || !(value >= 0)) return "should be a time such as 1.5, 200ms or 30us";
        text = fmt::format("{}", value * scale);
        return "";
      },
      "TIME");
}

/// CLI11's own validator prints its range with 20 digits.
CLI::Validator positive() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const bool number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
        return number && text.find_first_not_of('0') != std::string::npos ? "" : "should be a number above 0";
      },
      "POSITIVE");
}

void add_report(CLI::App& app, analysis::ReportOptions& options) {
  CLI::App* report =
      app.add_subcommand("report", "explain a capture: totals, hot call sites, caches, lifetimes, leaks");
  report->add_option("file", options.file, "the capture")->required();
  add_image(*report, options.image);
  report->add_option("--sort", options.sort, "bytes, req, hit, pingpong, frag, live: most first; or callsite")
      ->check(CLI::IsMember({"bytes", "req", "hit", "pingpong", "frag", "live", "callsite"}))
      ->capture_default_str();
  report->add_option("--top", options.top, "lines of each table (20; all in JSON)")->check(positive());
  CLI::Option* const since =
      report->add_option("--since", options.since_seconds, "only what happened so long after the stream began")
          ->transform(duration());
  CLI::Option* const cache =
      report->add_option("--cache", options.cache, "only caches and arenas of this name; * and ? stand for others");
  CLI::Option* const stream =
      report->add_option("--stream", options.stream, "which stream of the capture, from 1 on; without it the last")
          ->check(positive());
  report->add_flag("--stacks", options.stacks, "whole stacks, with inlined calls");
  report->add_flag("--lifetimes", options.lifetimes, "how long objects lived");
  report->add_flag("--leaks", options.leaks, "objects that are out longer than is usual for their stack");
  report->add_flag("--timeline", options.timeline, "live bytes over time");
  report->add_flag("--all", options.all, "all of these");
  report
      ->add_flag("--frag", options.frag,
                 "also who keeps nearly empty pages; with --html or --json memory over time and other placements too")
      ->excludes(since)
      ->excludes(cache)
      ->excludes(stream);
  report->add_flag("--json", options.json, "as one JSON object");
  report->add_option("--html", options.html, "write a page to this file: flame graphs, timelines, treemap");
  report->footer(
      "Names come from --elf, or from the image within the capture.\n"
      "Status: 0 a report, also of an incomplete capture, which it says; 1 not a capture, another image; 2 wrong "
      "usage.");
}

void add_export(CLI::App& app, analysis::ExportOptions& options) {
  CLI::App* out = app.add_subcommand("export", "turn a capture into a file of another program's");
  out->add_option("file", options.file, "the capture")->required();
  out->add_option("--format", options.format,
                  "pprof, perfetto (Chrome's trace events), folded, speedscope, heaptrack, csv, sqlite")
      ->check(CLI::IsMember({"pprof", "perfetto", "folded", "speedscope", "heaptrack", "csv", "sqlite"}))
      ->required();
  out->add_option("-o,--output", options.output, "the file; without it standard output, where the format is text");
  out->add_option("--value", options.value, "what folded stacks weigh: live or allocated bytes")
      ->check(CLI::IsMember({"live", "allocated"}))
      ->capture_default_str();
  out->add_option("--cache", options.cache, "stacks only of caches and arenas of this name; * and ? stand for others");
  out->add_option("--stream", options.stream, "which stream of the capture, from 1 on; without it the last")
      ->check(positive());
  add_image(*out, options.image);
}

void add_diff(CLI::App& app, analysis::DiffOptions& options) {
  CLI::App* diff =
      app.add_subcommand("diff", "compare what two captures, or two dumps of the console, have out, stack by stack");
  diff->add_option("before", options.before,
                   "a capture, or what qm exec --json prints of slab_stacks, slab_trace print or leaks")
      ->required();
  diff->add_option("after", options.after, "another of the same kind")->required();
  diff->add_option("--top", options.top, "of those that grew, and of those that shrank, so many")
      ->check(positive())
      ->capture_default_str();
  diff->add_option("--cache", options.cache,
                   "of captures: only caches and arenas of this name; * and ? stand for others");
  diff->add_flag("--json", options.json, "as one JSON object, with all that changed");
  add_image(*diff, options.image);
}

int start(int argc, char** argv) {
  CLI::App app("Quartermaster's host tool", "qm");
  analysis::SymbolizeOptions symbolize;
  add_symbolize(app, symbolize);
  analysis::ReportOptions report;
  add_report(app, report);
  analysis::ExportOptions exported;
  add_export(app, exported);
  analysis::DiffOptions compared;
  add_diff(app, compared);
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (app.got_subcommand("report")) return analysis::report(report);
  if (app.got_subcommand("export")) return analysis::export_capture(exported);
  if (app.got_subcommand("diff")) return analysis::diff(compared);
  return analysis::symbolize(symbolize);
}

}  // namespace

int main(int argc, char** argv) {
  host::open_standard_streams();
  signal(SIGPIPE, SIG_DFL);  // a reader that closes the pipe early ends the program silently
  try {
    const int status = start(argc, argv);
    host::flush_standard_output();
    return status;
  } catch (const host::Error& error) {
    fmt::print(stderr, "qm: {}\n", error.what());
    return error.fault() == host::Fault::kUsage ? 2 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "qm: {}\n", error.what());
    return 1;
  }
}
