#pragma once
/// Caches: a supply of equal-sized objects, fast on every hart, with books that can be opened.
///
///     allocate()                         fast path: a restartable section, no lock, no mask, no atomic
///       allocate_from_previous()         empty, and nothing else to think of: the previous magazine,
///       allocate_one()                   the depot and the slabs have nothing, or there is upkeep to do,
///       allocate_by_exchange()           the depot's, or from the slabs,
///       TracedPath::allocate()           recording, and all is there that this takes
///       allocate_slow()                  closed, or empty:
///         Cell::take()                     the previous magazine
///         Depot::exchange_for_full()       another hart's surplus
///         refill() -> SlabLayer::take()    a few objects, constructed; from a new slab if need be
///         refill_at_limit()                idle objects of this cache, if its limit is what stands in the way
///         reclaim()                        idle memory of every hart and cache, if the caller may wait
///         Reserve::take()                  what was promised, if the caller may not wait
///         Observer::record()               if the state word says so
///     free()
///       TracedPath::free()               watching, and all is there that this takes
///       free_slow()                      closed, watching, or full:
///         free_to_previous()               full, and nothing else to think of: the previous magazine,
///         free_by_exchange()               full against empty, or some of the rounds to their slabs
///         Observer::forget()               before the object is released
///         Reserve::put()                   if the reserve was drawn upon
///         Cell::put(), Depot               the previous magazine; full against empty
///         SlabLayer::put()                 when no magazine is to be had
///
///     | Cache | Cell of hart 0 | Cell of hart 1 | ... |        one allocation of kmem_cache
///
/// Invariants
/// - C1 "Acquire outside, install inside": what may be long (depot, slab, arena, constructor, reclaim) happens with
///      interrupts as the caller had them and without the cell; its result enters the cell in a masked section that
///      reads everything again. An interrupt in between finds a valid cell.
/// - C2 A hart sets its bit in `magazine_harts_` before it exposes a magazine, then reads the state word again. Whoever
///      changes the word reads the bits afterwards. So a round over the bits misses no open cell.
/// - C3 Objects in magazines, the depot and the reserve are constructed; objects in slabs are raw.
/// - C4 What users hold = objects out of the slab layer - rounds in magazines and in the reserve. Exact while no
///      operation is under way.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <qm/config.h>
#include <qm/cache_extra.hpp>
#include <qm/call_site.hpp>
#include <qm/call_sites.hpp>
#include <qm/effort.hpp>
#include <qm/magazine.hpp>
#include <qm/misuse.hpp>
#include <qm/observer.hpp>
#include <qm/registry.hpp>
#include <qm/slab.hpp>
#include <qm/status.hpp>
#include <qm/traceable.hpp>

