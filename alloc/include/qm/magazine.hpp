#pragma once
/// Magazines, the depot and the cell: what stands between a hart and the slab layer.
///
///     Magazine:  | next | capacity, rounds | null | slot 0 | slot 1 | ... | slot capacity-1 |
///                                             ^ bottom: the word below slot 0 is null
///
/// Magazines have 1 to 61 rounds (kMagazineRounds). A cache begins with what suits its object's size; its depot takes
/// the next size when harts exchange or refill magazines often, sooner when they wait for each other, and goes back
/// when it is quiet. A magazine of another size serves on until a hart refills it or it comes to the depot empty; who
/// finds it there, outside any masked section, replaces it.
///
/// A cell is one hart's share of one cache. Its `top` points one past the youngest round of the loaded magazine;
/// `limit` one past the magazine's end. They are all that the fast path touches, and they say how far the cell is open:
///
///     exposure   top          limit              pop    push
///     open       real         end of magazine    fast   fast
///     watching   real         0                  fast   slow      frees look for trace records
///     closed     &kClosed[1]  0                  slow   slow      allocations are recorded; also: nothing loaded
///
/// Invariants (mechanisms: "the cell")
/// - I1 `top` and `limit` are written by the owning hart only: by a section, or with interrupts masked by close(),
///      turn_to(), put_watched() and Cache::expose(). Nobody else, ever; other harts only read `top` for statistics.
/// - I2 `top` is the truth unless it equals the closed address; then `saved_top` is.
/// - I3 Cache::expose() alone opens anything, and computes how far from the cache's state word each time; turn_to() is
///      for a cell that is open and a word that leaves it so.
/// - I5 A magazine's capacity is in its header and `limit` derives from it: resizing touches no other hart.
/// - I6 The word below slot 0 is null. A null among the rounds is a freed nullptr, found by the slow path.
///
/// Source: Bonwick and Adams 2001, section 3; the closed address and the two exposures are ours.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <qm/config.h>
#include <qm/configuration.h>
#include <qm/bits.hpp>
#include <qm/lock.hpp>

namespace qm {

/// Whether caches have magazines. Otherwise a cache has neither cells nor a depot, and every operation goes to its slabs.
#if defined(QM_MAGAZINES)
inline constexpr bool kMagazines = true;
#else
inline constexpr bool kMagazines = false;
#endif

struct Magazine {
  Magazine* next = nullptr;      ///< in the depot or the reserve
  std::uint8_t capacity = 0;     ///< slots
  std::uint8_t rounds = 0;       ///< valid while the magazine is not loaded
  std::uint16_t end_offset = 0;  ///< bytes from here to end(), which is looked at more often than the capacity
  void* bottom = nullptr;        ///< always null

  [[nodiscard]] void** slots() noexcept { return &bottom + 1; }
  [[nodiscard]] void** end() noexcept {
    return reinterpret_cast<void**>(reinterpret_cast<std::uintptr_t>(this) + end_offset);
  }
  /// Whether a magazine of the list that begins with @p first has @p object.
  [[nodiscard]] static bool is_in(const void* object, Magazine* first) noexcept;
};
static_assert(sizeof(Magazine) == 3 * sizeof(void*));

/// The sizes of magazines, in rounds. The largest of each block of 16, 32 and 64 words fill it.
inline constexpr std::uint16_t kMagazineRounds[] = {1, 3, 7, 13, 29, 61};
inline constexpr unsigned kMagazineSteps = 6;

/// The closed address is &kClosed[1]: the word below it is null, so a pop finds the cell empty.
extern void* const kClosed[2];
inline constexpr void** closed_address() noexcept { return const_cast<void**>(&kClosed[1]); }

/// Most rounds a magazine can have.
inline constexpr std::uint32_t kMaxRounds = kMagazineRounds[kMagazineSteps - 1];
static_assert(kMaxRounds <= UINT8_MAX);

/// What a hart counts of a cache. Each hart writes its own, masked; others read.
struct HartCounts {
  [[no_unique_address]] std::conditional_t<kCounted, std::atomic<Word>, NoCount> allocs{};  ///< allocations ever
  std::atomic<std::uint32_t> misses{0};    ///< slow paths taken for want of a round or of room
  std::atomic<std::uint32_t> failures{0};  ///< allocations that returned nullptr
  std::atomic<std::uint16_t> misuses{0};   ///< bad frees, damage, refused destroys; stays at the most it can be

