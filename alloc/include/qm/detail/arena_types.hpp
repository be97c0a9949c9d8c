#pragma once
/// The types of an arena's interface: configuration, constraints, statistics, segments.

#include <cstddef>
#include <cstdint>

#include <qm/detail/boundary_tag.hpp>
#include <qm/call_site.hpp>

namespace qm {

class Arena;
class Blocks;

/// How a free segment is chosen. Every policy finds a segment if one is large enough.
enum class Fit : std::uint8_t {
  kInstant,  ///< from the first power of two in which every segment fits, constant time; best fit if there is none
  kBest,     ///< the smallest segment that fits
  kNext,     ///< the next one above the last next-fit allocation, wrapping at the end: delays reuse, for identifiers
};

/// Imports a span of at least @p size from @p source (the arena itself if it is its own source). @p size is a multiple
/// of the source's quantum. @returns the span's start, 0 if it fails. Context: no lock held; interrupts as the caller
/// of allocate() had them.
using ImportFunction = std::uintptr_t (*)(Arena& source, std::size_t size, Fit fit) noexcept;
/// Releases a span that an ImportFunction returned, with the size that was requested.
using ReleaseFunction = void (*)(Arena& source, std::uintptr_t start, std::size_t size) noexcept;
/// The same functions in C (qm_import, qm_release), where @p fit is a byte.
using ImportFunctionInC = std::uintptr_t (*)(Arena* source, std::size_t size, std::uint8_t fit);
using ReleaseFunctionInC = void (*)(Arena* source, std::uintptr_t start, std::size_t size);

/// Most quantum caches of an arena.
inline constexpr std::size_t kMostQuantumCaches = 16;

struct ArenaConfig {
  /// 1 to 31 characters of A-Z a-z 0-9 _ . - ; unique; kept, not copied: lives as long as the arena.
  const char* name = nullptr;
  std::uintptr_t start = 0;           ///< first range, as add() takes it
  std::size_t size = 0;               ///< 0: none yet
  std::size_t quantum = 4096;         ///< unit of all sizes and starts: any integer above 0
  Arena* source = nullptr;            ///< the arena from which spans are imported
  bool self_source = false;           ///< `import` creates spans itself and is called with the arena itself
  ImportFunction import = nullptr;    ///< nullptr: source->allocate()
  ReleaseFunction release = nullptr;  ///< nullptr: source->free(); with an own `import`: spans are never released
  bool functions_in_c = false;  ///< set by qm_arena_create(): the two functions are C functions, and are called as such
  std::size_t minimum_import = 0;  ///< imports are at least this large
  /// Sizes up to this are served by caches; a multiple of the quantum, at most kMostQuantumCaches times it; 0: none.
  std::size_t quantum_cache_max = 0;
  /// The arena's segments are charged to call sites, in a build that has them: users hold these segments.
  bool charged = false;
  bool no_trace = false;  ///< its segments cannot be traced: the trace allocates from it
  /// Allocates from the end of a free segment, so that an importer's span at its start can grow.
  bool from_top = false;
  /// The heap's: the arena's segments are blocks with their bookkeeping inside, in writable memory.
  Blocks* blocks = nullptr;
  void* context = nullptr;  ///< for the creator of the arena; see context()
};

/// The starts that allocate_aligned() may choose.
struct Alignment {
  std::size_t align = 1;  ///< power of two
  std::size_t phase = 0;  ///< below align, a multiple of the quantum: start % align == phase
};

/// The constraint of allocate_constrained(). Members that are 0 constrain nothing.
struct Constraint {
  std::size_t align = 1;    ///< power of two, or 0
  std::size_t phase = 0;    ///< below align: start % align == phase
  std::size_t nocross = 0;  ///< power of two: no multiple of it lies inside the segment, or 0
  std::uintptr_t min = 0;   ///< lowest start
  std::uintptr_t max = 0;   ///< start + size is at most this; 0: no bound
};

struct ArenaStats {
  std::size_t total = 0;      ///< sum of all segments
  std::size_t allocated = 0;  ///< including memory that quantum caches hold
  std::size_t free = 0;
  std::size_t idle = 0;  ///< part of the free: the empty span that waits for reuse or a reap
  /// Part of the allocated: pages of extents that no slab uses, and a page prepared for the page map (base).
  std::size_t in_extents = 0;
  std::size_t imported = 0;    ///< sum of the spans that will return to the source
  std::size_t high_water = 0;  ///< most memory ever allocated at once
  std::size_t largest_free = 0;
  std::size_t segments_free = 0;
  std::size_t segments_allocated = 0;
  std::size_t spans = 0;
  std::uint64_t allocations_ever = 0;
  std::uint64_t frees_ever = 0;
  std::uint64_t failures = 0;   ///< allocations that returned 0
  std::uint64_t bad_frees = 0;  ///< frees that were refused
  std::uint64_t damaged = 0;    ///< overwritten headers found (an arena of blocks)
  std::uint64_t imports = 0;    ///< spans ever imported
  std::uint64_t releases = 0;   ///< spans ever given back
};

/// A segment or span, as a walk shows it.
struct Segment {
  std::uintptr_t start = 0;
  std::size_t size = 0;
  TagKind kind = TagKind::kFree;
  bool imported = false;                     ///< span
  SegmentOwner owner = SegmentOwner::kUser;  ///< allocated
  std::uint32_t handle = 0;                  ///< allocated
  const CallSite* site = nullptr;            ///< allocated
  unsigned long free_pages = 0;              ///< extent: a bit for each page that no slab uses
};

}  // namespace qm
