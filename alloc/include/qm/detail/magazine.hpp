#pragma once
/// Magazines, the depot and the per-hart cache (class HartCache): the layer between a hart and the slab layer.
///
///     Magazine:  | next | capacity, rounds | null | slot 0 | slot 1 | ... | slot capacity-1 |
///                                             ^ bottom: the word below slot 0 is null
///
/// A magazine has a capacity of 1 to 61 objects (kMagazineRounds). A cache begins with the capacity that suits its
/// object's size. Its depot changes to the next larger size when harts exchange or refill magazines often, sooner when
/// harts wait for each other, and back to the next smaller one in a quiet interval. A magazine of another size stays in
/// use until a hart refills it or it returns to the depot empty; an operation that finds it there, outside any masked
/// section, replaces it.
///
/// A per-hart cache is one hart's part of one cache. Its `top` points one past the newest object pointer in the loaded
/// magazine; its `limit` points one past the end of the magazine. The fast path reads only these two, and they give the
/// mode of the per-hart cache:
///
///     mode       top          limit              pop    push
///     open       real         end of magazine    fast   fast
///     watching   real         0                  fast   slow      frees look for trace records
///     closed     &kClosed[1]  0                  slow   slow      allocations are recorded; also: nothing loaded
///
/// Invariants
/// - I1 Only the owning hart writes `top` and `limit`: in a section, or with interrupts masked in close(), turn_to(),
///      put_watched() and Cache::open_hart_cache(). Other harts only read `top`, for statistics.
/// - I2 `top` is valid unless it equals the closed address; then `saved_top` is valid.
/// - I3 Only Cache::open_hart_cache() opens a per-hart cache, and it derives the mode from the cache's state word each
///   time.
///      turn_to() is for an open per-hart cache and a state word that leaves it open.
/// - I5 A magazine's capacity is in its header and `limit` derives from it: changing the size of magazines concerns no
///      other hart.
/// - I6 The word below slot 0 is null. A null among the object pointers is a freed nullptr; the slow path finds it.
///
/// Source: Bonwick and Adams 2001, section 3; the closed address and the modes are our own.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <qm/config.h>
#include <qm/configuration.h>
#include <qm/detail/bits.hpp>
#include <qm/detail/lock.hpp>

namespace qm {

/// Whether caches have magazines. If not, a cache has neither per-hart caches nor a depot, and every operation goes to
/// its slabs.
#if defined(QM_MAGAZINES)
inline constexpr bool kMagazines = true;
#else
inline constexpr bool kMagazines = false;
#endif

namespace scan {
class Scanner;
}

struct Magazine {
  Magazine* next = nullptr;      ///< in the depot or the reserve
  std::uint8_t capacity = 0;     ///< slots
  std::uint8_t rounds = 0;       ///< object pointers in it; valid while the magazine is not loaded
  std::uint16_t end_offset = 0;  ///< bytes from here to end(), which is read more often than the capacity
  void* bottom = nullptr;        ///< always null

  [[nodiscard]] void** slots() noexcept { return &bottom + 1; }
  [[nodiscard]] void** end() noexcept {
    return reinterpret_cast<void**>(reinterpret_cast<std::uintptr_t>(this) + end_offset);
  }
  /// Whether a magazine in the list that begins with @p first contains @p object.
  [[nodiscard]] static bool is_in(const void* object, Magazine* first) noexcept;
};
static_assert(sizeof(Magazine) == 3 * sizeof(void*));

/// The capacities of magazines in objects. 13, 29 and 61 fill a block of 16, 32 and 64 words.
inline constexpr std::uint16_t kMagazineRounds[] = {1, 3, 7, 13, 29, 61};
inline constexpr unsigned kMagazineSteps = 6;

/// The closed address is &kClosed[1]: the word below it is null, so a pop finds the per-hart cache empty.
extern void* const kClosed[2];
inline constexpr void** closed_address() noexcept { return const_cast<void**>(&kClosed[1]); }

/// Largest capacity of a magazine in objects.
inline constexpr std::uint32_t kMaxRounds = kMagazineRounds[kMagazineSteps - 1];
static_assert(kMaxRounds <= UINT8_MAX);

/// A hart's counters of a cache. Each hart writes its own with interrupts masked; other harts read them.
struct HartCounts {
  [[no_unique_address]] std::conditional_t<kCounted, std::atomic<Word>, NoCount> allocs{};  ///< allocations so far
  std::atomic<std::uint32_t> misses{0};    ///< slow paths because the loaded magazine was empty or full
  std::atomic<std::uint32_t> failures{0};  ///< allocations that returned nullptr
  std::atomic<std::uint16_t> misuses{0};   ///< bad frees, damage, refused destroys; saturates

