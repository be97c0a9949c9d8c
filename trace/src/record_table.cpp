#include <qm/trace/record_table.hpp>

#include <new>

namespace qm::trace {

void RecordTable::initialize(std::span<Chunk> directory, std::span<Stash> stashes, std::uint32_t records) noexcept {
  for (Chunk& chunk : directory) new (&chunk) Chunk(nullptr);
  for (Stash& stash : stashes) new (&stash) Stash;
  directory_ = directory.data();
  stashes_ = stashes.data();
  harts_ = static_cast<std::uint32_t>(stashes.size());
  limit_ = static_cast<std::uint32_t>(directory.size());
  capacity_ = records;
  chunks_.store(0, std::memory_order_relaxed);
  base_.store(0, std::memory_order_relaxed);
  shelf_.store(kNoSlot, std::memory_order_relaxed);
}

// ---- free slots -----------------------------------------------------------------------------------------------------

bool RecordTable::add_chunk(void* memory) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  std::uintptr_t base = 0;
  if (!base_.compare_exchange_strong(base, start - kReach - 8, std::memory_order_relaxed)) {
    if (kReach != 0 && start - base >= 2 * kReach - kChunkBytes) return false;
  }
  std::uint32_t number = chunks_.load(std::memory_order_relaxed);
  do {
    if (number >= limit_) return false;
  } while (!chunks_.compare_exchange_weak(number, number + 1, std::memory_order_relaxed));
  auto* slots = static_cast<RecordSlot*>(memory);
  const std::uint32_t count = slots_of(number);
  SlotId next_id = id_of(*slots);
  for (std::uint32_t index = 0; index < kChunkRecords; ++index) {
    slots[index].clear();
    store_relaxed(slots[index].object, next_id += sizeof(RecordSlot) / 8);
  }
  for (std::uint32_t first = 0; first < count; first += kBatch) {
    const std::uint32_t last = (count - first < kBatch ? count : first + kBatch) - 1;
    store_relaxed(slots[last].object, kNoSlot);
    store_relaxed(slots[first].time, last + 1 < count ? id_of(slots[last + 1]) : kNoSlot);
  }
  // release: pairs with the acquire in scan().
  directory_[number].store(slots, std::memory_order_release);
  shelve(slots[0], slots[(count - 1) / kBatch * kBatch]);
  return true;
}

