#pragma once
/// Caches known at compile time: the fast path inlined into its C++ callers.
///
///     // packets.hpp                          // packets.cpp                  // at start
///     QM_INLINE_CACHE(Packets);               QM_DEFINE_INLINE_CACHE(Packets);     Packets::create({.name = "packets", .object_size = 64});
///
///     void* packet = Packets::allocate();
///     Packets::free(packet);
///
/// An inline cache is an ordinary Cache: it is traced, drained, counted, listed and named as any other, and its objects
/// may also be allocated and freed out of line, through Packets::cache(). The inlined form saves the call, and the
/// arithmetic that finds a hart's per-hart cache: each hart has a pointer to its per-hart cache of each inline cache
/// among its first hart-locals (.tdata.qm_hot: one instruction can reach 256 of them).
///
///     pointer of hart h  = the per-hart cache of hart h   while it has magazines of the cache (set by Cache::open_hart_cache())
///                        = closed_hart_cache()                  before, and after Cache::detach_magazines()
///
/// An allocation and its free are 13 instructions (16 with QM_COUNT). With QM_FAST_PATH=masked there is no pointer: the
/// same functions mask interrupts and use the same per-hart cache.

#include <atomic>

#include <qm/config.h>
#include <qm/cache.hpp>

#if defined(QM_FAST_PATH_SECTIONS)
#include <qm/detail/inline_sections.hpp>
#else
#include <qm/detail/inline_masked.hpp>
#endif

namespace qm {

namespace internal {
Status prepare_inlined(const std::atomic<Cache*>& cache, std::uintptr_t hart_cache_pointer) noexcept;
Status destroy_inlined(std::atomic<Cache*>& cache) noexcept;
void forget_inlined(std::atomic<Cache*>& cache, std::uintptr_t hart_cache_pointer) noexcept;
void* allocate_inlined_slow(const std::atomic<Cache*>& cache, const CallSite* site, WaitPolicy wait_policy) noexcept;
void free_inlined_slow(const std::atomic<Cache*>& cache, void* object) noexcept;
}  // namespace internal

/// A cache whose callers inline its fast path; declared by QM_INLINE_CACHE.
/// @tparam Name the class that the macro declares.
template <class Name>
class InlineCache {
 public:
  /// Creates the cache, as Cache::create(); `config.hart_cache_pointer` is ignored.
  /// @returns as Cache::create(); kBusy if the cache exists already.
  /// Context: as Cache::create(); one hart.
  [[gnu::always_inline]] static Status create(CacheConfig config) noexcept {
    Status status = internal::prepare_inlined(cache_, internal::hart_cache_pointer_offset<Name>());
    if (status != Status::kOk) return status;
    config.hart_cache_pointer = static_cast<std::uint16_t>(internal::hart_cache_pointer_offset<Name>());
    cache_.store(Cache::create(config, &status), std::memory_order_release);  // pairs with the acquire in cache()
    return status;
  }

  /// As Cache::destroy(); kNotFound if there is no cache. Afterwards create() may create it again.
  static Status destroy() noexcept { return internal::destroy_inlined(cache_); }

  /// Call it after qm::shutdown(), on each hart that has used the cache, for a test that sets up the allocator again:
  /// the cache went with the allocator.
  static void forget() noexcept { internal::forget_inlined(cache_, internal::hart_cache_pointer_offset<Name>()); }

  /// The underlying Cache, for all other operations; nullptr before create().
  [[nodiscard]] static Cache* cache() noexcept {
    return cache_.load(std::memory_order_acquire);  // pairs with the release in create()
  }

  /// Allocates one object, as Cache::allocate_at(); returns nullptr before create() as well.
  /// Complexity: O(1); a magazine hit is 6 instructions, 9 with QM_COUNT.
  /// Context:    as Cache::allocate(). Not for code that the scheduler may move to another hart between two
  ///             instructions: the compiler may load the hart's pointer before the section begins. On a port with
  ///             threads it does not compile.
  [[nodiscard, gnu::always_inline]] static void* allocate(WaitPolicy wait_policy = WaitPolicy::kAuto) noexcept {
    return allocate_at(nullptr, wait_policy);
  }
  /// The same, with a call site.
  [[nodiscard, gnu::always_inline]] static void* allocate_at(const CallSite* site,
                                                             WaitPolicy wait_policy = WaitPolicy::kAuto) noexcept {
    if constexpr (kCallSites) {
      if (site == nullptr) site = call_sites::untagged();
    }
    void* object;
    if (!internal::pop_inlined<Name>(object)) return internal::allocate_inlined_slow(cache_, site, wait_policy);
    if constexpr (kCallSites) cache()->charge(object, site);
    return object;
  }

  /// Frees an object, as Cache::free(), whichever function allocated it. Without a cache, before create() and after
  /// destroy(), it calls hal::Port::fatal().
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

/// Declares class @p Name, an InlineCache, in the current namespace. Exactly one source file must have
/// QM_DEFINE_INLINE_CACHE as well.
#define QM_INLINE_CACHE(Name)             \
  QM_INLINE_CACHE_DECLARE_POINTER(Name);  \
  struct Name : ::qm::InlineCache<Name> { \
    QM_INLINE_CACHE_POINTER(Name)         \
  }

/// Defines the pointer that QM_INLINE_CACHE has declared, in the same namespace.
#define QM_DEFINE_INLINE_CACHE(Name) QM_INLINE_CACHE_DEFINE_POINTER(Name)