  /// Counts an allocation that no section counted.
  void count_allocation() noexcept { store_relaxed(allocs, allocs.load(std::memory_order_relaxed) + 1); }
  /// Adds one to a count, unless it is at its most already.
  template <class T>
  static void add_one(std::atomic<T>& count) noexcept {
    const auto more = static_cast<T>(count.load(std::memory_order_relaxed) + 1);
    if (sizeof(T) == sizeof(std::uint32_t) || more != 0) store_relaxed(count, more);
  }
};

/// With more than two words of alignment, each cache would be padded for it; what harts touch on their fast paths, the
/// first two words, lies a cell apart all the same.
struct alignas(2 * sizeof(void*)) Cell {
  std::atomic<void**> top{closed_address()};
  std::atomic<void**> limit{nullptr};
  std::atomic<Magazine*> loaded{nullptr};  ///< owner hart, masked
  Magazine* prev = nullptr;                ///< owner hart, masked; its `rounds` is valid
  /// The real top while `top` is the closed address; which it is, too, with nothing loaded.
  std::atomic<void**> saved_top{closed_address()};
  [[no_unique_address]] HartCounts counts{};
  std::atomic<std::uint8_t> prev_rounds{0};  ///< of `prev`, readable by others for statistics
  std::uint8_t inspected = 0;                ///< owner hart, masked: the round of a full magazine to look at next

  /// Makes saved_top the truth and shuts both paths. Owner hart, masked.
  void close() noexcept {
    void** real = top.load(std::memory_order_relaxed);
    if (real != closed_address()) store_relaxed(saved_top, real);
    store_relaxed(top, closed_address());
    store_relaxed(limit, nullptr);
  }

  /// Takes one round. Precondition: close() was called.
  /// @returns false if neither magazine has one.
  bool take(void*& object) noexcept;

  /// Puts one round. Precondition: close() was called. @returns false if neither magazine has room.
  bool put(void* object) noexcept;
  /// Puts up to @p count rounds. Precondition: close() was called. @returns how many there was room for.
  unsigned put(void* const* objects, unsigned count) noexcept;

  /// Counts an allocation that no section counted. Owner hart, masked.
  void count_allocation() noexcept { counts.count_allocation(); }
  /// Counts a slow path taken for want of a round or of room. Owner hart, masked.
  void count_miss() noexcept { HartCounts::add_one(counts.misses); }

  /// The round that a closed cell would give. @returns nullptr if the loaded magazine has none or a freed null lies on
  /// top. Owner hart, masked; as the next two.
  [[nodiscard]] void* peek_closed() const noexcept {
    return saved_top.load(std::memory_order_relaxed)[-1];  // below slot 0, and below the closed address, lies a null
  }
  /// Takes the round that peek_closed() has shown. The cell stays closed.
  void drop_closed() noexcept { store_relaxed(saved_top, saved_top.load(std::memory_order_relaxed) - 1); }
  /// Takes a round. @returns nullptr, and nothing has changed, where peek_closed() does.
  [[nodiscard]] void* take_closed() noexcept {
    void* object = peek_closed();
    if (object != nullptr) drop_closed();
    return object;
  }

  /// Whether a round has room at @p place, the top of a cell that is watching or closed. Owner hart, masked.
  [[nodiscard, gnu::always_inline]] bool has_room(void** place) const noexcept {
    Magazine* to = loaded.load(std::memory_order_relaxed);
    return to != nullptr && place != to->end();
  }
  /// Puts a round where has_room() says that there is some. @p real is `top` or `saved_top`.
  [[gnu::always_inline]] static void put_at(std::atomic<void**>& real, void** place, void* object) noexcept {
    *place = object;
    store_relaxed(real, place + 1);
  }
  /// Puts a round into a cell that is watching or closed, and stays so. @returns false, and nothing has changed, if
  /// there is no room. Owner hart, masked.
  [[nodiscard]] bool put_watched(void* object) noexcept {
    void** const place = top.load(std::memory_order_relaxed);
    if (place == closed_address()) return put(saved_top, saved_top.load(std::memory_order_relaxed), object);
    return put(top, place, object);
  }

