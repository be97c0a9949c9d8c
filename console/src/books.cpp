#include <qm/console/books.hpp>

#include <qm/console/names.hpp>

namespace qm::console {

constinit Books Books::none;

void Books::print_totals(Output& out, const Holders& holders, bool whole) noexcept {
  (void)holders;
  out.print("  stacks are not known without the trace: {}\n", closing_word(false, whole));
}

}  // namespace qm::console
