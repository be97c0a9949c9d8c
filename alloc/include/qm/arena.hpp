#pragma once
/// Arenas: ranges of integers (addresses, identifiers, interrupt numbers) that are allocated and freed. The arena never
/// accesses the memory that its ranges may name. Bonwick and Adams, "Magazines and Vmem", USENIX 2001.
///
///     | span                                        | | span imported from the source            |
///     [ allocated ][ free      ][ allocated ][ free ] [ free                    ][ allocated     ]
///       tag          tag          tag          tag      tag                        tag             plus one tag a span
///
///     allocate()           a quantum cache, if the size has one; else under one hold of the lock: find, split
///       import()             a span from the source
///       allocate_slow()      reclaim
///     free()               a quantum cache, or: find by start, merge with both neighbours; may release an empty span
///
/// Optional features are linked when a program first uses them: quantum caches and user-supplied import functions with
/// the first arena that is configured to have them; next fit with the first call that names it; constraints with the
/// first call of allocate_constrained(); the address index with next fit or constraints.
///
/// Invariants
/// - A1 Segments of a span tile it; no two neighbours are both free; segments of two spans never merge.
/// - A2 Every start and size of a segment is a multiple of the quantum; no segment starts at 0.
/// - A3 Every tag is in the address order, a ring through `ends_`. In addition, the tag of a free segment is in the
///      size index and, if the segment starts below `indexed_below_`, in the address index; the tag of an allocated
///      segment is in the allocated index, unless the segment holds boundary tags; the tag of a span is in the span
///      index.
/// - A4 An operation acquires all tags that it may need before it changes anything, so it cannot fail halfway.
/// - A5 No lock is held while functions of the source run, not even the arena's own.
/// - A6 At most one imported span is empty; it waits in `empty_span_` for the next request. An empty span far larger
///      than a usual import is released at once.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/detail/arena_index.hpp>
#include <qm/detail/arena_types.hpp>
#include <qm/wait_policy.hpp>
#include <qm/detail/lock.hpp>
#include <qm/registry.hpp>
#include <qm/status.hpp>
#include <qm/detail/traceable.hpp>

namespace qm {

class ArenaWalk;
struct BlockHeader;
namespace scan {
class Scanner;
}

/// Caches that serve an arena's small multiples of the quantum, named `<arena>_<size>`. They are implemented with class
/// Cache, which itself uses arenas, and are linked with the first arena that is configured to have them.
namespace quantum_caches {
struct Calls {
  /// Creates the caches for sizes quantum, 2 * quantum, ... quantum_cache_max(). The arena has its name and range.
  /// @returns kOk, or the reason; then destroy() destroys the caches that exist.
  Status (*create)(Arena& arena) noexcept;
  /// @returns kBusy, and nothing has changed, if an object of any of the caches is in use; else destroys all.
  Status (*destroy)(Arena& arena) noexcept;
  /// As Arena::allocate(), for a size that the caches serve.
  std::uintptr_t (*allocate)(Arena& arena, std::size_t size, const CallSite* site, WaitPolicy wait_policy) noexcept;
  /// @param[in] size a multiple of the quantum, at most quantum_cache_max().
  /// @returns as Arena::free().
  Status (*free)(Arena& arena, std::uintptr_t start, std::size_t size) noexcept;
};
extern const Calls calls;
}  // namespace quantum_caches

class Arena : public Traceable {
 public:
  static constexpr RegistryKind kRegistryKind = RegistryKind::kArena;
  /// Most spare tags of an arena; they come from the pool and return to it in chains of half as many.
  static constexpr unsigned kSpares = 8;

  [[gnu::noinline]] constexpr Arena() noexcept : Traceable(kRegistryKind) {}