  /// Swaps loaded and previous. Precondition: close() was called.
  void swap() noexcept;

  /// Makes @p magazine the loaded one of an open cell, with its top at @p new_top, and @p former, which is loaded and
  /// has
  /// @p rounds, the previous one. Owner hart, masked.
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

  /// Rounds in both magazines. Any hart may ask: an estimate while the owner runs, exact when it does not.
  [[nodiscard]] std::size_t rounds() const noexcept;

  /// Loads @p magazine, whose `rounds` is valid, and returns what was loaded, its `rounds` set. Precondition: close().
  Magazine* load(Magazine* magazine) noexcept;

 private:
  [[nodiscard, gnu::always_inline]] bool put(std::atomic<void**>& real, void** place, void* object) noexcept {
    const bool fits = has_room(place);
    if (fits) put_at(real, place, object);
    return fits;
  }
};
static_assert(sizeof(Cell) == (kCounted && sizeof(void*) == 4 ? 10 : 8) * sizeof(void*));

/// A cell that is closed for ever: what a hart's pointer to a cell points at while the hart has none
/// (inline_cache.hpp). Nobody writes it.
extern const Cell kClosedCell;
inline constexpr Cell* closed_cell() noexcept { return const_cast<Cell*>(&kClosedCell); }

/// Offset from tp that no hart-local has.
inline constexpr std::uint16_t kNoCellPointer = 0xffff;

/// A cache's magazines that no hart owns, and the size of those to come. Every operation is O(1); the lists are under
/// its lock, the counters that only steer are not: a count that two harts add to at once may be lost.
class Depot {
 public:
  /// With each kBusyExchanges of an interval the next size is due. A magazine that is filled from the slabs counts as
  /// exchanged, and an exchange that had to wait for the lock as kWaitExchanges.
  static constexpr std::uint32_t kBusyExchanges = 16;
  static constexpr std::uint32_t kWaitExchanges = 8;
  /// An interval with fewer exchanges was quiet: the size before is due.
  static constexpr std::uint32_t kQuietExchanges = 8;
  /// Rounds that frees may leave here, in full magazines of the first size: so many to begin with, one of the present
  /// size more with each allocation that misses what had to go on to the slabs, up to so many, and fewer again when
  /// they lie unused. What a program frees in bulk and takes no more is not kept from others.
  static constexpr std::uint32_t kLeastKept = 2;
  static constexpr std::uint32_t kMostKept = 32;

  /// Sets the size of magazines for objects of @p object_size bytes.
  /// @param[in] rounds what to begin with; 0: as many as hold 4 KiB, at most 13. The depot grows them up to 4 KiB, and
  ///            where harts wait for each other up to 16 KiB.
  void initialize(std::size_t object_size, std::uint32_t rounds) noexcept;

  /// Rounds of the magazines to come.
  [[nodiscard]] std::uint32_t rounds() const noexcept { return kMagazineRounds[step_.load(std::memory_order_relaxed)]; }

  /// Takes a magazine with rounds, and takes in @p surplus, empty or null, for it. @returns nullptr, and has not taken
  /// @p surplus, if there is none.
  [[nodiscard]] Magazine* exchange_for_full(Magazine* surplus) noexcept { return exchange(kFull, surplus); }
  /// Whether there is a magazine with rounds. An estimate: looks without the lock.
  [[nodiscard]] bool has_full() const noexcept { return full_rounds_.load(std::memory_order_relaxed) != 0; }
  /// Whether there is an empty magazine. An estimate, as has_full().
  [[nodiscard]] bool has_empty() const noexcept { return first_[kEmpty].load(std::memory_order_relaxed) != nullptr; }
  /// Takes an empty magazine of the present size, and takes in @p surplus, full or null, for it. @returns as above.
  [[nodiscard]] Magazine* exchange_for_empty(Magazine* surplus) noexcept { return exchange(kEmpty, surplus); }
  /// Whether another full magazine would only lie here: what a full cell cannot take is for the slabs. An estimate:
  /// looks without the lock.
  [[nodiscard]] bool turns_away() const noexcept {
    return full_rounds_.load(std::memory_order_relaxed) >= kept_.load(std::memory_order_relaxed);
  }
  /// @p objects went on to the slabs for that.
  void count_passed(unsigned objects) noexcept {
    const std::uint32_t passed = passed_.load(std::memory_order_relaxed) + objects;
    store_relaxed(passed_, static_cast<std::uint16_t>(passed < UINT16_MAX ? passed : UINT16_MAX));
  }
  /// An allocation has found nothing here and takes from the slabs.
  void count_refill() noexcept {
    count_exchange(false);
    if (passed_.load(std::memory_order_relaxed) != 0) keep_more();  // had more been kept, it would have been found
  }

