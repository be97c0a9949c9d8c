#pragma once
/// The heap: malloc and free over size classes and an arena of blocks.
///
///     1 .. 1088             size classes; at most 15 bytes or an eighth of an object is waste. A class that
///                           holds enough has a cache (kmalloc_16, kmalloc_32, ...), and the pages of its slabs are
///                           tagged in the page map
///       .. kMaxClassBytes   three more classes, for sizes with at most an eighth of waste (size_classes.hpp)
///     others                blocks of the arena `kheap`, with a header before each, in spans of `base` (blocks.hpp)
///
///     allocate() = qm_malloc()      class from a table, newest object of its per-hart cache: heap_sections.S
///       qm_heap_allocate_slow()       the cache's slow half; a cache for the class, if the class holds enough; a block
///     free() = qm_free()            class from the page's tag; puts the object into its per-hart cache
///       qm_heap_free_slow()           the cache's slow half; a block; nullptr; an address that is no block
///
/// While the caches of all classes take little of the memory, a class gets its cache with its first allocations; later
/// it gets one only if it holds many blocks. Until then its objects are blocks (docs/decisions/blocks.md).
///
/// An object is in a slab iff its page has a tag; every other address goes to `kheap`, which reads the header before
/// the address if the address is in one of its spans. So the heap detects an address that it never handed out, wherever
/// it points.
///
/// All functions: O(1) plus the cost of a refill, an import or a copy; any hart that attach_hart() has attached, any
/// interrupt level. Before initialize() there is no memory: they return nullptr.

#include <cstddef>
#include <cstdint>

#include <qm/config.h>
#include <qm/cache.hpp>
#include <qm/call_site.hpp>
#include <qm/status.hpp>

extern "C" {
/// The heap's C functions (<qm/qm.h>), which both languages call: the fast path and its slow halves.
void* qm_malloc(std::size_t size) noexcept;
void qm_free(void* block) noexcept;
#if defined(QM_CALL_SITES)
/// Also in <qm/qm.h>. A null site means that no site is known.
void* qm_malloc_at(const qm::CallSite* site, std::size_t size) noexcept;
void* qm_heap_allocate_slow_at(const qm::CallSite* site, std::size_t size) noexcept;
#else
void* qm_heap_allocate_slow(std::size_t size) noexcept;
#endif
void qm_heap_free_slow(void* block) noexcept;
}

