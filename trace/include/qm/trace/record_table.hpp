#pragma once
/// Trace records in slots that never move.
///
///     slot id = (chunk << 8 | index) + 1; 0 = none
///     directory: | chunk 0 -> | chunk 1 -> | ...        a chunk: 168 records, 4032 bytes, of one hart's pool
///     pool of a hart: lock, list of free slots (through Record::object of free records)
///
///     record: | object / 8 | stack 22, context 10 | sequence low | cache 16, hart 5, sequence high 11 | time | size |
///
/// Invariants
/// - T1 A slot is free iff its record's cache is 0; then `object` is the id of the next free slot of the same pool.
/// - T2 Records of a chunk are read and written under the lock of the pool that owns the chunk; the lock is held for at most
///      kScanSlots records.
/// - T3 A published chunk stays where it is for ever, and with its pool.
/// - T4 Sequence numbers of records are unique: a slot that holds the number it held before was not freed in between.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <qm/lock.hpp>
#include <qm/trace/sequence.hpp>
#include <qm/trace/stack_depot.hpp>
#include <qm/trace/context_table.hpp>

namespace qm::trace {

/// Where a record lies; what a slab's side array keeps for each object.
using SlotId = std::uint32_t;
inline constexpr SlotId kNoSlot = 0;

/// One live object of a traced cache.
struct Record {
  static constexpr unsigned kCacheBits = 16;
  static constexpr unsigned kHartBits = 5;

  std::uint32_t object = 0;        ///< (address - base) / 8, or the id of a cache of ids
  std::uint32_t stack_context = 0; ///< stack handle, and context id above it
  std::uint32_t sequence_low = 0;
  std::uint32_t place = 0;         ///< cache, hart, upper bits of the sequence
  std::uint32_t time = 0;          ///< coarse ticks
  std::uint32_t size = 0;          ///< bytes asked for

  [[nodiscard]] std::uint32_t cache() const noexcept { return place & ((1U << kCacheBits) - 1); }
  [[nodiscard]] unsigned hart() const noexcept { return place >> kCacheBits & ((1U << kHartBits) - 1); }
  [[nodiscard]] std::uint64_t sequence() const noexcept {
    return std::uint64_t{place >> (kCacheBits + kHartBits)} << 32 | sequence_low;
  }
  [[nodiscard]] StackHandle stack() const noexcept { return stack_context & ((1U << kStackHandleBits) - 1); }
  [[nodiscard]] std::uint32_t context() const noexcept { return stack_context >> kStackHandleBits; }
  void set_place(std::uint32_t cache, unsigned hart, std::uint64_t sequence) noexcept {
    place = static_cast<std::uint32_t>(sequence >> 32) << (kCacheBits + kHartBits) | hart << kCacheBits | cache;
    sequence_low = static_cast<std::uint32_t>(sequence);
  }
};
static_assert(sizeof(Record) == 24);
static_assert(Record::kCacheBits + Record::kHartBits + Sequence::kBits == 64);
static_assert(kStackHandleBits + kContextIdBits == 32);
static_assert(hal::Port::kMaxHarts <= 1U << Record::kHartBits);

/// Records of a chunk; its bytes are the object size of `kmem_trace`.
inline constexpr unsigned kChunkRecords = 168;
inline constexpr std::size_t kChunkBytes = kChunkRecords * sizeof(Record);
static_assert(kChunkBytes == 4032);

class RecordTable {
 public:
  /// Most records looked at under one hold of a pool's lock.
  static constexpr unsigned kScanSlots = 8;
  /// A chunk's number and a record's index must fit 21 bits beside a sequence number.
  static constexpr std::uint32_t kMaxChunks = 8191;

  struct Chunk {
    std::atomic<Record*> records{nullptr};
    std::uint32_t hart = 0;
    std::atomic<std::uint32_t> used{0};  ///< written under the pool's lock
  };

  constexpr RecordTable() noexcept = default;

  /// Starts empty.
  /// @param[in] directory  one entry for each chunk_count(records).
  /// @param[in] records    most records at a time, up to kMaxChunks * kChunkRecords; the last chunk may be used in part.
  void initialize(std::span<Chunk> directory, std::uint32_t records) noexcept;
  static constexpr std::uint32_t chunk_count(std::uint32_t records) noexcept {
    return records / kChunkRecords + (records % kChunkRecords != 0 ? 1 : 0);
  }

