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

/// Largest slab that is chosen to keep the waste low; objects for which none is good enough lie alone.
constexpr std::size_t kMaxSlabBytes = std::size_t{1} << 20;
/// Objects of the heap above so many bytes waste a sixteenth of a slab at most, others an eighth.
constexpr std::size_t kTightBytes = 1024;
/// Empty slabs a layer keeps before it gives one back with each further one.
constexpr std::size_t kEmptyKept = 2;

/// What any type of this size can need, as a size is a multiple of its alignment; kept between the two bounds.
std::size_t default_alignment(std::size_t size) noexcept {
  std::size_t alignment = SlabLayer::kMinAlignment;
  while (alignment < SlabLayer::kMaxAlignment && size % (alignment * 2) == 0) alignment *= 2;
  return alignment;
}

/// A priority for the treap: the start's bits, mixed, so that it needs no random numbers.
std::uint32_t priority_of(std::uintptr_t start) noexcept {
  const std::uint64_t mixed =
      (static_cast<std::uint64_t>(start) ^ (static_cast<std::uint64_t>(start) >> 17)) * 0x9e3779b97f4a7c15U;
  return static_cast<std::uint32_t>(mixed >> 32);
}

/// Of a layer that may be tagged; the other kind never is.
void set_tagging(auto& tagging, bool tagged) noexcept {
  if constexpr (kCallSites) tagging.tagged = tagged;
}

}  // namespace

Status SlabLayer::initialize(const SlabConfig& config) noexcept {
  const std::size_t wanted =
      config.alignment != 0 ? config.alignment : (config.no_touch ? 1 : default_alignment(config.object_size));
  const bool tagged = kCallSites && config.tagged;
  const std::size_t alignment = tagged && wanted < kChargeHeadBytes && wanted != 0 ? kChargeHeadBytes : wanted;
  if (config.source == nullptr || config.object_size == 0 || !is_power_of_two(alignment)) return Status::kInvalid;
  if (config.object_size > SIZE_MAX / 16 || alignment > SIZE_MAX / 16) return Status::kInvalid;
  source_ = config.source;
  no_touch_ = config.no_touch;
  set_tagging(tagging_, tagged);
  if (no_touch_) root_ = nullptr;
  quantum_cache_ = config.quantum_cache;
  heap_class_ = config.heap_class & 31;
  alignment_log2_ = static_cast<std::uint8_t>(floor_log2(alignment));
  stride_ = ((config.object_size + alignment - 1) & ~(alignment - 1)) + trailer();
  return choose_geometry() ? Status::kOk : Status::kInvalid;
}

/// Sets objects_ for a slab of @p slab_bytes. @returns whether at most an eighth of what the source gives for it is
/// wasted; of a heap's slab with objects above kTightBytes a sixteenth, but for a checking build.
bool SlabLayer::fits(std::size_t slab_bytes) noexcept {
  const std::size_t most = no_touch_ ? kExternalObjects : UINT16_MAX;
  std::size_t count = no_touch_ ? slab_bytes / stride_ : (slab_bytes - sizeof(Slab)) / stride_;
  if (count > most) count = most;
  objects_ = static_cast<std::uint16_t>(count);
  while (!no_touch_ && objects_ != 0 && objects_ * stride_ + overhead() > slab_bytes) --objects_;
  const std::size_t drawn = round_up(slab_bytes, source_->quantum());
  const std::size_t part = heap_class_ != 0 && stride_ > kTightBytes && !kChecked ? 16 : 8;
  return objects_ != 0 && (drawn - objects_ * (stride_ + kCheckBytes)) * part <= drawn;
}

