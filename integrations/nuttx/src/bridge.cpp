#include "bridge.h"

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/detail/glob.hpp>
#include <qm/hal/hart.hpp>
#include <qm/hal/broadcast.hpp>
#include <qm/heap.hpp>
#include <qm/registry.hpp>
#include <qm/system.hpp>

namespace {

using qm::hal::Port;

std::uintptr_t address_of(const void* block) noexcept { return reinterpret_cast<std::uintptr_t>(block); }

/// Calls @p action for the arenas of a heap: for the first heap `base` and `kheap`, which imports from it; else @p own.
template <class Action>
void for_each_arena(qm::Arena* own, const Action& action) noexcept {
  if (own != nullptr) return action(*own);
  action(qm::base_arena());
  qm::RegistryCursor<qm::Arena> arenas;
  if (qm::Arena* const heap = arenas.find("kheap"); heap != nullptr) action(*heap);
}

/// @returns the idle bytes of memory that `base` counts as allocated, as the command `free` counts them.
std::size_t idle_bytes() noexcept {
  std::size_t idle = qm::base_arena().stats().in_extents;
  qm::RegistryCursor<qm::Arena> arenas;
  while (qm::Arena* const arena = arenas.next()) {
    if (arena != &qm::base_arena() && &arena->root() == &qm::base_arena()) idle += arena->stats().free;
  }
  qm::RegistryCursor<qm::Cache> caches;
  while (qm::Cache* const cache = caches.next()) {
    if (&cache->source().root() != &qm::base_arena()) continue;
    const qm::CacheStats stats = cache->stats();
    idle += (stats.objects - stats.in_use) * cache->slab_bytes() / cache->slabs().objects();
  }
  return idle;
}

/// @returns the number of live objects of the heap's size classes.
std::size_t small_blocks() noexcept {
  std::size_t count = 0;
  qm::RegistryCursor<qm::Cache> caches;
  while (qm::Cache* const cache = caches.next()) {
    if (qm::glob_matches("kmalloc_*", cache->name())) count += cache->stats().in_use;
  }
  return count;
}

}  // namespace

extern "C" {

void qm_nuttx_enter_handler() noexcept { ++qm::hal::hart_local().trap_depth; }
void qm_nuttx_leave_handler() noexcept { --qm::hal::hart_local().trap_depth; }

void qm_nuttx_bring_online(unsigned hart) noexcept { qm::hal::hart_online(hart); }
void qm_nuttx_on_ipi(unsigned hart) noexcept { qm::hal::on_ipi(hart); }

bool qm_nuttx_has_arena(const char* name) noexcept {
  qm::RegistryCursor<qm::Arena> arenas;
  return arenas.find(name) != nullptr;
}

void* qm_nuttx_take(qm_arena* arena, size_t alignment, size_t size) noexcept {
  const qm::Alignment aligned{alignment, 0};
  const std::size_t bytes = size != 0 ? size : 1;
  const std::uintptr_t start =
      alignment <= arena->quantum() ? arena->allocate(bytes, qm::Fit::kBest) : arena->allocate_aligned(bytes, aligned);
  return reinterpret_cast<void*>(start);
}

bool qm_nuttx_give_back(qm_arena* arena, void* block) noexcept {
  return arena->free(address_of(block)) == qm::Status::kOk;
}

size_t qm_nuttx_size_of(qm_arena* arena, const void* block) noexcept { return arena->size_of(address_of(block)); }

bool qm_nuttx_resize(qm_arena* arena, void* block, size_t size) noexcept {
  return arena->resize_in_place(address_of(block), arena->size_of(address_of(block)), size != 0 ? size : 1) ==
         qm::Status::kOk;
}

void qm_nuttx_drop(qm_arena* arena) noexcept {
  {
    qm::ArenaWalk walk(*arena);
    qm::Segment segment;
    while (walk.next(segment)) {
      if (segment.kind == qm::TagKind::kAllocated) static_cast<void>(arena->free(segment.start));
    }
  }
  static_cast<void>(qm_arena_destroy(arena));
}

void qm_nuttx_look(qm_arena* own, qm_nuttx_figures* figures) noexcept {
  *figures = {};
  if (own == nullptr && qm::hart_count() == 0) return;
  for_each_arena(own, [&](qm::Arena& arena) {
    const qm::ArenaStats stats = arena.stats();
    const bool is_above = own == nullptr && &arena != &qm::base_arena();
    if (!is_above) {
      figures->total = stats.total;
      figures->free = stats.free;
      figures->most_used = stats.high_water;
    }
    if (is_above || own != nullptr) figures->blocks += stats.segments_allocated;
    if (stats.largest_free > figures->largest) figures->largest = stats.largest_free;
    figures->free_pieces += stats.segments_free;
  });
  if (own != nullptr) return;
  figures->free += idle_bytes();
  figures->blocks += small_blocks();
}

size_t qm_nuttx_free_bytes(qm_arena* own) noexcept {
  std::size_t bytes = 0;
  if (own == nullptr && qm::hart_count() == 0) return 0;
  for_each_arena(own, [&](qm::Arena& arena) { bytes += arena.stats().free; });
  return bytes;
}

void qm_nuttx_for_each_free(qm_arena* own, qm_nuttx_piece visit, void* priv) noexcept {
  for_each_arena(own, [&](qm::Arena& arena) {
    qm::ArenaWalk walk(arena);
    qm::Segment segment;
    while (walk.next(segment)) {
      if (segment.kind == qm::TagKind::kFree) visit(reinterpret_cast<const void*>(segment.start), segment.size, priv);
    }
  });
}

bool qm_nuttx_is_sound(qm_arena* own) noexcept {
  bool is_sound = true;
  for_each_arena(own, [&](qm::Arena& arena) { is_sound = is_sound && arena.validate(); });
  return is_sound;
}

}  // extern "C"
