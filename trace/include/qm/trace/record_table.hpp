#pragma once
/// Trace records, in slots that never move.
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
/// - T1 A slot is free iff the low word of its sequence number is 0 or its cache is 0; no record has either. A free
///      slot soon has both.
/// - T2 An insert writes the low word last; a removal clears it first, by compare-and-swap. So one of several
///      concurrent removals of a record succeeds, and a copy with the same low word before and after is of one record.
///      Code that alone removes the records of a cache (claim_own()) needs no compare-and-swap.
/// - T3 A published chunk never moves and is never freed.
/// - T4 Sequence numbers of records are unique: a slot that holds the same number as before was not freed in between.
///      For the low word alone this holds until 2^32 records later; a copy or a removal takes only some instructions.
/// - T5 Only its own hart uses a stash, with interrupts masked. A freed slot goes to the stash of the hart that frees
///      it; a full stash moves a batch to the shelf, from which harts that allocate take it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <qm/detail/bits.hpp>
#include <qm/detail/lock.hpp>
#include <qm/detail/page_map.hpp>
#include <qm/trace/sequence.hpp>
#include <qm/trace/stack_depot.hpp>
#include <qm/trace/context_table.hpp>

namespace qm::trace {

/// The place of a record. A slab's side array keeps one for each object. Below 2^30.
using SlotId = std::uint32_t;
inline constexpr SlotId kNoSlot = 0;

/// The record of one live object of a traced cache. @tparam Whole, Half types that hold 32 and 16 bits.
template <class Whole, class Half>
struct BasicRecord {
  static constexpr unsigned kCacheBits = 16;
  static constexpr unsigned kHartBits = 5;
  /// Set in every record's stack_context, so that a handle can hold this word in place of a slot id.
  static constexpr std::uint32_t kMark = 0x8000'0000;

  std::uint32_t sequence_low = 0;
  Whole object = 0;         ///< address / 8, or the id of a cache of ids
  Whole stack_context = 0;  ///< stack handle, context id above it, kMark
  Half cache = 0;
  Half hart_sequence = 0;  ///< hart, upper bits of the sequence
  Whole time = 0;          ///< when the object was allocated, in coarse ticks
  Whole size = 0;          ///< requested

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
/// A record while it is put together in registers. The store cuts each word to size, so the code before it need not.
using RecordInRegisters = BasicRecord<std::uintptr_t, std::uintptr_t>;
static_assert(Record::kCacheBits + Record::kHartBits + Sequence::kBits == 64);
static_assert(kStackHandleBits + kContextIdBits == 31);
static_assert(hal::Port::kMaxHarts <= 1U << Record::kHartBits);

/// The handle of an object that is counted and has no record: not a slot id, and not negative.
struct CountWord {
  static constexpr std::uint32_t kMark = 0x4000'0000;
  static constexpr std::uint32_t of(StackHandle stack) noexcept { return kMark | stack; }
  static constexpr bool is(std::uint32_t word) noexcept { return (word & (Record::kMark | kMark)) == kMark; }
};

/// A record in its slot (T2).
struct alignas(8) RecordSlot {
  /// Constants of Record, repeated for debuggers: debug information has the constants of a template's classes only
  /// where they are used.
  static constexpr unsigned kHartBits = Record::kHartBits;
  static constexpr std::uint32_t kMark = Record::kMark;

  std::atomic<std::uint32_t> sequence_low{0};
  std::atomic<std::uint16_t> cache{0};
  std::atomic<std::uint16_t> hart_sequence{0};
  // In a free slot of a batch, this word and the next three keep four ids.
  std::atomic<std::uint32_t> object{0};
  std::atomic<std::uint32_t> stack_context{0};
  std::atomic<std::uint32_t> time{0};
  std::atomic<std::uint32_t> size{0};  ///< in the slot that identifies a batch: the next batch

