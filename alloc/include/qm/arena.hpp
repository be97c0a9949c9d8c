#pragma once
/// Arenas: ranges of integers - addresses, identifiers, interrupt numbers - handed out and taken back without ever
/// touching what they name. Bonwick and Adams, "Magazines and Vmem", USENIX 2001.
///
///     | span                                        | | span imported from the source            |
///     [ allocated ][ free      ][ allocated ][ free ] [ free                    ][ allocated     ]
///       tag          tag          tag          tag      tag                        tag             plus one tag a span
///
///     allocate()                     a quantum cache, if the size has one; one hold of the lock: find, split
///       import()                       a span from the source
///       allocate_slow()                reclaim
///     free()                         a quantum cache, or: find by start, merge with both neighbours; an empty span may go
///
/// What a program does not ask for is not linked: quantum caches and import functions of one's own with the first arena
/// that is configured to have them; next fit with the first call that names it; constraints with the first call of
/// allocate_constrained(); the address index with either of these.
///
/// Invariants
/// - A1 Segments of a span tile it; no two neighbours are both free; segments of two spans never merge.
/// - A2 Every start and size of a segment is a multiple of the quantum; no segment starts at 0.
/// - A3 A tag is in the address order, a ring through `ends_`, and: free - in the size index and, where it starts below
///      `indexed_below_`, in the address index; allocated - in the allocated index, unless boundary tags lie there;
///      span - in the span index.
/// - A4 An operation has the tags it may need before it changes anything, so it cannot fail in the middle.
/// - A5 No lock is held while the source's functions run, the arena's own included.
/// - A6 At most one imported span is empty; it waits in `empty_span_` for the next request. One far larger than an
///      import mostly is goes back at once.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/arena_index.hpp>
#include <qm/arena_types.hpp>
#include <qm/effort.hpp>
#include <qm/lock.hpp>
#include <qm/registry.hpp>
#include <qm/status.hpp>
#include <qm/traceable.hpp>

namespace qm {

class ArenaWalk;
struct BlockHeader;

/// Caches that serve an arena's small multiples of the quantum, named `<arena>_<size>`: implemented over class Cache,
/// which is built on arenas, and linked with the first arena that is configured to have them.
namespace quantum_caches {
struct Calls {
  /// Makes the caches for sizes quantum, 2 * quantum, ... quantum_cache_max(). The arena has its name and range.
  /// @returns kOk, or a reason; destroy() ends those that exist then.
  Status (*create)(Arena& arena) noexcept;
  /// @returns kBusy, and nothing has changed, if an object of any of them is out; else destroys all.
  Status (*destroy)(Arena& arena) noexcept;
  /// Arena::allocate() of a size that they serve.
  std::uintptr_t (*allocate)(Arena& arena, std::size_t size, const CallSite* site, Effort effort) noexcept;
  /// @param[in] size a multiple of the quantum, at most quantum_cache_max().
  /// @returns as Arena::free().
  Status (*free)(Arena& arena, std::uintptr_t start, std::size_t size) noexcept;
};
extern const Calls calls;
}  // namespace quantum_caches

class Arena : public Traceable {
 public:
  static constexpr RegistryKind kRegistryKind = RegistryKind::kArena;
  /// Most tags that an arena keeps at hand; they come from the pool and go back to it in chains of half as many.
  static constexpr unsigned kSpares = 8;

  [[gnu::noinline]] constexpr Arena() noexcept : Traceable(kRegistryKind) {}

  /// Makes the arena, in the caller's storage.
  /// @returns kOk; kInvalid (name, quantum 0, a size without a whole quantum, a source and a range at once, import
  ///          functions without a source, a quantum-cache size that is no multiple of the quantum or more than
  ///          kMostQuantumCaches times it, or not 0 before qm::initialize()); kDuplicate; kBusy
  ///          if it is one already; kNoMemory (tags, caches). Unless kOk, nothing is kept.
  /// Context: the source and the storage outlive the arena.
  [[gnu::always_inline]] Status initialize(const ArenaConfig& config) noexcept {
    return initialize(config, config.quantum_cache_max != 0 ? &quantum_caches::calls : nullptr,
                      !is_power_of_two(config.quantum) ? &find_by_congruence
                      : config.import != nullptr       ? &import_by_function
                                                       : nullptr);
  }

