#pragma once
/// Arenas of the core form (QM_FULL=OFF): ranges of integers, handed out and taken back without ever touching what they
/// name. What is left of <qm/arena.hpp> are ranges, best fit, and spans from another arena.
///
///     | span                                 |      | span imported from the source     |
///     [ allocated ][ free      ][ allocated  ]      [ free        ][ allocated          ]
///
///     span's tag -> tag -> tag -> tag              span's tag -> tag -> tag            next: address order within a span
///       \_____________________________________________^  child[kSpanAbove]: the spans, in no order
///
/// Invariants
/// - A1 Segments of a span lie behind each other, and touch but where a page of tags was taken out; no two that touch
///      are both free.
/// - A2 Every start and size of a segment is a multiple of the quantum; no segment starts at 0.
/// - A3 A free segment is in `sizes_`, an allocated one in `allocated_`.
/// - A4 An operation has the tags it may need before it changes anything.
/// - A5 The lock, one for all arenas and their tags, is not held while the source is asked.
/// - A6 An imported span goes back to the source as soon as it is empty: nothing lies idle here.

#include <cstddef>
#include <cstdint>

#include <qm/bits.hpp>
#include <qm/call_site.hpp>
#include <qm/effort.hpp>
#include <qm/status.hpp>
#include <qm/traceable.hpp>

namespace qm {

class Arena;
struct ArenaTag;

/// Kept for callers of the full form: the core always takes a smallest segment that fits.
enum class Fit : std::uint8_t { kInstant, kBest, kNext };

struct ArenaConfig {
  const char* name = nullptr;  ///< kept, not copied, and not looked at
  std::uintptr_t start = 0;    ///< first range, as add() takes it
  std::size_t size = 0;        ///< 0: none yet
  std::size_t quantum = 4096;  ///< unit of all sizes and starts: any integer above 0
  Arena* source = nullptr;     ///< where spans are imported from
  std::size_t minimum_import =
      0;                    ///< imports are at least this large, where the source has that; in whole quanta of it
  void* context = nullptr;  ///< for whoever embeds the arena; see context()
};

struct ArenaStats {
  std::size_t total = 0;  ///< sum of all segments
  std::size_t allocated = 0;
  std::size_t free = 0;
  std::size_t segments_allocated = 0;
  std::size_t failures = 0;   ///< allocations that returned 0
  std::size_t bad_frees = 0;  ///< frees that were refused
};

class Arena {
 public:
  constexpr Arena() noexcept = default;

  /// Makes the arena, in the caller's storage.
  /// @returns kOk; kInvalid (quantum 0, or no divisor of the source's; a size without a whole quantum; a source and a
  ///          range at once); kNoMemory (tags). Unless kOk, nothing is kept.
  /// Context: the source and the storage outlive the arena.
  Status initialize(const ArenaConfig& config) noexcept;

  /// Gives every span and tag back and leaves the storage to the caller.
  /// @returns kBusy, and nothing has changed, while a segment is allocated or somebody draws from it.
  /// Complexity: O(spans). Context: nobody else uses the arena any more.
  Status destroy() noexcept;

  /// Adds [start, start + size), less partial quanta at both ends and the value 0.
  /// @returns kInvalid if no quantum is left, the end does not fit a word, or there is a source, to which all spans go
  ///          back; kOverlap with what it has; kNoMemory (tags).
  /// Complexity: O(spans).
  Status add(std::uintptr_t start, std::size_t size) noexcept;

  /// Takes @p size, rounded up to the quantum.
  /// @returns the start; 0 for a size of 0, one that cannot be rounded, and if neither the arena nor its source has it:
  ///          counted in stats().failures. Fit, site and effort change nothing.
  /// Complexity: bounded by the word size, at each arena on the way to the source. Context: any.
  [[nodiscard]] std::uintptr_t allocate(std::size_t size, Fit = Fit::kInstant, const CallSite* = nullptr,
                                        Effort = Effort::kAuto) noexcept {
    return allocate_aligned(size, 1);
  }
  [[nodiscard]] std::uintptr_t allocate_at(const CallSite*, std::size_t size, Fit = Fit::kInstant) noexcept {
    return allocate_aligned(size, 1);
  }