namespace qm::heap {

/// Largest size of a size class, in bytes. Between 1088 and this size, classes serve only some sizes.
inline constexpr std::size_t kMaxClassBytes = 6528 - (kCallSites ? 16 : 0);
/// Spans for blocks grow by a 64th of all memory, at most by this many bytes.
inline constexpr std::size_t kLargeImport = 64 * 1024;
/// Alignment of every block, in bytes, and the multiple to which sizes above the classes are rounded up.
inline constexpr std::size_t kAlignment = QM_ALIGNMENT;

/// Allocates @p size bytes; 0 counts as 1. The contents are indeterminate.
/// @returns the block, aligned to kAlignment; nullptr iff no memory is left or @p size cannot be rounded; counted.
/// Complexity: O(1); 16 instructions, 19 with QM_COUNT, if the loaded magazine of the size class has an object.
[[nodiscard]] void* allocate(std::size_t size) noexcept;
/// As allocate(), with a call site and a wait policy.
[[nodiscard]] void* allocate_at(const CallSite* site, std::size_t size, WaitPolicy wait_policy) noexcept;
#if defined(QM_CALL_SITES)
[[nodiscard, gnu::always_inline]] inline void* allocate_at(const CallSite* site, std::size_t size) noexcept {
  return qm_malloc_at(site, size);
}
#else
[[nodiscard, gnu::always_inline]] inline void* allocate_at(const CallSite*, std::size_t size) noexcept {
  return qm_malloc(size);
}
#endif
/// Allocates @p count * @p size zeroed bytes. @returns nullptr also if the product overflows.
[[nodiscard]] void* allocate_zeroed_at(const CallSite* site, std::size_t count, std::size_t size) noexcept;
/// Allocates @p size bytes at a multiple of @p alignment, a power of two. @returns nullptr also if it is no power of
/// two.
[[nodiscard]] void* allocate_aligned_at(const CallSite* site, std::size_t alignment, std::size_t size) noexcept;

[[nodiscard, gnu::always_inline]] inline void* allocate(std::size_t size) noexcept {
  return allocate_at(call_sites::untagged(), size);
}
/// As allocate(), with a wait policy.
[[nodiscard, gnu::always_inline]] inline void* allocate(std::size_t size, WaitPolicy wait_policy) noexcept {
  return allocate_at(call_sites::untagged(), size, wait_policy);
}
[[nodiscard, gnu::always_inline]] inline void* allocate_zeroed(std::size_t count, std::size_t size) noexcept {
  return allocate_zeroed_at(call_sites::untagged(), count, size);
}
[[nodiscard, gnu::always_inline]] inline void* allocate_aligned(std::size_t alignment, std::size_t size) noexcept {
  return allocate_aligned_at(call_sites::untagged(), alignment, size);
}

/// Resizes the block to @p size bytes, in place where possible; keeps the contents up to the smaller size, but not an
/// alignment beyond kAlignment. nullptr as @p block allocates; size 0 counts as 1.
/// @returns the block, perhaps moved; nullptr if no memory is left or @p size cannot be rounded: the old block keeps
///          its place and contents; nullptr also if @p block is no block, which is reported.
/// Complexity: O(1) in place, else a copy. Large blocks grow into free memory behind them and shrink in place; a block
///             moves between size classes. In a build with call sites the block stays charged to its site.
[[nodiscard]] void* reallocate(void* block, std::size_t size) noexcept;
/// The same, but charges the block to @p site from here on.
[[nodiscard]] void* reallocate_at(const CallSite* site, void* block, std::size_t size) noexcept;
/// The call site to which a block is charged; nullptr if to none. Build with call sites.
[[nodiscard]] const CallSite* site_of(void* block) noexcept;

/// Frees a block; nullptr is ignored. An invalid address (inside a block, another cache's object, outside memory) is
/// reported when a check finds it (misuse.hpp). Until then allocate() may return that address.
/// Complexity: O(1); 17 instructions if the loaded magazine of the size class has room.
[[gnu::always_inline]] inline void free(void* block) noexcept { qm_free(block); }
/// As free(), for a caller that knows the size it requested in the last call of allocate() or reallocate(): a size that
/// does not fit this block is reported, and the block is not freed.
/// @param[in] alignment the alignment given to allocate_aligned().
void free_sized(void* block, std::size_t size, std::size_t alignment = kAlignment) noexcept;

/// Bytes of the objects of size class @p number, 1 or more; 0: there is no such class. O(1), any context.
[[nodiscard]] std::size_t class_bytes(unsigned number) noexcept;

/// Usable bytes of @p block, at least the requested size; 0 for nullptr and for an address that is no block.
[[nodiscard]] std::size_t usable_size(const void* block) noexcept;

/// Frees that were refused because the address was no block or the size was wrong; the caches of size classes count
/// those that they find.
[[nodiscard]] std::size_t misuses() noexcept;

// qm::initialize() and similar functions call these if the heap is linked. A program that calls a function of the heap
// to allocate or free links the heap; a program that uses only caches does not.

/// Sets up the heap over base_arena(). Called by qm::initialize(), after the page map has its memory regions.
[[gnu::weak]] Status initialize() noexcept;
/// Adds a range of memory that base_arena() cannot have, since it is no whole page. @returns as Arena::add().
[[gnu::weak]] Status add_memory(std::uintptr_t start, std::size_t size) noexcept;
/// Whether all memory together serves a block of kLeastRoom bytes. Allocates one unless base_arena() has pages enough.
[[gnu::weak]] bool has_room() noexcept;
inline constexpr std::size_t kLeastRoom = 100;
/// Reports the size of all memory, in bytes.
[[gnu::weak]] void note_memory(std::size_t memory) noexcept;
[[gnu::weak]] void shutdown() noexcept;
/// Resets the running hart's pointers: it has no per-hart caches of any class yet. Called by qm::attach_hart().
[[gnu::weak]] void attach_hart() noexcept;

}  // namespace qm::heap
