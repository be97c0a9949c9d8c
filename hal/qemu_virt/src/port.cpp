#include <qm/hal/port.hpp>

namespace qm::hal {

constinit PortState port_state;

// Behind the allocator's hot hart-locals, still within an instruction's reach of tp.
[[gnu::section(".tdata.qm_port")]] constinit thread_local unsigned port_hart_index = 0;

}  // namespace qm::hal