namespace qm {

class Arena;
class Cache;

namespace cache_flags {
inline constexpr std::uint32_t kNoTouch = 1;       ///< objects are not memory, or must not be written while free
inline constexpr std::uint32_t kNoTrace = 2;       ///< cannot be traced: the allocator's own
inline constexpr std::uint32_t kQuantumCache = 4;  ///< serves an arena; set by the arena
inline constexpr std::uint32_t kDirect = 8;        ///< no magazines: what magazines are made of
static_assert((kNoTouch | kNoTrace | kQuantumCache | kDirect) == 15, "the flags overlap");
}  // namespace cache_flags

struct CacheConfig {
  /// 1 to 31 characters of A-Z a-z 0-9 _ . - ; unique; kept, not copied: lives as long as the cache.
  const char* name = nullptr;
  std::size_t object_size = 0;  ///< bytes (or units of the source)
  std::size_t alignment = 0;    ///< power of two; 0: the largest that divides the size, from 8 to 16; no-touch: 1
  std::uint32_t flags = 0;      ///< cache_flags
  Arena* source = nullptr;      ///< nullptr: base_arena()
  Constructor constructor = nullptr;
  Destructor destructor = nullptr;
  void* context = nullptr;  ///< handed to the callbacks
  /// Rounds a magazine should have to begin with; 0: as suits the size (magazine.hpp).
  std::uint32_t magazine_rounds = 0;
  /// Set by InlineCache and the heap: where a hart has its pointer to its cell, from tp on.
  std::uint16_t cell_pointer = kNoCellPointer;
  std::uint8_t heap_class = 0;  ///< set by the heap for its classes: see SlabConfig
  std::size_t least_slab = 0;   ///< the same
  std::size_t limit = 0;        ///< most objects out of the slab layer; 0: none. See set_limit()
  LimitCallback limit_callback = nullptr;
};

/// Counts of objects. "Exact" holds while no operation on the cache is under way.
struct CacheStats {
  std::size_t object_size = 0;    ///< bytes of an object, alignment included
  std::size_t objects = 0;        ///< objects in all slabs
  std::size_t in_use = 0;         ///< users hold them; exact
  std::size_t in_magazines = 0;   ///< idle in harts' magazines; exact
  std::size_t in_depot = 0;       ///< idle in the depot's full magazines; exact
  std::size_t reserved = 0;       ///< held for allocations that must not fail; exact
  std::size_t in_slabs = 0;       ///< free in slabs; exact
  std::size_t high_water = 0;     ///< most objects ever out of the slab layer at once, idle ones included
  std::uint64_t allocations = 0;  ///< allocations ever, if `counted`
  bool counted = false;           ///< in a build with QM_COUNT
  std::size_t failures = 0;       ///< allocations that returned nullptr
  std::size_t misses = 0;         ///< slow paths for want of a round or of room
  std::size_t misuses = 0;        ///< see misuse.hpp: bad frees, damage, refused destroys
  std::size_t slabs = 0;
  std::size_t slab_bytes = 0;
  std::size_t depot_full = 0;  ///< magazines with rounds in the depot
  std::size_t depot_empty = 0;
  std::uint32_t magazine_rounds = 0;   ///< of magazines to come
  std::uint32_t magazine_changes = 0;  ///< how often that has changed
  std::size_t reserve = 0;             ///< objects the reserve should hold
  std::size_t limit = 0;               ///< most objects out of the slab layer at once; 0: none
};

}  // namespace qm

extern "C" {
/// The fast path and its slow halves. `_at` carries the call site, the bytes asked for (0: the object's size) and the
/// effort. In a build with call sites all of them charge, and their site is not null.
#if defined(QM_CALL_SITES)
void* qm_cache_allocate(qm::Cache* cache, const qm::CallSite* site) noexcept;
#else
void* qm_cache_allocate(qm::Cache* cache) noexcept;
#endif
void* qm_cache_allocate_at(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                           qm::Effort effort) noexcept;
void qm_cache_free(qm::Cache* cache, void* object) noexcept;
void* qm_cache_allocate_slow(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                             qm::Effort effort) noexcept;
void qm_cache_free_slow(qm::Cache* cache, void* object) noexcept;
/// The slow halves of what a TracedPath does not do.
void* qm_cache_allocate_other(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                              qm::Effort effort) noexcept;
void qm_cache_free_other(qm::Cache* cache, void* object) noexcept;
}

namespace qm {

namespace internal {
/// Makes the running hart's pointer at @p offset from its tp point at @p cell. Masked; supplied with the fast path.
void set_cell_pointer(std::uint16_t offset, Cell* cell) noexcept;
/// Where a hart has its pointer to its cell of the heap's class with @p tag, from its tp on.
[[nodiscard]] std::uint16_t heap_cell_pointer(std::uint8_t tag) noexcept;
/// Has the running hart know no cell of the heap's classes, and no leaf of the page map. Masked.
void reset_heap_pointers() noexcept;
}  // namespace internal

class alignas(Cell) Cache : public Traceable {
 public:
  static constexpr RegistryKind kRegistryKind = RegistryKind::kCache;