  /// Makes the slot free (T1), in one store if a machine word holds both fields.
  void clear() noexcept {
    if constexpr (sizeof(void*) == 8) {
      constexpr Word kFree = 0;
      copy_relaxed(this, &kFree, 1);
    } else {
      store_relaxed(sequence_low, 0);
      store_relaxed(cache, 0);
    }
  }

  /// keep() stores four ids in a free slot, tell() copies them back. They are aligned to 8 bytes.
  void keep(const SlotId* ids) noexcept { copy_relaxed(&object, ids, kFourIds); }
  void tell(SlotId* ids) const noexcept { copy_relaxed(ids, &object, kFourIds); }
  static constexpr std::size_t kFourIds = 4 * sizeof(SlotId) / sizeof(Word);  ///< in words
};
static_assert(sizeof(RecordSlot) == 24 && offsetof(RecordSlot, object) == 8);

/// Records in a chunk. The size of a chunk in bytes is the object size of `kmem_trace`: a page, or 1 KiB where pages
/// are smaller than 4096 bytes.
inline constexpr unsigned kChunkRecords = PageMap::kPageBytes == 4096 ? 168 : 40;
inline constexpr std::size_t kChunkBytes = kChunkRecords * sizeof(RecordSlot);
static_assert(kChunkBytes == 4032 || PageMap::kPageBytes < 4096);

class RecordTable {
 public:
  /// A chunk's number and a record's index must fit in 21 bits beside a sequence number.
  static constexpr std::uint32_t kMaxChunks = 8191;
  /// The range of slot ids: the distance in bytes from the first chunk, up or down, that an id can express.
  static constexpr std::uintptr_t kReach = sizeof(void*) > 4 ? std::uintptr_t{1} << (sizeof(void*) > 4 ? 32 : 0) : 0;
  static constexpr unsigned kBatch = 32;

  using Chunk = std::atomic<RecordSlot*>;

  /// The free slots of one hart, filled from the end of the array down.
  struct Stash {
    static constexpr unsigned kSlots = 60;
    alignas(8) SlotId slots[64 - sizeof(void*) / sizeof(SlotId)] = {};  ///< 256 bytes with `top`: a shift finds a stash
    std::atomic<SlotId*> top{end()};                                    ///< the newest
    [[nodiscard]] SlotId* end() noexcept { return slots + kSlots; }
    [[nodiscard]] const SlotId* end() const noexcept { return slots + kSlots; }
    [[nodiscard]] bool empty() const noexcept { return top.load(std::memory_order_relaxed) == end(); }
    [[nodiscard]] bool full() const noexcept { return top.load(std::memory_order_relaxed) == slots; }
  };
  static_assert(sizeof(Stash) == 256 && Stash::kSlots >= kBatch);

  constexpr RecordTable() noexcept = default;

  /// Starts empty.
  /// @param[in] directory  chunk_count(records) entries, or empty: see set_directory().
  /// @param[in] stashes    one for each hart.
  /// @param[in] records    most live records, up to kMaxChunks * kChunkRecords; the last chunk may be used in part.
  void initialize(std::span<Chunk> directory, std::span<Stash> stashes, std::uint32_t records) noexcept;
  /// Gives a table its directory. @returns false if another hart has given one; @p directory then stays the caller's.
  /// Context: any.
  bool set_directory(std::span<Chunk> directory) noexcept;
  [[nodiscard]] bool has_directory() const noexcept { return directory_.load(std::memory_order_acquire) != nullptr; }
  static constexpr std::uint32_t chunk_count(std::uint32_t records) noexcept {
    return records / kChunkRecords + (records % kChunkRecords != 0 ? 1 : 0);
  }

