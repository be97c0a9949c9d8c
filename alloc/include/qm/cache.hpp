#pragma once
/// Caches: objects of one size, allocated fast on every hart, and traceable at any time.
///
///     allocate()                         fast path: a restartable section; no lock, no interrupt mask, no atomics
///       allocate_from_previous()         loaded magazine empty: takes from the previous magazine
///       allocate_one()                   depot and slabs have no free object, or upkeep is due: one object of a slab
///       allocate_by_exchange()           takes a full magazine of the depot, or fills the loaded one from the slabs
///       TracedPath::allocate()           the cache is traced, and all that this path needs is ready
///       allocate_slow()                  per-hart cache closed, or empty:
///         HartCache::take()                     the previous magazine
///         Depot::exchange_for_full()       a magazine that another hart filled
///         refill() -> SlabLayer::take()    a few objects, constructed; from a new slab if no slab has a free object
///         refill_at_limit()                idle objects of this cache, if the cache is at its limit
///         reclaim()                        idle memory of every hart and cache, if the caller may wait
///         Reserve::take()                  the reserve, if the caller may not wait
///         Observer::record()               if the state word says so
///     free()
///       TracedPath::free()               frees are watched, and all that this path needs is ready
///       free_slow()                      per-hart cache closed, watching, or full:
///         free_to_previous()               loaded magazine full: puts into the previous magazine
///         free_by_exchange()               exchanges a full magazine for an empty one, or frees objects to slabs
///         Observer::forget()               before the object is released
///         Reserve::put()                   if the reserve lacks objects
///         HartCache::put(), Depot               the previous magazine, or an empty one for a full one
///         SlabLayer::put()                 if no magazine is available
///
///     | Cache | HartCache of hart 0 | HartCache of hart 1 | ... |        one allocation of kmem_cache
///
/// Invariants
/// - C1 "Acquire outside, install inside": steps that may take long (a new slab, the arena, a constructor, reclaim) run
///      with interrupts as the caller has them and without touching a per-hart cache. A short masked section then reads
///      the per-hart cache again and installs the result. An interrupt in between finds a valid per-hart cache.
///      Exchanges with the depot and with existing slabs are short, and masked.
/// - C2 A hart sets its bit in `magazine_harts_` before it opens its per-hart cache, then reads the state word again. A
///      command that changes the word reads the bits afterwards. So a broadcast to the harts in `magazine_harts_`
///      misses no open per-hart cache.
/// - C3 Objects in magazines, depot, reserve and quarantine are constructed; objects in slabs are raw.
/// - C4 Objects that users hold = objects allocated from the slab layer - those in magazines, depot, reserve and
///      quarantine. Exact while no operation is under way.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <qm/config.h>
#include <qm/detail/cache_extra.hpp>
#include <qm/call_site.hpp>
#include <qm/detail/call_sites.hpp>
#include <qm/wait_policy.hpp>
#include <qm/detail/magazine.hpp>
#include <qm/misuse.hpp>
#include <qm/detail/observer.hpp>
#include <qm/registry.hpp>
#include <qm/detail/slab.hpp>
#include <qm/status.hpp>
#include <qm/detail/traceable.hpp>

