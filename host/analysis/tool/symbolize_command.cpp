#include <iostream>

#include <qm/analysis/symbolize.hpp>
#include <qm/host/error.hpp>

#include "commands.hpp"
#include "sources.hpp"

namespace qm::analysis {

int symbolize(const SymbolizeOptions& options) {
  const Symbols symbols(options.image.elf);
  const TextSymbolizer text(symbols, options.image.force ? Match::kForced : Match::kRequired);
  std::ios::sync_with_stdio(false);
  if (options.file.empty()) {
    text.filter(std::cin, std::cout);
  } else {
    std::ifstream file = open_text(options.file);
    text.filter(file, std::cout);
  }
  if (!std::cout) throw host::Error(host::Fault::kOpen, "the output could not be written");
  return 0;
}

}  // namespace qm::analysis
