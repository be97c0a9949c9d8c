// <qm/guards.h>

#include <qm/guards.h>
#include <qm/guards.hpp>

#include "heap/c_status.hpp"

extern "C" {

qm_status qm_guard_heap(std::uint32_t every, std::uint32_t ms) noexcept {
  qm::Status status = qm::guards::start({.every = every, .ms = ms});
  if (status == qm::Status::kOk) status = qm::guards::select_heap();
  return qm::c_status_of(status);
}

qm_status qm_guard_stop() noexcept { return qm::c_status_of(qm::guards::stop()); }

int qm_guard_fault(std::uintptr_t address, int is_write, std::uintptr_t pc, std::uintptr_t frame) noexcept {
  return qm::guards::on_fault(address, is_write != 0, pc, frame) ? 1 : 0;
}

void qm_guard_tick() noexcept { qm::guards::on_tick(); }

}  // extern "C"