namespace qm {

class Arena;
class Cache;
namespace scan {
class Scanner;
}

namespace cache_flags {
inline constexpr std::uint32_t kNoTouch = 1;       ///< objects are not memory, or must not be written while free
inline constexpr std::uint32_t kNoTrace = 2;       ///< cannot be traced: the allocator's own
inline constexpr std::uint32_t kQuantumCache = 4;  ///< serves an arena; set by the arena
inline constexpr std::uint32_t kNoMagazines = 8;   ///< has no magazines: the caches that magazines come from
inline constexpr std::uint32_t kNoPointers =
    16;  ///< objects hold no pointers to other objects: a leak scan does not read them
static_assert((kNoTouch | kNoTrace | kQuantumCache | kNoMagazines | kNoPointers) == 31, "the flags overlap");
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
  /// Objects that a magazine should hold at first; 0: chosen by the object's size (magazine.hpp).
  std::uint32_t magazine_rounds = 0;
  /// Set by InlineCache and the heap: offset from tp of the hart's pointer to its per-hart cache.
  std::uint16_t hart_cache_pointer = kNoHartCachePointer;
  std::uint8_t heap_class = 0;  ///< set by the heap for its classes: see SlabConfig
  std::size_t least_slab = 0;   ///< the same
  std::size_t limit = 0;        ///< most objects allocated from the slab layer; 0: no limit. See set_limit()
  LimitCallback limit_callback = nullptr;
};

/// Counts of objects. "Exact" holds while no operation on the cache is under way.
struct CacheStats {
  std::size_t object_size = 0;    ///< bytes of an object, alignment included
  std::size_t objects = 0;        ///< objects in all slabs
  std::size_t in_use = 0;         ///< objects that users hold; exact
  std::size_t in_magazines = 0;   ///< idle in harts' magazines; exact
  std::size_t in_depot = 0;       ///< idle in the depot's full magazines; exact
  std::size_t reserved = 0;       ///< held for allocations that must not fail; exact
  std::size_t quarantined = 0;    ///< freed, and waiting in quarantine; exact
  std::size_t in_slabs = 0;       ///< free in slabs; exact
  std::size_t high_water = 0;     ///< most objects ever allocated from the slab layer at once, idle ones included
  std::uint64_t allocations = 0;  ///< allocations so far, if `counted`
  bool counted = false;           ///< whether this is a build with QM_COUNT
  std::size_t failures = 0;       ///< allocations that returned nullptr
  std::size_t misses = 0;         ///< slow paths because the loaded magazine was empty or full
  std::size_t misuses = 0;        ///< see misuse.hpp: bad frees, damage, holders at a refused destroy
  std::size_t slabs = 0;
  std::size_t slab_bytes = 0;
  std::size_t depot_full = 0;  ///< magazines with objects in the depot
  std::size_t depot_empty = 0;
  std::uint32_t magazine_rounds = 0;    ///< capacity of new magazines in objects
  std::uint32_t magazine_changes = 0;   ///< how often that has changed
  std::size_t reserve = 0;              ///< objects the reserve should hold
  std::size_t limit = 0;                ///< most objects allocated from the slab layer at once; 0: no limit
  std::size_t quarantine = 0;           ///< bytes that may wait in quarantine; 0: none may
  std::uint32_t quarantine_passed = 0;  ///< objects that have left it
};

}  // namespace qm

extern "C" {
/// The fast path and its slow halves. `_at` takes the call site, the bytes requested (0: the object's size) and the
/// wait policy as well. In a build with call sites all of them charge the site, which is not null.
#if defined(QM_CALL_SITES)
void* qm_cache_allocate(qm::Cache* cache, const qm::CallSite* site) noexcept;
#else
void* qm_cache_allocate(qm::Cache* cache) noexcept;
#endif
void* qm_cache_allocate_at(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                           qm::WaitPolicy wait_policy) noexcept;
void qm_cache_free(qm::Cache* cache, void* object) noexcept;
void* qm_cache_allocate_slow(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                             qm::WaitPolicy wait_policy) noexcept;
void qm_cache_free_slow(qm::Cache* cache, void* object) noexcept;
/// The slow halves for operations that a TracedPath does not complete.
void* qm_cache_allocate_other(qm::Cache* cache, const qm::CallSite* site, std::size_t requested,
                              qm::WaitPolicy wait_policy) noexcept;
void qm_cache_free_other(qm::Cache* cache, void* object) noexcept;
}

namespace qm {

namespace internal {
/// Sets the running hart's pointer at @p offset from its tp to @p hart_cache. Interrupts masked. Supplied with the fast
/// path.
void set_hart_cache_pointer(std::uint16_t offset, HartCache* hart_cache) noexcept;
/// Offset from tp of a hart's pointer to its per-hart cache of the heap's class with @p tag.
[[nodiscard]] std::uint16_t heap_hart_cache_pointer(std::uint8_t tag) noexcept;
/// Resets the running hart's pointers to per-hart caches of the heap's classes and to its page-map leaf. Interrupts
/// masked.
void reset_heap_pointers() noexcept;
}  // namespace internal

class alignas(HartCache) Cache : public Traceable {
 public:
  static constexpr RegistryKind kRegistryKind = RegistryKind::kCache;
  /// Copies of cache_flags, for debuggers (traceable.hpp).
  static constexpr std::uint32_t kOfQuanta = cache_flags::kQuantumCache;
  static constexpr std::uint32_t kWithoutMagazines = cache_flags::kNoMagazines;
  static constexpr std::uint32_t kWithoutPointers = cache_flags::kNoPointers;