  /// Counts an allocation that no section counted.
  void count_allocation() noexcept { store_relaxed(allocs, allocs.load(std::memory_order_relaxed) + 1); }
  /// Adds one to a count; a count narrower than 32 bits saturates.
  template <class T>
  static void add_one(std::atomic<T>& count) noexcept {
    const auto more = static_cast<T>(count.load(std::memory_order_relaxed) + 1);
    if (sizeof(T) == sizeof(std::uint32_t) || more != 0) store_relaxed(count, more);
  }
};

/// A larger alignment than two words would pad each cache. The first two words, which fast paths access, lie
/// sizeof(HartCache) bytes apart in neighbouring per-hart caches all the same.
struct alignas(2 * sizeof(void*)) HartCache {
  std::atomic<void**> top{closed_address()};
  std::atomic<void**> limit{nullptr};
  std::atomic<Magazine*> loaded{nullptr};  ///< owner hart, masked
  Magazine* prev = nullptr;                ///< owner hart, masked; its `rounds` is valid
  /// The valid top while `top` is the closed address; equals the closed address if nothing is loaded.
  std::atomic<void**> saved_top{closed_address()};
  [[no_unique_address]] HartCounts counts{};
  std::atomic<std::uint8_t> prev_rounds{0};  ///< objects in `prev`, which other harts read for statistics
  std::uint8_t inspected = 0;                ///< owner hart, masked: slot of a full magazine to check next

  /// Closes both paths; saved_top is valid from here on. Owner hart, interrupts masked.
  void close() noexcept {
    void** real = top.load(std::memory_order_relaxed);
    if (real != closed_address()) store_relaxed(saved_top, real);
    store_relaxed(top, closed_address());
    store_relaxed(limit, nullptr);
  }

  /// Takes one object. Precondition: close() was called.
  /// @returns false if both magazines are empty.
  bool take(void*& object) noexcept;

  /// Puts one object. Precondition: close() was called. @returns false if neither magazine has room.
  bool put(void* object) noexcept;
  /// Puts up to @p count objects. Precondition: close() was called. @returns the number of objects put.
  unsigned put(void* const* objects, unsigned count) noexcept;

  /// Counts an allocation that no section counted. Owner hart, masked.
  void count_allocation() noexcept { counts.count_allocation(); }
  /// Counts a slow path taken because the loaded magazine was empty or full. Owner hart, interrupts masked.
  void count_miss() noexcept { HartCounts::add_one(counts.misses); }

  /// The object that a closed per-hart cache would give next. @returns nullptr if the loaded magazine is empty or its
  /// newest pointer is a freed null. Owner hart, interrupts masked; so are the next two functions.
  [[nodiscard]] void* peek_closed() const noexcept {
    return saved_top.load(std::memory_order_relaxed)[-1];  // below slot 0, and below the closed address, lies a null
  }
  /// Removes the object that peek_closed() has shown. The per-hart cache stays closed.
  void drop_closed() noexcept { store_relaxed(saved_top, saved_top.load(std::memory_order_relaxed) - 1); }
  /// Takes an object. @returns nullptr, and nothing has changed, if peek_closed() returns nullptr.
  [[nodiscard]] void* take_closed() noexcept {
    void* object = peek_closed();
    if (object != nullptr) drop_closed();
    return object;
  }

