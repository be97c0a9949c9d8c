// <qm/qm.h>: arenas for C, as far as both forms have them in the same words; each makes them in its own c_arena_create.cpp.

#include <qm/arena.hpp>

#include "c_status.hpp"

using namespace qm;

extern "C" {

qm_status qm_arena_add(qm_arena* arena, std::uintptr_t base, std::size_t size) noexcept {
  return arena == nullptr ? QM_INVALID : c_status_of(arena->add(base, size));
}

qm_status qm_arena_free(qm_arena* arena, std::uintptr_t address, std::size_t size) noexcept {
  if (address == 0) return QM_OK;
  return arena == nullptr ? QM_INVALID : c_status_of(arena->free(address, size));
}

std::size_t qm_arena_total_bytes(qm_arena* arena) noexcept { return arena == nullptr ? 0 : arena->stats().total; }
std::size_t qm_arena_free_bytes(qm_arena* arena) noexcept { return arena == nullptr ? 0 : arena->stats().free; }

}  // extern "C"