  /// Makes a cache, open for use on every hart.
  /// @param[out] why  if not null: kOk; kInvalid (name, size, alignment; before initialize()); kDuplicate; kNoMemory.
  /// @returns the cache; nullptr with a reason in @p why.
  /// Complexity: O(harts); touches no slab. Context: any in which kmem_cache may allocate.
  /// What no-touch caches need is linked with the first call whose flags may ask for one.
  [[nodiscard, gnu::always_inline]] static Cache* create(const CacheConfig& config, Status* why = nullptr) noexcept {
    return create(config, (config.flags & cache_flags::kNoTouch) != 0 ? &untouched_calls : nullptr, why);
  }

  /// Gives back everything the cache took, its magazines on every hart included.
  /// @returns kOk; kNotFound if it is no cache, or none any more; kBusy and nothing is freed while users hold objects or a report stands on the cache; kUnsafe outside
  ///          a context that may wait, unless no hart has magazines of it; kTimedOut if a hart does not answer: the
  ///          cache stays usable.
  /// Complexity: a round over the harts that have magazines of it, and O(slabs).
  static Status destroy(Cache* cache) noexcept;

  /// The half of destroy() that may refuse, for who destroys several at once: takes the cache out of everybody's sight
  /// and its idle objects into the slabs. @returns as destroy(); if not kOk, the cache is as usable as before.
  /// registry_show() undoes it.
  Status retire() noexcept;
  /// The other half, of a cache that is retired: cannot fail.
  static void end(Cache* cache) noexcept;

  /// Takes one object. Its contents are indeterminate unless the cache has a constructor.
  /// @returns the object, aligned as the cache was created with; nullptr iff the source cannot supply a slab even after
  ///          idle memory was reclaimed (where the context allows that), or construction failed; counted in stats().
  /// Complexity: O(1); a magazine hit takes no lock and masks nothing.
  /// Context:    any hart that attach_hart() has seen, any interrupt level; never blocks in a handler.
  [[nodiscard, gnu::always_inline]] void* allocate() noexcept {
#if defined(QM_CALL_SITES)
    return qm_cache_allocate(this, call_sites::untagged());
#else
    return qm_cache_allocate(this);
#endif
  }

  /// As allocate(), for a caller that knows more.
  /// @param[in] site      where in the source, or nullptr.
  /// @param[in] requested bytes the user asked for, for the books; 0: the object's size. More than that is refused: a
  ///                      failure, and Misuse::kTooLarge.
  [[nodiscard, gnu::always_inline]] void* allocate_at(const CallSite* site, std::size_t requested,
                                                      Effort effort = Effort::kAuto) noexcept {
    if (requested > object_size()) [[unlikely]]
      return refuse_size(requested);
    return allocate_fitting(site, requested, effort);
  }
  /// The same for @p requested bytes that an object has.
  [[nodiscard, gnu::always_inline]] void* allocate_fitting(const CallSite* site, std::size_t requested,
                                                           Effort effort) noexcept {
    return qm_cache_allocate_at(this, site_or_untagged(site), requested, effort);
  }
  [[nodiscard, gnu::always_inline]] void* allocate_at(const CallSite* site) noexcept {
#if defined(QM_CALL_SITES)
    return qm_cache_allocate(this, site_or_untagged(site));
#else
    return allocate_fitting(site, 0, Effort::kAuto);
#endif
  }
  /// The same without a site; the plain form of QM_ALLOC(cache->allocate, requested, effort).
  [[nodiscard, gnu::always_inline]] void* allocate(std::size_t requested, Effort effort = Effort::kAuto) noexcept {
    return allocate_at(nullptr, requested, effort);
  }

  /// Takes up to @p count objects at once, for little more than a move each where magazines have them.
  /// @param[out] objects room for @p count.
  /// @returns how many; fewer than @p count iff the next single allocation failed, which is counted.
  /// Complexity: O(count); interrupts are masked for kBulkChunk objects at a time. Context: as allocate().
  [[nodiscard]] std::size_t allocate_bulk(void** objects, std::size_t count, Effort effort = Effort::kAuto) noexcept {
    return allocate_bulk_at(nullptr, objects, count, effort);
  }
  [[nodiscard]] std::size_t allocate_bulk_at(const CallSite* site, void** objects, std::size_t count,
                                             Effort effort = Effort::kAuto) noexcept;

