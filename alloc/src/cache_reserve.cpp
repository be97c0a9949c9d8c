/// What a cache holds back and what it holds off: the reserve and the limit, and where it keeps them.

#include <new>

#include <qm/cache.hpp>
#include <qm/system.hpp>

namespace qm {

/// The cache's extra, which is made if there is none yet. @returns nullptr if there is no memory.
CacheExtra* Cache::need_extra() noexcept {
  static_assert(sizeof(CacheExtra) <= internal::kBlockWords * sizeof(void*));
  CacheExtra* extra = this->extra();
  if (extra != nullptr) return extra;
  void* place = internal::allocate_block();
  if (place == nullptr) return nullptr;
  auto* fresh = new (place) CacheExtra;
  // release: pairs with the acquire in extra().
  if (extra_.compare_exchange_strong(extra, fresh, std::memory_order_acq_rel, std::memory_order_acquire)) return fresh;
  internal::free_block(place);
  return extra;
}

/// Gives the extra back. Nobody uses the cache.
void Cache::free_extra() noexcept {
  if (CacheExtra* extra = extra_.exchange(nullptr, std::memory_order_acquire); extra != nullptr) internal::free_block(extra);
}

// ---- the reserve ----------------------------------------------------------------------------------------------------

/// Moves a batch from the slabs to the reserve, as far as objects are missing. @returns whether there was one to move.
bool Cache::replenish() noexcept {
  void* objects[SlabLayer::kBatch];
  const std::uint32_t missing = reserve_missing();
  const unsigned wanted = missing < SlabLayer::kBatch ? missing : SlabLayer::kBatch;
  const SlabLayer::Taken taken = take_constructed(objects, wanted, SlabLayer::Growth::kAllowed);
  for (unsigned i = 0; i < taken.count; ++i) {
    if (!put_in_reserve(objects[i])) put_in_slab(objects[i]);  // a free has filled it meanwhile
  }
  return taken.count != 0;
}

/// Gives back what the reserve has beyond its promise.
void Cache::give_back_surplus(Reserve& reserve) noexcept {
  while (void* object = reserve.take_surplus()) put_in_slab(object);
  while (Magazine* magazine = reserve.take_spare()) internal::free_magazine(magazine);
}

/// Ends the promise, and gives back what was kept for it.
void Cache::end_reserve() noexcept {
  CacheExtra* extra = this->extra();
  if (extra == nullptr) return;
  extra->reserve.promise(0);
  give_back_surplus(extra->reserve);
}

bool Cache::put_in_reserve(void* object) noexcept {
  CacheExtra* extra = this->extra();
  return extra != nullptr && extra->reserve.put(object);
}

/// What an allocation gets that may not wait. @returns nullptr if nothing is held for it.
void* Cache::take_from_reserve() noexcept {
  CacheExtra* extra = this->extra();
  return extra != nullptr ? extra->reserve.take() : nullptr;
}

Status Cache::reserve(std::size_t objects) noexcept {
  if ((flags_ & cache_flags::kDirect) != 0) return Status::kRefused;
  CacheExtra* extra = objects == 0 ? this->extra() : need_extra();
  if (extra == nullptr || objects > UINT32_MAX / 2) return objects == 0 ? Status::kOk : Status::kNoMemory;
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
    enough = !reclaimed && hal::may_wait();
    if (enough) reclaim();
    reclaimed = true;
  }
  if (!enough) reserve.promise(before.promised);
  give_back_surplus(reserve);
  return enough ? Status::kOk : Status::kNoMemory;
}

// ---- the limit ------------------------------------------------------------------------------------------------------

Status Cache::set_limit(std::size_t objects, LimitCallback callback) noexcept {
  CacheExtra* extra = callback != nullptr ? need_extra() : this->extra();
  if (extra != nullptr) {
    extra->limit_callback.store(callback, std::memory_order_relaxed);
  } else if (callback != nullptr) {
    return Status::kNoMemory;
  }
  slabs_.set_limit(objects);
  if (!slabs_.at_limit()) return Status::kOk;
  if (hal::may_wait()) drain();
  flush();
  return Status::kOk;
}

/// After a refill() that has found nothing: if the limit was in the way, once more with what this cache has idle.
void* Cache::refill_at_limit(bool may_wait) noexcept {
  if (!slabs_.at_limit()) return nullptr;
  flush();
  void* object = refill();
  if (object != nullptr || !may_wait || drain() != Status::kOk) return object;
  flush();
  return refill();
}

void* Cache::refill_within_limit(bool may_wait) noexcept {
  void* object = refill();
  return object != nullptr ? object : refill_at_limit(may_wait);
}

/// Asks the callback if the limit stands in the way. @returns whether to try again: what it freed lies in a slab.
bool Cache::limit_callback_helps() noexcept {
  const CacheExtra* extra = this->extra();
  const LimitCallback callback = extra != nullptr ? extra->limit_callback.load(std::memory_order_relaxed) : nullptr;
  if (callback == nullptr || !slabs_.at_limit() || !callback(*this, extra->context)) return false;
  const hal::InterruptGuard masked;
  detach_magazines(hal::Port::hart_index());
  return true;
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
    Magazine* magazine = spare_;  // there is one: room() is enough for what is promised
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