  /// Creates a cache, usable on every hart at once.
  /// @param[out] why  if not null: kOk; kInvalid (name, size, alignment; before initialize()); kDuplicate; kNoMemory.
  /// @returns the cache; nullptr with a reason in @p why.
  /// Complexity: O(harts); allocates no slab of its own. Context: as allocate(), with which it gets its structure.
  /// The code for no-touch caches is linked with the first call whose flags may contain kNoTouch.
  [[nodiscard, gnu::always_inline]] static Cache* create(const CacheConfig& config, Status* why = nullptr) noexcept {
    return create(config, (config.flags & cache_flags::kNoTouch) != 0 ? &no_touch_calls : nullptr, why);
  }

  /// Destroys the cache and returns all its memory, including its magazines on every hart.
  /// @returns kOk; kNotFound if @p cache is not a cache or was destroyed; kBusy, and nothing is freed, while users hold
  ///          objects or a report uses the cache; kUnsafe outside a context that may wait, unless no hart has magazines
  ///          of the cache; kTimedOut if a hart does not answer: the cache stays usable.
  /// Complexity: a broadcast to the harts that have magazines of the cache, and O(slabs).
  static Status destroy(Cache* cache) noexcept;

  /// The half of destroy() that may be refused, for a caller that destroys several caches at once: hides the cache from
  /// the registry and returns its idle objects to the slabs. registry_show() undoes it.
  /// @returns as destroy(); if not kOk, the cache is as usable as before.
  Status retire() noexcept;
  /// The second half of destroy(), for a cache that retire() has retired. Cannot fail.
  static void end(Cache* cache) noexcept;

  /// Allocates one object. Its contents are indeterminate unless the cache has a constructor.
  /// @returns the object, aligned as the cache was created with; nullptr iff the source cannot supply a slab even after
  ///          idle memory was reclaimed (where the context allows that), or the cache is at its limit, or construction
  ///          failed; counted in stats().
  /// Complexity: O(1); a magazine hit takes no lock and does not mask interrupts.
  /// Context:    any hart that attach_hart() has attached, any interrupt level; never blocks in a handler.
  [[nodiscard, gnu::always_inline]] void* allocate() noexcept {
#if defined(QM_CALL_SITES)
    return qm_cache_allocate(this, call_sites::untagged());
#else
    return qm_cache_allocate(this);
#endif
  }

  /// As allocate(), with a call site, a requested size and a wait policy.
  /// @param[in] site      the call site, or nullptr.
  /// @param[in] requested bytes the user asked for, for the trace; 0: the object's size. More bytes than an object has
  ///                      are refused: a failure, and Misuse::kTooLarge.
  [[nodiscard, gnu::always_inline]] void* allocate_at(const CallSite* site, std::size_t requested,
                                                      WaitPolicy wait_policy = WaitPolicy::kAuto) noexcept {
    if (requested > object_size()) [[unlikely]]
      return refuse_size(requested);
    return allocate_fitting(site, requested, wait_policy);
  }
  /// The same if @p requested is at most the object's size.
  [[nodiscard, gnu::always_inline]] void* allocate_fitting(const CallSite* site, std::size_t requested,
                                                           WaitPolicy wait_policy) noexcept {
    return qm_cache_allocate_at(this, site_or_untagged(site), requested, wait_policy);
  }
  [[nodiscard, gnu::always_inline]] void* allocate_at([[maybe_unused]] const CallSite* site) noexcept {
#if defined(QM_CALL_SITES)
    return qm_cache_allocate(this, site_or_untagged(site));
#else
    return qm_cache_allocate(this);
#endif
  }
  /// The same without a call site; the plain form of QM_ALLOC(cache->allocate, requested, wait_policy).
  [[nodiscard, gnu::always_inline]] void* allocate(std::size_t requested,
                                                   WaitPolicy wait_policy = WaitPolicy::kAuto) noexcept {
    return allocate_at(nullptr, requested, wait_policy);
  }

  /// Allocates up to @p count objects at once. Each costs little more than a move if it comes from a magazine.
  /// @param[out] objects room for @p count pointers.
  /// @returns the number allocated; fewer than @p count iff the next single allocation failed, which is counted.
  /// Complexity: O(count); interrupts are masked for kBulkChunk objects at a time. Context: as allocate().
  [[nodiscard]] std::size_t allocate_bulk(void** objects, std::size_t count,
                                          WaitPolicy wait_policy = WaitPolicy::kAuto) noexcept {
    return allocate_bulk_at(nullptr, objects, count, wait_policy);
  }
  [[nodiscard]] std::size_t allocate_bulk_at(const CallSite* site, void** objects, std::size_t count,
                                             WaitPolicy wait_policy = WaitPolicy::kAuto) noexcept;

