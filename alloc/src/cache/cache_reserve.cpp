/// The reserve of a cache: objects kept for allocations that must not fail.

#include <qm/cache.hpp>
#include <qm/system.hpp>

namespace qm {

/// Moves a batch from the slabs to the reserve, at most the missing objects. @returns whether any was moved.
bool Cache::replenish() noexcept {
  void* objects[SlabLayer::kBatch];
  const std::uint32_t missing = reserve_missing();
  const unsigned wanted = missing < SlabLayer::kBatch ? missing : SlabLayer::kBatch;
  const SlabLayer::Taken taken = take_constructed(objects, wanted);
  for (unsigned i = 0; i < taken.count; ++i) {
    if (!extra()->reserve.put(objects[i])) put_in_slab(objects[i]);  // a free has filled the reserve meanwhile
  }
  return taken.count != 0;
}

/// Frees the objects and magazines that the reserve has beyond its promise.
void Cache::give_back_surplus(Reserve& reserve) noexcept {
  while (void* object = reserve.take_surplus()) put_in_slab(object);
  while (Magazine* magazine = reserve.take_spare()) internal::free_magazine(magazine);
}

Status Cache::reserve(std::size_t objects) noexcept {
  if (!has_magazines()) return Status::kRefused;
  CacheExtra* extra = objects == 0 ? this->extra() : need_extra();
  if (extra == nullptr || objects > UINT32_MAX / 2) return objects == 0 ? Status::kOk : Status::kNoMemory;
  static constexpr internal::ReserveCalls kCalls{
      [](Reserve& reserve, void* object) noexcept { return reserve.put(object); },
      [](Reserve& reserve) noexcept { return reserve.take(); }, [](Cache& cache) noexcept { return cache.replenish(); },
      [](Cache& cache) noexcept {
        cache.extra()->reserve.promise(0);
        cache.give_back_surplus(cache.extra()->reserve);
      }};
  // release: pairs with the acquire in calls().
  internal::reserve_calls.store(&kCalls, std::memory_order_release);
  Reserve& reserve = extra->reserve;
  const Reserve::Stats before = reserve.stats();
  const auto wanted = static_cast<std::uint32_t>(objects);
  bool enough = true;
  for (std::uint32_t room = before.room; enough && room < wanted;) {
    Magazine* magazine = internal::create_magazine(wanted - room);
    enough = magazine != nullptr;
    if (!enough) break;
    room += magazine->capacity;
    reserve.add(magazine);
  }
  if (enough) reserve.promise(wanted);
  for (bool reclaimed = false; enough && reserve.missing() != 0;) {
    if (replenish()) continue;
    enough = !reclaimed && hal::may_ask_harts();
    if (enough) reclaim();
    reclaimed = true;
  }
  if (!enough) reserve.promise(before.promised);
  give_back_surplus(reserve);
  return enough ? Status::kOk : Status::kNoMemory;
}

// ---- class Reserve --------------------------------------------------------------------------------------------------

void* Reserve::take_locked() noexcept {
  Magazine* magazine = stocked_;
  if (magazine == nullptr) return nullptr;
  void* object = magazine->slots()[--magazine->rounds];
  if (magazine->rounds == 0) {
    stocked_ = magazine->next;
    magazine->next = spare_;
    spare_ = magazine;
  }
  set_held_locked(held_.load(std::memory_order_relaxed) - 1);
  return object;
}

void* Reserve::take() noexcept {
  const LockGuard hold(lock_);
  return take_locked();
}

void* Reserve::take_surplus() noexcept {
  const LockGuard hold(lock_);
  const bool surplus = held_.load(std::memory_order_relaxed) > promised_.load(std::memory_order_relaxed);
  return surplus ? take_locked() : nullptr;
}

bool Reserve::put(void* object) noexcept {
  if (missing() == 0) return false;
  const LockGuard hold(lock_);
  if (missing() == 0) return false;
  if (stocked_ == nullptr || stocked_->rounds == stocked_->capacity) {
    Magazine* magazine = spare_;  // not null: the reserve has room for all promised objects
    spare_ = magazine->next;
    magazine->next = stocked_;
    stocked_ = magazine;
  }
  stocked_->slots()[stocked_->rounds++] = object;
  set_held_locked(held_.load(std::memory_order_relaxed) + 1);
  return true;
}

void Reserve::add(Magazine* magazine) noexcept {
  const LockGuard hold(lock_);
  magazine->next = spare_;
  spare_ = magazine;
  room_ += magazine->capacity;
}

void Reserve::promise(std::uint32_t objects) noexcept {
  const LockGuard hold(lock_);
  store_relaxed(promised_, objects);
}

Magazine* Reserve::take_spare() noexcept {
  const LockGuard hold(lock_);
  Magazine* magazine = spare_;
  if (magazine == nullptr || room_ - magazine->capacity < promised_.load(std::memory_order_relaxed)) return nullptr;
  spare_ = magazine->next;
  room_ -= magazine->capacity;
  return magazine;
}

Reserve::Stats Reserve::stats() noexcept {
  const LockGuard hold(lock_);
  return {promised_.load(std::memory_order_relaxed), held_.load(std::memory_order_relaxed), room_};
}

bool Reserve::holds(const void* object) noexcept {
  const LockGuard hold(lock_);
  return Magazine::is_in(object, stocked_);
}

}  // namespace qm