  /// Initializes the arena in the caller's storage.
  /// @returns kOk; kInvalid (name, quantum 0, a size without a whole quantum, a source and a range at once, import
  ///          functions without a source, a quantum-cache size that is no multiple of the quantum or more than
  ///          kMostQuantumCaches times it, or not 0 before qm::initialize()); kDuplicate; kBusy if the storage already
  ///          holds an arena; kNoMemory (tags, caches). Unless kOk, the arena keeps nothing.
  /// Context: the source and the storage outlive the arena.
  [[gnu::always_inline]] Status initialize(const ArenaConfig& config) noexcept {
    return initialize(config, config.quantum_cache_max != 0 ? &quantum_caches::calls : nullptr,
                      !is_power_of_two(config.quantum) ? &find_by_congruence
                      : config.import != nullptr       ? &import_by_function
                                                       : nullptr);
  }

  /// Frees every span and tag; the storage belongs to the caller again.
  /// @returns kBusy, and nothing has changed, while a segment is allocated, an arena or a cache imports from this one,
  ///          or a RegistryCursor stands on it; kUnsafe, kTimedOut as Cache::destroy() of its quantum caches; kInvalid
  ///          if initialize() has not made it an arena, or it was destroyed.
  /// Complexity: O(spans), in bounded steps. Context: no other user of the arena; hal::may_wait() if the arena was
  ///             traced, since a trace command may be under way.
  Status destroy() noexcept;

  /// Adds [start, start + size), less partial quanta at both ends and the value 0.
  /// @returns kInvalid if no quantum is left or the end does not fit a word; kOverlap with a range of the arena;
  ///          kNoMemory (tags).
  /// Complexity: O(log spans).
  Status add(std::uintptr_t start, std::size_t size) noexcept;

  /// Allocates @p size, rounded up to the quantum.
  /// @param[in] site        the call site; kept in the segment's tag.
  /// @param[in] wait_policy what the allocation may do if neither the arena nor its source has the memory. An import
  ///                        function passes WaitPolicy::kQuiet to its source: the outermost allocation reclaims.
  /// @returns the start; 0 for a size of 0, for a size that cannot be rounded, and if there is no memory after all that
  ///          @p wait_policy allows: counted in stats().failures.
  /// Complexity: bounded by the word size for instant fit if the arena has the memory; O(log free segments) for next
  ///             fit, whose first call also enters all free segments into the address index, in bounded lock holds.
  /// Context: any that the import function allows.
  /// The code for a fit is linked with the first call that names it.
  [[nodiscard, gnu::always_inline]] std::uintptr_t allocate(std::size_t size, Fit fit = Fit::kInstant,
                                                            const CallSite* site = nullptr,
                                                            WaitPolicy wait_policy = WaitPolicy::kAuto) noexcept {
    if (fit == Fit::kNext) return allocate_next(size, site, wait_policy);
    return allocate_as({.size = size, .site = site, .wait_policy = wait_policy, .fit = fit});
  }
  /// The same, as QM_ALLOC(arena.allocate, size, fit) calls it.
  [[nodiscard]] std::uintptr_t allocate_at(const CallSite* site, std::size_t size, Fit fit = Fit::kInstant) noexcept {
    return allocate(size, fit, site);
  }

  /// In an arena of blocks: allocates @p size bytes at a multiple of @p align, a power of two. @returns, Context: as
  /// allocate().
  /// Complexity: constant, plus the source's cost if it imports; O(free blocks) in bounded lock holds if neither has
  ///             memory.
  /// @param[in] kind below 32: the purpose of the block, by which the heap counts it.
  [[nodiscard]] std::uintptr_t allocate_block(std::size_t size, std::size_t align, unsigned kind, const CallSite* site,
                                              WaitPolicy wait_policy) noexcept;
  /// Frees a block, as free(), but does not count a refused free: the heap asks the guards first whether the block is
  /// theirs. @param[in] size the size requested; SIZE_MAX: not checked.
  [[gnu::weak]] Status free_block(std::uintptr_t start, std::size_t size) noexcept;
  /// Counts a free that free_block() refused in stats(). Takes the arena's lock.
  void count_refused_free() noexcept;

