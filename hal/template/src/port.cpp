#include <qm/hal/port.hpp>

namespace qm::hal {

/// Leaves the reason to a debugger, then stops. In your port, print it.
void template_fatal(const char* reason) noexcept {
  [[maybe_unused]] static const char* volatile last_reason;
  last_reason = reason;
  for (;;) Port::wait_for_interrupt();
}

/// There is no clock here: the time advances only when it is read, which is enough for deadlines to pass. In your port,
/// read a clock.
std::uint64_t template_ticks() noexcept {
  static std::uint64_t readings = 0;
  return ++readings;
}

}  // namespace qm::hal