bool SlabLayer::choose_geometry() noexcept {
  const std::size_t quantum = source_->quantum();
  if (no_touch_) {
    // A whole number of objects and of the source's quanta: with both powers of two nothing is wasted.
    slab_bytes_ = (8 * stride_ + quantum - 1) / quantum * quantum;
    fits(slab_bytes_);
    aligned_source_ = quantum % alignment() == 0;
  } else {
    const std::size_t least = alignment() * 2 > kPageBytes ? alignment() * 2 : kPageBytes;
    slab_bytes_ = least;
    while (!fits(slab_bytes_) && slab_bytes_ < kMaxSlabBytes) slab_bytes_ *= 2;
    if (!fits(slab_bytes_)) {
      objects_ = 1;
      slab_bytes_ = least;
      while (slab_bytes_ < stride_ + overhead()) slab_bytes_ *= 2;
    }
    aligned_source_ = quantum % slab_bytes_ == 0;
  }
  if (stride_ <= UINT32_MAX && static_cast<std::uint64_t>(slab_bytes_) * stride_ < (std::uint64_t{1} << 32) &&
      stride_ > 1) {
    reciprocal_ = UINT32_MAX / static_cast<std::uint32_t>(stride_) + 1;  // 2^32 / stride, rounded up
  }
  return objects_ != 0;
}

/// Bytes of a slab of @p objects: of all that fit a whole one, or of a single one, with no more behind it than needed.
std::size_t SlabLayer::bytes_of(unsigned objects) const noexcept {
  if (objects == objects_ && (objects != 1 || no_touch_)) return slab_bytes_;
  if (no_touch_) return stride_;
  const std::size_t quantum = source_->quantum();
  const std::size_t least = round_up(stride_ + overhead(), quantum % alignment() == 0 ? quantum : alignment());
  return least < slab_bytes_ ? least : slab_bytes_;
}

bool SlabLayer::has_short() const noexcept {
  return objects_ != 1 && bytes_of(1) < slab_bytes_ && bytes_of(1) % source_->quantum() == 0;
}

/// The colour of a whole slab that begins at @p start.
std::size_t SlabLayer::colour_of(std::uintptr_t start) const noexcept {
  const std::size_t natural = stride_ & (~stride_ + 1);
  const std::size_t step = natural > kColourBytes ? natural : kColourBytes;
  const std::size_t colours = (slab_bytes_ - overhead() - objects_ * stride_) / step + 1;
  return start / slab_bytes_ % colours * step;
}

std::uintptr_t SlabLayer::take_from_source(std::size_t bytes) noexcept {
  if (quantum_cache_) return source_->allocate_slab(bytes);
  if (aligned_source_) return source_->allocate(bytes, Fit::kInstant, nullptr, Effort::kQuiet);
  Constraint constraint;
  constraint.align = no_touch_ ? stride_ & (~stride_ + 1) : slab_bytes_;
  if (!no_touch_) constraint.phase = slab_bytes_ - bytes;
  return source_->allocate_constrained(bytes, constraint, Fit::kInstant, nullptr, Effort::kQuiet);
}

void SlabLayer::give_to_source(std::uintptr_t start, std::size_t bytes) noexcept {
  const Status status = quantum_cache_    ? source_->free_slab(start, bytes)
                        : aligned_source_ ? source_->free(start, bytes)
                                          : source_->free_constrained(start, bytes);
  if (status != Status::kOk) hal::Port::fatal("slab: its source does not know a slab");
}