  /// Frees a segment that allocate() returned.
  /// @param[in] size the size requested, or that size rounded up to the quantum.
  /// @returns kNotFound if no allocated segment starts at @p start; kMismatch for another size. Nothing has changed
  ///          then. A segment that lies idle in a magazine of a quantum cache counts as allocated: a second free of it
  ///          returns kNotFound if it directly follows the first on the same hart. Otherwise it returns kOk, and the
  ///          misuse is found when the segment comes to its slab, as for a cache's object (misuse.hpp).
  Status free(std::uintptr_t start, std::size_t size) noexcept;

  /// As free(), for a caller without the size. Segments served by a quantum cache are kNotFound here.
  Status free(std::uintptr_t start) noexcept;

  /// Allocates @p size at a start that @p alignment allows. It tries in turn: a free segment with room for the size
  /// wherever the segment begins, or the smallest one that is large enough; an imported span; any free segment.
  /// Bypasses the quantum caches; free it with free_constrained().
  /// @returns as allocate(): 0 only if no aligned range is free in the arena or in its sources. A source with its own
  ///          import function is not searched for alignment, since that function knows sizes only.
  /// Complexity: that of instant fit; O(segments) in bounded lock holds if only a segment of another size will do.
  [[nodiscard]] std::uintptr_t allocate_aligned(std::size_t size, const Alignment& alignment,
                                                const CallSite* site = nullptr,
                                                WaitPolicy wait_policy = WaitPolicy::kAuto) noexcept {
    return allocate_as({.size = size, .alignment = &alignment, .site = site, .wait_policy = wait_policy});
  }

  /// Allocates a segment that meets @p constraint. If the constraint is only an alignment and @p fit is not kNext, it
  /// uses a segment that has room to spare, if there is one; else the lowest start that meets the constraint. With
  /// kNext it uses the next start above the last allocation, or a segment with room to spare if the first 16 candidates
  /// do not meet the constraint. Bypasses the quantum caches; free it with free_constrained().
  /// @returns 0 only if the constraint is malformed or cannot be met, or if no range meets it in the arena or among
  ///          those that its sources can supply. A source with its own import function is not searched for a
  ///          constraint, since that function knows sizes only.
  /// Complexity: that of instant fit if a segment has room to spare; else O(free segments large enough), in lock holds
  ///             of 16 candidates each, and the first call as that of next fit.
  [[nodiscard]] std::uintptr_t allocate_constrained(std::size_t size, const Constraint& constraint,
                                                    Fit fit = Fit::kInstant, const CallSite* site = nullptr,
                                                    WaitPolicy wait_policy = WaitPolicy::kAuto) noexcept;
  [[nodiscard]] std::uintptr_t allocate_constrained_at(const CallSite* site, std::size_t size,
                                                       const Constraint& constraint, Fit fit = Fit::kInstant) noexcept {
    return allocate_constrained(size, constraint, fit, site);
  }
  Status free_constrained(std::uintptr_t start, std::size_t size) noexcept;

  /// Grows or shrinks an allocated segment without moving it. Not for sizes that quantum caches serve. If the segment
  /// must grow beyond the end of its span, the source extends the span, if the source has the range free and no import
  /// function is set.
  /// @returns kNotFound, kMismatch (@p old_size), kInvalid (@p new_size); kNoMemory if the range behind the segment is
  ///          not free or too small, or no tag is available. Unless kOk, nothing has changed.
  Status resize_in_place(std::uintptr_t start, std::size_t old_size, std::size_t new_size) noexcept;

  /// The call site to which the segment at @p start is charged, nullptr if it is charged to none.
  [[nodiscard]] const CallSite* site_of(std::uintptr_t start) noexcept;
  /// Charges the segment at @p start, of a charged arena, to another site. Build with call sites.
  void recharge(std::uintptr_t start, const CallSite* site) noexcept;

