#pragma once
/// The pop and the push in a hal::Section, for a port without the trap-entry hook: with interrupts masked around them,
/// or with what the port has that is cheaper. The same cells, words and rounds. fast_path_masked.cpp makes the
/// out-of-line functions of them; <qm/inline_cache.hpp> includes them in builds without QM_FAST_PATH=sections, where an
/// inlined cache's cell is found as any other's, through the cache.

#include <cstdint>

#include <qm/cache.hpp>

namespace qm::internal {

/// @returns the youngest round of this hart's cell; nullptr for the slow half.
[[gnu::always_inline]] inline void* pop_masked(Cache& cache) noexcept {
  if constexpr (!kMagazines) {
    const hal::Port::InterruptState before = hal::Port::mask_interrupts();  // in place, at -Os too
    void* object = cache.take_plain();
    hal::Port::restore_interrupts(before);
    return object;
  }
  const hal::Section section;
  Cell& cell = cache.cell_in(section);
  void** top = cell.top.load(std::memory_order_relaxed);
  void* object = top[-1];
  if (object == nullptr) [[unlikely]]
    return nullptr;
  cell.top.store(top - 1, std::memory_order_relaxed);
  if constexpr (kCounted) cell.count_allocation();
  return object;
}

/// @returns false for the slow half.
[[gnu::always_inline]] inline bool push_masked(Cache& cache, void* object) noexcept {
  if constexpr (!kMagazines) {
    const hal::Port::InterruptState before = hal::Port::mask_interrupts();
    const bool done = cache.put_plain(object);
    hal::Port::restore_interrupts(before);
    return done;
  }
  const hal::Section section;
  Cell& cell = cache.cell_in(section);
  void** top = cell.top.load(std::memory_order_relaxed);
  if (top >= cell.limit.load(std::memory_order_relaxed)) [[unlikely]]
    return false;
  *top = object;
  cell.top.store(top + 1, std::memory_order_relaxed);
  return true;
}

template <class Name>
[[gnu::always_inline]] inline bool pop_inlined(void*& object) noexcept {
  Cache* cache = Name::cache();
  object = cache != nullptr ? pop_masked(*cache) : nullptr;
  return object != nullptr;
}

template <class Name>
[[gnu::always_inline]] inline bool push_inlined(void* object) noexcept {
  Cache* cache = Name::cache();
  return cache != nullptr && push_masked(*cache, object);
}

/// No hart has a pointer.
template <class Name>
std::uintptr_t cell_pointer_offset() noexcept {
  return kNoCellPointer;
}

}  // namespace qm::internal

#define QM_INLINE_CACHE_DECLARE_POINTER(Name) static_assert(true)
#define QM_INLINE_CACHE_POINTER(Name)
#define QM_INLINE_CACHE_DEFINE_POINTER(Name) static_assert(true)
