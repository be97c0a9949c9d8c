// <qm/guards.h>; guards.cpp has the functions that a trap handler calls.

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

}  // extern "C"
