/// What a cache holds back and what it holds off: the reserve and the limit.

#include <qm/cache.hpp>
#include <qm/system.hpp>

namespace qm {

// ---- the reserve ----------------------------------------------------------------------------------------------------

/// Moves a batch from the slabs to the reserve, as far as objects are missing. @returns whether there was one to move.
bool Cache::replenish() noexcept {
  void* objects[SlabLayer::kBatch];
  const std::uint32_t missing = reserve_.missing();
  const unsigned wanted = missing < SlabLayer::kBatch ? missing : SlabLayer::kBatch;
  const SlabLayer::Taken taken = take_constructed(objects, wanted, SlabLayer::Growth::kAllowed);
  for (unsigned i = 0; i < taken.count; ++i) {
    if (!reserve_.put(objects[i])) put_in_slab(objects[i]);  // a free has filled it meanwhile
  }
  return taken.count != 0;
}

/// Gives back what the reserve has beyond its promise.
void Cache::give_back_surplus() noexcept {
  while (void* object = reserve_.take_surplus()) put_in_slab(object);
  while (Magazine* magazine = reserve_.take_spare()) internal::free_magazine(magazine);
}

Status Cache::reserve(std::size_t objects) noexcept {
  if ((flags_ & cache_flags::kDirect) != 0) return Status::kRefused;
  const Reserve::Stats before = reserve_.stats();
  if (objects > UINT32_MAX / 2) return Status::kNoMemory;
  const auto wanted = static_cast<std::uint32_t>(objects);
  bool enough = true;
  for (std::uint32_t room = before.room; enough && room < wanted;) {
    Magazine* magazine = internal::create_magazine(wanted - room);
    enough = magazine != nullptr;
    if (!enough) break;
    room += magazine->capacity;
    reserve_.add(magazine);
  }
  if (enough) reserve_.promise(wanted);
  for (bool reclaimed = false; enough && reserve_.missing() != 0;) {
    if (replenish()) continue;
    enough = !reclaimed && hal::may_wait();
    if (enough) reclaim();
    reclaimed = true;
  }
  if (!enough) reserve_.promise(before.promised);
  give_back_surplus();
  return enough ? Status::kOk : Status::kNoMemory;
}

// ---- the limit ------------------------------------------------------------------------------------------------------

void Cache::set_limit(std::size_t objects, LimitCallback callback) noexcept {
  limit_callback_.store(callback, std::memory_order_relaxed);
  slabs_.set_limit(objects);
  if (!slabs_.at_limit()) return;
  if (hal::may_wait()) drain();
  flush();
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
  const LimitCallback callback = limit_callback_.load(std::memory_order_relaxed);
  if (callback == nullptr || !slabs_.at_limit() || !callback(*this, context_)) return false;
  const hal::InterruptGuard masked;
  detach_magazines(hal::Port::hart_index());
  return true;
}

}  // namespace qm
