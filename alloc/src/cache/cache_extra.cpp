/// What only few caches have: the extra structure, the limit, and the calls into reserve and quarantine.

#include <new>

#include <qm/cache.hpp>
#include <qm/system.hpp>

namespace qm {

static_assert(sizeof(CacheExtra) <= internal::kMostBlockWords * sizeof(void*));

constinit std::atomic<const internal::ReserveCalls*> internal::reserve_calls{nullptr};
constinit std::atomic<const internal::QuarantineCalls*> internal::quarantine_calls{nullptr};

/// The cache's extra, made at the first call. @returns nullptr if there is no memory.
CacheExtra* Cache::need_extra() noexcept {
  CacheExtra* extra = this->extra();
  if (extra != nullptr) return extra;
  void* place = internal::allocate_block(sizeof(CacheExtra) / sizeof(void*));
  if (place == nullptr) return nullptr;
  auto* fresh = new (place) CacheExtra;
  // release: pairs with the acquire in extra().
  if (extra_.compare_exchange_strong(extra, fresh, std::memory_order_acq_rel, std::memory_order_acquire)) return fresh;
  internal::free_block(place, sizeof(CacheExtra) / sizeof(void*));
  return extra;
}

/// Frees the extra. The cache is not in use.
void Cache::free_extra() noexcept {
  if (CacheExtra* extra = extra_.exchange(nullptr, std::memory_order_acquire); extra != nullptr)
    internal::free_block(extra, sizeof(CacheExtra) / sizeof(void*));
}

// ---- the reserve ----------------------------------------------------------------------------------------------------

namespace {
// acquire: pairs with the release in Cache::reserve(), which came before any object was in a reserve.
const internal::ReserveCalls& calls() noexcept { return *internal::reserve_calls.load(std::memory_order_acquire); }
}  // namespace

bool Cache::put_in_reserve(void* object) noexcept {
  return reserve_missing() != 0 && calls().put(extra()->reserve, object);
}

/// Takes an object of the reserve, for an allocation that may not wait. @returns nullptr if the reserve is empty.
void* Cache::take_from_reserve() noexcept {
  CacheExtra* extra = kMagazines ? this->extra() : nullptr;
  return extra != nullptr && extra->reserve.held() != 0 ? calls().take(extra->reserve) : nullptr;
}

/// Moves objects from the slabs to the reserve if it lacks some. @returns whether any was moved.
bool Cache::fill_reserve() noexcept { return reserve_missing() != 0 && calls().replenish(*this); }

/// Ends the promise, and frees the objects kept for it.
void Cache::end_reserve() noexcept {
  if (kMagazines && extra() != nullptr && internal::reserve_calls.load(std::memory_order_acquire) != nullptr)
    calls().end(*this);
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
  static_cast<void>(drain());
  flush();
  return Status::kOk;
}

/// Retries a failed refill() with the idle objects of this cache, if the cache is at its limit.
void* Cache::refill_at_limit(bool may_ask) noexcept {
  if (!slabs_.at_limit()) return nullptr;
  flush();
  void* object = refill();
  if (object != nullptr || !may_ask || drain() != Status::kOk) return object;
  flush();
  return refill();
}

void* Cache::refill_within_limit(bool may_ask) noexcept {
  void* object = refill();
  return object != nullptr ? object : refill_at_limit(may_ask);
}

/// Asks the callback if the cache is at its limit. @returns whether to retry: what the callback freed lies in a slab.
bool Cache::limit_callback_helps() noexcept {
  const CacheExtra* extra = this->extra();
  const LimitCallback callback = extra != nullptr ? extra->limit_callback.load(std::memory_order_relaxed) : nullptr;
  if (callback == nullptr || !slabs_.at_limit() || !callback(*this, extra->context)) return false;
  const hal::InterruptGuard masked;
  detach_magazines(hal::Port::hart_index());
  return true;
}

}  // namespace qm
