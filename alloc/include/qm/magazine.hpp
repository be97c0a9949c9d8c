#pragma once
/// Magazines, the depot and the cell: what stands between a hart and the slab layer.
///
///     Magazine:  | next | capacity, rounds | null | slot 0 | slot 1 | ... | slot capacity-1 |
///                                             ^ bottom: the word below slot 0 is null
///
/// A cell is one hart's share of one cache. Its `top` points one past the youngest round of the loaded magazine; `limit` one
/// past the magazine's end. They are all that the fast path touches, and they say how far the cell is open:
///
///     exposure   top          limit              pop    push
///     open       real         end of magazine    fast   fast
///     watching   real         0                  fast   slow      frees look for trace records
///     closed     &kClosed[1]  0                  slow   slow      allocations are recorded; also: nothing loaded
///
/// Invariants (mechanisms: "the cell")
/// - I1 `top` and `limit` are written by the owning hart only: by a section, or with interrupts masked by close() and
///      Cache::expose(). Nobody else, ever; other harts only read `top` for statistics.
/// - I2 `top` is the truth unless it equals the closed address; then `saved_top` is.
/// - I3 Cache::expose() alone opens anything, and computes how far from the cache's state word each time.
/// - I5 A magazine's capacity is in its header and `limit` derives from it: resizing touches no other hart.
/// - I6 The word below slot 0 is null. A null among the rounds is a freed nullptr, found by the slow path.
///
/// Source: Bonwick and Adams 2001, section 3; the closed address and the two exposures are ours.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/lock.hpp>

namespace qm {

/// A machine word as an integer: counters that a hart alone writes, without an 8-byte atomic on RV32.
using Word = unsigned long;

struct Magazine {
  Magazine* next = nullptr;    ///< in the depot
  std::uint32_t capacity = 0;  ///< slots
  std::uint32_t rounds = 0;    ///< valid while the magazine is not loaded
  void* bottom = nullptr;      ///< always null

  [[nodiscard]] void** slots() noexcept { return &bottom + 1; }
  [[nodiscard]] void** end() noexcept { return slots() + capacity; }
  /// Bytes of a magazine of @p capacity rounds.
  static constexpr std::size_t bytes(std::uint32_t capacity) noexcept { return sizeof(Magazine) + capacity * sizeof(void*); }
};

/// The closed address is &kClosed[1]: the word below it is null, so a pop finds the cell empty.
extern void* const kClosed[2];
inline constexpr void** closed_address() noexcept { return const_cast<void**>(&kClosed[1]); }

/// Most rounds a magazine can have.
inline constexpr std::uint32_t kMaxRounds = 61;

struct alignas(8 * sizeof(void*)) Cell {
  std::atomic<void**> top{closed_address()};
  std::atomic<void**> limit{nullptr};
  std::atomic<Magazine*> loaded{nullptr};     ///< owner hart, masked
  Magazine* prev = nullptr;                   ///< owner hart, masked; its `rounds` is valid
  std::atomic<void**> saved_top{nullptr};     ///< the real top while `top` is the closed address
  std::atomic<Word> allocs{0};                ///< allocations ever; a hart adds to its own only (QM_COUNT)
  std::atomic<std::uint32_t> misses{0};       ///< slow paths taken for want of a round or of room
  std::atomic<std::uint32_t> prev_rounds{0};  ///< of `prev`, readable by others for statistics

  /// Makes saved_top the truth and shuts both paths. Owner hart, masked.
  void close() noexcept {
    void** real = top.load(std::memory_order_relaxed);
    if (real != closed_address()) saved_top.store(real, std::memory_order_relaxed);
    top.store(closed_address(), std::memory_order_relaxed);
    limit.store(nullptr, std::memory_order_relaxed);
  }

  /// Takes one round. Precondition: close() was called.
  /// @returns false if neither magazine has one.
  bool take(void*& object) noexcept;

  /// Puts one round. Precondition: close() was called. @returns false if neither magazine has room.
  bool put(void* object) noexcept;

  /// Swaps loaded and previous. Precondition: close() was called.
  void swap() noexcept;

  void set_prev(Magazine* magazine) noexcept {
    prev = magazine;
    prev_rounds.store(magazine != nullptr ? magazine->rounds : 0, std::memory_order_relaxed);
  }

  /// Rounds in both magazines. Any hart may ask: an estimate while the owner runs, exact when it does not.
  [[nodiscard]] std::size_t rounds() const noexcept;

  /// Loads @p magazine, whose `rounds` is valid, and returns what was loaded, its `rounds` set. Precondition: close().
  Magazine* load(Magazine* magazine) noexcept;
};
static_assert(sizeof(Cell) == 8 * sizeof(void*));

/// A cell that is closed for ever: what a hart's pointer to a cell points at while the hart has none (inline_cache.hpp). Nobody
/// writes it.
extern const Cell kClosedCell;
inline constexpr Cell* closed_cell() noexcept { return const_cast<Cell*>(&kClosedCell); }

/// Offset from tp that no hart-local has.
inline constexpr std::uint16_t kNoCellPointer = 0xffff;

/// A cache's magazines that no hart owns. Every operation is O(1) under its lock.
class Depot {
 public:
  /// Gives a magazine: to the full list if it has rounds, else to the empty one.
  void give(Magazine* magazine) noexcept;
  /// @returns a magazine with rounds, nullptr if there is none.
  [[nodiscard]] Magazine* take_full() noexcept { return take(full_); }
  /// @returns an empty magazine, nullptr if there is none.
  [[nodiscard]] Magazine* take_empty() noexcept { return take(empty_); }

  /// Whether one of the full magazines has @p object. Complexity: O(rounds), under the lock: for the console.
  [[nodiscard]] bool holds(const void* object) noexcept;

  struct Stats {
    std::size_t full = 0;
    std::size_t empty = 0;
    std::size_t rounds = 0;
  };
  [[nodiscard]] Stats stats() noexcept;

 private:
  struct Shelf {
    Magazine* first = nullptr;
    std::size_t count = 0;
    std::size_t rounds = 0;
  };
  Magazine* take(Shelf& shelf) noexcept;

  Lock lock_;
  Shelf full_;
  Shelf empty_;
};

}  // namespace qm
