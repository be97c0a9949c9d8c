#pragma once
/// Caches known at compile time: the fast path inlined into its C++ callers.
///
///     // packets.hpp                          // packets.cpp                  // at start
///     QM_INLINE_CACHE(Packets);               QM_DEFINE_INLINE_CACHE(Packets);     Packets::create({.name = "packets", .object_size = 64});
///
///     void* packet = Packets::allocate();
///     Packets::free(packet);
///
/// Behind it is a Cache as any other: traced, drained, counted, listed and named alike, and its objects may be
/// allocated and freed out of line too, through Packets::cache(). What the inlined form saves is the call, and the
/// arithmetic that finds a hart's cell in a cache: each hart has a pointer to its cell of each inlined cache among its
/// first hart-locals (.tdata.qm_hot: 256 of them are within reach of one instruction).
///
///     pointer of hart h  = the cell of hart h      while the hart has magazines of the cache (Cache::expose() sets it)
///                        = closed_cell()           before, and after Cache::detach_magazines()
///
/// A pair is 13 instructions (16 with QM_COUNT). With QM_FAST_PATH=masked there is no pointer: the same names mask
/// interrupts around the same cell.

#include <atomic>

#include <qm/config.h>
#include <qm/cache.hpp>

#if defined(QM_FAST_PATH_SECTIONS)
#include <qm/inline_sections.hpp>
#else
#include <qm/inline_masked.hpp>
#endif

namespace qm {

namespace internal {
Status prepare_inlined(const std::atomic<Cache*>& cache, std::uintptr_t cell_pointer) noexcept;
Status destroy_inlined(std::atomic<Cache*>& cache) noexcept;
void forget_inlined(std::atomic<Cache*>& cache, std::uintptr_t cell_pointer) noexcept;
void* allocate_inlined_slow(const std::atomic<Cache*>& cache, const CallSite* site, Effort effort) noexcept;
void free_inlined_slow(const std::atomic<Cache*>& cache, void* object) noexcept;
}  // namespace internal

/// A cache whose callers inline its fast path; made by QM_INLINE_CACHE.
/// @tparam Name the class that the macro declares.
template <class Name>
class InlineCache {
 public:
  /// Makes the cache, as Cache::create(); `config.cell_pointer` is not looked at.
  /// @returns as Cache::create(); kBusy if it is made already.
  /// Context: as Cache::create(); one hart.
  [[gnu::always_inline]] static Status create(CacheConfig config) noexcept {
    Status status = internal::prepare_inlined(cache_, internal::cell_pointer_offset<Name>());
    if (status != Status::kOk) return status;
    config.cell_pointer = static_cast<std::uint16_t>(internal::cell_pointer_offset<Name>());
    cache_.store(Cache::create(config, &status), std::memory_order_release);  // pairs with the acquire in cache()
    return status;
  }

  /// As Cache::destroy(); kNotFound if there is no cache. Afterwards create() may make it anew.
  static Status destroy() noexcept { return internal::destroy_inlined(cache_); }

  /// After qm::shutdown(), for a test that sets up anew: the cache went with the allocator. On each hart that has used
  /// it.
  static void forget() noexcept { internal::forget_inlined(cache_, internal::cell_pointer_offset<Name>()); }

  /// The cache behind, for everything else that caches can do; nullptr before create().
  [[nodiscard]] static Cache* cache() noexcept {
    return cache_.load(std::memory_order_acquire);  // pairs with the release in create()
  }

  /// Takes one object, as Cache::allocate_at(); nullptr before create() as well.
  /// Complexity: O(1); a magazine hit is 6 instructions, 9 with QM_COUNT.
  /// Context:    as Cache::allocate(). Not for code that the scheduler may move to another hart between two instructions: the
  ///             compiler may find the hart's pointer before the section begins. Where the port has threads it does not
  ///             compile.
  [[nodiscard, gnu::always_inline]] static void* allocate(Effort effort = Effort::kAuto) noexcept {
    return allocate_at(nullptr, effort);
  }
  /// The same, for a caller that knows its call site.
  [[nodiscard, gnu::always_inline]] static void* allocate_at(const CallSite* site,
                                                             Effort effort = Effort::kAuto) noexcept {
    if constexpr (kCallSites) {
      if (site == nullptr) site = call_sites::untagged();
    }
    void* object;
    if (!internal::pop_inlined<Name>(object)) return internal::allocate_inlined_slow(cache_, site, effort);
    if constexpr (kCallSites) cache()->charge(object, site);
    return object;
  }

  /// Gives an object back, as Cache::free(), however it was allocated.
  /// Complexity: O(1); a magazine hit is 7 instructions. Context: as allocate().
  [[gnu::always_inline]] static void free(void* object) noexcept {
    if constexpr (kCallSites) {
      if (Cache* made = cache(); made != nullptr) made->discharge(object);
    }
    if (!internal::push_inlined<Name>(object)) internal::free_inlined_slow(cache_, object);
  }

 private:
  inline static constinit std::atomic<Cache*> cache_{nullptr};
};

}  // namespace qm

/// Declares class @p Name, an InlineCache, in the current namespace. One source file has QM_DEFINE_INLINE_CACHE beside
/// it.
#define QM_INLINE_CACHE(Name)             \
  QM_INLINE_CACHE_DECLARE_POINTER(Name);  \
  struct Name : ::qm::InlineCache<Name> { \
    QM_INLINE_CACHE_POINTER(Name)         \
  }

/// Defines what QM_INLINE_CACHE has declared, in the same namespace.
#define QM_DEFINE_INLINE_CACHE(Name) QM_INLINE_CACHE_DEFINE_POINTER(Name)