  /// Gives every span and tag back and leaves the storage to the caller.
  /// @returns kBusy, and nothing has changed, while a segment is allocated, somebody imports from it, or a
  ///          RegistryCursor stands on it; kInvalid if initialize() has not made it an arena, or it was destroyed.
  /// Complexity: O(spans), in bounded steps. Context: nobody else uses the arena any more; of one that was traced
  /// hal::may_wait(), since a trace command may be under way.
  Status destroy() noexcept;

  /// Adds [start, start + size), less partial quanta at both ends and the value 0.
  /// @returns kInvalid if no quantum is left or the end does not fit a word; kOverlap with what it has; kNoMemory
  ///          (tags).
  /// Complexity: O(log spans).
  Status add(std::uintptr_t start, std::size_t size) noexcept;

  /// Takes @p size, rounded up to the quantum.
  /// @param[in] site   who asks; kept in the segment's tag.
  /// @param[in] effort what it may do if neither the arena nor its source has it. Import functions pass Effort::kQuiet
  ///                   to their source: the outermost allocation does what is to be done, for all.
  /// @returns the start; 0 for a size of 0, one that cannot be rounded, and if there is none whatever @p effort allows:
  ///          counted in stats().failures.
  /// Complexity: bounded by the word size for instant fit where the arena has it; O(log free segments) for next fit, of
  ///             which the first also enters all free segments into the address index, in bounded lock holds.
  /// Context: any, as far as the import function allows.
  /// What a fit needs is linked with the first call that names it.
  [[nodiscard, gnu::always_inline]] std::uintptr_t allocate(std::size_t size, Fit fit = Fit::kInstant,
                                                            const CallSite* site = nullptr,
                                                            Effort effort = Effort::kAuto) noexcept {
    if (fit == Fit::kNext) return allocate_next(size, site, effort);
    return allocate_as({.size = size, .site = site, .effort = effort, .fit = fit});
  }
  /// The same, as QM_ALLOC(arena.allocate, size, fit) calls it.
  [[nodiscard]] std::uintptr_t allocate_at(const CallSite* site, std::size_t size, Fit fit = Fit::kInstant) noexcept {
    return allocate(size, fit, site);
  }

  /// Of an arena of blocks: takes @p size bytes at a multiple of @p align, a power of two. @returns, Context: as allocate().
  /// Complexity: constant, and with an import that of the source; where neither has it, O(free blocks) in bounded lock holds.
  /// @param[in] kind below 32: what the block is for, as the heap counts it.
  [[nodiscard]] std::uintptr_t allocate_block(std::size_t size, std::size_t align, unsigned kind, const CallSite* site,
                                              Effort effort) noexcept;

  /// Gives back what allocate() returned.
  /// @param[in] size the size asked for, or that rounded up to the quantum.
  /// @returns kNotFound if nothing allocated starts at @p start; kMismatch for another size. Nothing is changed then.
  ///          What a quantum cache serves and keeps in a magazine counts as allocated: a second free of it is kNotFound
  ///          at once if it follows the first on the same hart, and else kOk, and found when it comes to its slab, as a
  ///          cache's (misuse.hpp).
  Status free(std::uintptr_t start, std::size_t size) noexcept;

  /// As free(), for a caller without the size. Segments served by a quantum cache are kNotFound here.
  Status free(std::uintptr_t start) noexcept;

  /// Takes @p size at a start that @p alignment allows: of a segment that has room for it wherever it begins, or the
  /// smallest that is large enough; where neither has, of an imported span; and then anywhere. Passes the quantum caches
  /// by; free it with free_constrained().
  /// @returns as allocate(): 0 only if no aligned range is free here nor in the sources, as far as these have no import
  ///          function of their own, which knows sizes only.
  /// Complexity: that of instant fit; where only a segment of another size will do, O(segments) in bounded lock holds.
  [[nodiscard]] std::uintptr_t allocate_aligned(std::size_t size, const Alignment& alignment,
                                                const CallSite* site = nullptr,
                                                Effort effort = Effort::kAuto) noexcept {
    return allocate_as({.size = size, .alignment = &alignment, .site = site, .effort = effort});
  }