  /// Frees @p count objects, each as free() does.
  /// Complexity, Context: as allocate_bulk().
  void free_bulk(void* const* objects, std::size_t count) noexcept;
  static constexpr std::size_t kBulkChunk = 16;

  /// Keeps @p objects constructed objects in reserve for allocations that may not wait: in an interrupt handler, with
  /// interrupts masked, with a lock held, or WaitPolicy::kAtomic. If the reserve has n objects, n of these allocations
  /// cannot fail, whatever happens to memory. Frees that take the slow path, later refills and trim() fill the reserve
  /// again; until then stats().reserved is below stats().reserve.
  /// The reserve's objects count against the limit.
  /// @returns kOk; kNoMemory (memory, the limit, a constructor that failed); kRefused for a cache without magazines.
  ///          Unless kOk the reserve is unchanged.
  /// Complexity: O(objects). Context: any; may reclaim where hal::may_ask_harts(). One call at a time for a cache.
  Status reserve(std::size_t objects) noexcept;

  /// Limits how many objects are outside their slabs: those that users hold, and those in magazines, in the depot, in
  /// the reserve and in quarantine. An allocation at the limit first uses idle objects: those of the depot and, if it
  /// may wait, those in the magazines of all harts. If there are none it calls @p callback, and tries once
  /// more if that returns true.
  ///
  /// A limit below the present count returns idle objects to their slabs, those in magazines only where
  /// hal::may_ask_harts(). Objects that users hold return as usual when they are freed.
  /// @param[in] objects 0: no limit.
  /// @param[in] callback called in the context of the allocation; may free objects.
  /// @returns kOk; kNoMemory if there is no memory in which to keep the callback: nothing has changed then.
  /// Context: any.
  Status set_limit(std::size_t objects, LimitCallback callback = nullptr) noexcept;

  /// Gives the cache a quarantine: the objects freed last, at most @p bytes bytes and 65535 objects, wait in it before
  /// they are used again. Each is filled with 0xa5, unless the cache has a constructor or a destructor, and gets a
  /// checksum. When one leaves, a write to it is reported as Misuse::kWriteAfterFree, with the stack of the free. A
  /// second free of an object that waits is reported at once. 0 ends the quarantine: all objects leave it.
  /// All objects also leave it when memory is exhausted, at the cache's limit, and at reap() and destroy(). Each free
  /// takes the slow path, and fills and sums its object: O(object size).
  /// @returns kOk; kInvalid if @p bytes is less than an object; kRefused for a no-trace cache and a quantum cache;
  ///          kNoMemory for the table, of 24 bytes an object (16 on RV32), and kUnsafe unless hal::may_ask_harts():
  ///          nothing has changed; kTimedOut if a hart does not answer: there is no quarantine, nor an earlier one.
  /// Complexity: a broadcast to the harts that have magazines, O(objects that leave). Context: hal::may_ask_harts(), or
  ///             any with 0. One call at a time for a cache.
  Status set_quarantine(std::size_t bytes) noexcept;
  /// Whether set_quarantine() does not answer kRefused.
  [[nodiscard]] bool may_have_quarantine() const noexcept {
    return traceable() && (flags_ & cache_flags::kQuantumCache) == 0;
  }
  /// Checks the objects that wait. Each damaged one is reported, and sealed again, so that it is reported once.
  /// @returns how many are damaged. Complexity: O(bytes that wait), with interrupts masked for one object at a time.
  /// Context: any.
  std::size_t inspect_quarantine() noexcept;

  /// Frees an object. Never fails; misuse that the slow path detects is reported and otherwise ignored.
  /// Complexity: O(1). Context: as allocate().
  [[gnu::always_inline]] void free(void* object) noexcept { qm_cache_free(this, object); }

