#pragma once
/// Trace records in slots that never move.
///
///     directory: | chunk 0 -> | chunk 1 -> | ...        a chunk: 168 records, 4032 bytes
///     free slots:  | stash of hart 0 | stash of hart 1 | ...    slot ids, each hart's own
///                  shelf -> batch -> batch -> ...               a batch: up to kBatch ids, in an eighth of its slots
///     slot id = (address of the slot - base) / 8; 0 = none
///
///     batch: | ids 0..3: in slot 24 | 4..7: in slot 25 | ... | 28..30 and the next batch: in slot 31 |
///     known by the last id; a batch that is not full lacks the first ones
///
///     record: | sequence low | cache 16, hart 5, sequence high 11 | object / 8 | stack 22, context 9, 1 | time | size |
///
/// Invariants
/// - T1 A slot is free iff the low word of its sequence number is 0, or its cache is: no record's are. Free slots soon
///      have both.
/// - T2 Whoever inserts writes the low word last, and whoever removes clears it first, by compare-and-swap: one of
///      those who remove a record succeeds, and a copy with the same low word before and after is of one record. Who is
///      alone in removing records of a cache (claim_own()) needs no compare-and-swap.
/// - T3 A published chunk stays where it is for ever.
/// - T4 Sequence numbers of records are unique: a slot that holds the number it held before was not freed in between.
///      For the low word this holds until 2^32 records later: a copy or a removal takes some instructions.
/// - T5 A stash is touched by its hart alone, masked. A slot goes to the stash of the hart that frees it; what is too
///      much there goes to the shelf, so that slots come back to whoever allocates.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <qm/bits.hpp>
#include <qm/lock.hpp>
#include <qm/page_map.hpp>
#include <qm/trace/sequence.hpp>
#include <qm/trace/stack_depot.hpp>
#include <qm/trace/context_table.hpp>

namespace qm::trace {

/// Where a record lies; what a slab's side array keeps for each object. Below 2^30.
using SlotId = std::uint32_t;
inline constexpr SlotId kNoSlot = 0;

/// One live object of a traced cache. @tparam Whole, Half what 32 and 16 bits are kept in.
template <class Whole, class Half>
struct BasicRecord {
  static constexpr unsigned kCacheBits = 16;
  static constexpr unsigned kHartBits = 5;
  /// Set in every record's stack_context, so that it can stand in a handle for what is no slot.
  static constexpr std::uint32_t kMark = 0x8000'0000;

  std::uint32_t sequence_low = 0;
  Whole object = 0;         ///< address / 8, or the id of a cache of ids
  Whole stack_context = 0;  ///< stack handle, context id above it, kMark
  Half cache = 0;
  Half hart_sequence = 0;  ///< hart, upper bits of the sequence
  Whole time = 0;          ///< coarse ticks
  Whole size = 0;          ///< bytes asked for

  [[nodiscard]] unsigned hart() const noexcept { return hart_sequence & ((1U << kHartBits) - 1); }
  [[nodiscard]] std::uint64_t sequence() const noexcept {
    return static_cast<std::uint64_t>(hart_sequence >> kHartBits) << 32 | sequence_low;
  }
  [[nodiscard]] StackHandle stack() const noexcept { return stack_in(stack_context); }
  [[nodiscard]] std::uint32_t context() const noexcept { return context_in(stack_context); }
  void set_place(std::uint32_t of, std::size_t hart, std::uint64_t sequence) noexcept {
    cache = static_cast<Half>(of);
    hart_sequence = static_cast<Half>(sequence >> 32 << kHartBits | hart);
    sequence_low = static_cast<std::uint32_t>(sequence);
  }
  static constexpr std::uint32_t pack(StackHandle stack, std::uint32_t context) noexcept {
    return context << kStackHandleBits | stack | kMark;
  }
  static constexpr StackHandle stack_in(std::uint32_t packed) noexcept {
    return packed & ((1U << kStackHandleBits) - 1);
  }
  static constexpr std::uint32_t context_in(std::uint32_t packed) noexcept {
    return (packed & ~kMark) >> kStackHandleBits;
  }
};
using Record = BasicRecord<std::uint32_t, std::uint16_t>;
/// A record as it is put together: of each word what fits is stored, and nothing has to be cut to size before.
using RecordInRegisters = BasicRecord<std::uintptr_t, std::uintptr_t>;
static_assert(Record::kCacheBits + Record::kHartBits + Sequence::kBits == 64);
static_assert(kStackHandleBits + kContextIdBits == 31);
static_assert(hal::Port::kMaxHarts <= 1U << Record::kHartBits);

/// What stands in the handle of an object that is counted and has no record: no slot id, and not negative.
struct CountWord {
  static constexpr std::uint32_t kMark = 0x4000'0000;
  static constexpr std::uint32_t of(StackHandle stack) noexcept { return kMark | stack; }
  static constexpr bool is(std::uint32_t word) noexcept { return (word & (Record::kMark | kMark)) == kMark; }
};

/// A record where it lies (T2).
struct alignas(8) RecordSlot {
  std::atomic<std::uint32_t> sequence_low{0};
  std::atomic<std::uint16_t> cache{0};
  std::atomic<std::uint16_t> hart_sequence{0};
  // Free, in a batch: four ids.
  std::atomic<std::uint32_t> object{0};
  std::atomic<std::uint32_t> stack_context{0};
  std::atomic<std::uint32_t> time{0};
  std::atomic<std::uint32_t> size{0};  ///< in the slot that a batch is known by: the next batch