Slab* SlabLayer::create() noexcept {
  void* place = nullptr;
  if (no_touch_ && headers_->take(&place, 1).count == 0) return nullptr;
  unsigned objects = objects_;
  std::size_t bytes = slab_bytes();
  std::uintptr_t start = take_from_source(bytes);
  if (start == 0 && has_short()) {
    objects = 1;
    bytes = bytes_of(1);
    start = take_from_source(bytes);
  }
  if (start != 0 && heap_class_ != 0 && !page_map.mark(start, bytes, PageMap::tag_of(heap_class_))) {
    give_to_source(start, bytes);
    start = 0;
  }
  if (start == 0) {
    if (no_touch_) headers_->put(place);
    return nullptr;
  }
  Slab* slab = nullptr;
  if (no_touch_) {
    auto* external = new (static_cast<std::byte*>(place) + kExternalHead) ExternalSlab;
    external->priority = priority_of(start);
    slab = external;
  } else {
    slab = new (reinterpret_cast<void*>(start + bytes - sizeof(Slab))) Slab;
  }
  slab->layer = this;
  slab->start = lead() + (no_touch_ || bytes != slab_bytes_ ? start : start + colour_of(start));
  slab->objects = static_cast<std::uint16_t>(objects);
  for (unsigned word = 0; word < words(); ++word) {
    const unsigned left = objects > word * kWordBits ? objects - word * kWordBits : 0;
    bits(*slab, word) = left >= kWordBits ? ~0UL : (1UL << left) - 1;
  }
  if constexpr (kChecked) new (checks(*slab)) ObjectCheck[objects_];
  return slab;
}

/// Enters a new, empty slab. Lock held.
void SlabLayer::adopt(Slab* slab) noexcept {
  ++slabs_;
  ++empty_slabs_;
  short_slabs_ += slab->objects != objects_ ? 1 : 0;
  usable_.push_back(slab);
  if (no_touch_) return insert_in_tree(static_cast<ExternalSlab*>(slab));
  const auto end = reinterpret_cast<std::uintptr_t>(slab + 1);
  const bool known = bank_.load(std::memory_order_relaxed)->has(end - sizeof(Slab)) &&
                     slab->start >= low_.load(std::memory_order_relaxed);
  if (!known || end > high_.load(std::memory_order_relaxed)) widen(slab->start, end);
}

/// Takes an empty slab out. Lock held.
void SlabLayer::disown(Slab* slab) noexcept {
  leave_pass(slab);
  --slabs_;
  --empty_slabs_;
  short_slabs_ -= slab->objects != objects_ ? 1 : 0;
  usable_.remove(slab);
  if (no_touch_) remove_from_tree(static_cast<ExternalSlab*>(slab));
}

/// Gives the memory of a disowned slab back.
void SlabLayer::release(Slab* slab) noexcept {
  const std::size_t bytes = bytes_of(slab->objects);
  const std::uintptr_t start = no_touch_ ? slab->start : reinterpret_cast<std::uintptr_t>(slab) + sizeof(Slab) - bytes;
  std::uint32_t* handles = slab->handles.load(std::memory_order_relaxed);
  if (handles != nullptr && observer() != nullptr) observer()->release_handles(handles, objects_);
  if (no_touch_) headers_->put(reinterpret_cast<std::byte*>(slab) - kExternalHead);
  if (heap_class_ != 0) page_map.clear(start, bytes);
  give_to_source(start, bytes);
}

/// Takes objects out of @p slab, up to @p end, of one word of its bitmap, at most @p steps runs. @returns behind the
/// last.
/// Precondition: lock held, a free object exists.
inline void** SlabLayer::carve(Slab& slab, void** next, void** end, unsigned& steps) noexcept {
  void** const first = next;
  const std::size_t stride = stride_;
  std::size_t word = slab.first_word;
  while (bits(slab, word) == 0) ++word;
  slab.first_word = static_cast<std::uint16_t>(word);
  unsigned long left = bits(slab, word);
  do {
    const std::size_t low = lowest_bit(left);
    const unsigned long behind = left + (1UL << low);  // the bit behind the run, if the word has one, and what follows
    std::size_t count = (behind != 0 ? lowest_bit(behind) : kWordBits) - low;
    const auto room = static_cast<std::size_t>(end - next);
    left &= count <= room ? behind : ~0UL << (low + room);
    if (count > room) count = room;
    std::uintptr_t object = slab.start + (word * kWordBits + low) * stride;
    for (void** const stop = next + count; next != stop; object += stride) *next++ = reinterpret_cast<void*>(object);
  } while (left != 0 && next != end && --steps != 0);
  store_relaxed(bits(slab, word), left);  // is_free() reads it without the lock
  slab.in_use = static_cast<std::uint16_t>(slab.in_use + (next - first));
  return next;
}

