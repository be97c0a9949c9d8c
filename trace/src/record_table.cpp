#include <qm/trace/record_table.hpp>

#include <new>

namespace qm::trace {

void RecordTable::initialize(std::span<Chunk> directory, std::uint32_t records) noexcept {
  for (Chunk& chunk : directory) new (&chunk) Chunk;
  directory_ = directory.data();
  limit_ = static_cast<std::uint32_t>(directory.size());
  capacity_ = records;
  chunks_.store(0, std::memory_order_relaxed);
  for (Pool& pool : pools_) pool.free.store(kNoSlot, std::memory_order_relaxed);
}

RecordTable::Chunk* RecordTable::chunk_of(SlotId slot) const noexcept {
  const std::uint32_t number = (slot - 1) >> 8;
  if (slot == kNoSlot || number >= limit_ || ((slot - 1) & 0xff) >= kChunkRecords) return nullptr;
  Chunk& chunk = directory_[number];
  // acquire: pairs with the release in add_chunk(), so that the chunk's hart is seen.
  return chunk.records.load(std::memory_order_acquire) != nullptr ? &chunk : nullptr;
}

bool RecordTable::add_chunk(unsigned hart, void* memory) noexcept {
  std::uint32_t number = chunks_.load(std::memory_order_relaxed);
  do {
    if (number >= limit_) return false;
  } while (!chunks_.compare_exchange_weak(number, number + 1, std::memory_order_relaxed));
  auto* records = static_cast<Record*>(memory);
  for (unsigned index = 0; index < kChunkRecords; ++index) {
    new (&records[index]) Record;
    records[index].object = slot_id(number, index + 1);
  }
  Record& last = records[slots_of(number) - 1];
  Chunk& chunk = directory_[number];
  chunk.hart = hart;
  chunk.used.store(0, std::memory_order_relaxed);
  chunk.records.store(records, std::memory_order_release);
  Pool& pool = pools_[hart];
  const LockGuard hold(pool.lock);
  last.object = pool.free.load(std::memory_order_relaxed);
  pool.free.store(slot_id(number, 0), std::memory_order_relaxed);
  return true;
}

SlotId RecordTable::insert(unsigned hart, const Record& record) noexcept {
  Pool& pool = pools_[hart];
  const LockGuard hold(pool.lock);
  const SlotId slot = pool.free.load(std::memory_order_relaxed);
  if (slot == kNoSlot) return kNoSlot;
  Record& place = at(slot);
  pool.free.store(place.object, std::memory_order_relaxed);
  place = record;
  std::atomic<std::uint32_t>& used = directory_[(slot - 1) >> 8].used;
  used.store(used.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return slot;
}

void RecordTable::free_locked(Pool& pool, Chunk& chunk, SlotId slot, Record& removed) noexcept {
  Record& place = at(slot);
  removed = place;
  place = Record{};
  place.object = pool.free.load(std::memory_order_relaxed);
  pool.free.store(slot, std::memory_order_relaxed);
  chunk.used.store(chunk.used.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
}

bool RecordTable::remove(SlotId slot, std::uint32_t object, std::uint32_t cache, Record& removed) noexcept {
  Chunk* chunk = chunk_of(slot);
  if (chunk == nullptr) return false;
  Pool& pool = pools_[chunk->hart];
  const LockGuard hold(pool.lock);
  const Record& place = at(slot);
  if (place.object != object || place.cache() != cache) return false;
  free_locked(pool, *chunk, slot, removed);
  return true;
}

bool RecordTable::remove_numbered(SlotId slot, std::uint64_t sequence, Record& removed) noexcept {
  Chunk* chunk = chunk_of(slot);
  if (chunk == nullptr) return false;
  Pool& pool = pools_[chunk->hart];
  const LockGuard hold(pool.lock);
  const Record& place = at(slot);
  if (place.cache() == 0 || place.sequence() != sequence) return false;
  free_locked(pool, *chunk, slot, removed);
  return true;
}

bool RecordTable::resize(SlotId slot, std::uint32_t object, std::uint32_t cache, std::uint32_t size,
                         Record& before) noexcept {
  Chunk* chunk = chunk_of(slot);
  if (chunk == nullptr) return false;
  const LockGuard hold(pools_[chunk->hart].lock);
  Record& place = at(slot);
  if (place.object != object || place.cache() != cache) return false;
  before = place;
  place.size = size;
  return true;
}

bool RecordTable::copy(SlotId slot, Record& record) noexcept {
  Chunk* chunk = chunk_of(slot);
  if (chunk == nullptr) return false;
  const LockGuard hold(pools_[chunk->hart].lock);
  record = at(slot);
  return record.cache() != 0;
}

bool RecordTable::scan(Cursor& cursor, SlotId* slots, Record* records, unsigned& count) noexcept {
  count = 0;
  const std::uint32_t end = chunks();
  for (; cursor.chunk < end; ++cursor.chunk, cursor.index = 0) {
    Chunk& chunk = directory_[cursor.chunk];
    // acquire: pairs with add_chunk(); a chunk that is not published yet has no records.
    const Record* place = chunk.records.load(std::memory_order_acquire);
    if (place == nullptr || cursor.index >= kChunkRecords) continue;
    const LockGuard hold(pools_[chunk.hart].lock);
    if (cursor.index == 0 && chunk.used.load(std::memory_order_relaxed) == 0) continue;
    for (unsigned step = 0; step < kScanSlots && cursor.index < kChunkRecords; ++step, ++cursor.index) {
      if (place[cursor.index].cache() == 0) continue;
      slots[count] = slot_id(cursor.chunk, cursor.index);
      records[count++] = place[cursor.index];
    }
    return true;
  }
  return false;
}

std::uint32_t RecordTable::live() const noexcept {
  std::uint32_t live = 0;
  for (std::uint32_t chunk = 0; chunk < chunks(); ++chunk) live += directory_[chunk].used.load(std::memory_order_relaxed);
  return live;
}

bool RecordTable::validate() noexcept {
  std::uint32_t live_seen = 0;
  std::uint32_t slots = 0;
  for (std::uint32_t number = 0; number < chunks(); ++number) {
    std::uint32_t used = 0;
    slots += slots_of(number);
    for (std::uint32_t index = 0; index < kChunkRecords; ++index) used += at(slot_id(number, index)).cache() != 0 ? 1 : 0;
    if (used != directory_[number].used.load(std::memory_order_relaxed)) return false;
    live_seen += used;
  }
  std::uint32_t free_seen = 0;
  for (unsigned hart = 0; hart < hal::Port::kMaxHarts; ++hart) {
    for (SlotId slot = pools_[hart].free.load(std::memory_order_relaxed); slot != kNoSlot; slot = at(slot).object) {
      const Chunk* chunk = chunk_of(slot);
      if (chunk == nullptr || chunk->hart != hart || at(slot).cache() != 0) return false;
      if (++free_seen > slots) return false;  // a loop
    }
  }
  return live_seen + free_seen == slots;
}

}  // namespace qm::trace