  /// Makes the slot free by T1, in one store where a word is as long.
  void clear() noexcept {
    if constexpr (sizeof(void*) == 8) {
      store_relaxed(*reinterpret_cast<std::uint64_t*>(this), 0);
    } else {
      store_relaxed(sequence_low, 0);
      store_relaxed(cache, 0);
    }
  }

  /// Has a free slot keep four ids, and copies them back. They lie at a multiple of 8.
  void keep(const SlotId* ids) noexcept { copy_relaxed(&object, ids, kFourIds); }
  void tell(SlotId* ids) const noexcept { copy_relaxed(ids, &object, kFourIds); }
  static constexpr std::size_t kFourIds = 4 * sizeof(SlotId) / sizeof(Word);  ///< words
};
static_assert(sizeof(RecordSlot) == 24 && offsetof(RecordSlot, object) == 8);

/// Records of a chunk; its bytes are the object size of `kmem_trace`: a page, or a kilobyte where pages are
/// small because the memory is.
inline constexpr unsigned kChunkRecords = PageMap::kPageBytes == 4096 ? 168 : 40;
inline constexpr std::size_t kChunkBytes = kChunkRecords * sizeof(RecordSlot);
static_assert(kChunkBytes == 4032 || PageMap::kPageBytes < 4096);

class RecordTable {
 public:
  /// A chunk's number and a record's index must fit 21 bits beside a sequence number.
  static constexpr std::uint32_t kMaxChunks = 8191;
  /// Slots that lie within reach of a slot id: so many bytes from the first chunk, up and down.
  static constexpr std::uintptr_t kReach = sizeof(void*) > 4 ? std::uintptr_t{1} << (sizeof(void*) > 4 ? 32 : 0) : 0;
  static constexpr unsigned kBatch = 32;

  using Chunk = std::atomic<RecordSlot*>;

  /// A hart's free slots, from the end of the array down.
  struct Stash {
    static constexpr unsigned kSlots = 60;
    alignas(8)
        SlotId slots[64 - sizeof(void*) / sizeof(SlotId)] = {};  ///< with `top` 256 bytes: stashes are found by a shift
    std::atomic<SlotId*> top{end()};                             ///< the youngest
    [[nodiscard]] SlotId* end() noexcept { return slots + kSlots; }
    [[nodiscard]] const SlotId* end() const noexcept { return slots + kSlots; }
    [[nodiscard]] bool empty() const noexcept { return top.load(std::memory_order_relaxed) == end(); }
    [[nodiscard]] bool full() const noexcept { return top.load(std::memory_order_relaxed) == slots; }
  };
  static_assert(sizeof(Stash) == 256 && Stash::kSlots >= kBatch);

  constexpr RecordTable() noexcept = default;

  /// Starts empty.
  /// @param[in] directory  one entry for each chunk_count(records).
  /// @param[in] stashes    one for each hart.
  /// @param[in] records    most records at a time, up to kMaxChunks * kChunkRecords; the last chunk may be used in part.
  void initialize(std::span<Chunk> directory, std::span<Stash> stashes, std::uint32_t records) noexcept;
  static constexpr std::uint32_t chunk_count(std::uint32_t records) noexcept {
    return records / kChunkRecords + (records % kChunkRecords != 0 ? 1 : 0);
  }

  /// Whether hart @p hart finds a free slot. Context: on that hart.
  [[nodiscard]] bool has_free(unsigned hart) const noexcept {
    return !stashes_[hart].empty() || shelf_.load(std::memory_order_relaxed) != kNoSlot;
  }
  /// Whether another chunk may be added.
  [[nodiscard]] bool may_grow() const noexcept { return chunks_.load(std::memory_order_relaxed) < limit_; }
  /// Adds the memory at @p chunk (kChunkBytes, aligned to 8).
  /// @returns false, and the memory stays the caller's, if the directory is full, or the memory is out of reach.
  /// Complexity: O(kChunkRecords), one short hold of a lock. Context: any.
  bool add_chunk(void* chunk) noexcept;

