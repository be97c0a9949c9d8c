// qm-analysis: the subcommands of qm that explain. A user types `qm report`; qm starts this program, which lies beside it.

#include <fmt/core.h>
#include <signal.h>

#include <CLI/CLI.hpp>

#include <qm/host/error.hpp>

#include "commands.hpp"

namespace {

using namespace qm;

/// What all subcommands know of the image.
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

int start(int argc, char** argv) {
  CLI::App app("Quartermaster's host tool", "qm");
  analysis::SymbolizeOptions symbolize;
  add_symbolize(app, symbolize);
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return analysis::symbolize(symbolize);
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_DFL);  // the reader of a pipe may have seen enough
  try {
    return start(argc, argv);
  } catch (const host::Error& error) {
    fmt::print(stderr, "qm: {}\n", error.what());
    return error.fault() == host::Fault::kUsage ? 2 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "qm: {}\n", error.what());
    return 1;
  }
}
