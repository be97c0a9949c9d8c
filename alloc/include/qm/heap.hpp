#pragma once
/// The heap: the malloc face over size classes and an arena.
///
///     1 .. 512 bytes    caches kmalloc_16, kmalloc_32, ... in steps of 16 to 256, of 32 to 512: at most 15 bytes or an
///                       eighth is waste; each is created by its first allocation
///     above             arena `kheap`, quantum 64, over spans of `kpages`
///
/// A free without a size has to tell the two apart by the address alone: a bitmap over all memory has a bit set for each page
/// that is in a span of `kheap`; every other page in use by the heap is a slab with its header at the end.
///
/// All functions: O(1) but for what a refill, an import or a copy costs; any hart that attach_hart() has seen, any interrupt
/// level.

#include <cstddef>

#include <qm/cache.hpp>
#include <qm/call_site.hpp>
#include <qm/status.hpp>

namespace qm::heap {

/// Largest size that is served by a size class, in bytes.
inline constexpr std::size_t kMaxClassBytes = 512;
/// Alignment of every block, in bytes.
inline constexpr std::size_t kAlignment = 16;

/// Takes @p size bytes; 0 counts as 1. The contents are indeterminate.
/// @returns the block, aligned to kAlignment; nullptr iff no memory is left or @p size cannot be rounded; counted.
[[nodiscard]] void* allocate(std::size_t size) noexcept;
/// As allocate(), for a caller that knows its call site and what it may wait for.
[[nodiscard]] void* allocate_at(const CallSite* site, std::size_t size, Effort effort = Effort::kAuto) noexcept;
/// Takes @p count * @p size bytes of zeroes. @returns nullptr also if the product overflows.
[[nodiscard]] void* allocate_zeroed(std::size_t count, std::size_t size) noexcept;
/// Takes @p size bytes at a multiple of @p alignment, a power of two. @returns nullptr also if it is none.
[[nodiscard]] void* allocate_aligned(std::size_t alignment, std::size_t size) noexcept;
/// Makes the block @p size bytes long, in place where that is possible; the contents up to the smaller size are kept.
/// nullptr as @p block allocates; size 0 counts as 1.
/// @returns the block, perhaps elsewhere; nullptr if no memory is left: the old block is intact then.
[[nodiscard]] void* reallocate(void* block, std::size_t size) noexcept;
/// Gives a block back; nullptr is ignored.
void free(void* block) noexcept;
/// As free(), for a caller that knows the size it asked for: saves the look at the slab.
void free_sized(void* block, std::size_t size) noexcept;
/// Bytes of @p block that may be used, at least what was asked for.
[[nodiscard]] std::size_t usable_size(const void* block) noexcept;

/// Sets the heap up over page_arena(). Called by qm::initialize() with the bounds of all memory.
Status initialize(std::uintptr_t low, std::uintptr_t high) noexcept;
void shutdown() noexcept;

}  // namespace qm::heap