/// take_present() without the test for a fault; from an empty slab only if others have nothing.
unsigned SlabLayer::take_some(void** objects, unsigned count) noexcept {
  const LockGuard hold(lock_);
  const std::uint32_t room = room_locked();
  void** next = objects;
  void** const end = objects + (room < count ? room : count);
  for (unsigned steps = kTakeSteps; steps > 1 && next != end;) {
    Slab* slab = usable_.front();
    if (slab == nullptr) break;
    if (slab->in_use == 0) {
      if (next != objects) break;
      --empty_slabs_;
    }
    --steps;
    next = carve(*slab, next, end, steps);
    if (slab->in_use == slab->objects) {
      usable_.remove(slab);
      full_.push_front(slab);
    }
  }
  const auto taken = static_cast<unsigned>(next - objects);
  count_taken_locked(taken);
  return taken;
}

bool SlabLayer::grow() noexcept {
  if (limit_.load(std::memory_order_relaxed) != kNoLimit && at_limit()) return false;
  Slab* fresh = create();
  if (fresh == nullptr) return false;
  const LockGuard hold(lock_);
  adopt(fresh);
  return true;
}

SlabLayer::Taken SlabLayer::take(void** objects, unsigned count) noexcept {
  if (!fault::may_acquire(fault::Resource::kObjects)) return {};
  for (bool created = false;; created = true) {  // again only where others have taken all of the new slab
    const unsigned taken = is_spent() ? 0 : take_some(objects, count);
    if (taken != 0 || !grow()) return {taken, created};
  }
}

/// Takes back the youngest of @p objects, as many as lie in one slab, one behind the other. @returns behind the last
/// that is left;
/// @p put says of a slab that has become surplus, and if that is one that cannot be taken back. Lock held.
[[gnu::always_inline]] inline void* const* SlabLayer::put_run(void* const* objects, void* const* end,
                                                              Put& put) noexcept {
  Slab* const slab = find_locked(end[-1]);
  if (slab == nullptr) {
    put.next = Standing::kOutside;
    return end;
  }
  Slab& here = *slab;
  void* const* const from = end;
  const unsigned before = here.in_use;
  // In locals: what is stored could be these.
  const std::uintptr_t start = here.start;
  const std::size_t stride = stride_;
  const std::uint64_t reciprocal = reciprocal_;
  const std::size_t among = here.objects;
  std::size_t lowest = among;
  do {
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(end[-1]) - start;
    const std::size_t at = reciprocal != 0 ? static_cast<std::size_t>(offset * reciprocal >> 32) : offset / stride;
    if (at >= among || at * stride != offset) {
      if (end == from) put.next = Standing::kInside;
      break;
    }
    unsigned long& free = bits(here, at / kWordBits);
    const unsigned long bit = 1UL << (at % kWordBits);
    if ((free & bit) != 0) {
      put.next = Standing::kFree;
      break;
    }
    store_relaxed(free, free | bit);
    if (at < lowest) lowest = at;
  } while (--end != objects);
  if (end == from) return end;
  if (lowest / kWordBits < here.first_word) here.first_word = static_cast<std::uint16_t>(lowest / kWordBits);
  here.in_use = static_cast<std::uint16_t>(before - (from - end));
  if (before == among) {
    full_.remove(&here);
    usable_.push_front(&here);
  }
  if (here.in_use == 0) {
    usable_.remove(&here);
    usable_.push_back(&here);
    if (++empty_slabs_ > kEmptyKept) {
      put.surplus = &here;
      disown(&here);
    }
  }
  return end;
}

SlabLayer::Put SlabLayer::put(void* const* objects, unsigned count) noexcept {
  Put put;
  void* const* const last = objects + count;
  void* const* end = last;
  const LockGuard hold(lock_);
  for (unsigned runs = 0; runs != kPutRuns && end != objects && put.surplus == nullptr && put.next == Standing::kOut;
       ++runs) {
    end = put_run(objects, end, put);
  }
  put.count = static_cast<unsigned>(last - end);
  out_ -= put.count;
  return put;
}

