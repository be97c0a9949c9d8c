#pragma once
/// The allocator as a whole: its set-up, and the arenas from which everything allocates.
///
///     base             all memory given to initialize(), by pages
///       kheap          blocks of the heap
///       kpages         pages for users, if the program calls page_arena(); with quantum caches kpages_4096 and
///                      kpages_8192 if initialize() is given at least 64 KiB
///       ...            the slabs of all caches that name no source
///       kmem_cache, kmem_magazine*      caches of Cache structures and of magazines; without magazines of their own
///       kmem_slab                       the headers of no-touch slabs; if the program has no-touch caches
///
/// A program has one allocator: the fast path finds a hart's per-hart caches through hart-locals.

#include <cstddef>
#include <cstdint>
#include <span>

#include <qm/detail/magazine.hpp>
#include <qm/status.hpp>

namespace qm {

class Arena;
class Cache;

/// A range of memory, [start, start + size).
struct MemoryRange {
  std::uintptr_t start = 0;
  std::size_t size = 0;
};

/// Sets up the allocator over @p memory for harts 0 to @p harts - 1. Call attach_hart() on each before it allocates.
/// @returns kInvalid for harts 0 or above Port::kMaxHarts, no range, a range below a page, one that wraps or begins at
///          address 0, and for a first range with too few whole pages: it needs those of the allocator's own caches,
///          which grow with @p harts, and one more; kOverlap; kNoMemory; kBusy if the allocator is already set up.
///          Unless kOk, nothing has changed; after kInvalid, kOverlap or kNoMemory another call may succeed.
/// @param[in] open_trace called as soon as caches can be created, before the first is: an observer that must see every
///                       allocation is set up there, for example by trace::initialize(). nullptr: none. If initialize()
///                       fails after this call, the observer is not notified: call trace::shutdown() before the next
///                       try.
/// Context: one hart, before any other call.
Status initialize(std::span<const MemoryRange> memory, unsigned harts,
                  void (*open_trace)() noexcept = nullptr) noexcept;

/// Adds a range of memory, at any distance from the others.
/// @returns kInvalid (before initialize(); less than a page; a range that wraps or begins at address 0), kOverlap with
///          memory of the allocator, kNoMemory (no tags, or there are PageMap::kMaxRegions ranges already). Unless kOk,
///          nothing has changed.
/// Context: one hart at a time.
Status add_memory(const MemoryRange& range) noexcept;

/// Resets the allocator, for a test that sets it up again. Memory still in use stays where it is and must not be freed.
/// Context: one hart, no other attached.
void shutdown() noexcept;

/// Attaches hart @p hart: its fast path works from here on. Call it on that hart, once, before the hart allocates or
/// takes part in a broadcast. Calls hal::hart_online().
/// @returns kInvalid, and nothing has changed, for a hart number not below hart_count(), and before initialize().
Status attach_hart(unsigned hart) noexcept;

/// Detaches hart @p hart: its magazines go to the depots, and it takes part in no more broadcasts. Call it on that
/// hart; no code on it may allocate afterwards, interrupt handlers included, until it is attached again.
/// @returns as attach_hart(). Complexity: O(caches).
Status detach_hart(unsigned hart) noexcept;

/// Number of harts given to initialize(); 0 before it.
[[nodiscard]] unsigned hart_count() noexcept;

/// The root arena, which has all memory. Its segments are pages.
[[nodiscard]] Arena& base_arena() noexcept;
/// An arena of pages; quantum caches serve small numbers of pages. A program that never calls this has neither.
[[nodiscard]] Arena& page_arena() noexcept;

/// Returns all idle memory to the arenas: magazines of every hart that answers, depots, empty slabs, empty spans.
/// @returns by how many bytes base_arena() has more free memory.
/// Complexity: O(idle memory), in bounded steps. Context: hal::may_ask_harts() for the magazines of other harts; not in
///             a destructor.
std::size_t reclaim() noexcept;

/// Returns memory that was not used lately: calls Cache::trim() for every cache. Call it from a task at a steady
/// interval of about a second. The interval only determines how soon idle memory returns and magazines shrink again.
/// @returns by how many bytes base_arena() has more free memory.
/// Complexity: O(caches) and O(memory returned), in bounded steps. Context: any.
std::size_t trim() noexcept;

/// Memory for the structures of caches; for class Cache only.
namespace internal {
/// Parts of initialize(), linked with the feature they set up: page_arena.cpp with the first call of page_arena(),
/// slab_no_touch.cpp with the first no-touch cache, whose slabs have their headers in @p cache.
[[gnu::weak]] Status initialize_page_arena() noexcept;
[[gnu::weak]] void use_slab_headers(Cache& cache) noexcept;
/// From this much memory on, initialize() makes the caches of pages and a slab for later caches in advance. In less
/// memory they would take too much of it.
inline constexpr std::size_t kLeastToPrepareCaches = std::size_t{64} << 10;
/// The place of the allocator's first caches and boundary tags, before the first memory region, together with the page
/// below, whose end may belong to the heap.
[[nodiscard]] MemoryRange first_pages() noexcept;
[[nodiscard]] void* allocate_cache() noexcept;
void free_cache(void* cache) noexcept;
/// Creates a slab for allocate_cache() if no slab has a free object. @returns false, and nothing has changed, if one
/// has, or if there is no memory.
bool prepare_cache() noexcept;
/// A block of at least @p words words, at most kMostBlockWords, for data of caches other than magazines; allocated from
/// kmem_magazine*.
inline constexpr unsigned kBlockWords = 16;  ///< words of the smallest block
inline constexpr unsigned kMostBlockWords = kMagazines ? 64 : 128 / sizeof(void*);
[[nodiscard]] void* allocate_block(unsigned words) noexcept;
void free_block(void* block, unsigned words) noexcept;
/// An empty magazine of the smallest size for @p rounds objects, or of the largest size; nullptr if there is no memory.
[[nodiscard]] Magazine* create_magazine(std::uint32_t rounds) noexcept;
void free_magazine(Magazine* magazine) noexcept;
}  // namespace internal

}  // namespace qm
