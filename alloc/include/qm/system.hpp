#pragma once
/// The allocator as a whole: what is set up once, and what everything else draws from.
///
///     base             all memory given to initialize(), by pages
///       kheap          blocks of the heap
///       kpages         pages for who wants them, with quantum caches kpages_4096, kpages_8192: in a program that calls page_arena()
///       ...            the slabs of all caches that name no source
///       kmem_cache, kmem_magazine*      what caches are made of; no magazines of their own
///       kmem_slab                       the headers of no-touch slabs: in a program that has such caches
///
/// One allocator a program: the fast path finds a hart's cells through hart-locals.

#include <cstddef>
#include <cstdint>
#include <span>

#include <qm/magazine.hpp>
#include <qm/status.hpp>

namespace qm {

class Arena;
class Cache;

/// A range of memory, [start, start + size).
struct MemoryRange {
  std::uintptr_t start = 0;
  std::size_t size = 0;
};

/// Sets the allocator up over @p memory for harts 0 to @p harts - 1. Call attach_hart() on each before it allocates.
/// @returns kInvalid for no range, a first range below 2 whole pages, a range below a page, one that wraps or begins at
///          address 0, harts 0 or above Port::kMaxHarts; kOverlap; kNoMemory; kBusy if it is set up already. Unless kOk,
///          nothing has changed, and another call may succeed.
/// @param[in] open_books called when caches can be made and none has been: whoever observes allocations from the first
///                       on is set up there, as trace::initialize(). nullptr: nobody. If initialize() fails after
///                       that, who was set up there is told nothing: call trace::shutdown() before the next try.
/// Context: one hart, before any other call.
Status initialize(std::span<const MemoryRange> memory, unsigned harts,
                  void (*open_books)() noexcept = nullptr) noexcept;

/// Adds a range of memory, however far from the others.
/// @returns kInvalid (before initialize(); less than a page; a range that wraps or begins at address 0), kOverlap with memory it has,
///          kNoMemory (tags, or PageMap::kMaxBanks ranges there are). Unless kOk, nothing has changed.
/// Context: one hart at a time.
Status add_memory(const MemoryRange& range) noexcept;

/// Forgets everything, for a test that sets up anew. Memory still in use stays where it is and must not be freed.
/// Context: one hart, no other attached.
void shutdown() noexcept;

/// Makes hart @p hart known: its fast path works from here on. On that hart, once, before it allocates or takes part in
/// a round. hal::hart_online() is called.
/// @returns kInvalid, and nothing has changed, for a hart that initialize() was not told of, and before initialize().
Status attach_hart(unsigned hart) noexcept;

/// Takes hart @p hart out: its magazines go to the depots, and it takes part in no round any more. On that hart;
/// nothing may allocate on it afterwards, interrupt handlers included, until it is attached again.
/// @returns as attach_hart(). Complexity: O(caches).
Status detach_hart(unsigned hart) noexcept;

/// Harts given to initialize(); 0 before it.
[[nodiscard]] unsigned hart_count() noexcept;

/// The root: all memory. Its segments are pages.
[[nodiscard]] Arena& base_arena() noexcept;
/// Pages, of which small numbers come out of caches. A program that never calls this has neither.
[[nodiscard]] Arena& page_arena() noexcept;

/// Gives back all idle memory: magazines of every hart that answers, depots, empty slabs, empty spans.
/// @returns by how many bytes base_arena() has more free memory.
/// Complexity: O(idle memory), in bounded steps. Context: hal::may_ask_harts() for the magazines of other harts; no
///             destructor.
std::size_t reclaim() noexcept;

/// Lets go of what was not used lately: Cache::trim() for every cache. Meant to be called at a steady interval, a
/// second or some, from a task; nothing depends on it but how soon idle memory is back and magazines are small again.
/// @returns by how many bytes base_arena() has more free memory.
/// Complexity: O(caches) and O(what is given back), in bounded steps. Context: any.
std::size_t trim() noexcept;

/// What caches are made of; class Cache uses it, nobody else.
namespace internal {
/// Parts of initialize(), in programs that have what they set up: page_arena.cpp is linked with the first call of
/// page_arena(), slab_untouched.cpp with the first no-touch cache.
[[gnu::weak]] Status initialize_page_arena() noexcept;
[[gnu::weak]] Status initialize_slab_headers() noexcept;
[[nodiscard]] void* allocate_cache() noexcept;
void free_cache(void* cache) noexcept;
/// A block of @p words words or more, at most kMostBlockWords, for what caches have besides magazines; lies in
/// kmem_magazine*.
inline constexpr unsigned kBlockWords = 16;  ///< of the smallest
inline constexpr unsigned kMostBlockWords = 64;
[[nodiscard]] void* allocate_block(unsigned words) noexcept;
void free_block(void* block, unsigned words) noexcept;
/// An empty magazine of the smallest size that has @p rounds rounds, or of the largest; nullptr if there is no memory.
[[nodiscard]] Magazine* create_magazine(std::uint32_t rounds) noexcept;
void free_magazine(Magazine* magazine) noexcept;
}  // namespace internal

}  // namespace qm