  /// @returns the size of the segment allocated at @p start; 0 if there is none.
  [[nodiscard]] std::size_t size_of(std::uintptr_t start) noexcept;
  /// @returns the trace handle of the segment allocated at @p start, nullptr if there is none; valid until it is freed.
  [[nodiscard]] std::uint32_t* handle(std::uintptr_t start) noexcept;
  /// Finds the segment that contains @p address. @returns kNotFound if no span contains it.
  /// Complexity: O(allocated segments between two free ones) if the arena has an address index, else O(segments of the
  ///             span); in bounded lock holds.
  Status locate(std::uintptr_t address, Segment& segment) noexcept;

  /// Gives idle memory back to the source: the empty span; the heap's arena, whole free pages; base_arena() takes back
  /// slab pages that no slab uses. Does not reap quantum caches; they have their own reap(). @returns the bytes.
  /// Complexity: O(spans) for the heap's arena, O(slabs' extents) for base_arena(), constant for each hold of the lock.
  std::size_t reap() noexcept;

  [[nodiscard]] ArenaStats stats() noexcept;
  /// Segments that users hold: all allocated ones except the slabs of the quantum caches.
  [[nodiscard]] std::size_t segments_held() noexcept;
  [[nodiscard]] std::size_t quantum() const noexcept { return quantum_; }
  /// Bytes of the header inside each segment; 0 with boundary tags, which lie outside.
  [[nodiscard]] std::size_t header_bytes() const noexcept;
  /// The source; nullptr if the arena has none or is its own source.
  [[nodiscard]] Arena* source() const noexcept { return source_ == this ? nullptr : source_; }
  /// The last arena in the chain of sources, this one if it has no source. Complexity: O(sources).
  [[nodiscard]] const Arena& root() const noexcept {
    const Arena* arena = this;
    while (arena->source() != nullptr) arena = arena->source();
    return *arena;
  }
  [[nodiscard]] std::size_t quantum_cache_max() const noexcept { return quantum_cache_max_; }
  [[nodiscard]] void* context() const noexcept { return context_; }
  /// Checks A1 to A3, A6, the indexes and the counts. Context: tests and the console; holds the lock for O(segments).
  [[nodiscard]] bool validate() noexcept;

  /// Called when an arena or a cache other than a quantum cache starts, or stops, importing from this one; destroy()
  /// checks the count.
  void add_importer() noexcept { importers_.fetch_add(1, std::memory_order_relaxed); }
  void remove_importer() noexcept { importers_.fetch_sub(1, std::memory_order_relaxed); }
  [[nodiscard]] bool has_importers() const noexcept { return importers_.load(std::memory_order_relaxed) != 0; }

  // ---- for the quantum caches ---------------------------------------------------------------------------------------

  /// State of the quantum caches; set by quantum_caches::calls.create().
  void* quantum_cache_state = nullptr;
  /// Allocate and free slabs of the quantum caches. They bypass the quantum caches.
  [[nodiscard]] std::uintptr_t allocate_slab(std::size_t size) noexcept;
  Status free_slab(std::uintptr_t start, std::size_t size) noexcept;
  /// Reclaims for an allocation that found no memory, and retries, as its @p wait_policy allows.
  /// @param[in] attempt retries the allocation. @returns the result of the last attempt; 0 is counted as a failure.
  using Attempt = std::uintptr_t (*)(void* argument) noexcept;
  [[nodiscard]] std::uintptr_t reclaim_and_retry(std::size_t size, WaitPolicy wait_policy, Attempt attempt,
                                                 void* argument) noexcept;

