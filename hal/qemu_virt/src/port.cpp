#include <qm/hal/port.hpp>

namespace qm::hal {

constinit PortState port_state;

// Placed behind the allocator's hot hart-locals, still within the reach of one instruction from tp.
[[gnu::section(".tdata.qm_port")]] constinit thread_local unsigned port_hart_index = 0;
[[gnu::section(".tdata.qm_port")]] constinit thread_local std::uint32_t port_context_key = 0;

}  // namespace qm::hal