  /// Takes a magazine in: to the full ones if it has rounds, else to the empty ones.
  void give(Magazine* magazine) noexcept;
  /// @returns a magazine with rounds, nullptr if there is none.
  [[nodiscard]] Magazine* take_full() noexcept { return take(kFull); }
  /// @returns an empty magazine of any size, nullptr if there is none.
  [[nodiscard]] Magazine* take_empty() noexcept { return take(kEmpty); }

  /// Magazines that lay here unused for a whole interval.
  struct Unused {
    std::uint32_t full = 0;
    std::uint32_t empty = 0;
  };
  /// Ends an interval: tells what it did not use, and after a quiet one goes back to the size before.
  [[nodiscard]] Unused end_interval(bool& quiet) noexcept;

  /// Whether one of the full magazines has @p object. Complexity: O(rounds), under the lock: for the console.
  [[nodiscard]] bool holds(const void* object) noexcept;

  struct Stats {
    std::size_t full = 0;
    std::size_t empty = 0;
    std::size_t rounds = 0;
    std::uint32_t changes = 0;  ///< of the size of magazines
  };
  [[nodiscard]] Stats stats() noexcept;

  /// Keeps others out for a scope: a test makes them wait.
  class Hold {
   public:
    explicit Hold(Depot& depot) noexcept : hold_(depot.lock_) {}

   private:
    LockGuard hold_;
  };

 private:
  enum Shelf : std::size_t { kFull, kEmpty };
  struct Count {
    std::uint16_t now = 0;
    std::uint16_t least = 0;  ///< of this interval
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
  [[gnu::cold]] void keep_more() noexcept;
  void change_step(unsigned step) noexcept;
  [[nodiscard]] std::uint32_t least_kept() const noexcept { return kLeastKept * kMagazineRounds[least_step_]; }
  [[nodiscard]] std::uint32_t most_kept() const noexcept { return kMostKept * kMagazineRounds[least_step_]; }

  Lock lock_;
  // What harts and kept_ bound to a few thousand.
  std::atomic<std::uint16_t> full_rounds_{0};  ///< written under the lock
  std::atomic<std::uint16_t> kept_{0};         ///< rounds that are enough
  std::atomic<Magazine*> first_[2]{};          ///< of each shelf; written under the lock
  Count count_[2];
  /// Objects that went on to the slabs and were not missed yet, or so many.
  std::atomic<std::uint16_t> passed_{0};
  std::atomic<std::uint16_t> exchanges_{0};  ///< of this interval
  std::atomic<std::uint16_t> changes_{0};
  std::atomic<std::uint8_t> step_{0};  ///< into kMagazineRounds
  std::uint8_t least_step_ : 3 = 0;
  std::uint8_t most_step_ : 3 = 0;
  std::uint8_t more_contended_ : 2 = 0;  ///< steps beyond most_step_ where harts wait for each other
};

/// The depot of a build without magazines: it has none, and nothing is counted.
class NoDepot {
 public:
  static void initialize(std::size_t, std::uint32_t) noexcept {}
  [[nodiscard]] static constexpr std::uint32_t rounds() noexcept { return 0; }
  [[nodiscard]] static constexpr Magazine* exchange_for_full(Magazine*) noexcept { return nullptr; }
  [[nodiscard]] static constexpr Magazine* exchange_for_empty(Magazine*) noexcept { return nullptr; }
  [[nodiscard]] static constexpr bool has_full() noexcept { return false; }
  [[nodiscard]] static constexpr bool has_empty() noexcept { return false; }
  [[nodiscard]] static constexpr bool turns_away() noexcept { return true; }
  static void count_passed(unsigned) noexcept {}
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
