/// Labels of the running context: the innermost trap first, each followed by "from" and the context that it
/// interrupted.

#include "hart_state.hpp"
#include <qm/firmware/text.hpp>

namespace qm::firmware {
namespace {

void add_trap(Text& text, const TrapFrame& frame) noexcept {
  if (!frame.is_interrupt()) {
    (text << "exception ").decimal(frame.code());
  } else if (frame.line != 0) {
    (text << "irq ").decimal(frame.line);
  } else if (frame.code() == QM_TIMER_INTERRUPT) {
    text << "timer";
  } else if (frame.code() == QM_SOFTWARE_INTERRUPT) {
    text << "ipi";
  } else {
    text << "irq";
  }
  text << " from ";
}

}  // namespace
}  // namespace qm::firmware

namespace qm::hal {

std::size_t platform_context_label(std::span<char> label) noexcept {
  firmware::Text text(label);
  const firmware::HartState& hart = firmware::this_hart();
  for (const firmware::TrapFrame* frame = hart.innermost; frame != nullptr; frame = frame->outer) {
    firmware::add_trap(text, *frame);
  }
  if (hart.scheduling) {
    text << "task " << hart.current->name.data();
  } else {
    text << "boot";
  }
  return text.length();
}

}  // namespace qm::hal