  /// Whether hart @p hart has a free slot in its stash or on the shelf. Context: on that hart.
  [[nodiscard]] bool has_free(unsigned hart) const noexcept {
    return !stashes_[hart].empty() || shelf_.load(std::memory_order_relaxed) != kNoSlot;
  }
  /// Whether another chunk may be added.
  [[nodiscard]] bool may_grow() const noexcept { return chunks_.load(std::memory_order_relaxed) < limit_; }
  /// Adds the memory at @p chunk (kChunkBytes bytes, aligned to 8).
  /// @returns false if the directory is full or the memory is out of reach; the memory then stays the caller's.
  /// Complexity: O(kChunkRecords), one short hold of a lock. Context: any.
  bool add_chunk(void* chunk) noexcept;

  /// Takes a free slot. @returns kNoSlot if only other harts' stashes have free slots.
  /// Complexity: O(1), sometimes O(kBatch). Context: hart @p hart, masked; as the next two.
  [[nodiscard]] SlotId take(unsigned hart) noexcept {
    Stash& stash = stashes_[hart];
    return stash.empty() && !refill(stash) ? kNoSlot : take_from(stash);
  }
  /// A hart's stash, for a fast path that takes from it and calls take() if it is empty.
  [[nodiscard]] Stash& stash_of(std::size_t hart) const noexcept { return stashes_[hart]; }
  static SlotId take_from(Stash& stash) noexcept {
    SlotId* top = stash.top.load(std::memory_order_relaxed);
    store_relaxed(stash.top, top + 1);
    return *top;
  }
  /// Fills a stash if it is empty, or makes room in it if it is full. @returns whether the stash was empty (full) and
  /// is not any more.
  bool refill_empty(Stash& stash) noexcept { return stash.empty() && refill(stash); }
  bool spill_full(Stash& stash) noexcept {
    const bool full = stash.full();
    if (full) spill(stash);
    return full;
  }
  /// Writes a record into a slot that was taken, and publishes it.
  template <class Whole, class Half>
  void fill(std::uintptr_t id, const BasicRecord<Whole, Half>& record) noexcept {
    RecordSlot& slot = at(id);
    // release: a hart that sees any word of this record also sees that the low word of the previous record is cleared
    // (T2).
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
  /// Returns a free slot to a stash.
  void give(unsigned hart, SlotId slot) noexcept {
    Stash& stash = stashes_[hart];
    if (stash.full()) spill(stash);
    give_to(stash, stash.top.load(std::memory_order_relaxed), slot);
  }
  /// The same for a stash that is not full, for a caller that has its `top` in a register.
  static void give_to(Stash& stash, SlotId* top, std::uintptr_t slot) noexcept {
    *--top = static_cast<SlotId>(slot);
    store_relaxed(stash.top, top);
  }

  /// Puts @p record, which must have a sequence number with a low word other than 0, into a slot.
  /// @returns the slot; kNoSlot as take(). Complexity, context: as take().
  SlotId insert(unsigned hart, const Record& record) noexcept {
    const SlotId slot = take(hart);
    if (slot != kNoSlot) fill(slot, record);
    return slot;
  }

  /// Frees @p slot, an id that insert() returned or that fill() filled, if it holds @p object of @p cache.
  /// @param[out] stack_context of the record. @returns false, with nothing changed, if the slot does not hold it.
  /// Complexity: O(1), sometimes O(kBatch). Context: hart @p hart, masked.
  bool remove(unsigned hart, SlotId slot, std::uint32_t object, std::uint32_t cache,
              std::uint32_t& stack_context) noexcept {
    const bool found = claim(slot, object, cache, stack_context);
    if (found) give(hart, slot);
    return found;
  }
  /// As remove(), but the caller gets the slot and must give() it.
  [[nodiscard]] bool claim(SlotId slot, std::uint32_t object, std::uint32_t cache,
                           std::uint32_t& stack_context) noexcept {
    RecordSlot& place = at(slot);
    // acquire: pairs with the release in fill(): the other words are of this record or of a later one.
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
  /// As claim(), for a cache whose records only the object's owner removes.
  /// @param[in] slot the slot of @p handle, which gets the record's stack_context. If its object and cache match, it
  ///                 holds the caller's record, or none: the hart that removed the record before has cleared its cache,
  ///                 and this hart has answered a broadcast since.
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

  /// Frees @p slot if it holds the record numbered @p sequence; otherwise as remove(). Must not run at the same time as
  /// resize().
  bool remove_numbered(SlotId slot, std::uint64_t sequence) noexcept;

  /// Changes the size in the record in @p slot, if it holds @p object of @p cache. @returns whether it does.
  /// Context: any; the caller holds the object, so no other code frees it.
  bool resize(SlotId slot, std::uint32_t object, std::uint32_t cache, std::uint32_t size) noexcept;

  /// Whether @p slot, a number from an untrusted source, is the id of a slot. Complexity: O(chunks). Context: any.
  [[nodiscard]] bool has_slot(SlotId slot) const noexcept;

  /// Copies the record in @p slot. @returns false if the slot is free. Context: any; takes no lock.
  bool copy(SlotId slot, Record& record) const noexcept;

  /// A place in the table for a scan in steps: the number of a slot, below 2^21.
  using Cursor = std::uint32_t;
  /// Copies the next record.
  /// @returns false at the end. The scan finds each record once that is live from the first step to the last.
  bool scan(Cursor& cursor, Record& record) const noexcept;
  /// The slot of the record that scan() copied last.
  [[nodiscard]] SlotId slot_before(Cursor cursor) const noexcept;

  [[nodiscard]] std::uint32_t chunks() const noexcept { return chunks_.load(std::memory_order_relaxed); }
  /// Most records, with all chunks added.
  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  /// The number of live records. Complexity: O(capacity).
  [[nodiscard]] std::uint32_t live() const noexcept;

  /// Checks that every slot has a record or is free exactly once. The result is exact if no other hart uses the table
  /// meanwhile. Context: tests and the console.
  [[nodiscard]] bool validate() const noexcept;

 private:
  [[nodiscard]] RecordSlot& at(std::uintptr_t slot) const noexcept {
    return *reinterpret_cast<RecordSlot*>(base_.load(std::memory_order_relaxed) + slot * 8);
  }
  [[nodiscard]] SlotId id_of(const RecordSlot& slot) const noexcept {
    return static_cast<SlotId>((reinterpret_cast<std::uintptr_t>(&slot) - base_.load(std::memory_order_relaxed)) / 8);
  }
  /// The number of slots in use in a chunk; only the last chunk has fewer than kChunkRecords.
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
  // In a batch: the index from which on the slots keep four ids each, in order, and the four ids that the last slot
  // keeps.
  static constexpr unsigned kFirstKeeper = kBatch - kBatch / 4;
  static constexpr unsigned kLastFour = kBatch - 4;
  static bool read(const RecordSlot& slot, Record& record) noexcept;

  /// Chunk @p number. @returns nullptr if there is none.
  [[nodiscard]] RecordSlot* chunk(std::uint32_t number) const noexcept {
    // acquire: pairs with the release in set_directory() and in add_chunk(); a chunk that is not published has no
    // records.
    const Chunk* directory = directory_.load(std::memory_order_acquire);
    return directory != nullptr ? directory[number].load(std::memory_order_acquire) : nullptr;
  }

  std::atomic<Chunk*> directory_{nullptr};
  Stash* stashes_ = nullptr;
  std::uint32_t harts_ = 0;
  std::uint32_t limit_ = 0;  ///< in chunks
  std::uint32_t capacity_ = 0;
  std::atomic<std::uint32_t> chunks_{0};
  std::atomic<std::uintptr_t> base_{0};  ///< the origin of slot ids; set with the first chunk
  Lock lock_;                            ///< protects the shelf, and excludes resize() and sweeps
  std::atomic<SlotId> shelf_{kNoSlot};   ///< written under the lock
};

}  // namespace qm::trace
