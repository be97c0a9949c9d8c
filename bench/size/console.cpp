/// A console with its built-in commands.

#include <qm/console/console.hpp>

#include "entry.hpp"

namespace qm::size {
console::Console& the_console() {
  static console::Console console(*some<console::Terminal>(), *some<console::ConsoleConfig>());
  return console;
}
}  // namespace qm::size

void qm::size::use_console() {
  console::Console& console = the_console();
  console.start();
  number = console.poll();
  number = console.notify(*some<MisuseReport>()) && console.notify(*some<ExhaustionReport>());
}