 private:
  friend class ArenaWalk;
  friend class BoundaryTagPool;
  friend class Extents;
  friend class scan::Scanner;
  struct Grain;
  struct Congruence;
  struct Place;
  struct SpanRange {
    std::uintptr_t start = 0;
    std::size_t size = 0;
    SpanOrigin origin = SpanOrigin::kAdded;
    [[nodiscard]] bool imported() const noexcept { return origin != SpanOrigin::kAdded; }
  };
  /// One allocation.
  struct Request {
    std::size_t size = 0;                  ///< as asked for, or rounded to a multiple of the quantum
    const Alignment* alignment = nullptr;  ///< nullptr: any multiple of the quantum
    const CallSite* site = nullptr;
    WaitPolicy wait_policy = WaitPolicy::kQuiet;
    Fit fit = Fit::kInstant;
    SegmentOwner owner = SegmentOwner::kUser;
    std::uint8_t kind = 0;   ///< purpose of a block
    bool reclaimed = false;  ///< the caller reclaims if there is no memory; this request does not

    [[nodiscard]] std::size_t align() const noexcept { return alignment != nullptr ? alignment->align : 1; }
    /// Least room beyond its size with which the request fits a segment, wherever the segment begins.
    [[nodiscard]] std::size_t slack(std::size_t quantum) const noexcept;
    [[nodiscard]] std::uintptr_t start_in(const BoundaryTag& segment, std::size_t taken,
                                          std::size_t quantum) const noexcept;
  };
  using ImportCall = std::uintptr_t (*)(Arena& arena, const Request& request, std::size_t taken) noexcept;
  /// Maintains the address index: linked, and set in `addresses_`, with the first request that is searched for by
  /// address.
  struct AddressCalls {
    void (*insert)(Arena& arena, BoundaryTag* tag) noexcept;
    void (*remove)(Arena& arena, BoundaryTag* tag) noexcept;
    void (*set_size)(Arena& arena, BoundaryTag* tag, std::uintptr_t start, std::size_t size) noexcept;
    BoundaryTag* (*floor)(const Arena& arena, std::uintptr_t address) noexcept;
    bool (*knows)(const Arena& arena, const BoundaryTag* tag) noexcept;
    bool (*validate)(const Arena& arena) noexcept;
  };
  static const AddressCalls address_calls;

  // All arenas.
  Status initialize(const ArenaConfig& config, const quantum_caches::Calls* caches, ImportCall import_with) noexcept;
  std::uintptr_t allocate_as(const Request& request) noexcept;
  std::uintptr_t allocate_slow(const Request& request) noexcept;
  [[nodiscard]] std::uintptr_t take(const Request& request, std::size_t size) noexcept;
  [[nodiscard]] std::uintptr_t take_anywhere(const Request& request, std::size_t size) noexcept;
  [[nodiscard]] std::uintptr_t import(const Request& request, std::size_t taken) noexcept;
  [[nodiscard]] std::uintptr_t import_around(const Request& request, std::size_t taken) noexcept;
  [[nodiscard]] std::uintptr_t enter_span(const Request& request, std::size_t taken, const SpanRange& range) noexcept;
  void release_span(const SpanRange& range) noexcept;
  [[nodiscard]] bool may_ever_have(std::size_t size) noexcept;
  Status free_segment(std::uintptr_t start, std::size_t size, SegmentOwner owner) noexcept;
  [[nodiscard]] bool traced() const noexcept { return state_.load(std::memory_order_relaxed) != 0; }
  void count_failure() noexcept;
  Status free_to_cache(std::uintptr_t start, std::size_t size) noexcept;
  Status free_counted_block(std::uintptr_t start, std::size_t size) noexcept;
  [[nodiscard]] bool whole_quanta(std::uintptr_t start, std::size_t size, SpanRange& range) const noexcept;
  void clear() noexcept;

  [[nodiscard]] bool reserve_tags_locked(unsigned count) noexcept;
  [[nodiscard]] bool take_tags_locked(unsigned count) noexcept;
  [[nodiscard]] bool take_own_tags_locked(unsigned count) noexcept;
  void give_spares_locked() noexcept;
  template <class Action>
  bool with_pool_locked(const Action& action) noexcept;
  [[nodiscard]] bool add_tag_page_locked() noexcept;
  [[nodiscard]] std::size_t rounded(std::size_t size) const noexcept;
  [[nodiscard]] BoundaryTag* take_spare_locked() noexcept;
  void keep_spare_locked(BoundaryTag* tag) noexcept;
  void drop_locked(BoundaryTag* tag) noexcept;
  void tell_walks_locked(const BoundaryTag* tag) noexcept;

