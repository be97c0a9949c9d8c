#pragma once
/// Boundary tags: an arena's data about one span or one segment, stored outside of it.
///
/// All arenas take their tags from one pool. The pool is refilled with pages, the quanta of the root arena, which has
/// the system's memory; it starts with a first piece of memory that the boot code supplies:
///
///     static storage --> pool --> tags of the root arena --> pages of the root arena --> pool --> tags of every arena
///
/// A tag (RV64, 112 bytes; RV32, 60):
///
///     child[4]              | start size | prev next | kind origin owner bin, priority | mate  | parent kid[2] largest
///     ^ free: by size                      ^ address order                  ^ handle     ^ site  ^ free: by address,
///       allocated: by start                                                              ^ below   if needed
/// Invariants
/// - T1 A refill needs no tag: either its page extends the segment of tags above it, or cutting off the page uses the
///      first tag on that very page.
/// - T2 Pages stay with the pool; the number of tags never falls.

#include <cstddef>
#include <cstdint>

namespace qm {

class Arena;
struct CallSite;

enum class TagKind : std::uint8_t { kFree, kAllocated, kSpan };

/// How a span was added, and so how it is released.
enum class SpanOrigin : std::uint8_t {
  kAdded,           ///< by add(), or by an import function without a release function: never released
  kImported,        ///< as large as requested
  kImportedAround,  ///< chosen by the source around a place for a request
};

/// The owner of a segment; a free as another owner is a mismatch.
enum class SegmentOwner : std::uint8_t {
  kUser,          ///< allocate() and allocate_constrained()
  kSlabs,         ///< an extent, which slabs share (root arena)
  kQuantumCache,  ///< a slab of one of the arena's own quantum caches
  kTagPool,       ///< a page of boundary tags (root arena)
};

struct BoundaryTag {
  static constexpr std::uint8_t kMate = 0xff;

  /// Free: trie of sizes; of a mate: [0] is the one before it. Allocated: trie of starts. First member, so that a step
  /// down a trie is one instruction less.
  BoundaryTag* child[4];
  std::uintptr_t start;
  std::size_t size;
  /// Lower neighbour in address order, spans included; a span's tag precedes that of its first segment.
  BoundaryTag* prev;
  BoundaryTag* next;
  TagKind kind;
  SpanOrigin origin;   ///< span
  SegmentOwner owner;  ///< allocated
  std::uint8_t bin;    ///< free: the size index's bin; kMate: behind one of equal size
  union {
    std::uint32_t handle;    ///< allocated: trace handle, 0 = not recorded
    std::uint32_t priority;  ///< in a treap: no child's is higher
  };
  union {
    BoundaryTag* mate;     ///< free: the next segment of equal size
    const CallSite* site;  ///< allocated: call site, if known
    BoundaryTag* below;    ///< span: the next lower span
  };
  BoundaryTag* parent;  ///< treap of free segments by address, if built
  BoundaryTag* kid[2];  ///< children in the treap; of an extent: the next and the previous in its list
  union {
    std::size_t largest;  ///< largest size in this subtree
    unsigned long pages;  ///< of an extent: pages that no slab uses, and pages that continue one (extents.cpp)
  };

  [[nodiscard]] std::uintptr_t end() const noexcept { return start + size; }
};
static_assert(sizeof(BoundaryTag) <= 14 * sizeof(void*) + 4, "a boundary tag is at most 112 bytes on RV64");

/// Least number of tags in the first piece: those for the root arena's first range and for its spares.
inline constexpr std::size_t kFirstTags = 6;

/// Gives the pool its first tags and resets it. Call it once at boot, before the first arena.
/// @param[in] storage memory for tags, aligned to a pointer; the pool keeps it for ever.
/// @param[in] bytes   at least kFirstTags * sizeof(BoundaryTag).
void boundary_tags_initialize(void* storage, std::size_t bytes) noexcept;

/// Sets the arena that refills the pool, with a quantum each time. Its segments must be writable memory, and its
/// quantum must hold some tags; it has no source and is never destroyed.
void boundary_tags_set_root(Arena& root) noexcept;

struct BoundaryTagStats {
  std::size_t total;     ///< tags the pool owns
  std::size_t free;      ///< of these, in the pool; each arena also keeps at most Arena::kSpares spares
  std::size_t pages;     ///< refills from the root arena
  std::size_t failures;  ///< times the root arena could not supply a page
};
[[nodiscard]] BoundaryTagStats boundary_tags_stats() noexcept;

}  // namespace qm