  /// Whether there is room at @p place, the top of a watching or closed per-hart cache. Owner hart, interrupts masked.
  [[nodiscard, gnu::always_inline]] bool has_room(void** place) const noexcept {
    Magazine* to = loaded.load(std::memory_order_relaxed);
    return to != nullptr && place != to->end();
  }
  /// Puts an object at a place where has_room() has found room. @p real is `top` or `saved_top`.
  [[gnu::always_inline]] static void put_at(std::atomic<void**>& real, void** place, void* object) noexcept {
    *place = object;
    store_relaxed(real, place + 1);
  }
  /// Puts an object into a watching or closed per-hart cache, whose mode does not change. @returns false, and nothing
  /// has changed, if there is no room. Owner hart, interrupts masked.
  [[nodiscard]] bool put_watched(void* object) noexcept {
    void** const place = top.load(std::memory_order_relaxed);
    if (place == closed_address()) return put(saved_top, saved_top.load(std::memory_order_relaxed), object);
    return put(top, place, object);
  }

  /// Swaps loaded and previous. Precondition: close() was called.
  void swap() noexcept;

  /// Makes @p magazine the loaded one of an open per-hart cache, with its top at @p new_top, and the loaded magazine @p
  /// former, which has @p rounds objects, the previous one. Owner hart, interrupts masked.
  void turn_to(Magazine& former, unsigned rounds, Magazine& magazine, void** new_top) noexcept {
    former.rounds = static_cast<std::uint8_t>(rounds);
    prev = &former;
    store_relaxed(prev_rounds, static_cast<std::uint8_t>(rounds));
    store_relaxed(loaded, &magazine);
    store_relaxed(limit, magazine.end());
    store_relaxed(top, new_top);
  }

  void set_prev(Magazine* magazine) noexcept {
    prev = magazine;
    store_relaxed(prev_rounds, static_cast<std::uint8_t>(magazine != nullptr ? magazine->rounds : 0));
  }

  /// Objects in both magazines. Any hart may call it: an estimate while the owner runs, exact when it does not.
  [[nodiscard]] std::size_t rounds() const noexcept;

  /// Loads @p magazine, whose `rounds` is valid. @returns the magazine loaded before, with its `rounds` set.
  /// Precondition: close().
  Magazine* load(Magazine* magazine) noexcept;

 private:
  [[nodiscard, gnu::always_inline]] bool put(std::atomic<void**>& real, void** place, void* object) noexcept {
    const bool fits = has_room(place);
    if (fits) put_at(real, place, object);
    return fits;
  }
};
static_assert(sizeof(HartCache) == (kCounted && sizeof(void*) == 4 ? 10 : 8) * sizeof(void*));

/// A per-hart cache that is always closed: a hart's pointer to its per-hart cache points to it while the hart has none
/// (inline_cache.hpp). It is read-only.
extern const HartCache kClosedHartCache;
inline constexpr HartCache* closed_hart_cache() noexcept { return const_cast<HartCache*>(&kClosedHartCache); }

/// An offset from tp that no hart-local has.
inline constexpr std::uint16_t kNoHartCachePointer = 0xffff;

/// The magazines of a cache that no hart has, and the size of new magazines. Every operation is O(1). A lock guards the
/// lists. The counters that only guide decisions are outside the lock: if two harts add to one at once, an increment
/// may be lost.
class Depot {
 public:
  /// Each kBusyExchanges exchanges of an interval, magazines grow to the next size. Filling a magazine from the slabs
  /// counts as one exchange, an exchange that had to wait for the lock as kWaitExchanges.
  static constexpr std::uint32_t kBusyExchanges = 16;
  static constexpr std::uint32_t kWaitExchanges = 8;
  /// After an interval with fewer exchanges, a quiet one, magazines shrink to the size before.
  static constexpr std::uint32_t kQuietExchanges = 8;
  /// Bounds of the working set, in full magazines of the first size: the objects that frees may leave here. It begins
  /// at kLeastWorkingSet, grows by one magazine of the present size with each allocation that misses objects that went
  /// to the slabs, up to kMostWorkingSet, and shrinks again when magazines lie unused. So objects that a program frees
  /// in bulk and does not allocate again go to the slabs.
  static constexpr std::uint32_t kLeastWorkingSet = 2;
  static constexpr std::uint32_t kMostWorkingSet = 32;

