#include <iostream>

#include <qm/analysis/symbolize.hpp>

#include "commands.hpp"
#include "sources.hpp"

namespace qm::analysis {

int symbolize(const SymbolizeOptions& options) {
  const Symbols symbols(options.image.elf);
  const TextSymbolizer text(symbols, options.image.force ? Match::kForced : Match::kRequired);
  if (options.file.empty()) {
    std::ios::sync_with_stdio(false);
    text.filter(std::cin, std::cout);
    return 0;
  }
  std::ifstream file = open_text(options.file);
  text.filter(file, std::cout);
  return 0;
}

}  // namespace qm::analysis
