#include <qm/trace/record_table.hpp>

#include <new>

namespace qm::trace {

void RecordTable::initialize(std::span<Chunk> directory, std::span<Stash> stashes, std::uint32_t records) noexcept {
  for (Stash& stash : stashes) new (&stash) Stash;
  directory_.store(nullptr, std::memory_order_relaxed);
  stashes_ = stashes.data();
  harts_ = static_cast<std::uint32_t>(stashes.size());
  limit_ = chunk_count(records);
  capacity_ = records;
  chunks_.store(0, std::memory_order_relaxed);
  base_.store(0, std::memory_order_relaxed);
  shelf_.store(kNoSlot, std::memory_order_relaxed);
  if (!directory.empty()) set_directory(directory);
}

bool RecordTable::set_directory(std::span<Chunk> directory) noexcept {
  for (Chunk& chunk : directory) new (&chunk) Chunk(nullptr);
  Chunk* none = nullptr;
  return directory_.compare_exchange_strong(none, directory.data(), std::memory_order_release,
                                            std::memory_order_relaxed);
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
  for (unsigned index = 0; index < kChunkRecords; ++index) slots[index].clear();
  // release: pairs with the acquire in chunk().
  directory_.load(std::memory_order_acquire)[number].store(slots, std::memory_order_release);
  const std::uint32_t count = slots_of(number);
  SlotId id = id_of(*slots);
  const SlotId last = id;
  SlotId known = kNoSlot;
  for (std::uint32_t first = 0; first < count; first += kBatch) {
    alignas(8) SlotId batch[kBatch] = {};
    for (unsigned i = kBatch; i != 0 && first + kBatch - i < count; id += sizeof(RecordSlot) / 8) batch[--i] = id;
    known = pack(batch, known);
  }
  shelve(known, last);
  return true;
}

/// Stores a batch in its own slots. @returns the id that identifies it. It overwrites @p batch.
inline SlotId RecordTable::pack(SlotId* batch, SlotId next) const noexcept {
  const SlotId* keeper = batch + kFirstKeeper;
  for (SlotId* four = batch; four != batch + kLastFour; four += 4, ++keeper) {
    if (*keeper != kNoSlot) at(*keeper).keep(four);
  }
  const SlotId known = batch[kBatch - 1];
  batch[kBatch - 1] = next;
  at(known).keep(batch + kLastFour);
  return known;
}

/// Puts the chain of batches from @p batch to @p last on the shelf.
void RecordTable::shelve(SlotId batch, SlotId last) noexcept {
  const LockGuard hold(lock_);
  store_relaxed(at(last).size, shelf_.load(std::memory_order_relaxed));
  store_relaxed(shelf_, batch);
}

/// Reads the ids of the batch that @p known identifies. @returns the next batch.
inline SlotId RecordTable::unpack(SlotId known, SlotId* batch) const noexcept {
  at(known).tell(batch + kLastFour);
  const SlotId next = batch[kBatch - 1];
  batch[kBatch - 1] = known;
  const SlotId* keeper = batch + kBatch - 1;
  for (SlotId* four = batch + kLastFour; four != batch;) {
    four -= 4;
    if (*--keeper != kNoSlot) {  // read already
      at(*keeper).tell(four);
    } else {
      for (unsigned i = 0; i != 4; ++i) four[i] = kNoSlot;
    }
  }
  return next;
}

/// Takes a batch from the shelf into an empty stash.
bool RecordTable::refill(Stash& stash) noexcept {
  SlotId* top = stash.end() - kBatch;
  {
    const LockGuard hold(lock_);
    const SlotId known = shelf_.load(std::memory_order_relaxed);
    if (known == kNoSlot) return false;
    store_relaxed(shelf_, unpack(known, top));
  }
  while (*top == kNoSlot) ++top;
  store_relaxed(stash.top, top);
  return true;
}

/// Moves a batch of a full stash to the shelf.
void RecordTable::spill(Stash& stash) noexcept {
  SlotId* const top = stash.top.load(std::memory_order_relaxed);
  store_relaxed(stash.top, top + kBatch);
  // release: a hart that sees ids in a slot also sees that the low word of its last record is cleared (T2).
  std::atomic_thread_fence(std::memory_order_release);
  const SlotId batch = pack(top, kNoSlot);
  shelve(batch, batch);
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
  give(hal::Port::hart_index(), slot);
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
    // acquire: pairs with the fence in fill(): if a word of the next record is visible, so is the cleared low word of
    // this one.
    std::atomic_thread_fence(std::memory_order_acquire);
    // A record that is being removed may have lost its cache before its number.
    if (slot.sequence_low.load(std::memory_order_relaxed) == record.sequence_low) return record.cache != 0;
  }
}

