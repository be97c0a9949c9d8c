#pragma once
/// The pop and the push in a hal::Section, for a port without the trap-entry hook: interrupts are masked around them,
/// or the port uses something cheaper. They use the same per-hart caches, words and objects. fast_path_masked.cpp
/// builds the out-of-line functions from them; <qm/inline_cache.hpp> includes them in builds without
/// QM_FAST_PATH=sections, where the per-hart cache of an inline cache is found through the cache, as any other's.

#include <cstdint>

#include <qm/cache.hpp>

namespace qm::internal {

/// @returns the newest object of this hart's per-hart cache; nullptr for the slow half.
[[gnu::always_inline]] inline void* pop_masked(Cache& cache) noexcept {
  if constexpr (!kMagazines) {
    const hal::Port::InterruptState before = hal::Port::mask_interrupts();  // inline, also at -Os
    void* object = cache.take_plain();
    hal::Port::restore_interrupts(before);
    return object;
  }
  const hal::Section section;
  HartCache& hart_cache = cache.hart_cache_in(section);
  void** top = hart_cache.top.load(std::memory_order_relaxed);
  void* object = top[-1];
  if (object == nullptr) [[unlikely]]
    return nullptr;
  hart_cache.top.store(top - 1, std::memory_order_relaxed);
  if constexpr (kCounted) hart_cache.count_allocation();
  return object;
}

/// Puts @p object into this hart's per-hart cache. @returns false for the slow half.
[[gnu::always_inline]] inline bool push_masked(Cache& cache, void* object) noexcept {
  if constexpr (!kMagazines) {
    const hal::Port::InterruptState before = hal::Port::mask_interrupts();
    const bool done = cache.put_plain(object);
    hal::Port::restore_interrupts(before);
    return done;
  }
  const hal::Section section;
  HartCache& hart_cache = cache.hart_cache_in(section);
  void** top = hart_cache.top.load(std::memory_order_relaxed);
  if (top >= hart_cache.limit.load(std::memory_order_relaxed)) [[unlikely]]
    return false;
  *top = object;
  hart_cache.top.store(top + 1, std::memory_order_relaxed);
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

/// Harts have no such pointer.
template <class Name>
std::uintptr_t hart_cache_pointer_offset() noexcept {
  return kNoHartCachePointer;
}

}  // namespace qm::internal

#define QM_INLINE_CACHE_DECLARE_POINTER(Name) static_assert(true)
#define QM_INLINE_CACHE_POINTER(Name)
#define QM_INLINE_CACHE_DEFINE_POINTER(Name) static_assert(true)