  /// Gives @p count objects back, as free() does each.
  /// Complexity, Context: as allocate_bulk().
  void free_bulk(void* const* objects, std::size_t count) noexcept;
  static constexpr std::size_t kBulkChunk = 16;

  /// Keeps @p objects objects ready, constructed, for allocations that may not wait: in an interrupt handler, with
  /// interrupts masked, with a lock held, or Effort::kAtomic. As many of those as it holds cannot fail, whatever
  /// happens to memory. It fills up again from frees that take the slow path, from later refills and in trim(); until
  /// then stats().reserved is below stats().reserve. Its objects count against the limit.
  /// @returns kOk; kNoMemory (memory, the limit, a constructor that failed); kRefused for a cache without magazines.
  ///          Unless kOk the reserve is as it was.
  /// Complexity: O(objects). Context: any; may reclaim where hal::may_ask_harts(). One call at a time for a cache.
  Status reserve(std::size_t objects) noexcept;

  /// Lets at most @p objects be out of the slab layer from now on: what users hold, magazines and the reserve. An
  /// allocation that meets the limit first uses what is idle: the depot's magazines, and where it may wait those of all
  /// harts; then it asks @p callback; then it fails. 0: no limit. A limit below what is out gives idle objects back,
  /// those in magazines where hal::may_ask_harts(); what users hold they keep, and it goes the usual way when they free
  /// it.
  /// @returns kOk; kNoMemory if there is none to keep a callback in: nothing has changed then.
  Status set_limit(std::size_t objects, LimitCallback callback = nullptr) noexcept;

  /// Gives an object back. Never fails; misuse that the slow path can see is reported and otherwise ignored.
  /// Complexity: O(1). Context: as allocate().
  [[gnu::always_inline]] void free(void* object) noexcept { qm_cache_free(this, object); }

  /// Bytes of an object, alignment included.
  [[nodiscard]] std::size_t object_size() const noexcept { return slabs_.object_size(); }
  /// Every object lies at a multiple of it.
  [[nodiscard]] std::size_t alignment() const noexcept { return slabs_.alignment(); }
  [[nodiscard]] std::uint32_t flags() const noexcept { return flags_; }
  /// Numbers of live caches are unique, 1 to 65535; a number is not used again soon.
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] Arena& source() const noexcept { return slabs_.source(); }
  /// What a slab takes of it, unless it is short.
  [[nodiscard]] std::size_t slab_bytes() const noexcept { return slabs_.slab_bytes(); }
  [[nodiscard]] CacheStats stats() noexcept;
  [[nodiscard]] SlabLayer& slabs() noexcept { return slabs_; }
  [[nodiscard]] const SlabLayer& slabs() const noexcept { return slabs_; }
  /// Where an address lies among the slabs. @returns false if in none of them. Context: any.
  bool locate(std::uintptr_t address, ObjectPlace& place) noexcept { return slabs_.locate(address, place); }
  /// Who has an object of this cache.
  enum class Place : std::uint8_t { kUser, kMagazine, kDepot, kReserve, kSlab, kUnknown };
  struct Whereabouts {
    Place place = Place::kUser;
    unsigned hart = 0;  ///< kMagazine: whose; kUnknown: who has not answered, or hal::RoundResult::kNobody
  };
  /// Complexity: a round over the harts that have magazines, O(rounds in depot and reserve) with their locks held.
  /// Context:    hal::may_ask_harts().
  [[nodiscard]] Whereabouts look_for(void* object) noexcept;
  /// Checks each hart's cell, on that hart, while others use the cache.
  /// @returns kMismatch if one breaks I1 to I6 or C2; kTimedOut if a hart does not answer. Context: hal::may_ask_harts().
  [[nodiscard]] Status verify_cells() noexcept;
  /// The site that @p object, which a user holds, is charged to; nullptr if it is charged to none. Build with call
  /// sites.
  [[nodiscard]] const CallSite* site_of(void* object) noexcept {
    return charge_.is_set() && slabs_.spans(object)
               ? call_sites::site_of(charge_.head(object).tag.load(std::memory_order_relaxed))
               : nullptr;
  }
  /// Charges an object that is about to reach its user, or that a user holds and that discharge() has been told of;
  /// nullptr passes through. Build with call sites; the functions that allocate do it.
  /// @param[in] requested bytes asked for; 0: the object's size.
  [[gnu::always_inline]] void* charge(void* object, const CallSite* site, std::size_t requested = 0) const noexcept {
    if (!charge_.is_set()) return object;  // the allocator's own: whoever causes it is no caller without a site
    return charge_.charge(object, site_or_untagged(site), requested);
  }
  /// Takes the charge back from what may be no object at all: then there is none, or what is free has lost it.
  [[gnu::always_inline]] void discharge(void* object) const noexcept {
    if (charge_.is_set() && slabs_.spans(object)) charge_.discharge(object);
  }
  /// Whether free objects are what their users or a constructor left: a checking build does not poison them.
  [[nodiscard]] bool keeps_contents() const noexcept {
    return has_constructor() || has_destructor() || (flags_ & cache_flags::kDirect) != 0;
  }
  /// Checks every invariant that can be checked from here; exact while no operation is under way.
  [[nodiscard]] bool validate() noexcept;

