#pragma once
/// The ring into which a hart puts its events, and from which a reader takes them.
///
///     entries:  | ... | tail -> oldest | ... | head -> next | ...      free-running, modulo the capacity
///     limit:    the head at which the hart reads the tail again; equal to the head after a drop
///
/// Invariants
/// - E1 The hart that owns the ring writes head, limit, entries and counts, with interrupts masked; one reader writes
///      tail.
/// - E2 Each dropped event is counted, and before the next event that finds room the ring has a note with the number of
///      dropped events. So the place of each drop is known, and the number of an event follows from the numbers before
///      it.
/// - E3 An event is put or dropped as a whole, with all its entries.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <qm/wire/event.hpp>

namespace qm::trace {

/// An event as it lies in a ring. For a reallocation that moved, the second entry describes the new place.
struct RingEntry {
  std::uint64_t address = 0;
  std::uint32_t stack_context = 0;  ///< Record::stack_context; in a note: its number
  std::uint32_t requested = 0;
  std::uint32_t number = 0;  ///< the global number
  std::uint32_t ticks = 0;   ///< the low word
  std::uint32_t what = 0;    ///< source 16, operation 4, flags 4, kQuantumMore, kBytes, kMoved
  std::uint32_t beside = 0;  ///< the call site of the allocation, 0: none; with kBytes: a segment's bytes

  static constexpr std::uint32_t pack(std::uint32_t source, wire::Operation operation,
                                      std::uint32_t flags = 0) noexcept {
    return source | static_cast<std::uint32_t>(operation) << 16 | flags << 20;
  }
  [[nodiscard]] std::uint32_t source() const noexcept { return what & 0xffff; }
  [[nodiscard]] wire::Operation operation() const noexcept { return static_cast<wire::Operation>(what >> 16 & 15); }
  /// The wire::AllocationFlag bits.
  [[nodiscard]] std::uint32_t flags() const noexcept { return what >> 20 & 15; }
  /// In an event of an arena's segment: it has one quantum more than wire::segment_bytes().
  static constexpr std::uint32_t kQuantumMore = 1U << 29;
  /// In an event of an arena's segment with still more bytes: `beside` has their number.
  static constexpr std::uint32_t kBytes = 1U << 30;
  /// In an event of a reallocation: a second entry follows.
  static constexpr std::uint32_t kMoved = 1U << 31;
  [[nodiscard]] bool is_moved() const noexcept { return (what & kMoved) != 0; }
};
static_assert(sizeof(RingEntry) == 32);

class alignas(64) EventRing {
 public:
  /// Fewest entries: a note, an event of two entries, and one more.
  static constexpr std::uint32_t kMinEntries = 8;

  /// Starts empty. @param[in] entries their number is a power of two. Context: nobody uses the ring.
  void initialize(std::span<RingEntry> entries, wire::StreamMode mode) noexcept {
    entries_ = entries.data();
    mask_ = static_cast<std::uint32_t>(entries.size()) - 1;
    limit_ = mask_ + 1;
    mode_ = mode;
    mode_unsaid_ = false;
    lost_unsaid_ = 0;
    head_.store(0, std::memory_order_relaxed);
    tail_.store(0, std::memory_order_relaxed);
    lost_.store(0, std::memory_order_relaxed);
  }

  /// Puts an event, or drops it if the ring is full. Either way it takes the next number from @p numbers.
  /// Context: the owner, masked.
  [[gnu::always_inline]] void put(std::uint32_t what, std::uint64_t address, std::uint32_t stack_context,
                                  std::uint32_t requested, std::uint32_t beside, std::atomic<std::uint32_t>& numbers,
                                  std::uint32_t ticks) noexcept {
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    if (head == limit_) [[unlikely]]
      return put_slow(what, address, stack_context, requested, beside, numbers, ticks);
    write(head, what, address, stack_context, requested, beside, numbers, ticks);
    // release: pairs with the acquire in peek().
    head_.store(head + 1, std::memory_order_release);
  }