  [[nodiscard]] BoundaryTag* find_allocated_locked(std::uintptr_t start) noexcept;
  void carve_locked(BoundaryTag* segment, std::uintptr_t start, std::size_t size, const Request& request) noexcept;
  void enter_allocated_locked(BoundaryTag* tag, const Request& request) noexcept;
  [[nodiscard]] BoundaryTag* merge_locked(BoundaryTag* tag) noexcept;
  BoundaryTag* insert_span_locked(const SpanRange& range) noexcept;
  BoundaryTag* link_span_locked(const SpanRange& range) noexcept;
  SpanRange unlink_span_locked(BoundaryTag* span) noexcept;
  SpanRange remove_span_locked(BoundaryTag* span) noexcept;
  [[nodiscard]] BoundaryTag* retire_span_locked(BoundaryTag* segment) noexcept;
  static void link_after(BoundaryTag* tag, BoundaryTag* before) noexcept;
  void add_free_locked(BoundaryTag* before, std::uintptr_t start, std::size_t size) noexcept;
  void insert_free_locked(BoundaryTag* tag) noexcept;
  void remove_free_locked(BoundaryTag* tag) noexcept;
  void set_size_locked(BoundaryTag* tag, std::uintptr_t start, std::size_t size) noexcept;
  void count_allocated_locked(std::size_t size) noexcept;
  [[nodiscard]] std::size_t segments_allocated() const noexcept {
    return static_cast<std::size_t>(counts_.allocations_ever - counts_.frees_ever);
  }

  // An arena of blocks. Functions that are called even if the arena may have no blocks are weak, so a program without a
  // heap is linked without them. The public allocate_block() is not weak, and links them.
  [[gnu::weak]] std::uintptr_t allocate_block(const Request& request) noexcept;
  std::uintptr_t allocate_block_slow(const Request& request, bool noted, std::uintptr_t start) noexcept;
  [[nodiscard]] std::uintptr_t take_block(const Request& request, bool noted) noexcept;
  [[nodiscard]] std::uintptr_t take_block_anywhere(const Request& request, bool noted) noexcept;
  [[nodiscard]] std::uintptr_t enter_block_locked(BlockHeader& block, const Request& request, bool noted) noexcept;
  [[nodiscard]] bool add_room(const Request* request, bool noted, std::size_t bytes, std::size_t mostly,
                              std::uintptr_t& start) noexcept;
  [[nodiscard]] std::uintptr_t take_end_locked(BlockHeader& last, const Request& request, bool noted) noexcept;
  [[nodiscard]] std::uintptr_t enter_span_locked(std::uintptr_t start, std::size_t size, const Request& request,
                                                 bool noted) noexcept;
  [[nodiscard]] bool link_block_span_locked(const SpanRange& range) noexcept;
  [[gnu::weak]] Status add_block_span(const SpanRange& range) noexcept;
  [[gnu::weak]] Status resize_block(std::uintptr_t start, std::size_t old_size, std::size_t size,
                                    std::size_t& former) noexcept;
  [[gnu::weak]] std::size_t reap_blocks() noexcept;
  std::size_t release_blocks(std::uintptr_t& from, std::size_t keep) noexcept;
  [[nodiscard, gnu::weak]] std::size_t idle_block_bytes_locked() noexcept;
  [[nodiscard]] BlockHeader* find_block_locked(std::uintptr_t start, const BoundaryTag*& span) noexcept;
  [[nodiscard, gnu::weak]] BlockHeader* find_block_locked(std::uintptr_t start) noexcept;
  BlockHeader* enter_end_locked(BoundaryTag& span, std::size_t more) noexcept;
  [[nodiscard]] std::uintptr_t extend_or_take(std::uintptr_t start, std::size_t more, std::size_t size,
                                              BoundaryTag** spare) noexcept;
  bool free_within(std::uintptr_t start, std::uintptr_t low, std::uintptr_t high) noexcept;
  std::size_t join_behind(std::uintptr_t start, std::uintptr_t above) noexcept;
  [[nodiscard]] bool join_spans() noexcept;
  [[nodiscard]] bool join_span_locked(BoundaryTag& span) noexcept;
  [[nodiscard]] std::size_t release_hole() noexcept;
  [[nodiscard]] SpanRange hole_in_locked(const BlockHeader& block) noexcept;
  void move_walks_locked(const BlockHeader& block) noexcept;
  bool tell_damage(const BlockHeader* damaged) noexcept;
  [[nodiscard, gnu::weak]] bool validate_blocks_locked() noexcept;