  /// Takes a segment that meets @p constraint: with nothing asked for but an alignment, and not kNext, one of a segment
  /// that has room to spare, if there is one; else the lowest such (with kNext: the next above the last, or one of a
  /// segment with room to spare where the first 16 candidates will not do). Passes the quantum caches by; free it with
  /// free_constrained().
  /// @returns 0 only if no range in the arena would do, nor one that the source can supply, and its source, as far as
  ///          they have no import function of their own, which knows sizes only; and for a constraint that cannot be
  ///          met or is malformed.
  /// Complexity: that of instant fit where a segment has room to spare; else O(free segments large enough), in lock
  ///             holds of 16 candidates each, the first as that of next fit.
  [[nodiscard]] std::uintptr_t allocate_constrained(std::size_t size, const Constraint& constraint,
                                                    Fit fit = Fit::kInstant, const CallSite* site = nullptr,
                                                    Effort effort = Effort::kAuto) noexcept;
  [[nodiscard]] std::uintptr_t allocate_constrained_at(const CallSite* site, std::size_t size,
                                                       const Constraint& constraint, Fit fit = Fit::kInstant) noexcept {
    return allocate_constrained(size, constraint, fit, site);
  }
  Status free_constrained(std::uintptr_t start, std::size_t size) noexcept;

  /// Grows or shrinks an allocated segment without moving it. Not for sizes that quantum caches serve. Where its span
  /// ends too early for it to grow, the source makes the span longer, if it has room there and no import function.
  /// @returns kNotFound, kMismatch (@p old_size), kInvalid (@p new_size); kNoMemory if what follows is not free or too
  ///          small, or no tag is to be had. Unless kOk, nothing has changed.
  Status resize_in_place(std::uintptr_t start, std::size_t old_size, std::size_t new_size) noexcept;

  /// The site that the segment at @p start is charged to, nullptr for none.
  [[nodiscard]] const CallSite* site_of(std::uintptr_t start) noexcept;
  /// Charges the segment at @p start, of a charged arena, to another site. Build with call sites.
  void recharge(std::uintptr_t start, const CallSite* site) noexcept;

  /// @returns the size of the segment allocated at @p start; 0 if there is none.
  [[nodiscard]] std::size_t size_of(std::uintptr_t start) noexcept;
  /// @returns the trace handle of the segment allocated at @p start, nullptr if there is none; valid until it is freed.
  [[nodiscard]] std::uint32_t* handle(std::uintptr_t start) noexcept;
  /// Finds the segment that contains @p address. @returns kNotFound outside all spans.
  /// Complexity: O(allocated segments between two free ones) once the arena has an address index, before O(segments of
  ///             the span); in bounded lock holds.
  Status locate(std::uintptr_t address, Segment& segment) noexcept;

  /// Gives the empty span back to the source. @returns its size. Quantum caches are reaped by their own reap().
  /// The arena of all memory takes back what no slab has of its extents. @returns how much. Complexity: O(extents), a
  /// constant number of instructions a hold of the lock.
  std::size_t reap() noexcept;

  [[nodiscard]] ArenaStats stats() noexcept;
  /// Segments that users hold: all that are allocated but the slabs of the quantum caches.
  [[nodiscard]] std::size_t segments_held() noexcept;
  [[nodiscard]] std::size_t quantum() const noexcept { return quantum_; }
  /// Bytes of the header inside each segment; 0 with boundary tags, which lie elsewhere.
  [[nodiscard]] std::size_t header_bytes() const noexcept;
  /// The source; nullptr without one and for an arena that is its own.
  [[nodiscard]] Arena* source() const noexcept { return source_ == this ? nullptr : source_; }
  /// What all of it comes from: the source without a source, or this. Complexity: O(sources).
  [[nodiscard]] const Arena& root() const noexcept {
    const Arena* arena = this;
    while (arena->source() != nullptr) arena = arena->source();
    return *arena;
  }
  [[nodiscard]] std::size_t quantum_cache_max() const noexcept { return quantum_cache_max_; }
  [[nodiscard]] void* context() const noexcept { return context_; }
  /// Checks A1 to A3, A6, the indexes and the counts. Context: tests and the console; holds the lock for O(segments).
  [[nodiscard]] bool validate() noexcept;

  /// An arena or a cache other than a quantum cache begins, or ceases, to draw from this one: destroy() looks.
  void add_importer() noexcept { importers_.fetch_add(1, std::memory_order_relaxed); }
  void remove_importer() noexcept { importers_.fetch_sub(1, std::memory_order_relaxed); }
  [[nodiscard]] bool has_importers() const noexcept { return importers_.load(std::memory_order_relaxed) != 0; }

  // ---- for the quantum caches ---------------------------------------------------------------------------------------

