#pragma once
/// The ring in which a hart puts its events, until somebody takes them out.
///
///     entries:  | ... | tail -> oldest | ... | head -> next | ...      free-running, modulo the capacity
///     limit:    where the hart looks again how much room there is; the head itself after a drop
///
/// Invariants
/// - E1 The hart that owns the ring writes head, limit, entries and counts, with interrupts masked; one reader writes
///      tail.
/// - E2 What is dropped is counted, and before the next event that finds room stands a note that says how many were
///      dropped. So the place of each drop is known, and the number of an event follows from those before it.
/// - E3 An event is put or dropped as a whole, of however many entries.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <qm/wire/event.hpp>

namespace qm::trace {

/// An event as it lies in a ring. Of a reallocation that moved, the second entry has what is new.
struct RingEntry {
  std::uint64_t address = 0;
  std::uint32_t stack_context = 0;  ///< Record::stack_context; of a note its number
  std::uint32_t requested = 0;
  std::uint32_t number = 0;  ///< the global one
  std::uint32_t ticks = 0;   ///< the low word
  std::uint32_t what = 0;    ///< source 16, operation 4, flags 4, kQuantumMore, kBytes, kMoved
  std::uint32_t beside = 0;  ///< the number of the call site of who allocated, 0: none; with kBytes: a segment's bytes

  static constexpr std::uint32_t pack(std::uint32_t source, wire::Operation operation,
                                      std::uint32_t flags = 0) noexcept {
    return source | static_cast<std::uint32_t>(operation) << 16 | flags << 20;
  }
  [[nodiscard]] std::uint32_t source() const noexcept { return what & 0xffff; }
  [[nodiscard]] wire::Operation operation() const noexcept { return static_cast<wire::Operation>(what >> 16 & 15); }
  /// wire::AllocationFlag
  [[nodiscard]] std::uint32_t flags() const noexcept { return what >> 20 & 15; }
  /// Of an arena's segment: it has a quantum more than wire::segment_bytes().
  static constexpr std::uint32_t kQuantumMore = 1U << 29;
  /// Of an arena's segment with still more bytes: `beside` has their number.
  static constexpr std::uint32_t kBytes = 1U << 30;
  /// Of a reallocation: a second entry follows.
  static constexpr std::uint32_t kMoved = 1U << 31;
  [[nodiscard]] bool is_moved() const noexcept { return (what & kMoved) != 0; }
};
static_assert(sizeof(RingEntry) == 32);

class alignas(64) EventRing {
 public:
  /// Fewer make no ring: a note, an event of two entries, and one more.
  static constexpr std::uint32_t kMinEntries = 8;

  /// Starts empty. @param[in] entries a power of two of them. Context: nobody uses the ring.
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

  /// Puts an event. Its number, when it is put, is the next of @p numbers; it goes on when it is dropped as well.
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

  /// From here on the hart goes by @p mode, and says so here if there is room. Context: the owner, masked.
  void change_mode(wire::StreamMode mode) noexcept;
  [[nodiscard]] wire::StreamMode mode() const noexcept { return mode_; }

  // ---- the reader's

  /// Entries that wait. Context: any.
  [[nodiscard]] std::uint32_t waiting() const noexcept {
    return head_.load(std::memory_order_acquire) - tail_.load(std::memory_order_relaxed);
  }
  /// The entry @p ahead of the oldest, of those that wait.
  [[nodiscard]] const RingEntry& peek(std::uint32_t ahead = 0) const noexcept {
    return entries_[(tail_.load(std::memory_order_relaxed) + ahead) & mask_];
  }
  /// Gives the room of @p count entries back.
  void drop(std::uint32_t count) noexcept {
    // release: pairs with the acquire in put_slow(): what was here has been read.
    tail_.store(tail_.load(std::memory_order_relaxed) + count, std::memory_order_release);
  }
  /// Events dropped since the beginning; wraps. Context: any.
  [[nodiscard]] std::uint32_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  /// Drops that no note has said, and none will. Context: the hart has stopped.
  [[nodiscard]] std::uint32_t take_unsaid() noexcept {
    const std::uint32_t unsaid = lost_unsaid_;
    lost_unsaid_ = 0;
    return unsaid;
  }
  /// Whether a change of mode has found no room for its note. Context: the hart has stopped.
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
    // relaxed: one word has one order; and cause comes before effect, since the object is handed on after this or was
    // before.
    entry.number = numbers.fetch_add(1, std::memory_order_relaxed);
    return entry;
  }
  void put_slow(std::uint32_t what, std::uint64_t address, std::uint32_t stack_context, std::uint32_t requested,
                std::uint32_t beside, std::atomic<std::uint32_t>& numbers, std::uint32_t ticks) noexcept;
  bool say(std::uint32_t entries) noexcept;
  bool make_room(std::uint32_t entries, std::atomic<std::uint32_t>& numbers) noexcept;
  void put_note(wire::Operation operation, std::uint32_t value) noexcept;

  // The owner's:
  std::atomic<std::uint32_t> head_{0};
  std::uint32_t limit_ = 0;
  std::uint32_t mask_ = 0;
  wire::StreamMode mode_ = wire::StreamMode::kFull;
  bool mode_unsaid_ = false;
  RingEntry* entries_ = nullptr;
  std::uint32_t lost_unsaid_ = 0;
  std::atomic<std::uint32_t> lost_{0};
  // The reader's:
  alignas(64) std::atomic<std::uint32_t> tail_{0};
};

}  // namespace qm::trace
