// <qm/conformance/port_check.h>.

#include <qm/conformance/port_check.h>
#include <qm/conformance/port_check.hpp>

namespace {
using Write = void (*)(const char* text, std::size_t length);
constinit Write c_write = nullptr;
}  // namespace

extern "C" {

bool qm_check_port(const qm_port_check* check) {
  if (check == nullptr || check->write == nullptr) return false;
  c_write = check->write;
  qm::conformance::PortCheck port;
  port.write = [](std::string_view text) { c_write(text.data(), text.size()); };
  port.memory = {static_cast<std::byte*>(check->memory), check->bytes};
  if (check->harts != 0) port.harts = check->harts;
  if (check->wait_ms != 0) port.wait_ms = check->wait_ms;
  port.interrupt_in = check->interrupt_in;
  return qm::conformance::check_port(port);
}

void qm_attend_port_check() { qm::conformance::attend_port_check(); }

void qm_on_check_interrupt() { qm::conformance::on_interrupt(); }

}  // extern "C"