  /// What quantum_caches::calls.create() keeps here.
  void* quantum_cache_state = nullptr;
  /// Slabs of the quantum caches; allocate() and free() do not see them.
  [[nodiscard]] std::uintptr_t allocate_slab(std::size_t size) noexcept;
  Status free_slab(std::uintptr_t start, std::size_t size) noexcept;
  /// What an allocation that has found nothing does, as far as its effort goes.
  /// @param[in] attempt allocates again. @returns what it returned last; 0 is counted as a failure.
  using Attempt = std::uintptr_t (*)(void* argument) noexcept;
  [[nodiscard]] std::uintptr_t pursue(std::size_t size, Effort effort, Attempt attempt, void* argument) noexcept;

 private:
  friend class ArenaWalk;
  friend class BoundaryTagPool;
  friend class Extents;
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
    const Alignment* alignment = nullptr;  ///< nullptr: any multiple of the quantum will do
    const CallSite* site = nullptr;
    Effort effort = Effort::kQuiet;
    Fit fit = Fit::kInstant;
    SegmentOwner owner = SegmentOwner::kUser;
    std::uint8_t kind = 0;  ///< of a block
    bool pursued = false;   ///< what can be done where there is none, the caller does

    /// Least room beside its size with which it fits wherever a segment begins.
    [[nodiscard]] std::size_t slack(std::size_t quantum) const noexcept;
    [[nodiscard]] std::uintptr_t start_in(const BoundaryTag& segment, std::size_t taken,
                                          std::size_t quantum) const noexcept;
  };
  using ImportCall = std::uintptr_t (*)(Arena& arena, const Request& request, std::size_t taken) noexcept;
  /// What keeps the address index: linked, and in `addresses_`, with the first request that is searched for by address.
  struct AddressCalls {
    void (*insert)(Arena& arena, BoundaryTag* tag) noexcept;
    void (*remove)(Arena& arena, BoundaryTag* tag) noexcept;
    void (*set_size)(Arena& arena, BoundaryTag* tag, std::uintptr_t start, std::size_t size) noexcept;
    BoundaryTag* (*floor)(const Arena& arena, std::uintptr_t address) noexcept;
    bool (*knows)(const Arena& arena, const BoundaryTag* tag) noexcept;
    bool (*validate)(const Arena& arena) noexcept;
  };
  static const AddressCalls address_calls;

  // What every arena has.
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

  // An arena of blocks. Weak are those that are called where the arena may have none: a program that has no heap is linked
  // without them. The public allocate_block() is not weak, and links them.
  [[gnu::weak]] std::uintptr_t allocate_block(const Request& request) noexcept;
  std::uintptr_t allocate_block_slow(const Request& request, bool noted, std::uintptr_t start) noexcept;
  [[nodiscard]] std::uintptr_t take_block(const Request& request, bool noted) noexcept;
  [[nodiscard]] std::uintptr_t take_block_anywhere(const Request& request, bool noted) noexcept;
  [[nodiscard]] std::uintptr_t enter_block_locked(BlockHeader& block, const Request& request, bool noted) noexcept;
  [[nodiscard]] bool import_blocks(std::size_t bytes) noexcept;
  [[nodiscard]] bool grow_blocks(std::size_t least, std::size_t mostly) noexcept;
  [[nodiscard]] bool add_blocks(std::size_t least, std::size_t mostly) noexcept;
  [[gnu::weak]] Status add_block_span(const SpanRange& range) noexcept;
  [[gnu::weak]] Status free_block(std::uintptr_t start, std::size_t size) noexcept;
  [[gnu::weak]] Status resize_block(std::uintptr_t start, std::size_t old_size, std::size_t size,
                                    std::size_t& former) noexcept;
  [[gnu::weak]] std::size_t reap_blocks() noexcept;
  std::size_t release_blocks(std::uintptr_t& from, std::size_t keep) noexcept;
  [[nodiscard, gnu::weak]] std::size_t idle_block_bytes_locked() noexcept;
  [[nodiscard]] BlockHeader* find_block_locked(std::uintptr_t start, const BoundaryTag*& span) noexcept;
  [[nodiscard, gnu::weak]] BlockHeader* find_block_locked(std::uintptr_t start) noexcept;
  void enter_end_locked(BoundaryTag& span, std::size_t more) noexcept;
  [[nodiscard]] std::uintptr_t allocate_bottom(std::size_t size) noexcept;
  bool free_within(std::uintptr_t start, std::uintptr_t low, std::uintptr_t high) noexcept;
  std::size_t join_behind(std::uintptr_t start, std::uintptr_t above) noexcept;
  [[nodiscard]] bool join_spans() noexcept;
  [[nodiscard]] bool join_span_locked(BoundaryTag& span) noexcept;
  [[nodiscard]] std::size_t release_hole() noexcept;
  [[nodiscard]] SpanRange hole_in_locked(const BlockHeader& block) noexcept;
  void move_walks_locked(const BlockHeader& block) noexcept;
  bool tell_damage(const BlockHeader* damaged) noexcept;
  [[nodiscard, gnu::weak]] bool validate_blocks_locked() noexcept;

