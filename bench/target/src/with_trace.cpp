#include <qm/bench/trace_link.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/trace/live_trace.hpp>

void qm::bench::open_trace() noexcept {
  const std::uintptr_t memory = firmware::boot_info().memory.front().low & ~std::uintptr_t{0xffffff};
  if (trace::initialize({.object_base = memory}) != Status::kOk) firmware::panic("bench: no trace");
}
void qm::bench::close_trace() noexcept { trace::shutdown(); }
