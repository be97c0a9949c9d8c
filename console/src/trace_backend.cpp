#include <qm/console/trace_backend.hpp>

#include <qm/console/names.hpp>

namespace qm::console {

constinit TraceBackend TraceBackend::none;

void TraceBackend::print_totals(Output& out, const Holders& holders, bool whole) noexcept {
  (void)holders;
  out.print("  stacks are not known without the trace: {}\n", closing_word(false, whole));
}

}  // namespace qm::console