  /// Puts a reallocation that moved, as two entries. Context: as put().
  void put_move(const RingEntry& from, const RingEntry& to, std::atomic<std::uint32_t>& numbers) noexcept;

  /// Sets the hart's mode to @p mode, and puts a note about it if there is room. Context: the owner, masked.
  void change_mode(wire::StreamMode mode) noexcept;
  [[nodiscard]] wire::StreamMode mode() const noexcept { return mode_; }

  // ---- the reader's functions

  /// The number of entries in the ring. Context: any.
  [[nodiscard]] std::uint32_t waiting() const noexcept {
    return head_.load(std::memory_order_acquire) - tail_.load(std::memory_order_relaxed);
  }
  /// The entry @p ahead places after the oldest; @p ahead is below waiting().
  [[nodiscard]] const RingEntry& peek(std::uint32_t ahead = 0) const noexcept {
    return entries_[(tail_.load(std::memory_order_relaxed) + ahead) & mask_];
  }
  /// Frees the room of the oldest @p count entries.
  void drop(std::uint32_t count) noexcept {
    // release: pairs with the acquire in put_slow(): the entries have been read before they are overwritten.
    tail_.store(tail_.load(std::memory_order_relaxed) + count, std::memory_order_release);
  }
  /// The number of events dropped since the beginning; wraps. Context: any.
  [[nodiscard]] std::uint32_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  /// The number of dropped events that are in no note; no note will follow. Context: the hart has stopped.
  [[nodiscard]] std::uint32_t take_unsaid() noexcept {
    const std::uint32_t unsaid = lost_unsaid_;
    lost_unsaid_ = 0;
    return unsaid;
  }
  /// Whether a change of mode found no room for its note. Context: the hart has stopped.
  [[nodiscard]] bool take_unsaid_mode() noexcept {
    const bool unsaid = mode_unsaid_;
    mode_unsaid_ = false;
    return unsaid;
  }
  [[nodiscard]] std::uint32_t capacity() const noexcept { return mask_ + 1; }

 private:
  [[gnu::always_inline]] RingEntry& write(std::uint32_t at, std::uint32_t what, std::uint64_t address,
                                          std::uint32_t stack_context, std::uint32_t requested, std::uint32_t beside,
                                          std::atomic<std::uint32_t>& numbers, std::uint32_t ticks) noexcept {
    RingEntry& entry = entries_[at & mask_];
    entry.address = address;
    entry.stack_context = stack_context;
    entry.requested = requested;
    entry.what = what;
    entry.beside = beside;
    entry.ticks = ticks;
    // relaxed: all harts see one order of the numbers. Cause precedes effect, since an object is passed on after its
    // allocation is put and before its free is put.
    entry.number = numbers.fetch_add(1, std::memory_order_relaxed);
    return entry;
  }
  void put_slow(std::uint32_t what, std::uint64_t address, std::uint32_t stack_context, std::uint32_t requested,
                std::uint32_t beside, std::atomic<std::uint32_t>& numbers, std::uint32_t ticks) noexcept;
  bool say(std::uint32_t entries) noexcept;
  bool make_room(std::uint32_t entries, std::atomic<std::uint32_t>& numbers) noexcept;
  void put_note(wire::Operation operation, std::uint32_t value) noexcept;

  // Written by the owner:
  std::atomic<std::uint32_t> head_{0};
  std::uint32_t limit_ = 0;
  std::uint32_t mask_ = 0;
  wire::StreamMode mode_ = wire::StreamMode::kFull;
  bool mode_unsaid_ = false;
  RingEntry* entries_ = nullptr;
  std::uint32_t lost_unsaid_ = 0;
  std::atomic<std::uint32_t> lost_{0};
  // Written by the reader:
  alignas(64) std::atomic<std::uint32_t> tail_{0};
};

}  // namespace qm::trace
