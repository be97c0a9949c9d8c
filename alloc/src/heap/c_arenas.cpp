// <qm/qm.h>: adding to an arena, freeing and statistics for C. c_arena_create.cpp has the rest.

#include <qm/arena.hpp>

#include "heap/c_status.hpp"

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
