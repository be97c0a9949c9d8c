#include <qm/cache.hpp>

#include <new>

#include <qm/arena.hpp>
#include <qm/bits.hpp>
#include <qm/page_map.hpp>
#include <qm/qm.h>
#include <qm/system.hpp>

namespace qm {
namespace {

constexpr std::size_t kPage = PageMap::kPageBytes;
/// Largest slab that is chosen to keep the waste low.
constexpr std::size_t kMaxSlabBytes = 16 * kPage;

constinit Cache caches;  // `kmem_cache`: what caches are

/// What any type of this size can need, as a size is a multiple of its alignment; kept between two bounds.
std::size_t default_alignment(std::size_t size) noexcept { return size % 16 == 0 ? 16 : 8; }

/// Counts what happened in a cache whose lock is not held.
void count(std::uint32_t& events) noexcept { std::atomic_ref(events).fetch_add(1, std::memory_order_relaxed); }

std::size_t words_of(std::size_t objects) noexcept { return (objects + kWordBits - 1) / kWordBits; }

}  // namespace

constinit Lock Cache::list_lock_;
constinit Cache* Cache::list_ = nullptr;

// ---- beginning and end ----------------------------------------------------------------------------------------------

/// Chooses the pages of a slab: the fewest of which at most an eighth is wasted, or of many the fewest that have an
/// object. @returns false if a slab cannot have as many.
bool Cache::choose_geometry() noexcept {
  for (slab_bytes_ = round_up(sizeof(Slab) + stride_, kPage); slab_bytes_ <= PageMap::kMostPages * kPage;
       slab_bytes_ += kPage) {
    objects_ = (slab_bytes_ - sizeof(Slab)) / stride_;
    first_ = round_up(sizeof(Slab) + words_of(objects_) * sizeof(long), alignment_);
    while (objects_ != 0 && first_ + objects_ * stride_ > slab_bytes_) --objects_;
    if (objects_ != 0 && ((slab_bytes_ - objects_ * stride_) * 8 <= slab_bytes_ || slab_bytes_ >= kMaxSlabBytes))
      return true;
  }
  return false;
}

Status Cache::initialize(const CacheConfig& config) noexcept {
  if ((config.flags & cache_flags::kNoTouch) != 0) return Status::kRefused;
  source_ = config.source != nullptr ? config.source : &base_arena();
  const std::size_t alignment = config.alignment != 0 ? config.alignment : default_alignment(config.object_size);
  if (config.object_size - 1 >= PageMap::kMostPages * kPage || !is_power_of_two(alignment) || alignment > kPage ||
      source_->quantum() % kPage != 0) {
    return Status::kInvalid;
  }
  alignment_ = static_cast<std::uint16_t>(alignment);
  stride_ = round_up(config.object_size, alignment);
  if (!choose_geometry()) return Status::kInvalid;
  name_ = config.name;
  constructor_ = config.constructor;
  destructor_ = config.destructor;
  context_ = config.context;
  if constexpr (kTraced) {
    if ((config.flags & cache_flags::kNoTrace) != 0) traceable_.set_number(kUntraceable);
  }
  if (config.limit - 1 < UINT32_MAX) limit_ = static_cast<std::uint32_t>(config.limit);
  source_->count_importer(1);
  const LockGuard hold(list_lock_);
  next_ = list_;
  list_ = this;
  return Status::kOk;
}

Status internal::initialize_caches() noexcept {
  Cache::list_ = nullptr;
  return (new (&caches) Cache)->initialize({.name = "kmem_cache", .object_size = sizeof(Cache)});
}

Cache* Cache::create(const CacheConfig& config, Status* why) noexcept {
  Status status = Status::kNoMemory;
  auto* cache = static_cast<Cache*>(caches.allocate());
  if (cache != nullptr) {
    status = (new (cache) Cache)->initialize(config);
    if (status != Status::kOk) {
      caches.free(cache);
      cache = nullptr;
    }
  }
  if (why != nullptr) *why = status;
  return cache;
}

Status Cache::destroy(Cache* cache) noexcept {
  if (std::atomic_ref(cache->out_).load(std::memory_order_relaxed) != 0) return Status::kBusy;
  {
    const LockGuard hold(list_lock_);
    Cache** link = &list_;
    while (*link != cache) link = &(*link)->next_;
    *link = cache->next_;
  }
  cache->traceable_.destroyed();
  cache->reap();  // S2: there is no other slab
  cache->source_->count_importer(~std::size_t{0});
  caches.free(cache);
  return Status::kOk;
}

// ---- slabs ----------------------------------------------------------------------------------------------------------

/// Adds a slab. @returns false at the limit, and if there is no memory for it.
bool Cache::grow() noexcept {
  if (std::atomic_ref(out_).load(std::memory_order_relaxed) >= limit_) return false;
  std::uintptr_t start = source_->allocate(slab_bytes_);
  if (start == 0 && reclaim() != 0) start = source_->allocate(slab_bytes_);
  if (start == 0) return false;
  if (!page_map.covers(start, slab_bytes_)) {
    source_->free(start, slab_bytes_);
    return false;
  }
  const Released memory{source_, start, slab_bytes_};
  auto* const slab = new (reinterpret_cast<void*>(start)) Slab;
  slab->cache = this;
  slab->first = start + first_;
  slab->objects = static_cast<std::uint32_t>(objects_);
  for (std::size_t word = 0, left = objects_; left != 0; ++word) {
    const std::size_t here = left < kWordBits ? left : kWordBits;
    slab->bits(word) = ~0UL >> (kWordBits - here);
    left -= here;
  }
  page_map.mark(start, slab_bytes_);
  {
    const LockGuard hold(lock_);
    if (idle_ == nullptr) {
      idle_ = slab;
      usable_.push_back(slab);
      ++slabs_;
      return true;
    }
  }
  page_map.clear(start, slab_bytes_);  // S2: another hart was faster
  memory.give_back();
  return true;
}

std::size_t Cache::Released::give_back() const noexcept {
  if (bytes != 0) source->free(start, bytes);
  return bytes;
}

Cache::Released Cache::take_idle_locked() noexcept {
  Slab* const slab = idle_;
  if (slab == nullptr) return {};
  idle_ = nullptr;
  usable_.remove(slab);
  --slabs_;
  const auto start = reinterpret_cast<std::uintptr_t>(slab);
  page_map.clear(start, slab_bytes_);  // with the lock held, as find() looks
  return {source_, start, slab_bytes_};
}

std::size_t Cache::reap() noexcept {
  Released idle;
  {
    const LockGuard hold(lock_);
    idle = take_idle_locked();
  }
  return idle.give_back();
}

std::size_t reclaim() noexcept {
  std::size_t bytes = 0;
  for (;;) {
    Cache::Released idle;
    {
      const LockGuard hold(Cache::list_lock_);
      for (Cache* cache = Cache::list_; cache != nullptr && idle.bytes == 0; cache = cache->next_) {
        const LockGuard its(cache->lock_);
        idle = cache->take_idle_locked();
      }
    }
    if (idle.give_back() == 0) return bytes;
    bytes += idle.bytes;
  }
}

// ---- allocation -----------------------------------------------------------------------------------------------------

/// A free object of a slab that there is; nullptr where none has one, and at the limit.
void* Cache::take() noexcept {
  const LockGuard hold(lock_);
  Slab* const slab = usable_.front();
  if (slab == nullptr || out_ >= limit_) return nullptr;
  if (slab == idle_) idle_ = nullptr;
  std::size_t word = 0;
  while (slab->bits(word) == 0) ++word;
  unsigned long& free = slab->bits(word);
  const std::size_t index = word * kWordBits + lowest_bit(free);
  free &= free - 1;
  if (++slab->in_use == slab->objects) usable_.remove(slab);
  const std::uint32_t out = out_ + 1;
  store_relaxed(out_, out);
  if (out > out_high_) out_high_ = out;
  return reinterpret_cast<void*>(slab->first + index * stride_);
}

void* Cache::allocate() noexcept {
  void* object = nullptr;
  do object = take();
  while (object == nullptr && grow());
  if (object != nullptr && constructor_ != nullptr && !constructor_(object, context_)) {
    put(object);
    object = nullptr;
  }
  if (object == nullptr) count(failures_);
  traceable_.taken(reinterpret_cast<std::uintptr_t>(object), stride_);
  return object;
}

std::size_t Cache::allocate_bulk(void** objects, std::size_t count, Effort) noexcept {
  std::size_t have = 0;
  while (have != count && (objects[have] = allocate()) != nullptr) ++have;
  return have;
}

// ---- free -----------------------------------------------------------------------------------------------------------

Cache* Cache::of(const void* address) noexcept {
  const std::uintptr_t slab = page_map.slab_of(reinterpret_cast<std::uintptr_t>(address));
  return slab != 0 ? reinterpret_cast<const Slab*>(slab)->cache : nullptr;
}

/// The slab in which an object of this cache starts at @p address; nullptr if none does. Lock held.
Slab* Cache::find(const void* address, std::size_t& index) const noexcept {
  const auto object = reinterpret_cast<std::uintptr_t>(address);
  auto* const slab = reinterpret_cast<Slab*>(page_map.slab_of(object));
  if (slab == nullptr || slab->cache != this) return nullptr;
  const std::size_t offset = object - slab->first;
  index = offset / stride_;
  return index < slab->objects && index * stride_ == offset ? slab : nullptr;
}

bool Cache::has_out(const void* address) noexcept {
  std::size_t index = 0;
  const LockGuard hold(lock_);
  Slab* const slab = find(address, index);
  return slab != nullptr && (slab->bits(index / kWordBits) >> index % kWordBits & 1) == 0;
}

/// Takes an object back. @returns false if it is none that is out.
bool Cache::put(const void* object) noexcept {
  std::size_t index = 0;
  Released surplus;
  {
    const LockGuard hold(lock_);
    Slab* const slab = find(object, index);
    if (slab == nullptr) return false;
    unsigned long& free = slab->bits(index / kWordBits);
    const unsigned long bit = 1UL << index % kWordBits;
    if ((free & bit) != 0) return false;
    free |= bit;
    store_relaxed(out_, out_ - 1);
    if (slab->in_use-- == slab->objects) usable_.push_front(slab);
    if (slab->in_use == 0) {
      surplus = take_idle_locked();
      usable_.remove(slab);
      usable_.push_back(slab);
      idle_ = slab;
    }
  }
  surplus.give_back();
  return true;
}

void Cache::free(void* object) noexcept {
  if (destructor_ != nullptr && has_out(object)) destructor_(object, context_);
  traceable_.going(reinterpret_cast<std::uintptr_t>(object));
  if (!put(object)) count(misuses_);
}

void Cache::free_bulk(void* const* objects, std::size_t count) noexcept {
  for (std::size_t i = 0; i != count; ++i) free(objects[i]);
}

}  // namespace qm

void qm_cache_free(qm::Cache* cache, void* object) noexcept { cache->free(object); }
