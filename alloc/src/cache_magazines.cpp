/// Magazines of a cache: filled from the slabs, exchanged with the depot, emptied into the slabs.

#include <qm/cache.hpp>
#include <qm/checked.hpp>
#include <qm/hal/round.hpp>
#include <qm/system.hpp>

namespace qm {

// ---- for an allocation ----------------------------------------------------------------------------------------------

/// A round of the own magazines or of the depot's, which goes in against the previous magazine. Masked, cell closed.
void* Cache::take_from_cell(Cell& own) noexcept {
  for (;;) {
    void* object = nullptr;
    if (own.take(object)) {
      if (object != nullptr) return object;
      refuse(nullptr, SlabLayer::Standing::kOutside);  // I6: somebody freed nullptr
      continue;
    }
    own.misses.fetch_add(1, std::memory_order_relaxed);
    Magazine* full = depot_.take_full();
    if (full == nullptr) return nullptr;
    if (own.prev != nullptr) depot_.give(own.prev);
    own.set_prev(own.load(full));
  }
}

/// A batch from the slabs: one round for the caller, the others as a magazine. Without a magazine, one object.
void* Cache::refill() noexcept {
  void* objects[SlabLayer::kBatch];
  Magazine* magazine = may_fill_magazine() ? empty_magazine() : nullptr;
  unsigned want = 1;
  if (magazine != nullptr) want = magazine->capacity < SlabLayer::kBatch ? magazine->capacity : SlabLayer::kBatch;
  unsigned count = take_constructed(objects, want);
  if (magazine != nullptr) {
    for (magazine->rounds = 0; magazine->rounds + 1 < count; ++magazine->rounds) {
      magazine->slots()[magazine->rounds] = objects[magazine->rounds + 1];
    }
    if (count != 0) {
      install(magazine);
    } else {
      depot_.give(magazine);
    }
  }
  return count != 0 ? objects[0] : nullptr;
}

unsigned Cache::take_constructed(void** objects, unsigned count) noexcept {
  const unsigned taken = slabs_.take(objects, count);
  if (constructor_ == nullptr) return taken;
  unsigned made = 0;
  // What makes one construction fail makes the next fail too: each may cost a pursuit of its own.
  while (made < taken && construct(objects[made])) ++made;
  for (unsigned i = made; i < taken; ++i) slabs_.put(objects[i]);
  return made;
}

bool Cache::construct(void* object) noexcept {
  if constexpr (kChecked) checked::unseal(*this, object);
  const bool made = constructor_(object, context_);
  if constexpr (kChecked) checked::seal(*this, object);
  return made;
}

/// An empty magazine that nobody else sees: the depot's or a new one.
Magazine* Cache::empty_magazine() noexcept {
  Magazine* magazine = depot_.take_empty();
  return magazine != nullptr ? magazine : internal::create_magazine(magazine_rounds_);
}

/// Puts a magazine, filled outside, into the running hart's cell; what becomes surplus goes to the depot.
void Cache::install(Magazine* magazine) noexcept {
  const hal::InterruptGuard masked;
  const unsigned hart = hal::Port::hart_index();
  Cell& own = cell(hart);
  own.close();
  Magazine* loaded = own.loaded.load(std::memory_order_relaxed);
  Magazine* surplus = own.prev;
  if (loaded == nullptr || own.saved_top.load(std::memory_order_relaxed) == loaded->slots()) {
    own.set_prev(own.load(magazine));
  } else {
    own.set_prev(magazine);  // an interrupt has refilled the cell meanwhile
  }
  if (surplus != nullptr) depot_.give(surplus);
  expose(hart);
}

// ---- for a free -----------------------------------------------------------------------------------------------------

/// A place in the own magazines, or in an empty one of the depot's, which comes in against the previous. Masked, cell closed.
bool Cache::put_in_cell(Cell& own, void* object) noexcept {
  if (own.put(object)) return true;
  own.misses.fetch_add(1, std::memory_order_relaxed);
  Magazine* empty = depot_.take_empty();
  if (empty == nullptr) return false;
  inspect_previous(own);
  if (own.prev != nullptr) depot_.give(own.prev);
  own.set_prev(own.load(empty));
  return own.put(object);
}

bool Cache::install_empty_and_put(Magazine* magazine, void* object) noexcept {
  const hal::InterruptGuard masked;
  const unsigned hart = hal::Port::hart_index();
  Cell& own = cell(hart);
  own.close();
  bool placed = own.put(object);  // an interrupt may have made room meanwhile
  if (placed) {
    depot_.give(magazine);
  } else {
    inspect_previous(own);
    if (own.prev != nullptr) depot_.give(own.prev);
    own.set_prev(own.load(magazine));
    placed = own.put(object);
  }
  expose(hart);
  return placed;
}

void Cache::put_in_slab(void* object) noexcept {
  const SlabLayer::Standing standing = slabs_.judge(object);
  if (standing != SlabLayer::Standing::kOut) return refuse(object, standing);  // a freed nullptr, too (I6)
  if (destructor_ != nullptr) {
    if constexpr (kChecked) checked::unseal(*this, object);
    destructor_(object, context_);
    if constexpr (kChecked) checked::seal(*this, object);
  }
  if (slabs_.put(object) != Status::kOk) refuse(object, SlabLayer::Standing::kFree);
}

// ---- idle memory ----------------------------------------------------------------------------------------------------

void Cache::detach_magazines(unsigned hart) noexcept {
  Cell& own = cell(hart);
  own.close();
  if (cell_pointer_ != kNoCellPointer) internal::set_cell_pointer(cell_pointer_, closed_cell());
  Magazine* previous = own.prev;
  own.set_prev(nullptr);
  Magazine* loaded = own.load(nullptr);
  if (loaded != nullptr) depot_.give(loaded);
  if (previous != nullptr) depot_.give(previous);
  magazine_harts_.fetch_and(~bit(hart), std::memory_order_seq_cst);
}

Status Cache::drain() noexcept {
  const hal::RoundResult result = hal::run_on_harts(
      magazine_harts(), [](unsigned hart, void* cache) noexcept { static_cast<Cache*>(cache)->detach_magazines(hart); }, this);
  switch (result.status) {
    case hal::RoundStatus::kDone: return Status::kOk;
    case hal::RoundStatus::kTimedOut: return Status::kTimedOut;
    case hal::RoundStatus::kAborted: return Status::kAborted;
    case hal::RoundStatus::kUnsafe: break;
  }
  return Status::kUnsafe;
}

/// Empties the depot into the slabs.
std::size_t Cache::flush() noexcept {
  std::size_t objects = 0;
  while (Magazine* full = depot_.take_full()) {
    for (std::uint32_t i = 0; i < full->rounds; ++i) put_in_slab(full->slots()[i]);
    objects += full->rounds;
    full->rounds = 0;
    internal::free_magazine(full);
  }
  while (Magazine* empty = depot_.take_empty()) internal::free_magazine(empty);
  return objects;
}

Cache::Returned Cache::give_back() noexcept {
  const std::size_t before = slabs_.stats().bytes;
  Returned returned;
  returned.objects = flush();
  slabs_.reap();
  const std::size_t after = slabs_.stats().bytes;
  returned.bytes = before > after ? before - after : 0;
  return returned;
}

std::size_t Cache::reap() noexcept {
  if (magazine_harts() != 0 && hal::may_wait()) drain();
  return give_back().bytes;
}

}  // namespace qm