  // What is asked for: resize_in_place(); call sites; next fit; constraints; import functions.
  Status resize_locked(std::uintptr_t start, std::size_t old_size, std::size_t size) noexcept;
  [[nodiscard]] BoundaryTag* growing_span_locked(std::uintptr_t start) noexcept;
  [[nodiscard]] BoundaryTag* last_of_locked(const BoundaryTag& span) noexcept;
  [[nodiscard]] bool grow_span(std::uintptr_t start, std::size_t more) noexcept;
  void recharge_locked(BoundaryTag* tag, std::size_t old_size) noexcept;
  void index_addresses() noexcept;
  [[nodiscard]] std::uintptr_t below() const noexcept { return indexed_below_.load(std::memory_order_relaxed); }
  static bool validate_addresses(const Arena& arena) noexcept;
  std::uintptr_t allocate_next(std::size_t size, const CallSite* site, Effort effort) noexcept;
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
  bool from_top_ = false;      ///< segments are taken from the end of what is free
  bool charged_ = false;       ///< a build with call sites: the sites in the tags are charged
  bool functions_in_c_ = false;
  unsigned spare_count_ = 0;
  std::size_t quantum_ = 1;
  std::size_t quantum_mask_ = 0;  ///< of a power of two one less than it; of another quantum all bits
  std::size_t quantum_cache_max_ = 0;
  std::size_t minimum_import_ = 0;
  Arena* source_ = nullptr;
  ImportFunction import_ = nullptr;
  ReleaseFunction release_ = nullptr;
  void* context_ = nullptr;
  const quantum_caches::Calls* quantum_caches_ = nullptr;  ///< nullptr: it has none
  /// nullptr: it has no import function of its own, and its quantum is a power of two.
  ImportCall import_with_ = nullptr;
  Blocks* blocks_ = nullptr;                 ///< nullptr: its segments have boundary tags
  const AddressCalls* addresses_ = nullptr;  ///< nullptr: nothing is in the address index
  ArenaWalk* walks_ = nullptr;               ///< walks under way: told when a tag goes
  BoundaryTag* spares_ = nullptr;            ///< through `next`
  BoundaryTag* empty_span_ = nullptr;
  BoundaryTag* tag_pages_ = nullptr;  ///< of the root: the segment of tags taken last; it grows downwards
  std::uintptr_t next_fit_ = 0;       ///< end of the last next-fit allocation
  /// What starts below is in the address index: nothing until the first request that is searched for by address.
  std::atomic<std::uintptr_t> indexed_below_{0};
  std::size_t slab_segments_ = 0;  ///< allocated segments that quantum caches own
  ArenaStats counts_;
  AllocatedIndex allocated_;
  AddressIndex free_;
  SpanIndex spans_;
  SizeIndex sizes_;
  /// Before the first tag and behind the last, in address order: a span above all others.
  BoundaryTag ends_{};
};

/// Walks over an arena's spans and segments in address order, while others use it. One short lock hold a step.
/// What is allocated from the first step to the last is shown exactly once; free space as it is found.
class ArenaWalk {
 public:
  explicit ArenaWalk(Arena& arena) noexcept;
  ~ArenaWalk();
  ArenaWalk(const ArenaWalk&) = delete;
  ArenaWalk& operator=(const ArenaWalk&) = delete;
  /// @returns false at the end.
  bool next(Segment& segment) noexcept;
  /// Goes on at the free segment or span at or below @p address. Complexity: O(log n).
  void seek(std::uintptr_t address) noexcept;
  /// Whether what next() showed last, or what it has become, keeps A1 to A3. Complexity: O(log n), one short lock hold.
  [[nodiscard]] bool is_sound() noexcept;

 private:
  friend class Arena;
  [[gnu::weak]] bool next_block(Segment& segment) noexcept;  ///< as Arena::free_block()
  Arena& arena_;
  ArenaWalk* next_walk_ = nullptr;
  BoundaryTag* current_;         ///< shown last, of blocks their span; the ends of the ring: before the first
  std::uintptr_t position_ = 0;  ///< end of what was shown
  bool is_sound_ = true;         ///< of a block: whether its header is
};

}  // namespace qm