  /// The same at a multiple of @p align, a power of two. Looked at are the smallest segment of the size, and one in
  /// which there is room whatever its start: a place beyond those is not seen.
  /// @returns 0 also if neither of align and quantum is a multiple of the other.
  [[nodiscard]] std::uintptr_t allocate_aligned(std::size_t size, std::size_t align) noexcept;

  /// Gives back what allocate() returned.
  /// @param[in] size the size asked for, or that rounded up to the quantum.
  /// @returns kNotFound if nothing allocated starts at @p start; kMismatch for another size. Nothing is changed then.
  Status free(std::uintptr_t start, std::size_t size) noexcept;
  /// As free(), for a caller without the size.
  Status free(std::uintptr_t start) noexcept { return free(start, kAnySize); }
  /// A size that stands for whatever the segment has. None has as much, since none starts at 0.
  static constexpr std::size_t kAnySize = SIZE_MAX;

  /// Makes the segment at @p start @p new_size long, where it is.
  /// @returns kNotFound, kMismatch as free(); kNoMemory if what follows is in use (or there is no tag); kInvalid for a
  ///          size that cannot be. Nothing is changed then.
  Status resize_in_place(std::uintptr_t start, std::size_t old_size, std::size_t new_size) noexcept;

  /// @returns the size of the segment allocated at @p start; 0 if there is none.
  [[nodiscard]] std::size_t size_of(std::uintptr_t start) noexcept;
  [[nodiscard]] ArenaStats stats() noexcept;
  [[nodiscard]] std::size_t quantum() const noexcept { return quantum_; }
  [[nodiscard]] Arena* source() const noexcept { return source_; }
  [[nodiscard]] void* context() const noexcept { return context_; }
  [[nodiscard]] const char* name() const noexcept { return name_; }
  [[nodiscard]] Traceable& traceable() noexcept { return traceable_; }

  /// So many more caches and arenas draw from this one: destroy() looks.
  void count_importer(std::size_t by) noexcept;

  /// Leaves the object as its constructor does, whatever it has.
  void reset() noexcept;

  /// Gives memory for tags, for ever: the first before the first arena.
  static void give_tags(void* storage, std::size_t bytes) noexcept;
  /// Names the arena whose pages become tags when there are none; nullptr: none yet, and no tags.
  static void set_tag_source(Arena* arena) noexcept;

 private:
  /// Whether @p size, rounded up, is the tag's.
  [[nodiscard]] bool is_size_of(const ArenaTag& tag, std::size_t size) const noexcept;
  [[nodiscard]] ArenaTag** find_locked(std::uintptr_t start) noexcept;
  [[nodiscard]] ArenaTag* find_room_locked(std::size_t size, std::size_t align, std::size_t slack) const noexcept;
  [[nodiscard]] std::uintptr_t take(std::size_t size, std::size_t align, std::size_t slack) noexcept;
  [[nodiscard]] std::uintptr_t import(std::size_t size, std::size_t align, std::size_t slack) noexcept;
  std::uintptr_t carve_locked(ArenaTag* segment, std::uintptr_t start, std::size_t size) noexcept;
  void insert_free_locked(ArenaTag* tag, std::uintptr_t start, std::size_t size, ArenaTag* before) noexcept;
  ArenaTag* merge_locked(ArenaTag* tag) noexcept;
  ArenaTag* insert_span_locked(std::uintptr_t start, std::size_t size) noexcept;
  void remove_span_locked(ArenaTag* span) noexcept;
  [[nodiscard]] static bool has_tags_locked() noexcept;

  const char* name_ = nullptr;
  std::size_t quantum_ = 0;  ///< 0: not initialized
  Arena* source_ = nullptr;
  std::size_t minimum_import_ = 0;
  void* context_ = nullptr;
  ArenaTag* spans_ = nullptr;
  std::size_t total_ = 0;
  std::size_t allocated_bytes_ = 0;
  std::size_t segments_ = 0;  ///< allocated
  std::size_t importers_ = 0;
  std::size_t failures_ = 0;
  std::size_t bad_frees_ = 0;
  ArenaTag* allocated_ = nullptr;  ///< trie of the allocated segments by start
  ArenaTag* sizes_ = nullptr;      ///< trie of the free ones by size
  [[no_unique_address]] Traceable traceable_;
};

}  // namespace qm