  /// Gives idle memory back to the source: the magazines of all harts (if the context allows the round:
  /// hal::may_ask_harts()), the depot's, and every empty slab.
  /// @returns bytes given back. Complexity: O(idle objects), in steps of one object. Context: any.
  std::size_t reap() noexcept;

  struct Returned {
    std::size_t objects = 0;  ///< from the depot into slabs
    std::size_t bytes = 0;    ///< of slabs, to the source
  };
  /// As reap(), but asks no hart: empties the depot and gives back every empty slab. Context: any.
  Returned give_back() noexcept;
  /// Ends an interval: gives back the magazines that lay unused in the depot for all of it, and the empty slabs of a
  /// cache that was quiet; takes smaller magazines for one that had grown them and is quiet; fills the reserve.
  /// @returns bytes given back. Complexity: O(objects given back), in steps of one object. Context: any.
  std::size_t trim() noexcept;

  // ---- for the books ------------------------------------------------------------------------------------------------

  /// Harts that have magazines.
  [[nodiscard]] hal::HartMask magazine_harts() const noexcept {
    return kMagazines ? magazine_harts_.load(std::memory_order_seq_cst) : 0;
  }
  /// Harts on which a change of the state word takes effect once they were asked: those that may have an open cell;
  /// without magazines, where an operation reads the word in its masked section, all but the only one.
  [[nodiscard]] hal::HartMask open_harts() const noexcept {
    if constexpr (kMagazines) return magazine_harts();
    return hal::kManyHarts ? hal::online_harts() : 0;
  }
  /// Shuts hart @p hart's cell and opens it as far as the state word allows. On that hart, masked.
  void close(unsigned hart) noexcept {
    if constexpr (kMagazines) cell(hart).close();
  }
  void expose(unsigned hart) noexcept;
  /// Gives hart @p hart's magazines to the depot; its cell stays closed until it is filled again. On that hart, masked.
  void detach_magazines(unsigned hart) noexcept;
  /// The object's trace handle; nullptr while its slab has no handles yet, or if it is no object of this cache.
  [[nodiscard]] std::uint32_t* handle(void* object) noexcept;
  /// Gives the object's slab @p handles (slabs().objects() zeroed words). @returns false if it has handles already.
  bool adopt_handles(void* object, std::uint32_t* handles) noexcept;

