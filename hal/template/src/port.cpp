#include <qm/hal/port.hpp>

namespace qm::hal {

/// Shows the reason to a debugger, then stops. Yours prints it.
void template_fatal(const char* reason) noexcept {
  [[maybe_unused]] static const char* volatile last_reason;
  last_reason = reason;
  for (;;) Port::wait_for_interrupt();
}

/// No clock: time stands still but for its own readings, which is enough for deadlines to pass. Yours reads one.
std::uint64_t template_ticks() noexcept {
  static std::uint64_t readings = 0;
  return ++readings;
}

}  // namespace qm::hal