  // Features linked on first use: resize_in_place(); call sites; next fit; constraints; import functions.
  Status resize_locked(std::uintptr_t start, std::size_t old_size, std::size_t size) noexcept;
  [[nodiscard]] BoundaryTag* growing_span_locked(std::uintptr_t start) noexcept;
  [[nodiscard]] BoundaryTag* last_of_locked(const BoundaryTag& span) noexcept;
  [[nodiscard]] bool grow_span(std::uintptr_t start, std::size_t more) noexcept;
  void recharge_locked(BoundaryTag* tag, std::size_t old_size) noexcept;
  void index_addresses() noexcept;
  [[nodiscard]] std::uintptr_t below() const noexcept { return indexed_below_.load(std::memory_order_relaxed); }
  static bool validate_addresses(const Arena& arena) noexcept;
  std::uintptr_t allocate_next(std::size_t size, const CallSite* site, WaitPolicy wait_policy) noexcept;
  std::uintptr_t take_next(std::size_t size, const CallSite* site) noexcept;
  [[nodiscard]] Place find_next_locked(std::size_t size) noexcept;
  SpanRange allocate_congruent(const Congruence& request) noexcept;
  [[nodiscard]] SpanRange find_congruent(const Congruence& request) noexcept;
  [[nodiscard]] Place find_roomy_locked(const Congruence& request) noexcept;
  [[nodiscard]] SpanRange take_roomy(const Congruence& request) noexcept;
  [[nodiscard]] SpanRange search(const Congruence& request, std::uintptr_t from) noexcept;
  [[nodiscard]] bool scan_locked(const Congruence& request, std::uintptr_t& from, Place& place) const noexcept;
  [[nodiscard]] bool try_segment(const Congruence& request, BoundaryTag* segment, std::uintptr_t& from,
                                 Place& place) const noexcept;
  void around(const Congruence& request, Place& place) const noexcept;
  BoundaryTag& carve_locked(const Place& place, const Request& request) noexcept;
  [[nodiscard]] std::uintptr_t call_import(std::size_t size, Fit fit) noexcept;
  void call_release(std::uintptr_t start, std::size_t size) noexcept;
  [[nodiscard]] bool fits_anywhere(const Congruence& request) const noexcept;
  [[nodiscard]] std::size_t import_size(const Congruence& request, unsigned padding) const noexcept;
  static std::uintptr_t import_by_function(Arena& arena, const Request& request, std::size_t taken) noexcept;
  static std::uintptr_t find_by_congruence(Arena& arena, const Request& request, std::size_t taken) noexcept;
  [[nodiscard]] bool make_congruence(const Request& request, std::size_t taken, Congruence& congruence) const noexcept;
  [[nodiscard]] SpanRange import_congruent(const Congruence& request) noexcept;
  [[nodiscard]] SpanRange import_once(const Congruence& request) noexcept;
  [[nodiscard]] SpanRange carve_padded(const Congruence& request) noexcept;
  [[nodiscard]] bool carve_from_function(const Congruence& request, std::size_t size, SpanRange& taken) noexcept;
  [[nodiscard]] SpanRange carve_around(const Congruence& request) noexcept;
  [[nodiscard]] bool find_place(const Congruence& request, const SpanRange& range, Place& place) const noexcept;
  [[nodiscard]] SpanRange enter_and_carve_locked(const Congruence& request, const SpanRange& range,
                                                 Place place) noexcept;