Status SlabLayer::put(void* object) noexcept {
  const Put put = this->put(&object, 1);
  if (put.surplus != nullptr) release(put.surplus);
  if (put.count != 0) return Status::kOk;
  return put.next == Standing::kFree ? Status::kNotFound : Status::kMismatch;
}

std::size_t SlabLayer::reap() noexcept {
  std::size_t bytes = 0;
  for (;;) {
    Slab* slab = nullptr;
    {
      const LockGuard hold(lock_);
      slab = usable_.back();
      if (slab == nullptr || slab->in_use != 0) return bytes;
      disown(slab);
    }
    bytes += bytes_of(slab->objects);
    release(slab);
  }
}

void SlabLayer::set_limit(std::size_t objects) noexcept {
  const LockGuard hold(lock_);
  store_relaxed(limit_, objects == 0 || objects >= kNoLimit ? kNoLimit : static_cast<std::uint32_t>(objects));
}

bool SlabLayer::at_limit() noexcept {
  const LockGuard hold(lock_);
  return room_locked() == 0;
}

Status SlabLayer::destroy() noexcept {
  {
    const LockGuard hold(lock_);
    if (out_ != 0) return Status::kBusy;
  }
  reap();
  return Status::kOk;
}

std::size_t SlabLayer::objects_out() noexcept {
  const LockGuard hold(lock_);
  return out_;
}

std::size_t SlabLayer::bytes_locked() const noexcept {
  return (slabs_ - short_slabs_) * slab_bytes() + short_slabs_ * bytes_of(1);
}

std::size_t SlabLayer::bytes() noexcept {
  const LockGuard hold(lock_);
  return bytes_locked();
}

SlabStats SlabLayer::stats() noexcept {
  const LockGuard hold(lock_);
  const std::size_t whole = slabs_ - short_slabs_;
  SlabStats stats;
  stats.slabs = slabs_;
  stats.empty_slabs = empty_slabs_;
  stats.bytes = bytes_locked();
  stats.objects_out = out_;
  stats.objects_out_high = out_high_;
  stats.objects_total = whole * objects_ + short_slabs_;
  const std::uint32_t limit = limit_.load(std::memory_order_relaxed);
  stats.limit = limit != kNoLimit ? limit : 0;
  stats.taken_ever = taken_ever_;
  return stats;
}

bool SlabLayer::is_sound(Slab& slab) noexcept {
  unsigned free = 0;
  for (unsigned word = 0; word < words(); ++word) {
    if (word < slab.first_word && bits(slab, word) != 0) return false;
    for (unsigned long left = bits(slab, word); left != 0; left &= left - 1) ++free;
  }
  return slab.layer == this && slab.in_use + free == slab.objects && (!no_touch_ || find_in_tree(slab.start) == &slab);
}

bool SlabLayer::validate() noexcept {
  const LockGuard hold(lock_);
  std::uint32_t slabs = 0;
  std::uint32_t empty = 0;
  std::uint32_t single = 0;
  std::uint32_t out = 0;
  const auto check = [&](const Ring<Slab>& list, bool full) {
    for (Slab* slab = list.front(); slab != nullptr; slab = list.next(slab)) {
      if (!is_sound(*slab) || (slab->in_use == slab->objects) != full) return false;
      if (empty != 0 && slab->in_use != 0 && !full) return false;  // S2
      ++slabs;
      empty += slab->in_use == 0 ? 1 : 0;
      single += slab->objects != objects_ ? 1 : 0;
      out += slab->in_use;
    }
    return true;
  };
  return check(usable_, false) && check(full_, true) && slabs == slabs_ && empty == empty_slabs_ &&
         single == short_slabs_ && out == out_;
}

}  // namespace qm