  /// Bytes of an object, alignment included.
  [[nodiscard]] std::size_t object_size() const noexcept { return slabs_.object_size(); }
  /// Every object's address is a multiple of it.
  [[nodiscard]] std::size_t alignment() const noexcept { return slabs_.alignment(); }
  [[nodiscard]] std::uint32_t flags() const noexcept { return flags_; }
  /// Unique among live caches, 1 to 65535; a number is not reused soon.
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] Arena& source() const noexcept { return slabs_.source(); }
  /// Bytes that a slab takes from the source, unless the source is short.
  [[nodiscard]] std::size_t slab_bytes() const noexcept { return slabs_.slab_bytes(); }
  [[nodiscard]] CacheStats stats() noexcept;
  [[nodiscard]] SlabLayer& slabs() noexcept { return slabs_; }
  [[nodiscard]] const SlabLayer& slabs() const noexcept { return slabs_; }
  /// Finds the object at an address. @returns false if the address is in no slab of the cache. Context: any.
  bool locate(std::uintptr_t address, ObjectPlace& place) noexcept { return slabs_.locate(address, place); }
  /// The place of an object of this cache.
  enum class Place : std::uint8_t { kUser, kMagazine, kDepot, kReserve, kQuarantine, kSlab, kUnknown };
  struct Whereabouts {
    Place place = Place::kUser;
    unsigned hart =
        0;  ///< kMagazine: its hart; kUnknown: the hart that has not answered, or hal::BroadcastResult::kNobody
  };
  /// Complexity: a broadcast to the harts that have magazines, O(objects in depot and reserve) with their locks held.
  /// Context:    hal::may_ask_harts().
  [[nodiscard]] Whereabouts look_for(void* object) noexcept;
  /// Checks each hart's per-hart cache, on that hart, while others use the cache.
  /// @returns kMismatch if one violates I1 to I6 or C2; kTimedOut if a hart does not answer. Context:
  ///          hal::may_ask_harts().
  [[nodiscard]] Status verify_hart_caches() noexcept;
  /// The call site to which @p object, which a user holds, is charged; nullptr if it is charged to none. Build with
  /// call sites.
  [[nodiscard]] const CallSite* site_of(void* object) noexcept {
    return charge_.is_set() && slabs_.spans(object)
               ? call_sites::site_of(charge_.head(object).tag.load(std::memory_order_relaxed))
               : nullptr;
  }
  /// Charges an object that is about to reach its user, or that a user holds and that was discharged; nullptr passes
  /// through. Build with call sites; the allocating functions call it.
  /// @param[in] requested bytes asked for; 0: the object's size.
  [[gnu::always_inline]] void* charge(void* object, const CallSite* site, std::size_t requested = 0) const noexcept {
    if (!charge_.is_set()) return object;  // an internal cache: its callers need no site
    return charge_.charge(object, site_or_untagged(site), requested);
  }
  /// Removes the charge of an object. Safe for an address that is no object, which has no charge, and for a free
  /// object, which has lost it.
  [[gnu::always_inline]] void discharge(void* object) const noexcept {
    if (charge_.is_set() && slabs_.spans(object)) charge_.discharge(object);
  }
  /// Whether free objects keep the contents that their users or a constructor left: a checking build does not poison
  /// them.
  [[nodiscard]] bool keeps_contents() const noexcept {
    return has_constructor() || has_destructor() || (flags_ & cache_flags::kNoMagazines) != 0;
  }
  /// Checks every invariant that can be checked without stopping other harts; exact while no operation is under way.
  [[nodiscard]] bool validate() noexcept;

  /// Returns idle memory to the source: the magazines of all harts (if the context allows the broadcast:
  /// hal::may_ask_harts()), the depot's, and every empty slab.
  /// @returns the bytes returned. Complexity: O(idle objects), in steps of one object. Context: any.
  std::size_t reap() noexcept;

  struct Returned {
    std::size_t objects = 0;  ///< objects moved from the depot to slabs
    std::size_t bytes = 0;    ///< bytes of slabs returned to the source
  };
  /// As reap(), but without a broadcast: empties the depot and returns every empty slab to the source. Context: any.
  Returned give_back() noexcept;
  /// Ends an interval of the working set: returns the magazines that no hart took from the depot during the interval,
  /// and the empty slabs of a cache that was quiet; a quiet cache whose magazines had grown goes back to the next
  /// smaller size; fills the reserve.
  /// @returns the bytes returned. Complexity: O(objects returned), in steps of one object. Context: any.
  std::size_t trim() noexcept;

  // ---- for the trace ------------------------------------------------------------------------------------------------

