#pragma once
/// The heap: the malloc face over size classes and an arena.
///
///     1 .. 1088             size classes, at most 15 bytes or an eighth is waste. A class that has earned it has a cache,
///                           kmalloc_16, kmalloc_32, ..., and the pages of its slabs are tagged in the page map
///       .. kMaxClassBytes   three more, for sizes of which an eighth is waste at most (size_classes.hpp)
///     others                blocks of the arena `kheap`, with a header before each, in spans of `base` (blocks.hpp)
///
///     allocate() = qm_malloc()      the class by a table, the hart's cell of it, its youngest round: heap_sections.S
///       qm_heap_allocate_slow()       the cache's slow half; the class's cache is made, if it has earned one; a block
///     free() = qm_free()            the class by the page's tag, the hart's cell of it: a round more
///       qm_heap_free_slow()           the cache's slow half; a block; nullptr; what is none
///
/// A class earns its cache at once while all of them take little of the memory, else when it holds many blocks; until
/// then its objects are blocks (docs/decisions/blocks.md).
///
/// An object is in a slab iff its page has a tag; everything else is asked of `kheap`, which reads the header before
/// the address if one of its spans has it. So an address that the heap never handed out is found out, wherever it
/// points.
///
/// All functions: O(1) but for what a refill, an import or a copy costs; any hart that attach_hart() has seen, any
/// interrupt level. Before initialize() there is no memory: nullptr.

#include <cstddef>
#include <cstdint>

#include <qm/config.h>
#include <qm/cache.hpp>
#include <qm/call_site.hpp>
#include <qm/status.hpp>

extern "C" {
/// The heap's face for C (<qm/qm.h>), and what both languages call: the fast path and its slow halves.
void* qm_malloc(std::size_t size) noexcept;
void qm_free(void* block) noexcept;
#if defined(QM_CALL_SITES)
/// Also <qm/qm.h>'s. A null for the site is no site.
void* qm_malloc_at(const qm::CallSite* site, std::size_t size) noexcept;
void* qm_heap_allocate_slow_at(const qm::CallSite* site, std::size_t size) noexcept;
#else
void* qm_heap_allocate_slow(std::size_t size) noexcept;
#endif
void qm_heap_free_slow(void* block) noexcept;
}

