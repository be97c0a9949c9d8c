// <qm/qm.h>: the functions that create an arena for C, allocate from it and destroy it. The rest is in c_arenas.cpp.

#include <new>
#include <type_traits>

#include <qm/arena.hpp>
#include <qm/heap.hpp>

#include "arena/arena_request.hpp"
#include "heap/c_status.hpp"

namespace {

using namespace qm;

/// The context of an arena that qm_arena_create() made: its structure lies in the heap.
constexpr char kMadeInC = 0;

static_assert(QM_INSTANT_FIT == static_cast<int>(Fit::kInstant) && QM_BEST_FIT == static_cast<int>(Fit::kBest));
static_assert(QM_NEXT_FIT == static_cast<int>(Fit::kNext));

/// An unknown policy stands for the cheapest.
Fit fit_of(qm_policy policy) noexcept { return policy <= QM_NEXT_FIT ? Fit{policy} : Fit::kInstant; }

static_assert(std::is_same_v<qm_import, ImportFunctionInC> && std::is_same_v<qm_release, ReleaseFunctionInC>);

}  // namespace

extern "C" {

qm_arena* qm_arena_create(const char* name, std::uintptr_t base, std::size_t size, std::size_t quantum,
                          qm_import import, qm_release release, qm_arena* source, std::size_t qcache_max) noexcept {
  void* place = QM_ALLOC(heap::allocate_aligned, alignof(Arena), sizeof(Arena));
  if (place == nullptr) return nullptr;
  auto* arena = new (place) Arena;
  ArenaConfig config;
  config.name = name;
  config.start = base;
  config.size = size;
  config.quantum = quantum;
  config.source = source;
  config.self_source = source == nullptr && import != nullptr;
  config.import = function_cast<ImportFunction>(import);
  config.release = function_cast<ReleaseFunction>(release);
  config.functions_in_c = true;
  config.quantum_cache_max = qcache_max;
  config.context = const_cast<char*>(&kMadeInC);
  if (arena->initialize(config) == Status::kOk) return arena;
  arena->~Arena();
  heap::free(place);
  return nullptr;
}

std::uintptr_t qm_arena_alloc(qm_arena* arena, std::size_t size, qm_policy policy) noexcept {
  return arena == nullptr ? 0 : arena->allocate(size, fit_of(policy));
}

std::uintptr_t qm_arena_xalloc(qm_arena* arena, std::size_t size, std::size_t align, std::size_t phase,
                               std::size_t nocross, std::uintptr_t min, std::uintptr_t max, qm_policy policy) noexcept {
  if (arena == nullptr) return 0;
  Constraint constraint;
  constraint.align = align;
  constraint.phase = phase;
  constraint.nocross = nocross;
  constraint.min = min;
  constraint.max = max;
  return arena->allocate_constrained(size, constraint, fit_of(policy));
}

qm_status qm_arena_xfree(qm_arena* arena, std::uintptr_t address, std::size_t size) noexcept {
  if (address == 0) return QM_OK;
  return arena == nullptr ? QM_INVALID : c_status_of(arena->free_constrained(address, size));
}

qm_status qm_arena_destroy(qm_arena* arena) noexcept {
  if (arena == nullptr) return QM_OK;
  if (!registry_has(RegistryKind::kArena, *arena)) return QM_NOT_FOUND;
  if (arena->context() != &kMadeInC) return QM_INVALID;
  const Status status = arena->destroy();
  if (status == Status::kOk) {
    arena->~Arena();
    heap::free(arena);
  }
  return c_status_of(status);
}

}  // extern "C"