  /// About how many allocations take the fast path between two that take the slow path: a magazine is half full on
  /// average when it is loaded.
  [[nodiscard]] int weight() const noexcept { return depot_.half_rounds(); }
  /// Harts that have magazines.
  [[nodiscard]] hal::HartMask magazine_harts() const noexcept {
    return kMagazines ? magazine_harts_.load(std::memory_order_seq_cst) : 0;
  }
  /// Harts that must answer a broadcast before a change of the state word is in effect: those that may have an open
  /// per-hart cache. Without magazines, each operation reads the word in its masked section, so it is all online harts,
  /// or none if there is only one hart.
  [[nodiscard]] hal::HartMask open_harts() const noexcept {
    if constexpr (kMagazines) return magazine_harts();
    return hal::kManyHarts ? hal::online_harts() : 0;
  }
  /// close() closes hart @p hart's per-hart cache, open_hart_cache() opens it to the mode that the state word allows.
  /// On that hart, interrupts masked.
  void close(unsigned hart) noexcept {
    if constexpr (kMagazines) hart_cache(hart).close();
  }
  void open_hart_cache(unsigned hart) noexcept;
  /// Closes the per-hart cache of every hart that has an open one, and opens it to the mode that the state word allows.
  /// @returns kTimedOut if a hart does not answer; kUnsafe unless hal::may_ask_harts().
  Status close_hart_caches() noexcept;
  /// Sets @p flags of the state word, kQuarantine among them, and then closes the push of every hart: each free takes
  /// the slow path. @returns as close_hart_caches(); the flags stay set.
  Status close_push(std::uint32_t flags) noexcept;
  /// Moves hart @p hart's magazines to the depot; its per-hart cache stays closed until it is filled again. On that
  /// hart, interrupts masked.
  void detach_magazines(unsigned hart) noexcept;
  /// The object's trace handle; nullptr while its slab has no handles, or if it is no object of this cache.
  [[nodiscard]] std::uint32_t* handle(void* object) noexcept;
  /// Gives the object's slab @p handles (slabs().objects() zeroed words). @returns false if it has handles already.
  bool adopt_handles(void* object, std::uint32_t* handles) noexcept;

  /// Counts a misuse, adds the known stacks of the object and calls the handler. Context: any.
  void report(MisuseReport& report) noexcept;

  /// Per-hart data of a cache, which lies behind the cache.
  using HartPart = std::conditional_t<kMagazines, HartCache, HartCounts>;
  /// Bytes of a cache with the per-hart data of @p harts harts.
  [[nodiscard]] static constexpr std::size_t bytes(unsigned harts) noexcept {
    return (sizeof(Cache) + harts * sizeof(HartPart) + alignof(Cache) - 1) & ~(alignof(Cache) - 1);
  }
  /// The per-hart cache of a hart, in a build with magazines. The fast path finds it at
  /// sizeof(Cache) + hart * sizeof(HartCache).
  [[nodiscard]] HartCache& hart_cache(unsigned hart) noexcept { return reinterpret_cast<HartCache*>(this + 1)[hart]; }
  /// The running hart's per-hart cache. Interrupts masked.
  [[nodiscard]] HartCache& own_hart_cache() noexcept;
  [[nodiscard]] HartCounts& counts(unsigned hart) noexcept {
    if constexpr (kMagazines) return hart_cache(hart).counts;
    return reinterpret_cast<HartCounts*>(this + 1)[hart];
  }
  /// The running hart's counts. Interrupts masked.
  [[nodiscard]] HartCounts& own_counts() noexcept {
    if constexpr (kMagazines) return own_hart_cache().counts;
    return counts(hal::kManyHarts ? hal::Port::hart_index() : 0);
  }
  [[nodiscard]] bool has_magazines() const noexcept { return kMagazines && (flags_ & cache_flags::kNoMagazines) == 0; }
  /// The per-hart cache that a section may use: its hart's, or, while another thread acts for that hart,
  /// closed_hart_cache_, which lies just before the first.
  [[nodiscard, gnu::always_inline]] HartCache& hart_cache_in(const hal::Section& section) noexcept {
    constexpr std::ptrdiff_t kBytes = sizeof(HartCache) / hal::Section::kStep;
    const auto place = static_cast<std::uintptr_t>(section.place() * kBytes);
    return *reinterpret_cast<HartCache*>(reinterpret_cast<std::uintptr_t>(this + 1) + place);
  }
  /// Objects that the reserve lacks; freed objects fill it.
  [[nodiscard]] std::uint32_t reserve_missing() const noexcept {
    const CacheExtra* extra = kMagazines ? this->extra() : nullptr;
    return extra != nullptr ? extra->reserve.missing() : 0;
  }
  [[nodiscard]] bool has_reserve() const noexcept {
    const CacheExtra* extra = kMagazines ? this->extra() : nullptr;
    return extra != nullptr && extra->reserve.promised() != 0;
  }
  /// Counts an allocation that no section counted. Interrupts masked.
  void count_allocation() noexcept {
    if constexpr (kCounted) own_counts().count_allocation();
  }

