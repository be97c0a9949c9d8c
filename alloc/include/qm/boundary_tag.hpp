#pragma once
/// Boundary tags: what an arena knows about one span or one segment, kept outside of what it names.
///
/// All arenas draw their tags from one pool. The pool is refilled with pages, the quanta of the root arena, the one that
/// holds the system's memory, and starts from a first piece that the boot code gives it:
///
///     static storage --> pool --> tags of the root arena --> pages of the root arena --> pool --> tags of every arena
///
/// A tag (RV64, 112 bytes; RV32, 60):
///
///     child[4]              | start size | prev next | kind origin owner bin, priority | mate  | parent kid[2] largest
///     ^ free: by size                      ^ address order                  ^ handle     ^ site  ^ free ones by address,
///       allocated: by start                                                              ^ below   where need be
/// Invariants
/// - T1 A refill needs no tag: its page becomes part of the segment of tags above it, or the first tag on that very page
///      is the one that cutting it off takes.
/// - T2 Pages stay with the pool; the number of tags never falls.

#include <cstddef>
#include <cstdint>

namespace qm {

class Arena;
struct CallSite;

enum class TagKind : std::uint8_t { kFree, kAllocated, kSpan };

/// Where a span came from, and so how it goes back.
enum class SpanOrigin : std::uint8_t {
  kAdded,           ///< by add(), or from an import function without a release: it does not go back
  kImported,        ///< as large as was asked for
  kImportedAround,  ///< chosen by the source around a place for a request
};

/// Who asked for a segment; freeing as another owner is a mismatch.
enum class SegmentOwner : std::uint8_t {
  kUser,          ///< allocate() and allocate_constrained()
  kSlabs,         ///< an extent, which slabs share (root arena)
  kQuantumCache,  ///< a slab of one of the arena's own quantum caches
  kTagPool,       ///< a page of boundary tags (root arena)
};

struct BoundaryTag {
  static constexpr std::uint8_t kMate = 0xff;

  /// Free: trie of sizes, of a mate: [0] the one before it; allocated: trie of starts. First, so that a step down a trie
  /// is an instruction less.
  BoundaryTag* child[4];
  std::uintptr_t start;
  std::size_t size;
  /// Lower neighbour in address order, spans included; a span's tag stands before its first segment.
  BoundaryTag* prev;
  BoundaryTag* next;
  TagKind kind;
  SpanOrigin origin;   ///< span
  SegmentOwner owner;  ///< allocated
  std::uint8_t bin;    ///< free: the size index's bin; kMate: behind one of equal size
  union {
    std::uint32_t handle;    ///< allocated: trace handle, 0 = not recorded
    std::uint32_t priority;  ///< in an address tree: no kid's is higher
  };
  union {
    BoundaryTag* mate;     ///< free: the next segment of equal size
    const CallSite* site;  ///< allocated: who asked, if known
    BoundaryTag* below;    ///< span: the one below
  };
  BoundaryTag* parent;  ///< address tree: free, where need be
  BoundaryTag* kid[2];  ///< of an extent: the next of its list, and the one before
  union {
    std::size_t largest;  ///< largest size in this subtree
    unsigned long pages;  ///< of an extent: which no slab has, and which go on with one (extents.cpp)
  };

  [[nodiscard]] std::uintptr_t end() const noexcept { return start + size; }
};
static_assert(sizeof(BoundaryTag) <= 14 * sizeof(void*) + 4, "a boundary tag is at most 112 bytes on RV64");

/// Least number of tags in the first piece: the root arena's first range and what it keeps at hand.
inline constexpr std::size_t kFirstTags = 6;

/// Gives the pool its first tags and forgets everything it had. Call once at boot, before the first arena.
/// @param[in] storage memory for tags, aligned to a pointer, for ever the pool's.
/// @param[in] bytes   at least kFirstTags * sizeof(BoundaryTag).
void boundary_tags_initialize(void* storage, std::size_t bytes) noexcept;

/// Names the arena that refills the pool, with a quantum each time. It must hand out memory that may be written, in
/// quanta that hold some tags, has no source, and is never destroyed.
void boundary_tags_set_root(Arena& root) noexcept;

struct BoundaryTagStats {
  std::size_t total;     ///< tags the pool owns
  std::size_t free;      ///< of these, in the pool; arenas keep at most Arena::kSpares each at hand besides
  std::size_t pages;     ///< refills from the root arena
  std::size_t failures;  ///< times the root arena could not supply a page
};
[[nodiscard]] BoundaryTagStats boundary_tags_stats() noexcept;

}  // namespace qm
