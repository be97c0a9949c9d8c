#pragma once
/// The compared allocators, with the same inlined calls for each: `allocate(size)` and `free(object)`; for a malloc
/// also `reallocate(block, size)`. taken_bytes() is the memory that it has from its source at the moment, including its
/// own structures.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/heap.hpp>
#include <qm/inline_cache.hpp>
#include <qm/qm.h>
#include <qm/system.hpp>

/// picolibc's malloc (its nano malloc), renamed.
extern "C" {
void* picolibc_malloc(std::size_t size);
void picolibc_free(void* block);
void* picolibc_realloc(void* block, std::size_t size);
}

namespace qm::bench {

QM_INLINE_CACHE(Inlined);

/// A cache through its out-of-line functions, with magazines of the default capacity.
struct CacheSubject {
  static constexpr std::string_view kName = "cache";
  explicit CacheSubject(std::size_t size) noexcept;
  ~CacheSubject();
  CacheSubject(const CacheSubject&) = delete;
  CacheSubject& operator=(const CacheSubject&) = delete;
  [[gnu::always_inline]] void* allocate(std::size_t) noexcept { return cache->allocate(); }
  [[gnu::always_inline]] void free(void* object) noexcept { cache->free(object); }
  [[nodiscard]] static std::size_t taken_bytes() noexcept { return base_arena().stats().allocated; }
  Cache* cache;
};

/// The same through the C interface.
struct CSubject : CacheSubject {
  static constexpr std::string_view kName = "cache, in C";
  using CacheSubject::CacheSubject;
  [[gnu::always_inline]] void* allocate(std::size_t) noexcept {
    return qm_cache_alloc(reinterpret_cast<qm_cache*>(cache), 0);
  }
  [[gnu::always_inline]] void free(void* object) noexcept { qm_cache_free(reinterpret_cast<qm_cache*>(cache), object); }
};

/// The same with its fast path inlined.
struct InlinedSubject {
  static constexpr std::string_view kName = "cache, inlined";
  explicit InlinedSubject(std::size_t size) noexcept;
  ~InlinedSubject();
  InlinedSubject(const InlinedSubject&) = delete;
  InlinedSubject& operator=(const InlinedSubject&) = delete;
  [[gnu::always_inline]] void* allocate(std::size_t) noexcept { return Inlined::allocate(); }
  [[gnu::always_inline]] void free(void* object) noexcept { Inlined::free(object); }
  [[nodiscard]] static std::size_t taken_bytes() noexcept { return base_arena().stats().allocated; }
};

struct HeapSubject {
  static constexpr std::string_view kName = "heap";
  explicit HeapSubject(std::size_t = 0) noexcept {}
  ~HeapSubject();  ///< reclaims idle memory, so that the next subject begins cold
  HeapSubject(const HeapSubject&) = delete;
  HeapSubject& operator=(const HeapSubject&) = delete;
  [[gnu::always_inline]] void* allocate(std::size_t size) noexcept { return heap::allocate(size); }
  [[gnu::always_inline]] void free(void* block) noexcept { heap::free(block); }
  [[gnu::always_inline]] void* reallocate(void* block, std::size_t size) noexcept {
    return heap::reallocate(block, size);
  }
  [[nodiscard]] static std::size_t taken_bytes() noexcept { return base_arena().stats().allocated; }
};

/// Restarts picolibc's malloc with no memory from its sbrk. None of its blocks may be in use.
void picolibc_reset() noexcept;
inline constexpr std::size_t kPicolibcPoolBytes = std::size_t{32} << 20;  ///< the memory of its sbrk
/// The same, with this memory for its sbrk, which otherwise allocates from the base arena.
void picolibc_start(void* memory) noexcept;
/// As picolibc_reset(), and returns the memory of its sbrk to the base arena.
void picolibc_give_up_memory() noexcept;
/// @returns the most bytes that it had from sbrk since picolibc_reset().
[[nodiscard]] std::size_t picolibc_peak_bytes() noexcept;

/// Begins cold, by a reset: picolibc's malloc never returns memory to its sbrk.
struct PicolibcSubject {
  static constexpr std::string_view kName = "picolibc";
  explicit PicolibcSubject(std::size_t = 0) noexcept { picolibc_reset(); }
  [[gnu::always_inline]] void* allocate(std::size_t size) noexcept { return picolibc_malloc(size); }
  [[gnu::always_inline]] void free(void* block) noexcept { picolibc_free(block); }
  [[gnu::always_inline]] void* reallocate(void* block, std::size_t size) noexcept {
    return picolibc_realloc(block, size);
  }
  [[nodiscard]] static std::size_t taken_bytes() noexcept { return picolibc_peak_bytes(); }  // it never returns memory
};

/// The lower bound: an intrusive list of equal objects, out of line, filled beforehand. No size, no growth, no
/// protection.
struct FreeListSubject {
  static constexpr std::string_view kName = "free list";
  explicit FreeListSubject(std::size_t size) noexcept;
  ~FreeListSubject();
  FreeListSubject(const FreeListSubject&) = delete;
  FreeListSubject& operator=(const FreeListSubject&) = delete;
  [[gnu::always_inline]] void* allocate(std::size_t) noexcept { return pop(*this); }
  [[gnu::always_inline]] void free(void* object) noexcept { push(*this, object); }
  [[gnu::noinline]] static void* pop(FreeListSubject& list) noexcept;
  [[gnu::noinline]] static void push(FreeListSubject& list, void* object) noexcept;

 private:
  struct Free {
    Free* next;
  };
  static constexpr std::size_t kObjects = 4096;
  Free* first_ = nullptr;
  std::uintptr_t memory_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace qm::bench