  /// Takes a free slot. @returns kNoSlot if there is none but in other harts' stashes.
  /// Complexity: O(1), at times O(kBatch). Context: hart @p hart, masked; as the next two.
  [[nodiscard]] SlotId take(unsigned hart) noexcept {
    Stash& stash = stashes_[hart];
    return stash.empty() && !refill(stash) ? kNoSlot : take_from(stash);
  }
  /// The stash of a hart, and a slot of one that is not empty: for who leaves the rest to take().
  [[nodiscard]] Stash& stash_of(std::size_t hart) const noexcept { return stashes_[hart]; }
  static SlotId take_from(Stash& stash) noexcept {
    SlotId* top = stash.top.load(std::memory_order_relaxed);
    store_relaxed(stash.top, top + 1);
    return *top;
  }
  /// Sees to it that a stash is not empty, and that one is not full. @returns whether it was and is no more.
  bool refill_empty(Stash& stash) noexcept { return stash.empty() && refill(stash); }
  bool spill_full(Stash& stash) noexcept {
    const bool full = stash.full();
    if (full) spill(stash);
    return full;
  }
  /// Fills a slot that was taken, and publishes it.
  template <class Whole, class Half>
  void fill(std::uintptr_t id, const BasicRecord<Whole, Half>& record) noexcept {
    RecordSlot& slot = at(id);
    // release: whoever sees a word of this record sees the last one's number gone (T2).
    std::atomic_thread_fence(std::memory_order_release);
    store_lower_relaxed(slot.object, record.object);
    store_lower_relaxed(slot.stack_context, record.stack_context);
    store_relaxed(slot.cache, static_cast<std::uint16_t>(record.cache));
    store_relaxed(slot.hart_sequence, static_cast<std::uint16_t>(record.hart_sequence));
    store_lower_relaxed(slot.time, record.time);
    store_lower_relaxed(slot.size, record.size);
    // release: pairs with the acquire in copy() and remove().
    slot.sequence_low.store(record.sequence_low, std::memory_order_release);
  }
  /// Gives a free slot back.
  void give(unsigned hart, SlotId slot) noexcept {
    Stash& stash = stashes_[hart];
    if (stash.full()) spill(stash);
    give_to(stash, stash.top.load(std::memory_order_relaxed), slot);
  }
  /// The same for a stash that is not full, for who has its top in hand.
  static void give_to(Stash& stash, SlotId* top, std::uintptr_t slot) noexcept {
    *--top = static_cast<SlotId>(slot);
    store_relaxed(stash.top, top);
  }

  /// Puts @p record, whose sequence number has a low word, into a slot.
  /// @returns the slot; kNoSlot as take(). Complexity, context: as take().
  SlotId insert(unsigned hart, const Record& record) noexcept {
    const SlotId slot = take(hart);
    if (slot != kNoSlot) fill(slot, record);
    return slot;
  }

  /// Frees @p slot, an id that fill() returned, if it holds @p object of @p cache.
  /// @param[out] stack_context what it held. @returns false, and nothing has changed, if it does not.
  /// Complexity: O(1), at times O(kBatch). Context: hart @p hart, masked.
  bool remove(unsigned hart, SlotId slot, std::uint32_t object, std::uint32_t cache,
              std::uint32_t& stack_context) noexcept {
    const bool found = claim(slot, object, cache, stack_context);
    if (found) give(hart, slot);
    return found;
  }
  /// As remove(), but the slot is the caller's to give().
  [[nodiscard]] bool claim(SlotId slot, std::uint32_t object, std::uint32_t cache,
                           std::uint32_t& stack_context) noexcept {
    RecordSlot& place = at(slot);
    // acquire: pairs with the release in fill(): the other words are this record's or a later one's.
    std::uint32_t number = place.sequence_low.load(std::memory_order_acquire);
    if (number == 0 || place.object.load(std::memory_order_relaxed) != object ||
        place.cache.load(std::memory_order_relaxed) != cache) {
      return false;
    }
    const std::uint32_t held = place.stack_context.load(std::memory_order_relaxed);
    if (!place.sequence_low.compare_exchange_strong(number, 0, std::memory_order_relaxed)) return false;
    store_relaxed(place.cache, 0);
    stack_context = held;
    return true;
  }
  /// As claim(), where nobody but who has the object removes records of that cache.
  /// @param[in] slot of @p handle, which gets the record's stack_context. What object and cache say is the caller's
  ///                 record or nobody's: who removed the record before has cleared its cache, and this hart has
  ///                 answered a round since.
  [[nodiscard]] bool claim_own(std::intptr_t slot, std::uint32_t object, std::uint32_t cache,
                               std::uint32_t& handle) noexcept {
    auto& place =
        *reinterpret_cast<RecordSlot*>(base_.load(std::memory_order_relaxed) + static_cast<std::uintptr_t>(slot) * 8);
    if (place.cache.load(std::memory_order_relaxed) != cache) return false;
    if (load_relaxed(place.object) != static_cast<std::int32_t>(object)) return false;
    copy_relaxed(handle, place.stack_context);
    place.clear();
    return true;
  }

