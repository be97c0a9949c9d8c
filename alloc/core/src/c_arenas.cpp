/// Arenas in C (<qm/qm.h>), as far as the core form has them.

#include <new>

#include <qm/arena.hpp>
#include <qm/heap.hpp>

#include "c_status.hpp"

namespace {

using namespace qm;

/// What an arena made here has for its context.
constexpr char kMadeHere = 0;

}  // namespace

extern "C" {

qm_arena* qm_arena_create(const char* name, std::uintptr_t base, std::size_t size, std::size_t quantum,
                          qm_import import, qm_release release, qm_arena* source, std::size_t qcache_max) noexcept {
  if (import != nullptr || release != nullptr || qcache_max != 0) return nullptr;
  void* const place = qm::heap::allocate(sizeof(Arena));
  if (place == nullptr) return nullptr;
  auto* const arena = new (place) Arena;
  ArenaConfig config;
  config.name = name;
  config.start = base;
  config.size = size;
  config.quantum = quantum;
  config.source = source;
  config.context = const_cast<char*>(&kMadeHere);
  if (arena->initialize(config) == Status::kOk) return arena;
  qm::heap::free(place);
  return nullptr;
}

qm_status qm_arena_add(qm_arena* arena, std::uintptr_t base, std::size_t size) noexcept {
  return c_status_of(arena->add(base, size));
}

std::uintptr_t qm_arena_alloc(qm_arena* arena, std::size_t size, qm_policy) noexcept { return arena->allocate(size); }

qm_status qm_arena_free(qm_arena* arena, std::uintptr_t address, std::size_t size) noexcept {
  return address == 0 ? QM_OK : c_status_of(arena->free(address, size));
}

qm_status qm_arena_destroy(qm_arena* arena) noexcept {
  if (arena == nullptr) return QM_OK;
  if (arena->context() != &kMadeHere) return QM_INVALID;
  const Status status = arena->destroy();
  if (status == Status::kOk) qm::heap::free(arena);
  return c_status_of(status);
}

std::size_t qm_arena_total_bytes(qm_arena* arena) noexcept { return arena->stats().total; }
std::size_t qm_arena_free_bytes(qm_arena* arena) noexcept { return arena->stats().free; }

}  // extern "C"