  /// Counts a misuse, adds what is known of the object's stacks and tells the handler. Context: any.
  void report(MisuseReport& report) noexcept;

  /// What a hart keeps of a cache, behind it.
  using HartPart = std::conditional_t<kMagazines, Cell, HartCounts>;
  /// Bytes of a cache with what so many harts keep of it.
  [[nodiscard]] static constexpr std::size_t bytes(unsigned harts) noexcept {
    return (sizeof(Cache) + harts * sizeof(HartPart) + alignof(Cache) - 1) & ~(alignof(Cache) - 1);
  }
  /// The cell of a hart. Build with magazines. The fast path finds it at sizeof(Cache) + hart * sizeof(Cell).
  [[nodiscard]] Cell& cell(unsigned hart) noexcept { return reinterpret_cast<Cell*>(this + 1)[hart]; }
  /// The running hart's. Masked.
  [[nodiscard]] Cell& own_cell() noexcept;
  [[nodiscard]] HartCounts& counts(unsigned hart) noexcept {
    if constexpr (kMagazines) return cell(hart).counts;
    return reinterpret_cast<HartCounts*>(this + 1)[hart];
  }
  /// The running hart's. Masked.
  [[nodiscard]] HartCounts& own_counts() noexcept {
    if constexpr (kMagazines) return own_cell().counts;
    return counts(hal::kManyHarts ? hal::Port::hart_index() : 0);
  }
  [[nodiscard]] bool has_magazines() const noexcept { return kMagazines && (flags_ & cache_flags::kDirect) == 0; }
  /// The cell that a section may use: its hart's, or while another stands for that hart shut_cell_, one before the
  /// first.
  [[nodiscard, gnu::always_inline]] Cell& cell_in(const hal::Section& section) noexcept {
    constexpr std::ptrdiff_t kBytes = sizeof(Cell) / hal::Section::kStep;
    const auto place = static_cast<std::uintptr_t>(section.place() * kBytes);
    return *reinterpret_cast<Cell*>(reinterpret_cast<std::uintptr_t>(this + 1) + place);
  }
  /// Objects that the reserve lacks: what is freed is for it.
  [[nodiscard]] std::uint32_t reserve_missing() const noexcept {
    const CacheExtra* extra = kMagazines ? this->extra() : nullptr;
    return extra != nullptr ? extra->reserve.missing() : 0;
  }
  [[nodiscard]] bool has_reserve() const noexcept {
    const CacheExtra* extra = kMagazines ? this->extra() : nullptr;
    return extra != nullptr && extra->reserve.promised() != 0;
  }
  /// Counts an allocation that no section counted. Masked.
  void count_allocation() noexcept {
    if constexpr (kCounted) own_counts().count_allocation();
  }

  /// An object of a cache without magazines, by the shortest way; and back. @returns nullptr if there is no memory:
  /// nothing is pursued. Context: as allocate().
  [[nodiscard]] void* allocate_direct() noexcept;
  void free_direct(void* object) noexcept;

  /// The fast path of a build without magazines: an object from a slab that there is, and back to its slab. @returns
  /// nullptr or false for the slow half, with nothing changed. Masked.
  [[nodiscard, gnu::always_inline]] void* take_plain() noexcept {
    void* object = has_plain_objects() ? slabs_.take_plain() : nullptr;
    if constexpr (kCounted) {
      if (object != nullptr) count_allocation();
    }
    return object;
  }
  [[nodiscard, gnu::always_inline]] bool put_plain(void* object) noexcept {
    return has_plain_objects() && slabs_.put_plain(object);
  }