  /// Sets the size of magazines for objects of @p object_size bytes.
  /// @param[in] rounds first capacity in objects; 0: as many objects as 4 KiB hold, at most 13. The depot increases the
  ///                   capacity up to 4 KiB of objects, and up to 16 KiB if harts wait for each other.
  void initialize(std::size_t object_size, std::uint32_t rounds) noexcept;

  /// Capacity of new magazines in objects.
  [[nodiscard]] std::uint32_t rounds() const noexcept { return kMagazineRounds[step_.load(std::memory_order_relaxed)]; }

  /// About half of rounds(), 1 at least.
  [[nodiscard]] int half_rounds() const noexcept { return 1 << step_.load(std::memory_order_relaxed); }

  /// Takes a magazine with objects and gives @p surplus, which is empty or null, to the depot. @returns nullptr, with
  /// @p surplus not given, if the depot has none.
  [[nodiscard]] Magazine* exchange_for_full(Magazine* surplus) noexcept { return exchange(kFull, surplus); }
  /// Whether there is a magazine with objects. An estimate: reads without the lock.
  [[nodiscard]] bool has_full() const noexcept { return full_rounds_.load(std::memory_order_relaxed) != 0; }
  /// Whether there is an empty magazine. An estimate, as has_full().
  [[nodiscard]] bool has_empty() const noexcept { return first_[kEmpty].load(std::memory_order_relaxed) != nullptr; }
  /// Takes an empty magazine of the present size and gives @p surplus, which is full or null, to the depot. @returns as
  /// above.
  [[nodiscard]] Magazine* exchange_for_empty(Magazine* surplus) noexcept { return exchange(kEmpty, surplus); }
  /// Whether the depot has its working set, so that objects of a full per-hart cache go to the slabs. An estimate:
  /// reads without the lock.
  [[nodiscard]] bool turns_away() const noexcept {
    return full_rounds_.load(std::memory_order_relaxed) >= working_set_.load(std::memory_order_relaxed);
  }
  /// @p objects went to the slabs because the depot has its working set.
  void count_overflow(unsigned objects) noexcept {
    const std::uint32_t overflow = overflow_.load(std::memory_order_relaxed) + objects;
    store_relaxed(overflow_, static_cast<std::uint16_t>(overflow < UINT16_MAX ? overflow : UINT16_MAX));
  }
  /// An allocation has found no magazine here and takes objects from the slabs.
  void count_refill() noexcept {
    count_exchange(false);
    if (overflow_.load(std::memory_order_relaxed) != 0)
      grow_working_set();  // a larger working set would have had a magazine
  }

  /// Adds a magazine: to the full ones if it has objects, else to the empty ones.
  void give(Magazine* magazine) noexcept;
  /// @returns a magazine with objects, nullptr if there is none.
  [[nodiscard]] Magazine* take_full() noexcept { return take(kFull); }
  /// @returns an empty magazine of any size, nullptr if there is none.
  [[nodiscard]] Magazine* take_empty() noexcept { return take(kEmpty); }

  /// Number of magazines that lay here unused for a whole interval.
  struct Unused {
    std::uint32_t full = 0;
    std::uint32_t empty = 0;
  };
  /// Ends an interval. @returns the magazines unused in it. Reduces the size of magazines after a quiet one.
  [[nodiscard]] Unused end_interval(bool& quiet) noexcept;

  /// Whether one of the full magazines contains @p object. Complexity: O(objects), under the lock: for the console.
  [[nodiscard]] bool holds(const void* object) noexcept;

  struct Stats {
    std::size_t full = 0;
    std::size_t empty = 0;
    std::size_t rounds = 0;
    std::uint32_t changes = 0;  ///< changes of the size of magazines
  };
  [[nodiscard]] Stats stats() noexcept;

