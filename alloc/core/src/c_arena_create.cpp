// <qm/qm.h>: what makes an arena for C and takes from it, as far as the core form has it. The rest is in c_arenas.cpp.

#include <new>

#include <qm/arena.hpp>
#include <qm/heap.hpp>
#include <qm/qm.h>

#include "c_status.hpp"

using namespace qm;

/// The context of an arena that qm_arena_create() made: its structure lies in the heap.
static constexpr char kMadeInC = 0;

extern "C" {

qm_arena* qm_arena_create(const char* name, std::uintptr_t base, std::size_t size, std::size_t quantum,
                          qm_import import, qm_release release, qm_arena* source, std::size_t qcache_max) noexcept {
  if (import != nullptr || release != nullptr || qcache_max != 0) return nullptr;
  void* const place = heap::allocate(sizeof(Arena));
  if (place == nullptr) return nullptr;
  auto* const arena = new (place) Arena;
  ArenaConfig config;
  config.name = name;
  config.start = base;
  config.size = size;
  config.quantum = quantum;
  config.source = source;
  config.context = const_cast<char*>(&kMadeInC);
  if (arena->initialize(config) == Status::kOk) return arena;
  heap::free(place);
  return nullptr;
}

std::uintptr_t qm_arena_alloc(qm_arena* arena, std::size_t size, qm_policy) noexcept { return arena->allocate(size); }

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

}  // extern "C"