bool RecordTable::has_slot(SlotId slot) const noexcept {
  const std::uintptr_t place = base_.load(std::memory_order_relaxed) + std::uintptr_t{slot} * 8;
  for (std::uint32_t number = 0; number < chunks(); ++number) {
    const auto first = reinterpret_cast<std::uintptr_t>(chunk(number));
    const std::uintptr_t distance = place - first;
    if (first != 0 && distance < kChunkBytes) return distance % sizeof(RecordSlot) == 0;
  }
  return false;
}

bool RecordTable::copy(SlotId slot, Record& record) const noexcept { return slot != kNoSlot && read(at(slot), record); }

bool RecordTable::scan(Cursor& cursor, Record& record) const noexcept {
  const std::uint32_t end = chunks() * kChunkRecords;
  while (cursor < end) {
    const RecordSlot* slots = chunk(cursor / kChunkRecords);
    const std::uint32_t index = cursor++ % kChunkRecords;
    if (slots != nullptr && read(slots[index], record)) return true;
  }
  return false;
}

SlotId RecordTable::slot_before(Cursor cursor) const noexcept {
  --cursor;
  return id_of(chunk(cursor / kChunkRecords)[cursor % kChunkRecords]);
}

std::uint32_t RecordTable::live() const noexcept {
  std::uint32_t live = 0;
  Record record;
  for (Cursor cursor = 0; scan(cursor, record);) ++live;
  return live;
}

/// Whether unpack() may follow the words in the slots.
bool RecordTable::has_batch(SlotId known) const noexcept {
  alignas(8) SlotId batch[kBatch] = {};
  batch[kBatch - 1] = known;
  for (unsigned keeper = kBatch; keeper != kFirstKeeper;) {
    const SlotId slot = batch[--keeper];
    if (slot == kNoSlot) continue;
    if (!has_slot(slot)) return false;
    at(slot).tell(batch + (keeper - kFirstKeeper) * 4);
  }
  return true;
}

bool RecordTable::validate() const noexcept {
  std::uint32_t slots = 0;
  for (std::uint32_t chunk = 0; chunk < chunks(); ++chunk) slots += slots_of(chunk);
  const std::uint32_t records = live();
  std::uint32_t free = 0;
  const auto is_free = [&](SlotId slot) {
    return has_slot(slot) && at(slot).sequence_low.load(std::memory_order_relaxed) == 0 && ++free <= slots;  // no loop
  };
  for (std::uint32_t hart = 0; hart < harts_; ++hart) {
    const Stash& stash = stashes_[hart];
    const SlotId* const top = stash.top.load(std::memory_order_relaxed);
    if (top < stash.slots || top > stash.end()) return false;
    for (const SlotId* slot = top; slot != stash.end(); ++slot) {
      if (!is_free(*slot)) return false;
    }
  }
  for (SlotId known = shelf_.load(std::memory_order_relaxed); known != kNoSlot;) {
    alignas(8) SlotId batch[kBatch];
    if (!has_batch(known)) return false;
    known = unpack(known, batch);
    for (const SlotId slot : batch) {
      if (slot != kNoSlot && !is_free(slot)) return false;
    }
  }
  return records + free == slots;
}

}  // namespace qm::trace
