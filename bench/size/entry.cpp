#include "entry.hpp"

namespace qm::size {
void* volatile anything;
unsigned long volatile number;
[[gnu::weak]] void use_caches() {}
[[gnu::weak]] void use_malloc() {}
[[gnu::weak]] void use_more() {}
[[gnu::weak]] void use_live_trace() {}
[[gnu::weak]] void use_console() {}
[[gnu::weak]] void use_console_trace() {}
}  // namespace qm::size

extern "C" void qm_size_entry() {
  qm::size::use_caches();
  qm::size::use_malloc();
  qm::size::use_more();
  qm::size::use_live_trace();
  qm::size::use_console();
  qm::size::use_console_trace();
}