  Lock lock_;
  std::atomic<std::uint32_t> importers_{0};
  bool refills_tags_ = false;  ///< the root: refills the tag pool
  bool from_top_ = false;      ///< allocates from the end of a free segment
  bool charged_ = false;       ///< a build with call sites: the sites in the tags are charged
  bool functions_in_c_ = false;
  unsigned spare_count_ = 0;
  std::size_t quantum_ = 1;
  std::size_t quantum_mask_ = 0;  ///< quantum - 1 if the quantum is a power of two; else all bits set
  std::size_t quantum_cache_max_ = 0;
  std::size_t minimum_import_ = 0;
  Arena* source_ = nullptr;
  ImportFunction import_ = nullptr;
  ReleaseFunction release_ = nullptr;
  void* context_ = nullptr;
  const quantum_caches::Calls* quantum_caches_ = nullptr;  ///< nullptr: no quantum caches
  /// nullptr: the arena has no import function of its own, and its quantum is a power of two.
  ImportCall import_with_ = nullptr;
  Blocks* blocks_ = nullptr;                 ///< nullptr: its segments have boundary tags
  const AddressCalls* addresses_ = nullptr;  ///< nullptr: the address index is empty
  ArenaWalk* walks_ = nullptr;               ///< walks under way: notified when a tag is removed
  BoundaryTag* spares_ = nullptr;            ///< linked through `next`
  BoundaryTag* empty_span_ = nullptr;
  BoundaryTag* tag_pages_ = nullptr;  ///< root only: the newest segment of tags; it grows downwards
  std::uintptr_t next_fit_ = 0;       ///< end of the last next-fit allocation
  /// Free segments that start below this address are in the address index; 0 until the first request that is searched
  /// for by address.
  std::atomic<std::uintptr_t> indexed_below_{0};
  std::size_t slab_segments_ = 0;  ///< allocated segments that quantum caches own
  ArenaStats counts_;
  AllocatedIndex allocated_;
  AddressIndex free_;
  SpanIndex spans_;
  SizeIndex sizes_;
  /// Stands before the first tag and behind the last one, in address order: a span above all others.
  BoundaryTag ends_{};
};

/// Walks over an arena's spans and segments in address order, while other harts use the arena. Each step is one short
/// hold of the lock. A segment that is allocated from the first step to the last is shown exactly once; free segments
/// are shown as the walk finds them.
class ArenaWalk {
 public:
  explicit ArenaWalk(Arena& arena) noexcept;
  ~ArenaWalk();
  ArenaWalk(const ArenaWalk&) = delete;
  ArenaWalk& operator=(const ArenaWalk&) = delete;
  /// @returns false at the end.
  bool next(Segment& segment) noexcept;
  /// Continues at the free segment or span at or below @p address. Complexity: O(log n).
  void seek(std::uintptr_t address) noexcept;
  /// Whether the segment that next() showed last, or its successor after a merge, satisfies A1 to A3. Complexity: O(log
  /// n), one short lock hold.
  [[nodiscard]] bool is_sound() noexcept;

 private:
  friend class Arena;
  [[gnu::weak]] bool next_block(Segment& segment) noexcept;  ///< weak for the reason that Arena::free_block() is
  Arena& arena_;
  ArenaWalk* next_walk_ = nullptr;
  BoundaryTag* current_;         ///< shown last; for a block its span; the ends of the ring: before the first
  std::uintptr_t position_ = 0;  ///< end of the last shown segment
  bool is_sound_ = true;         ///< for a block: whether its header is sound
};

}  // namespace qm