  /// Allocates an object of a cache without magazines straight from the slabs; free_direct() frees it. @returns nullptr
  /// if there is no memory: nothing is reclaimed. Context: as allocate().
  [[nodiscard]] void* allocate_direct() noexcept;
  void free_direct(void* object) noexcept;

  /// The fast path of a build without magazines: allocates an object from an existing slab; put_plain() frees it to its
  /// slab. @returns nullptr or false, with nothing changed, for the slow half. Interrupts masked.
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

  /// Makes the previous magazine the loaded one and takes an object from it. @returns nullptr, with nothing changed, if
  /// it is empty, too.
  void* allocate_from_previous() noexcept;
  [[nodiscard]] bool wants_one() noexcept;
  void* allocate_one() noexcept;
  void* allocate_by_exchange(bool& exchanged) noexcept;
  /// @param[in] exchanged whether allocate_by_exchange() was tried; in a build without magazines, whether the object
  ///                      may be a guarded one.
  void* allocate_slow(const CallSite* site, std::size_t requested, WaitPolicy wait_policy, bool exchanged) noexcept;
  /// Where a freed object was put, or is to be put.
  enum class Placed : std::uint8_t { kHere, kForNewMagazine, kForSlab, kNowhere };
  /// Makes the previous magazine the loaded one and puts an object into it. @returns false, with nothing changed, if it
  /// is full, too.
  bool free_to_previous(void* object) noexcept;
  Placed free_by_exchange(void* object) noexcept;
  void free_slow(void* object, Placed placed = Placed::kNowhere) noexcept;
  /// Refuses and reports a free of the object that the running hart freed last, if that is still the newest object of
  /// its magazine. @returns whether @p object is that object.
  bool refuse_last_freed(void* object) noexcept;

  /// Ensure that the loaded magazine of a watching or closed per-hart cache has an object (supply()) or room
  /// (make_room()), as allocate_by_exchange() and free_by_exchange() do for an open one. @returns whether it has; if
  /// not, the slow half does the operation. Context: as allocate().
  [[nodiscard]] bool supply() noexcept;
  [[nodiscard]] bool make_room() noexcept;

 private:
  friend class InternalCaches;
  friend class scan::Scanner;
  friend struct CacheLayout;
  friend void set_misuse_handler(MisuseHandler) noexcept;
  friend struct GuardedCache;
  static constexpr hal::HartMask bit(unsigned hart) noexcept { return hal::HartMask{1} << hart; }
  [[nodiscard, gnu::always_inline]] static const CallSite* site_or_untagged(const CallSite* site) noexcept {
    if constexpr (kCallSites) return site != nullptr ? site : call_sites::untagged();
    return site;
  }
  Cache() noexcept : Traceable(kRegistryKind) {}
  static Cache* create(const CacheConfig& config, const NoTouchCalls* no_touch, Status* why) noexcept;
  Status initialize(const CacheConfig& config, const NoTouchCalls* no_touch, unsigned harts) noexcept;

