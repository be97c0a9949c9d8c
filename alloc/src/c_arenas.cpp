// <qm/qm.h>: arenas for C, as far as both forms have them in the same words; each makes them in its own c_arena_create.cpp.

#include <qm/arena.hpp>
#include <qm/heap.hpp>

#include "c_arena.hpp"
#include "c_status.hpp"

using namespace qm;

const char qm::kMadeInC = 0;

extern "C" {

qm_status qm_arena_add(qm_arena* arena, std::uintptr_t base, std::size_t size) noexcept {
  return c_status_of(arena->add(base, size));
}

qm_status qm_arena_free(qm_arena* arena, std::uintptr_t address, std::size_t size) noexcept {
  return address == 0 ? QM_OK : c_status_of(arena->free(address, size));
}

qm_status qm_arena_destroy(qm_arena* arena) noexcept {
  if (arena == nullptr) return QM_OK;
  if (arena->context() != &kMadeInC) return QM_INVALID;
  const Status status = arena->destroy();
  if (status == Status::kOk) {
    arena->~Arena();
    heap::free(arena);
  }
  return c_status_of(status);
}

std::size_t qm_arena_total_bytes(qm_arena* arena) noexcept { return arena->stats().total; }
std::size_t qm_arena_free_bytes(qm_arena* arena) noexcept { return arena->stats().free; }

}  // extern "C"