  /// Holds the depot's lock for a scope, so that a test can make other harts wait.
  class Hold {
   public:
    explicit Hold(Depot& depot) noexcept : hold_(depot.lock_) {}

   private:
    LockGuard hold_;
  };

 private:
  friend class scan::Scanner;
  enum Shelf : std::size_t { kFull, kEmpty };
  struct Count {
    std::uint16_t now = 0;
    std::uint16_t least = 0;  ///< in this interval
  };
  [[nodiscard]] Magazine* exchange(Shelf shelf, Magazine* surplus) noexcept;
  void push_locked(Magazine* magazine) noexcept;
  void pop_locked(Shelf shelf, Magazine& magazine) noexcept;
  [[nodiscard]] Magazine* take(Shelf shelf) noexcept;
  void count_exchange(bool waited) noexcept {
    const std::uint32_t before = exchanges_.load(std::memory_order_relaxed);
    const std::uint32_t after = before + (waited ? kWaitExchanges : 1);
    store_relaxed(exchanges_, static_cast<std::uint16_t>(after));
    if (((before ^ after) & kBusyExchanges) != 0) grow(waited);
  }
  [[gnu::cold]] void grow(bool waited) noexcept;
  [[gnu::cold]] void grow_working_set() noexcept;
  void change_step(unsigned step) noexcept;
  [[nodiscard]] std::uint32_t least_working_set() const noexcept {
    return kLeastWorkingSet * kMagazineRounds[least_step_];
  }
  [[nodiscard]] std::uint32_t most_working_set() const noexcept {
    return kMostWorkingSet * kMagazineRounds[least_step_];
  }

  Lock lock_;
  // At most a few thousand: bounded by the number of harts and by working_set_.
  std::atomic<std::uint16_t> full_rounds_{0};  ///< written under the lock
  std::atomic<std::uint16_t> working_set_{0};  ///< working set in objects
  std::atomic<Magazine*> first_[2]{};          ///< first magazine of each shelf; written under the lock
  Count count_[2];
  /// Objects that went to the slabs and were not missed yet; saturates.
  std::atomic<std::uint16_t> overflow_{0};
  std::atomic<std::uint16_t> exchanges_{0};  ///< in this interval
  std::atomic<std::uint16_t> changes_{0};
  std::atomic<std::uint8_t> step_{0};  ///< index into kMagazineRounds
  std::uint8_t least_step_ : 3 = 0;
  std::uint8_t most_step_ : 3 = 0;
  std::uint8_t more_contended_ : 2 = 0;  ///< steps beyond most_step_ if harts wait for each other
};

/// The depot of a build without magazines: always empty, counts nothing.
class NoDepot {
 public:
  static void initialize(std::size_t, std::uint32_t) noexcept {}
  [[nodiscard]] static constexpr std::uint32_t rounds() noexcept { return 0; }
  [[nodiscard]] static constexpr int half_rounds() noexcept { return 1; }
  [[nodiscard]] static constexpr Magazine* exchange_for_full(Magazine*) noexcept { return nullptr; }
  [[nodiscard]] static constexpr Magazine* exchange_for_empty(Magazine*) noexcept { return nullptr; }
  [[nodiscard]] static constexpr bool has_full() noexcept { return false; }
  [[nodiscard]] static constexpr bool has_empty() noexcept { return false; }
  [[nodiscard]] static constexpr bool turns_away() noexcept { return true; }
  static void count_overflow(unsigned) noexcept {}
  static void count_refill() noexcept {}
  static void give(Magazine*) noexcept {}
  [[nodiscard]] static constexpr Magazine* take_full() noexcept { return nullptr; }
  [[nodiscard]] static constexpr Magazine* take_empty() noexcept { return nullptr; }
  [[nodiscard]] static Depot::Unused end_interval(bool& quiet) noexcept {
    quiet = true;
    return {};
  }
  [[nodiscard]] static constexpr bool holds(const void*) noexcept { return false; }
  [[nodiscard]] static Depot::Stats stats() noexcept { return {}; }
};

}  // namespace qm