  /// Takes a round of the previous magazine, which becomes the loaded one. @returns nullptr where that is empty, too,
  /// with nothing changed.
  void* allocate_from_previous() noexcept;
  [[nodiscard]] bool wants_one() noexcept;
  void* allocate_one() noexcept;
  void* allocate_by_exchange(bool& exchanged) noexcept;
  void* allocate_slow(const CallSite* site, std::size_t requested, Effort effort, bool exchanged) noexcept;
  /// Where a freed object has gone, or is to go.
  enum class Placed : std::uint8_t { kHere, kForNewMagazine, kForSlab, kNowhere };
  /// Puts a round into the previous magazine, which becomes the loaded one. @returns false where that is full, too,
  /// with nothing changed.
  bool free_to_previous(void* object) noexcept;
  Placed free_by_exchange(void* object) noexcept;
  void free_slow(void* object, Placed placed = Placed::kNowhere) noexcept;
  /// Refuses and tells a free of the object that the running hart has freed last, which is the youngest round of its
  /// magazine still. @returns whether @p object is that.
  bool refuse_last_freed(void* object) noexcept;

  /// See to it that a cell which is watching or closed has a round, or room, in its loaded magazine, as the middle path
  /// would. @returns whether they have; for the slow half is left what they leave. Context: as allocate().
  [[nodiscard]] bool supply() noexcept;
  [[nodiscard]] bool make_room() noexcept;

 private:
  friend class InternalCaches;
  friend struct CacheLayout;
  friend void set_misuse_handler(MisuseHandler) noexcept;
  static constexpr hal::HartMask bit(unsigned hart) noexcept { return hal::HartMask{1} << hart; }
  [[nodiscard, gnu::always_inline]] static const CallSite* site_or_untagged(const CallSite* site) noexcept {
    if constexpr (kCallSites) return site != nullptr ? site : call_sites::untagged();
    return site;
  }
  Cache() noexcept : Traceable(kRegistryKind) {}
  static Cache* create(const CacheConfig& config, const UntouchedCalls* no_touch, Status* why) noexcept;
  Status initialize(const CacheConfig& config, const UntouchedCalls* no_touch, unsigned harts) noexcept;

  void abandon() noexcept;
  [[nodiscard]] bool recording() const noexcept {
    return (state_.load(std::memory_order_relaxed) & trace_state::kHearsAllocation) != 0;
  }
  [[nodiscard]] bool record(const Allocation& allocation, void* object, Observer::Prepared& prepared) noexcept;
  void* take_from_cell(Cell& own) noexcept;
  [[nodiscard]] bool load_empty(Cell& own) noexcept;
  Placed put_in_cell(Cell& own, void* object) noexcept;
  void* refill() noexcept;
  void* refill_at_limit(bool may_ask) noexcept;
  void* refill_within_limit(bool may_ask) noexcept;
  void* refill_or_pursue(Effort effort) noexcept;
  [[nodiscard]] bool limit_callback_helps() noexcept;
  SlabLayer::Taken take_constructed(void** objects, unsigned count) noexcept;
  [[nodiscard]] bool may_fill(const Magazine& loaded) const noexcept;
  unsigned fill(Magazine& loaded) noexcept;
  void stock(void* const* objects, unsigned count) noexcept;
  Magazine* empty_magazine() noexcept;
  [[nodiscard]] bool free_to_new(Magazine& empty, void* object) noexcept;
  unsigned install_and_put(Magazine* magazine, void* const* objects, unsigned count) noexcept;
  [[nodiscard]] bool construct(void* object) noexcept;
  void put_in_slab(void* object) noexcept;
  void refuse(void* address, SlabLayer::Standing standing) noexcept;
  void* refuse_size(std::size_t requested) noexcept;
  static void tell_refused(Cache& cache, void* address, SlabLayer::Standing standing) noexcept;
  void count_misuse() noexcept;
  void inspect_previous(Cell& own) noexcept;
  void expel_from(Magazine& magazine, unsigned first) noexcept;
  [[nodiscard]] Slab* spill(Magazine& magazine) noexcept;
  [[nodiscard]] bool is_dead() noexcept { return std::atomic_ref(number_).load(std::memory_order_relaxed) == 0; }
  [[nodiscard]] bool is_plain() const noexcept;
  /// Whether nobody hears of an operation, and objects are as they come from their slab. relaxed: with a word of 0 nothing
  /// else is read.
  [[nodiscard, gnu::always_inline]] bool has_plain_objects() const noexcept {
    return !kChecked && state_.load(std::memory_order_relaxed) == 0 &&
           extra_.load(std::memory_order_relaxed) == nullptr;
  }
  [[nodiscard]] Magazine* run_empty(const Cell& own) const noexcept;
  [[nodiscard]] Magazine* run_full(const Cell& own) const noexcept;
  void* turn_to_full(Cell& own, Magazine& empty, Magazine& full) noexcept;
  void turn_to_free(Cell& own, Magazine& full, Magazine& free, void* object) noexcept;
  unsigned take_chunk(void** objects, std::size_t count) noexcept;
  unsigned put_chunk(void* const* objects, std::size_t count) noexcept;
  [[nodiscard]] bool replenish() noexcept;
  bool fill_reserve() noexcept;
  void give_back_surplus(Reserve& reserve) noexcept;
  void end_reserve() noexcept;
  [[nodiscard]] bool put_in_reserve(void* object) noexcept;
  [[nodiscard]] void* take_from_reserve() noexcept;
  [[nodiscard]] CacheExtra* need_extra() noexcept;
  void free_extra() noexcept;
  /// Null for most caches. Pairs with the release in need_extra().
  [[nodiscard]] CacheExtra* extra() const noexcept { return extra_.load(kFollowed); }
  [[nodiscard]] bool has_constructor() const noexcept {
    const CacheExtra* extra = this->extra();
    return extra != nullptr && extra->constructor != nullptr;
  }
  [[nodiscard]] bool has_destructor() const noexcept {
    const CacheExtra* extra = this->extra();
    return extra != nullptr && extra->destructor != nullptr;
  }
  void count_failure() noexcept;
  Status drain() noexcept;
  std::size_t empty_into_slabs(Magazine* full) noexcept;
  std::size_t flush() noexcept;
  [[nodiscard]] bool may_fill_magazine() const noexcept;