  /// Frees @p slot if it holds the record numbered @p sequence; else as remove(). Not at the same time as resize().
  bool remove_numbered(SlotId slot, std::uint64_t sequence) noexcept;

  /// Gives the record in @p slot another size, if it holds @p object of @p cache. @returns whether it does.
  /// Context: any; whoever calls holds the object, so that nobody frees it.
  bool resize(SlotId slot, std::uint32_t object, std::uint32_t cache, std::uint32_t size) noexcept;

  /// Whether @p slot, a number from elsewhere, is the id of a slot. Complexity: O(chunks). Context: any.
  [[nodiscard]] bool has_slot(SlotId slot) const noexcept;

  /// Copies the record in @p slot. @returns false if it is free. Context: any; takes no lock.
  bool copy(SlotId slot, Record& record) const noexcept;

  /// A place in the table, to scan it in steps: the number of a slot, below 2^21.
  using Cursor = std::uint32_t;
  /// Copies the next record.
  /// @returns false at the end. A record that is live from the first step to the last is found once.
  bool scan(Cursor& cursor, Record& record) const noexcept;
  /// The slot that a scan found last.
  [[nodiscard]] SlotId slot_before(Cursor cursor) const noexcept;

  [[nodiscard]] std::uint32_t chunks() const noexcept { return chunks_.load(std::memory_order_relaxed); }
  /// Records it can hold with all chunks.
  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  /// Records that live. Complexity: O(capacity).
  [[nodiscard]] std::uint32_t live() const noexcept;

  /// Checks that every slot has a record or is free once; exact while nobody else uses the table. Context: tests and
  /// the console.
  [[nodiscard]] bool validate() const noexcept;

 private:
  [[nodiscard]] RecordSlot& at(std::uintptr_t slot) const noexcept {
    return *reinterpret_cast<RecordSlot*>(base_.load(std::memory_order_relaxed) + slot * 8);
  }
  [[nodiscard]] SlotId id_of(const RecordSlot& slot) const noexcept {
    return static_cast<SlotId>((reinterpret_cast<std::uintptr_t>(&slot) - base_.load(std::memory_order_relaxed)) / 8);
  }
  /// Slots of a chunk that are used; only the last chunk has fewer than kChunkRecords.
  [[nodiscard]] std::uint32_t slots_of(std::uint32_t chunk) const noexcept {
    const std::uint32_t rest = capacity_ - chunk * kChunkRecords;
    return rest < kChunkRecords ? rest : kChunkRecords;
  }
  bool refill(Stash& stash) noexcept;
  void spill(Stash& stash) noexcept;
  void shelve(SlotId batch, SlotId last) noexcept;
  SlotId pack(SlotId* batch, SlotId next) const noexcept;
  SlotId unpack(SlotId known, SlotId* batch) const noexcept;
  [[nodiscard]] bool has_batch(SlotId known) const noexcept;
  // Of a batch: from where on its slots keep four ids each, in their order, and the four that the last one keeps.
  static constexpr unsigned kFirstKeeper = kBatch - kBatch / 4;
  static constexpr unsigned kLastFour = kBatch - 4;
  static bool read(const RecordSlot& slot, Record& record) noexcept;

  Chunk* directory_ = nullptr;
  Stash* stashes_ = nullptr;
  std::uint32_t harts_ = 0;
  std::uint32_t limit_ = 0;  ///< chunks
  std::uint32_t capacity_ = 0;
  std::atomic<std::uint32_t> chunks_{0};
  std::atomic<std::uintptr_t> base_{0};  ///< of slot ids; from the first chunk on
  Lock lock_;                            ///< of the shelf, and of what resizes and sweeps
  std::atomic<SlotId> shelf_{kNoSlot};   ///< written under the lock
};

}  // namespace qm::trace
