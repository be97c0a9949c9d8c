#pragma once
/// The allocator as a whole, in its core form (QM_FULL=OFF).
///
///     base             all memory given to initialize(), by pages
///       kheap          large blocks of the heap
///       ...            the slabs of all caches that name no source
///       kmem_cache     what caches are

#include <cstddef>
#include <cstdint>
#include <span>

#include <qm/hal/port.hpp>
#include <qm/status.hpp>

namespace qm {

class Arena;
class Cache;

/// A range of memory, [start, start + size).
struct MemoryRange {
  std::uintptr_t start = 0;
  std::size_t size = 0;
};

/// Sets the allocator up over @p memory for harts 0 to @p harts - 1.
/// @returns kInvalid for no range, a first range below 16 pages, harts 0 or above Port::kMaxHarts; else as add_memory();
///          kBusy if it is set up already.
/// Context: one hart, before any other call.
Status initialize(std::span<const MemoryRange> memory, unsigned harts) noexcept;

/// Adds a range of memory, however far from the others.
/// @returns kInvalid (before initialize(); less than two pages; a range that wraps), kOverlap with memory it has,
///          kNoMemory (PageMap::kMaxBanks ranges there are). Unless kOk, nothing has changed.
/// Context: one hart at a time.
Status add_memory(const MemoryRange& range) noexcept;

/// Forgets everything, for a test that sets up anew. Context: one hart.
void shutdown() noexcept;

/// Nothing is kept for a hart: these are for firmware of either form.
inline Status attach_hart(unsigned) noexcept { return Status::kOk; }
inline Status detach_hart(unsigned) noexcept { return Status::kOk; }

/// The root: all memory. Its segments are pages.
[[nodiscard]] Arena& base_arena() noexcept;
/// The same: there are no caches of pages.
[[nodiscard]] inline Arena& page_arena() noexcept { return base_arena(); }

/// Gives back all idle memory: one slab of a cache at most.
/// @returns its bytes. Complexity: O(caches) for each cache that has one. Context: any.
std::size_t reclaim() noexcept;
inline std::size_t trim() noexcept { return reclaim(); }

}  // namespace qm
