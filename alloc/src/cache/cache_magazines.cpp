/// Magazines of a cache: filled from the slabs, exchanged with the depot, emptied into the slabs.

#include <qm/cache.hpp>
#include <qm/detail/checked.hpp>
#include <qm/hal/broadcast.hpp>
#include <qm/system.hpp>

namespace qm {

// ---- for an allocation ----------------------------------------------------------------------------------------------

/// Allocates an object from the slabs, from a new one if necessary, when no magazine could be filled from them. An
/// operation that makes a slab makes no magazine; an operation that makes no slab makes sure that a magazine serves the
/// next one.
void* Cache::refill() noexcept {
  constexpr unsigned kMost = 8;
  void* objects[kMost];
  const bool idle = kMagazines && may_fill_magazine();
  unsigned wanted = 1;
  if (idle && has_constructor()) {  // constructed objects cannot be made in the magazine
    const std::uint32_t most = depot_.rounds() + 1;
    wanted = most < kMost ? most : kMost;
  }
  const SlabLayer::Taken taken = take_constructed(objects, wanted);
  if (taken.count == 0) return nullptr;
  if (idle) depot_.count_refill();
  if (kMagazines && (taken.count > 1 || (idle && !taken.created))) stock(objects + 1, taken.count - 1);
  fill_reserve();
  return objects[0];
}

/// Puts constructed objects into the running hart's magazines, and the rest back into the slabs. A hart that has no
/// magazine, or one smaller than the depot's present size, gets a new one.
void Cache::stock(void* const* objects, unsigned count) noexcept {
  bool wants = false;
  {
    const hal::InterruptGuard masked;
    const Magazine* loaded = own_hart_cache().loaded.load(std::memory_order_relaxed);
    wants = loaded == nullptr || loaded->capacity < depot_.rounds();
  }
  if (!wants && count == 0) return;
  unsigned placed = install_and_put(wants ? empty_magazine() : nullptr, objects, count);
  for (; placed < count; ++placed) put_in_slab(objects[placed]);
}

/// Allocates and constructs objects of the slabs; those whose constructor fails go back.
SlabLayer::Taken Cache::take_constructed(void** objects, unsigned count) noexcept {
  SlabLayer::Taken taken = slabs_.take(objects, count);
  if (!has_constructor()) return taken;
  unsigned made = 0;
  // Stops at the first failure: the next construction would fail for the same reason, and each may cost a reclaim of
  // its own.
  while (made < taken.count && construct(objects[made])) ++made;
  for (unsigned i = made; i < taken.count; ++i) slabs_.put(objects[i]);
  taken.count = made;
  return taken;
}

bool Cache::construct(void* object) noexcept {
  if constexpr (kChecked) checked::unseal(*this, object);
  const bool made = extra()->constructor(object, extra()->context);
  if constexpr (kChecked) checked::seal(*this, object);
  return made;
}

/// An empty magazine of the present size that no other hart can reach, from the depot or new; one of another size if
/// there is no memory for a new one.
Magazine* Cache::empty_magazine() noexcept {
  Magazine* old = depot_.has_empty() ? depot_.take_empty() : nullptr;
  if (old != nullptr && old->capacity == depot_.rounds()) return old;
  Magazine* magazine = internal::create_magazine(depot_.rounds());
  if (magazine == nullptr) return old;
  if (old != nullptr) internal::free_magazine(old);
  return magazine;
}

// ---- for a free -----------------------------------------------------------------------------------------------------

void Cache::put_in_slab(void* object) noexcept {
  if (has_destructor()) {
    const SlabLayer::ObjectState object_state = slabs_.classify(object);
    if (object_state != SlabLayer::ObjectState::kOut) return refuse(object, object_state);
    if constexpr (kChecked) checked::unseal(*this, object);
    extra()->destructor(object, extra()->context);
    if constexpr (kChecked) checked::seal(*this, object);
  }
  const SlabLayer::Put put = slabs_.put(&object, 1);
  if (put.next != SlabLayer::ObjectState::kOut) refuse(object, put.next);  // also for a freed nullptr (I6)
  if (put.surplus != nullptr) slabs_.release(put.surplus);
}

// ---- idle memory ----------------------------------------------------------------------------------------------------

void Cache::detach_magazines(unsigned hart) noexcept {
  if constexpr (!kMagazines) return;
  HartCache& own = hart_cache(hart);
  own.close();
  if (hart_cache_pointer_ != kNoHartCachePointer)
    internal::set_hart_cache_pointer(hart_cache_pointer_, closed_hart_cache());
  Magazine* previous = own.prev;
  own.set_prev(nullptr);
  Magazine* loaded = own.load(nullptr);
  if (loaded != nullptr) depot_.give(loaded);
  if (previous != nullptr) depot_.give(previous);
  magazine_harts_.fetch_and(~bit(hart), std::memory_order_seq_cst);
}

/// Has every hart give its magazines to the depot. @returns kUnsafe, with nothing changed, unless hal::may_ask_harts().
Status Cache::drain() noexcept {
  if (magazine_harts() == 0) return Status::kOk;
  const auto detach = [](unsigned hart, void* cache) noexcept { static_cast<Cache*>(cache)->detach_magazines(hart); };
  return status_of(hal::run_on_harts(magazine_harts(), detach, this).status);
}

/// Frees a magazine and returns its objects to the slabs. @returns the number of objects.
std::size_t Cache::empty_into_slabs(Magazine* full) noexcept {
  const std::size_t objects = full->rounds;
  while (full->rounds != 0) {
    if (has_destructor()) {
      put_in_slab(full->slots()[--full->rounds]);
    } else if (Slab* surplus = spill(*full)) {
      slabs_.release(surplus);
    }
  }
  internal::free_magazine(full);
  return objects;
}

/// Empties the quarantine and the depot into the slabs.
std::size_t Cache::flush() noexcept {
  std::size_t objects = 0;
  const Quarantine* quarantine = this->quarantine();
  if (quarantine != nullptr && quarantine->held() != 0) objects = quarantine_calls().give_up(*this);
  while (Magazine* full = depot_.take_full()) objects += empty_into_slabs(full);
  while (Magazine* empty = depot_.take_empty()) internal::free_magazine(empty);
  return objects;
}

Cache::Returned Cache::give_back() noexcept {
  const std::size_t before = slabs_.bytes();
  Returned returned;
  returned.objects = flush();
  slabs_.reap();
  const std::size_t after = slabs_.bytes();
  returned.bytes = before > after ? before - after : 0;
  return returned;
}

std::size_t Cache::reap() noexcept {
  static_cast<void>(drain());
  return give_back().bytes;
}

std::size_t Cache::trim() noexcept {
  const std::size_t before = slabs_.bytes();
  bool quiet = false;
  Depot::Unused unused = depot_.end_interval(quiet);
  for (; unused.full != 0; --unused.full) {
    if (Magazine* full = depot_.take_full()) empty_into_slabs(full);
  }
  for (; unused.empty != 0; --unused.empty) {
    if (Magazine* empty = depot_.take_empty()) internal::free_magazine(empty);
  }
  while (fill_reserve()) {
  }
  if (quiet) slabs_.reap();
  const std::size_t after = slabs_.bytes();
  return before > after ? before - after : 0;
}

}  // namespace qm