  // In an order without holes, from the padding of the base on.
  std::uint16_t number_ = 0;
  std::atomic<hal::HartMask> magazine_harts_{0};
  std::uint16_t cell_pointer_ = kNoCellPointer;  ///< of an inlined cache
  std::uint8_t flags_ = 0;
  std::atomic<CacheExtra*> extra_{nullptr};
  [[no_unique_address]] std::conditional_t<kCallSites, ObjectCharge, NoObjectCharge> charge_;
  SlabLayer slabs_;
  [[no_unique_address]] std::conditional_t<kMagazines, Depot, NoDepot> depot_;
  struct None {};
  /// Closed for ever; stays last.
  [[no_unique_address]] std::conditional_t<kMagazines && hal::Section::kShuts, Cell, None> shut_cell_;
};

#if defined(QM_TP)
/// Where the running hart's cell lies in any cache, under a name that the sections know. They read it through tp: it is
/// among the first hart-locals.
extern constinit thread_local std::uintptr_t qm_cell_offset asm("qm_cell_offset");
/// Looks where it is called, as hal::hart_local() does, in one instruction when linked. The lower half says all.
inline Cell& Cache::own_cell() noexcept {
  std::uintptr_t offset;
  asm volatile(
      "lui %0, %%tprel_hi(qm_cell_offset)\n"
      "add %0, %0, tp, %%tprel_add(qm_cell_offset)\n"
      "lw %0, %%tprel_lo(qm_cell_offset)(%0)"
      : "=r"(offset));
  return *reinterpret_cast<Cell*>(reinterpret_cast<std::uintptr_t>(this) + offset);
}
namespace internal {
inline void attach_cells(unsigned hart) noexcept { qm_cell_offset = sizeof(Cache) + hart * sizeof(Cell); }
}  // namespace internal
#else
inline Cell& Cache::own_cell() noexcept { return cell(hal::Port::hart_index()); }
namespace internal {
inline void attach_cells(unsigned) noexcept {}
}  // namespace internal
#endif

}  // namespace qm
