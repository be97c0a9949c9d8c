#include <qm/slab.hpp>

#include <bit>
#include <new>

#include <qm/arena.hpp>
#include <qm/bits.hpp>
#include <qm/fault.hpp>
#include <qm/observer.hpp>
#include <qm/page_map.hpp>

namespace qm {
namespace {

/// Largest slab that is chosen to keep the waste low; a larger object gets the smallest slab that holds one.
constexpr std::size_t kMaxSlabBytes = std::size_t{1} << 20;
/// Empty slabs a layer keeps before it gives one back with each further one.
constexpr std::size_t kEmptyKept = 2;

std::size_t default_alignment(std::size_t size) noexcept {
  std::size_t alignment = sizeof(void*);
  while (alignment < 16 && alignment * 2 <= size) alignment *= 2;
  return alignment;
}

/// A priority for the treap: the start's bits, mixed, so that it needs no random numbers.
std::uint32_t priority_of(std::uintptr_t start) noexcept {
  const std::uint64_t mixed = (static_cast<std::uint64_t>(start) ^ (static_cast<std::uint64_t>(start) >> 17)) * 0x9e3779b97f4a7c15U;
  return static_cast<std::uint32_t>(mixed >> 32);
}

}  // namespace

Status SlabLayer::initialize(const SlabConfig& config) noexcept {
  const std::size_t alignment =
      config.alignment != 0 ? config.alignment : (config.no_touch ? 1 : default_alignment(config.object_size));
  if (config.source == nullptr || config.object_size == 0 || !is_power_of_two(alignment)) return Status::kInvalid;
  if (config.no_touch && config.headers == nullptr) return Status::kInvalid;
  if (config.object_size > SIZE_MAX / 16 || alignment > SIZE_MAX / 16) return Status::kInvalid;
  cache_ = config.cache;
  source_ = config.source;
  headers_ = config.headers;
  no_touch_ = config.no_touch;
  quantum_cache_ = config.quantum_cache;
  mapped_ = config.mapped;
  size_ = (config.object_size + alignment - 1) & ~(alignment - 1);
  stride_ = no_touch_ ? size_ : (size_ + kRedzoneBytes + alignment - 1) & ~(alignment - 1);
  if (!choose_geometry(alignment) || (mapped_ && slab_bytes_ != PageMap::kPageBytes)) return Status::kInvalid;
  return Status::kOk;
}

/// Sets objects_ for a slab of @p slab_bytes. @returns whether at most an eighth is wasted; in a checking build the heap's slabs
/// stay a page whatever that wastes.
bool SlabLayer::fits(std::size_t slab_bytes) noexcept {
  std::size_t count = no_touch_ ? slab_bytes / stride_ : (slab_bytes - sizeof(Slab)) / stride_;
  if (!no_touch_) {
    const auto overhead = [](std::size_t n) { return sizeof(Slab) + (n + kWordBits - 1) / kWordBits * sizeof(long) + n * kCheckBytes; };
    while (count != 0 && count * stride_ + overhead(count) > slab_bytes) --count;
  }
  objects_ = static_cast<std::uint16_t>(count);
  return count != 0 && ((kChecked && mapped_) || (slab_bytes - count * (stride_ + kCheckBytes)) * 8 <= slab_bytes);
}

bool SlabLayer::choose_geometry(std::size_t alignment) noexcept {
  const std::size_t quantum = source_->quantum();
  if (no_touch_) {
    // A whole number of objects and of the source's quanta: with both powers of two nothing is wasted.
    slab_bytes_ = 8 * stride_;
    slab_bytes_ = (slab_bytes_ + quantum - 1) / quantum * quantum;
    if (slab_bytes_ / stride_ > kExternalObjects) slab_bytes_ = (kExternalObjects * stride_ + quantum - 1) / quantum * quantum;
    fits(slab_bytes_);
    if (objects_ > kExternalObjects) objects_ = kExternalObjects;
    aligned_source_ = quantum % alignment == 0;
  } else {
    slab_bytes_ = kPageBytes;
    while (slab_bytes_ < alignment * 2) slab_bytes_ *= 2;
    while (!fits(slab_bytes_) && slab_bytes_ < kMaxSlabBytes) slab_bytes_ *= 2;
    while (!fits(slab_bytes_) && objects_ == 0) slab_bytes_ *= 2;
    aligned_source_ = quantum % slab_bytes_ == 0;
  }
  if (stride_ <= UINT32_MAX && static_cast<std::uint64_t>(slab_bytes_) * stride_ < (std::uint64_t{1} << 32) && stride_ > 1) {
    reciprocal_ = static_cast<std::uint32_t>(((std::uint64_t{1} << 32) + stride_ - 1) / stride_);
  }
  return objects_ != 0;
}

std::uintptr_t SlabLayer::take_from_source(std::size_t bytes) noexcept {
  Constraint constraint;
  if (!aligned_source_) constraint.align = no_touch_ ? stride_ & (~stride_ + 1) : slab_bytes_;
  if (quantum_cache_) return source_->allocate_slab(bytes, constraint);
  return aligned_source_ ? source_->allocate(bytes, Fit::kInstant, nullptr, Effort::kQuiet)
                         : source_->allocate_constrained(bytes, constraint, Fit::kInstant, nullptr, Effort::kQuiet);
}

void SlabLayer::give_to_source(std::uintptr_t start, std::size_t bytes) noexcept {
  const Status status = quantum_cache_    ? source_->free_slab(start, bytes)
                        : aligned_source_ ? source_->free(start, bytes)
                                          : source_->free_constrained(start, bytes);
  if (status != Status::kOk) hal::Port::fatal("slab: its source does not know a slab");
}

Slab* SlabLayer::create() noexcept {
  Slab* slab = create(objects_);
  return slab == nullptr && no_touch_ && stride_ % source_->quantum() == 0 ? create(1) : slab;
}

Slab* SlabLayer::create(unsigned objects) noexcept {
  void* place = nullptr;
  if (no_touch_ && headers_->take(&place, 1) == 0) return nullptr;
  const std::uintptr_t start = take_from_source(bytes_of(objects));
  if (start == 0) {
    if (no_touch_) headers_->put(place);
    return nullptr;
  }
  if (mapped_ && !page_map.mark(start, slab_bytes_)) {
    give_to_source(start, slab_bytes_);
    return nullptr;
  }
  Slab* slab = nullptr;
  if (no_touch_) {
    auto* external = new (static_cast<std::byte*>(place) + kExternalHead) ExternalSlab;
    external->priority = priority_of(start);
    slab = external;
  } else {
    slab = new (reinterpret_cast<void*>(start + slab_bytes_ - sizeof(Slab))) Slab;
  }
  slab->cache = cache_;
  slab->start = start;
  slab->objects = static_cast<std::uint16_t>(objects);
  unsigned long* free = bitmap(*slab);
  for (unsigned word = 0; word < words(); ++word) {
    const unsigned left = objects > word * kWordBits ? objects - word * kWordBits : 0;
    free[word] = left >= kWordBits ? ~0UL : (1UL << left) - 1;
  }
  if constexpr (kChecked) new (checks(*slab)) ObjectCheck[objects_];
  return slab;
}

/// Counts a new slab. Lock held.
void SlabLayer::adopt(Slab* slab) noexcept {
  ++slabs_;
  objects_total_ += slab->objects;
  bytes_ += bytes_of(slab->objects);
  if (no_touch_) return insert_in_tree(static_cast<ExternalSlab*>(slab));
  widen(slab->start, reinterpret_cast<std::uintptr_t>(slab + 1));
}

/// Counts a slab out that is on no list any more. Lock held.
void SlabLayer::disown(Slab* slab) noexcept {
  leave_pass(slab);
  --slabs_;
  objects_total_ -= slab->objects;
  bytes_ -= bytes_of(slab->objects);
  if (no_touch_) remove_from_tree(static_cast<ExternalSlab*>(slab));
}

/// Gives the memory of a disowned slab back.
void SlabLayer::release(Slab* slab) noexcept {
  const std::uintptr_t start = slab->start;
  const std::size_t bytes = bytes_of(slab->objects);
  std::uint32_t* handles = slab->handles.load(std::memory_order_relaxed);
  if (handles != nullptr && observer() != nullptr) observer()->release_handles(handles, objects_);
  if (no_touch_) headers_->put(reinterpret_cast<std::byte*>(slab) - kExternalHead);
  if (mapped_) page_map.clear(start, bytes);
  give_to_source(start, bytes);
}

/// Takes up to @p count objects out of @p slab. Precondition: lock held, a free object exists.
unsigned SlabLayer::carve(Slab& slab, void** objects, unsigned count) noexcept {
  unsigned taken = 0;
  unsigned long* free = bitmap(slab);
  unsigned word = slab.first_word;
  while (taken < count && word < words()) {
    unsigned long bits = free[word];
    while (bits != 0 && taken < count) {
      const unsigned index = word * kWordBits + lowest_bit(bits);
      bits &= bits - 1;
      objects[taken++] = object(slab, index);
    }
    std::atomic_ref<unsigned long>(free[word]).store(bits, std::memory_order_relaxed);  // is_free() reads it without the lock
    if (bits == 0) ++word;
  }
  slab.first_word = static_cast<std::uint16_t>(word);
  slab.in_use = static_cast<std::uint16_t>(slab.in_use + taken);
  out_ += taken;
  taken_ever_ += taken;
  if (out_ > out_high_) out_high_ = out_;
  return taken;
}

unsigned SlabLayer::take(void** objects, unsigned count) noexcept {
  if (!fault::may_acquire(fault::Resource::kObjects)) return 0;
  if (count > kBatch) count = kBatch;
  for (int fresh = 0; fresh < 2; ++fresh) {
    Slab* created = fresh != 0 ? create() : nullptr;
    if (fresh != 0 && created == nullptr) return 0;
    const LockGuard hold(lock_);
    if (created != nullptr) {
      adopt(created);
      partial_.push_front(created);
      if (count > kFreshBatch) count = kFreshBatch;
    }
    Slab* slab = partial_.front();
    if (slab == nullptr && (slab = empty_.pop_front()) != nullptr) {
      --empty_slabs_;
      partial_.push_front(slab);
    }
    if (slab == nullptr) continue;
    const unsigned taken = carve(*slab, objects, count);
    if (slab->in_use == slab->objects) {
      partial_.remove(slab);
      full_.push_front(slab);
    }
    return taken;
  }
  return 0;
}

unsigned SlabLayer::index(const Slab& slab, const void* object) const noexcept {
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(object) - slab.start;
  const std::size_t index =
      reciprocal_ != 0 ? static_cast<std::size_t>((static_cast<std::uint64_t>(offset) * reciprocal_) >> 32) : offset / stride_;
  return index < slab.objects && index * stride_ == offset ? static_cast<unsigned>(index) : kNoIndex;
}

Status SlabLayer::put(void* object) noexcept {
  Slab* slab = find(object);
  if (slab == nullptr) return Status::kMismatch;
  const unsigned at = index(*slab, object);
  if (at == kNoIndex) return Status::kMismatch;
  Slab* surplus = nullptr;
  {
    const LockGuard hold(lock_);
    const unsigned word = at / kWordBits;
    const unsigned long bit = 1UL << (at % kWordBits);
    const unsigned long bits = bitmap(*slab)[word];
    if ((bits & bit) != 0) return Status::kNotFound;
    std::atomic_ref<unsigned long>(bitmap(*slab)[word]).store(bits | bit, std::memory_order_relaxed);
    if (word < slab->first_word) slab->first_word = static_cast<std::uint16_t>(word);
    --out_;
    if (slab->in_use-- == slab->objects) {
      full_.remove(slab);
      partial_.push_front(slab);
    }
    if (slab->in_use == 0) {
      partial_.remove(slab);
      if (empty_slabs_ < kEmptyKept) {
        empty_.push_front(slab);
        ++empty_slabs_;
      } else {
        surplus = slab;
        disown(slab);
      }
    }
  }
  if (surplus != nullptr) release(surplus);
  return Status::kOk;
}

std::size_t SlabLayer::reap() noexcept {
  std::size_t bytes = 0;
  for (;;) {
    Slab* slab = nullptr;
    {
      const LockGuard hold(lock_);
      slab = empty_.pop_front();
      if (slab == nullptr) return bytes;
      --empty_slabs_;
      disown(slab);
    }
    bytes += bytes_of(slab->objects);
    release(slab);
  }
}

Status SlabLayer::destroy() noexcept {
  {
    const LockGuard hold(lock_);
    if (out_ != 0) return Status::kBusy;
  }
  reap();
  return Status::kOk;
}

SlabStats SlabLayer::stats() noexcept {
  const LockGuard hold(lock_);
  return {slabs_, empty_slabs_, bytes_, out_, out_high_, objects_total_, taken_ever_};
}

bool SlabLayer::is_sound(Slab& slab) noexcept {
  unsigned free = 0;
  for (unsigned word = 0; word < words(); ++word) {
    if (word < slab.first_word && bitmap(slab)[word] != 0) return false;
    for (unsigned long bits = bitmap(slab)[word]; bits != 0; bits &= bits - 1) ++free;
  }
  return slab.cache == cache_ && slab.in_use + free == slab.objects && (!no_touch_ || find_in_tree(slab.start) == &slab);
}

bool SlabLayer::validate() noexcept {
  const LockGuard hold(lock_);
  SlabStats seen;
  const auto check = [&](const List<Slab>& list, auto belongs) {
    for (Slab* slab = list.front(); slab != nullptr; slab = list.next(slab)) {
      if (!is_sound(*slab) || !belongs(*slab)) return false;
      ++seen.slabs;
      seen.objects_out += slab->in_use;
      seen.objects_total += slab->objects;
      seen.empty_slabs += slab->in_use == 0 ? 1 : 0;
    }
    return true;
  };
  return check(partial_, [](const Slab& slab) { return slab.in_use != 0 && slab.in_use != slab.objects; }) &&
         check(full_, [](const Slab& slab) { return slab.in_use == slab.objects; }) &&
         check(empty_, [](const Slab& slab) { return slab.in_use == 0; }) && seen.slabs == slabs_ &&
         seen.empty_slabs == empty_slabs_ && seen.objects_out == out_ && seen.objects_total == objects_total_;
}

}  // namespace qm