  void abandon() noexcept;
  [[nodiscard]] bool recording() const noexcept {
    return (state_.load(std::memory_order_relaxed) & trace_state::kHearsAllocation) != 0;
  }
  [[nodiscard]] bool record(const Allocation& allocation, void* object, Observer::Prepared& prepared) noexcept;
  void* take_from_hart_cache(HartCache& own) noexcept;
  [[nodiscard]] bool load_empty(HartCache& own) noexcept;
  Placed put_in_hart_cache(HartCache& own, void* object) noexcept;
  void* refill() noexcept;
  void* refill_at_limit(bool may_ask) noexcept;
  void* refill_within_limit(bool may_ask) noexcept;
  void* refill_or_reclaim(WaitPolicy wait_policy) noexcept;
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
  void refuse(void* address, SlabLayer::ObjectState object_state) noexcept;
  [[nodiscard]] bool free_guarded(void* object) noexcept;
  [[nodiscard]] void* take_sample(std::size_t requested) noexcept;
  void* refuse_size(std::size_t requested) noexcept;
  static void tell_refused(Cache& cache, void* address, SlabLayer::ObjectState object_state) noexcept;
  void count_misuse() noexcept;
  void inspect_previous(HartCache& own) noexcept;
  void expel_from(Magazine& magazine, unsigned first) noexcept;
  [[nodiscard]] Slab* spill(Magazine& magazine) noexcept;
  [[nodiscard]] bool is_dead() noexcept { return std::atomic_ref(number_).load(std::memory_order_relaxed) == 0; }
  [[nodiscard]] bool is_plain() const noexcept;
  /// Whether no observer or fault concerns an operation and objects need no constructor, check or reserve. relaxed: if
  /// the word is 0, nothing else is read.
  [[nodiscard, gnu::always_inline]] bool has_plain_objects() const noexcept {
    return !kChecked && state_.load(std::memory_order_relaxed) == 0 &&
           extra_.load(std::memory_order_relaxed) == nullptr;
  }
  [[nodiscard]] Magazine* run_empty(const HartCache& own) const noexcept;
  [[nodiscard]] Magazine* run_full(const HartCache& own) const noexcept;
  void* turn_to_full(HartCache& own, Magazine& empty, Magazine& full) noexcept;
  void turn_to_free(HartCache& own, Magazine& full, Magazine& free, void* object) noexcept;
  unsigned take_chunk(void** objects, std::size_t count) noexcept;
  unsigned put_chunk(void* const* objects, std::size_t count) noexcept;
  [[nodiscard]] bool replenish() noexcept;
  bool fill_reserve() noexcept;
  void give_back_surplus(Reserve& reserve) noexcept;
  void end_reserve() noexcept;
  [[nodiscard]] bool put_in_reserve(void* object) noexcept;
  [[nodiscard]] void* take_from_reserve() noexcept;
  [[nodiscard]] Quarantine* quarantine() const noexcept {
    const CacheExtra* extra = this->extra();
    return extra != nullptr ? extra->quarantine.load(std::memory_order_acquire) : nullptr;
  }
  // acquire: pairs with the release in set_quarantine(), which came before the cache had a quarantine.
  [[nodiscard]] static const internal::QuarantineCalls& quarantine_calls() noexcept {
    return *internal::quarantine_calls.load(std::memory_order_acquire);
  }
  [[nodiscard]] void* hold_back(void* object) noexcept;
  std::size_t empty_quarantine() noexcept;
  void change_quarantine(Quarantine& quarantine, Quarantine::Entry* table, std::uint32_t capacity,
                         std::size_t bytes) noexcept;
  void end_quarantine() noexcept;
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
  std::uint16_t hart_cache_pointer_ = kNoHartCachePointer;  ///< of an inlined cache: as CacheConfig::hart_cache_pointer
  std::uint8_t flags_ = 0;
  std::atomic<CacheExtra*> extra_{nullptr};
  [[no_unique_address]] std::conditional_t<kCallSites, ObjectCharge, NoObjectCharge> charge_;
  SlabLayer slabs_;
  [[no_unique_address]] std::conditional_t<kMagazines, Depot, NoDepot> depot_;
  struct None {};
  /// Always closed; must be the last member.
  [[no_unique_address]] std::conditional_t<kMagazines && hal::Section::kShuts, HartCache, None> closed_hart_cache_;
};

#if defined(QM_TP)
/// Offset of the running hart's per-hart cache in any cache, under a name that the sections know. They read it through
/// tp: it is among the first hart-locals.
extern constinit thread_local std::uintptr_t qm_hart_cache_offset asm("qm_hart_cache_offset");
/// Computes the hart-local's address at the call, as hal::hart_local() does, in one instruction after linking. A 32-bit
/// load of the lower half suffices.
inline HartCache& Cache::own_hart_cache() noexcept {
  std::uintptr_t offset;
  asm volatile(
      "lui %0, %%tprel_hi(qm_hart_cache_offset)\n"
      "add %0, %0, tp, %%tprel_add(qm_hart_cache_offset)\n"
      "lw %0, %%tprel_lo(qm_hart_cache_offset)(%0)"
      : "=r"(offset));
  return *reinterpret_cast<HartCache*>(reinterpret_cast<std::uintptr_t>(this) + offset);
}
namespace internal {
inline void attach_hart_caches(unsigned hart) noexcept {
  qm_hart_cache_offset = sizeof(Cache) + hart * sizeof(HartCache);
}
}  // namespace internal
#else
inline HartCache& Cache::own_hart_cache() noexcept { return hart_cache(hal::Port::hart_index()); }
namespace internal {
inline void attach_hart_caches(unsigned) noexcept {}
}  // namespace internal
#endif

}  // namespace qm