  /// Whether hart @p hart's pool has a free slot.
  [[nodiscard]] bool has_free(unsigned hart) const noexcept {
    return pools_[hart].free.load(std::memory_order_relaxed) != kNoSlot;
  }
  /// Whether another chunk may be added.
  [[nodiscard]] bool may_grow() const noexcept { return chunks_.load(std::memory_order_relaxed) < limit_; }
  /// Adds the memory at @p chunk (kChunkBytes, aligned to 4) to @p hart's pool.
  /// @returns false, and the memory stays the caller's, if the directory is full.
  /// Complexity: O(kChunkRecords), one short hold of the pool's lock. Context: any.
  bool add_chunk(unsigned hart, void* chunk) noexcept;

  /// Puts @p record, whose cache is not 0, into a slot of @p hart's pool.
  /// @returns the slot; kNoSlot if the pool has none. Complexity: O(1). Context: any.
  SlotId insert(unsigned hart, const Record& record) noexcept;

  /// Frees @p slot if it holds @p object of @p cache.
  /// @param[out] removed what it held. @returns false, and nothing has changed, if it does not.
  /// Complexity: O(1). Context: any.
  bool remove(SlotId slot, std::uint32_t object, std::uint32_t cache, Record& removed) noexcept;

  /// Frees @p slot if it holds the record numbered @p sequence; else as remove().
  bool remove_numbered(SlotId slot, std::uint64_t sequence, Record& removed) noexcept;

  /// Gives the record in @p slot another size, if it holds @p object of @p cache.
  /// @param[out] before the record as it was. @returns false, and nothing has changed, if it holds something else.
  bool resize(SlotId slot, std::uint32_t object, std::uint32_t cache, std::uint32_t size, Record& before) noexcept;

  /// Copies the record in @p slot. @returns false if it is free.
  bool copy(SlotId slot, Record& record) noexcept;

  /// A place in the table, to scan it in steps.
  struct Cursor {
    std::uint32_t chunk = 0;
    std::uint32_t index = 0;
  };
  /// Copies the live ones of the next kScanSlots records or fewer; leaves out chunks without records.
  /// @param[out] slots,records room for kScanSlots each.
  /// @param[out] count how many were copied, perhaps none.
  /// @returns false, with count 0, at the end. A record that is live from the first step to the last is found once.
  bool scan(Cursor& cursor, SlotId* slots, Record* records, unsigned& count) noexcept;

  [[nodiscard]] std::uint32_t live() const noexcept;
  [[nodiscard]] std::uint32_t chunks() const noexcept { return chunks_.load(std::memory_order_relaxed); }
  /// Records it can hold with all chunks.
  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }

  /// Checks T1 and the counts; exact while nobody else uses the table. Context: tests and the console.
  [[nodiscard]] bool validate() noexcept;

 private:
  struct Pool {
    Lock lock;
    std::atomic<SlotId> free{kNoSlot};  ///< written under the lock
  };
  static SlotId slot_id(std::uint32_t chunk, std::uint32_t index) noexcept { return (chunk << 8 | index) + 1; }
  [[nodiscard]] Record& at(SlotId slot) const noexcept {
    return directory_[(slot - 1) >> 8].records.load(std::memory_order_acquire)[(slot - 1) & 0xff];
  }
  /// @returns the slot's chunk; nullptr if there is no such slot.
  [[nodiscard]] Chunk* chunk_of(SlotId slot) const noexcept;
  /// Slots of a chunk that are used; only the last chunk has fewer than kChunkRecords.
  [[nodiscard]] std::uint32_t slots_of(std::uint32_t chunk) const noexcept {
    const std::uint32_t rest = capacity_ - chunk * kChunkRecords;
    return rest < kChunkRecords ? rest : kChunkRecords;
  }
  void free_locked(Pool& pool, Chunk& chunk, SlotId slot, Record& removed) noexcept;

  Chunk* directory_ = nullptr;
  std::uint32_t limit_ = 0;  ///< chunks
  std::uint32_t capacity_ = 0;
  std::atomic<std::uint32_t> chunks_{0};
  Pool pools_[hal::Port::kMaxHarts];
};

}  // namespace qm::trace