namespace qm::heap {

/// Largest size that is served by a size class, in bytes. Above 1088 not all are.
inline constexpr std::size_t kMaxClassBytes = 6528 - (kCallSites ? 16 : 0);
/// Blocks are rounded up to a multiple of this, in bytes.
inline constexpr std::size_t kLargeQuantum = 16;
/// Spans for blocks grow by a 64th of all memory, but by no more than this many bytes.
inline constexpr std::size_t kLargeImport = 64 * 1024;
/// Alignment of every block, in bytes.
inline constexpr std::size_t kAlignment = 16;

/// Takes @p size bytes; 0 counts as 1. The contents are indeterminate.
/// @returns the block, aligned to kAlignment; nullptr iff no memory is left or @p size cannot be rounded; counted.
/// Complexity: O(1); of a size class whose magazine has a round 16 instructions, 19 with QM_COUNT.
[[nodiscard]] void* allocate(std::size_t size) noexcept;
/// As allocate(), for a caller that knows its call site and what it may wait for. So have all that follow.
[[nodiscard]] void* allocate_at(const CallSite* site, std::size_t size, Effort effort) noexcept;
#if defined(QM_CALL_SITES)
[[nodiscard, gnu::always_inline]] inline void* allocate_at(const CallSite* site, std::size_t size) noexcept {
  return qm_malloc_at(site, size);
}
#else
[[nodiscard, gnu::always_inline]] inline void* allocate_at(const CallSite*, std::size_t size) noexcept {
  return qm_malloc(size);
}
#endif
/// Takes @p count * @p size bytes of zeroes. @returns nullptr also if the product overflows.
[[nodiscard]] void* allocate_zeroed_at(const CallSite* site, std::size_t count, std::size_t size) noexcept;
/// Takes @p size bytes at a multiple of @p alignment, a power of two. @returns nullptr also if it is none.
[[nodiscard]] void* allocate_aligned_at(const CallSite* site, std::size_t alignment, std::size_t size) noexcept;

[[nodiscard, gnu::always_inline]] inline void* allocate(std::size_t size) noexcept {
  return allocate_at(call_sites::untagged(), size);
}
/// The same with a word on what it may do before it fails.
[[nodiscard, gnu::always_inline]] inline void* allocate(std::size_t size, Effort effort) noexcept {
  return allocate_at(call_sites::untagged(), size, effort);
}
[[nodiscard, gnu::always_inline]] inline void* allocate_zeroed(std::size_t count, std::size_t size) noexcept {
  return allocate_zeroed_at(call_sites::untagged(), count, size);
}
[[nodiscard, gnu::always_inline]] inline void* allocate_aligned(std::size_t alignment, std::size_t size) noexcept {
  return allocate_aligned_at(call_sites::untagged(), alignment, size);
}

/// Makes the block @p size bytes long, in place where that is possible; the contents up to the smaller size are kept,
/// an alignment beyond kAlignment is not. nullptr as @p block allocates; size 0 counts as 1.
/// @returns the block, perhaps elsewhere; nullptr if no memory is left, or if @p block is no block: reported as free()
///          does. The old block is intact then, with its contents.
/// Complexity: O(1) in place, else a copy. Large blocks grow into free memory behind them and shrink in place; a block
///             moves between size classes. In a build with call sites the block stays charged to whom it was charged
///             to.
[[nodiscard]] void* reallocate(void* block, std::size_t size) noexcept;
/// The same, and the block is charged to @p site from here on.
[[nodiscard]] void* reallocate_at(const CallSite* site, void* block, std::size_t size) noexcept;
/// The site that a block is charged to; nullptr if to none. Build with call sites.
[[nodiscard]] const CallSite* site_of(void* block) noexcept;

/// Gives a block back; nullptr is ignored. What is no block - inside one, another cache's object, no memory at all - is
/// reported where it is found, and otherwise ignored.
/// Complexity: O(1); of a size class whose magazine has room 17 instructions.
[[gnu::always_inline]] inline void free(void* block) noexcept { qm_free(block); }
/// As free(), for a caller that knows the size it asked for, in the last call of allocate() or reallocate(): a size
/// that does not belong to this block is reported, and the block is not freed.
/// @param[in] alignment what allocate_aligned() was given.
void free_sized(void* block, std::size_t size, std::size_t alignment = kAlignment) noexcept;

/// Bytes of the objects of size class @p number, from 1 on; 0: there is no such class. O(1), any context.
[[nodiscard]] std::size_t class_bytes(unsigned number) noexcept;

/// Bytes of @p block that may be used, at least what was asked for; 0 for nullptr and what is no block.
[[nodiscard]] std::size_t usable_size(const void* block) noexcept;

/// Frees that were refused because the address was no block or the size another; the size classes count what they find.
[[nodiscard]] std::size_t misuses() noexcept;

// What the system calls of a heap that is linked, with the first call of a function that allocates or frees: a program
// that has caches only goes without.

/// Sets the heap up over base_arena(). Called by qm::initialize(), after the page map has its banks.
[[gnu::weak]] Status initialize() noexcept;
/// Gives the heap a range of memory that base_arena() cannot have, since it is no whole page. @returns as Arena::add().
[[gnu::weak]] Status add_memory(std::uintptr_t start, std::size_t size) noexcept;
/// There is so much memory, in bytes.
[[gnu::weak]] void note_memory(std::size_t memory) noexcept;
[[gnu::weak]] void shutdown() noexcept;
/// The running hart has no cells of any class yet. Called by qm::attach_hart().
[[gnu::weak]] void attach_hart() noexcept;

}  // namespace qm::heap