/// Puts batches on the shelf that are chained from @p batch to @p last.
void RecordTable::shelve(RecordSlot& batch, RecordSlot& last) noexcept {
  const LockGuard hold(lock_);
  last.time.store(shelf_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  shelf_.store(id_of(batch), std::memory_order_relaxed);
}

/// Takes a batch from the shelf into an empty stash.
bool RecordTable::refill(Stash& stash) noexcept {
  SlotId slot = kNoSlot;
  {
    const LockGuard hold(lock_);
    slot = shelf_.load(std::memory_order_relaxed);
    if (slot == kNoSlot) return false;
    shelf_.store(at(slot).time.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  RecordSlot** top = stash.end();
  for (; slot != kNoSlot; slot = at(slot).object.load(std::memory_order_relaxed)) *--top = &at(slot);
  stash.top.store(top, std::memory_order_relaxed);
  return true;
}

/// Takes a batch of a full stash to the shelf.
void RecordTable::spill(Stash& stash) noexcept {
  RecordSlot** top = stash.top.load(std::memory_order_relaxed);
  SlotId next = kNoSlot;
  for (unsigned i = 0; i < kBatch; ++i) {
    (*top)->object.store(next, std::memory_order_relaxed);
    next = id_of(**top++);
  }
  stash.top.store(top, std::memory_order_relaxed);
  shelve(*top[-1], *top[-1]);
}

// ---- records --------------------------------------------------------------------------------------------------------

bool RecordTable::remove_numbered(SlotId slot, std::uint64_t sequence) noexcept {
  const hal::InterruptGuard masked;
  {
    const LockGuard hold(lock_);
    Record record;
    auto number = static_cast<std::uint32_t>(sequence);
    if (!copy(slot, record) || record.sequence() != sequence) return false;
    if (!at(slot).sequence_low.compare_exchange_strong(number, 0, std::memory_order_relaxed)) return false;
    store_relaxed(at(slot).cache, 0);
  }
  give(hal::Port::hart_index(), at(slot));
  return true;
}

bool RecordTable::resize(SlotId slot, std::uint32_t object, std::uint32_t cache, std::uint32_t size) noexcept {
  const LockGuard hold(lock_);
  Record record;
  if (!copy(slot, record) || record.object != object || record.cache != cache) return false;
  at(slot).size.store(size, std::memory_order_relaxed);
  return true;
}

bool RecordTable::read(const RecordSlot& slot, Record& record) noexcept {
  for (;;) {
    // acquire: pairs with the release in fill().
    record.sequence_low = slot.sequence_low.load(std::memory_order_acquire);
    if (record.sequence_low == 0) return false;
    record.object = slot.object.load(std::memory_order_relaxed);
    record.stack_context = slot.stack_context.load(std::memory_order_relaxed);
    record.cache = slot.cache.load(std::memory_order_relaxed);
    record.hart_sequence = slot.hart_sequence.load(std::memory_order_relaxed);
    record.time = slot.time.load(std::memory_order_relaxed);
    record.size = slot.size.load(std::memory_order_relaxed);
    // acquire: pairs with the fence in fill(): a word of the next record is not seen without this one's number gone.
    std::atomic_thread_fence(std::memory_order_acquire);
    // A record that goes may have lost its cache before its number.
    if (slot.sequence_low.load(std::memory_order_relaxed) == record.sequence_low) return record.cache != 0;
  }
}

bool RecordTable::has_slot(SlotId slot) const noexcept {
  const std::uintptr_t place = base_.load(std::memory_order_relaxed) + std::uintptr_t{slot} * 8;
  for (std::uint32_t chunk = 0; chunk < chunks(); ++chunk) {
    // acquire: as in scan().
    const auto first = reinterpret_cast<std::uintptr_t>(directory_[chunk].load(std::memory_order_acquire));
    const std::uintptr_t distance = place - first;
    if (first != 0 && distance < kChunkBytes) return distance % sizeof(RecordSlot) == 0;
  }
  return false;
}

bool RecordTable::copy(SlotId slot, Record& record) const noexcept { return slot != kNoSlot && read(at(slot), record); }

bool RecordTable::scan(Cursor& cursor, Record& record) const noexcept {
  const std::uint32_t end = chunks() * kChunkRecords;
  while (cursor < end) {
    // acquire: pairs with add_chunk(); a chunk that is not published yet has no records.
    const RecordSlot* slots = directory_[cursor / kChunkRecords].load(std::memory_order_acquire);
    const std::uint32_t index = cursor++ % kChunkRecords;
    if (slots != nullptr && read(slots[index], record)) return true;
  }
  return false;
}

SlotId RecordTable::slot_before(Cursor cursor) const noexcept {
  --cursor;
  return id_of(directory_[cursor / kChunkRecords].load(std::memory_order_acquire)[cursor % kChunkRecords]);
}

std::uint32_t RecordTable::live() const noexcept {
  std::uint32_t live = 0;
  Record record;
  for (Cursor cursor = 0; scan(cursor, record);) ++live;
  return live;
}

bool RecordTable::validate() const noexcept {
  std::uint32_t slots = 0;
  for (std::uint32_t chunk = 0; chunk < chunks(); ++chunk) slots += slots_of(chunk);
  const std::uint32_t records = live();
  std::uint32_t free = 0;
  const auto is_free = [&](SlotId slot) {
    return slot < SlotId{1} << 30 && at(slot).sequence_low.load(std::memory_order_relaxed) == 0 &&
           ++free <= slots;  // no loop
  };
  for (std::uint32_t hart = 0; hart < harts_; ++hart) {
    const Stash& stash = stashes_[hart];
    RecordSlot* const* const top = stash.top.load(std::memory_order_relaxed);
    if (top < stash.slots || top > stash.end()) return false;
    for (RecordSlot* const* slot = top; slot != stash.end(); ++slot) {
      if (!is_free(id_of(**slot))) return false;
    }
  }
  for (SlotId batch = shelf_.load(std::memory_order_relaxed); batch != kNoSlot;
       batch = at(batch).time.load(std::memory_order_relaxed)) {
    for (SlotId slot = batch; slot != kNoSlot; slot = at(slot).object.load(std::memory_order_relaxed)) {
      if (!is_free(slot)) return false;
    }
  }
  return records + free == slots;
}

}  // namespace qm::trace
