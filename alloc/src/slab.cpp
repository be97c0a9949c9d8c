#include <qm/slab.hpp>

#include <bit>
#include <new>

#include <qm/arena.hpp>
#include <qm/bits.hpp>
#include <qm/fault.hpp>
#include <qm/observer.hpp>
#include <qm/page_map.hpp>

#include "extents.hpp"

namespace qm {

/// Of slab_pass.cpp, in a program that has such passes: @p slab goes. Lock held.
[[gnu::weak]] void internal::leave_pass(SlabLayer& layer, Slab& slab) noexcept;

namespace {

/// Largest slab that is chosen to keep the waste low; objects for which none is good enough lie alone.
constexpr std::size_t kMaxSlabBytes = std::size_t{1} << 20;
/// Objects of the heap above so many bytes waste a sixteenth of a slab at most, others an eighth.
constexpr std::size_t kTightBytes = 1024;
/// Empty slabs a layer keeps before it gives one back with each further one.
constexpr std::size_t kEmptyKept = 2;

/// Of a layer that may be tagged; the other kind never is.
void set_tagging(auto& tagging, bool tagged) noexcept {
  if constexpr (kCallSites) tagging.tagged = tagged;
}

}  // namespace

// ---- geometry -------------------------------------------------------------------------------------------------------

Status SlabLayer::initialize(const SlabConfig& config) noexcept {
  std::size_t alignment = config.alignment;
  // As any type of this size can need it, since a size is a multiple of its alignment; kept between the two bounds.
  if (alignment == 0) alignment = config.object_size % kMaxAlignment == 0 ? kMaxAlignment : kMinAlignment;
  if (config.no_touch != nullptr && config.alignment == 0) alignment = 1;
  const bool tagged = kCallSites && config.tagged;
  if (tagged && alignment < kChargeHeadBytes) alignment = kChargeHeadBytes;
  constexpr std::size_t kMost = SIZE_MAX / 16;
  if (config.source == nullptr || config.object_size - 1 >= kMost || !is_power_of_two(alignment) || alignment > kMost)
    return Status::kInvalid;
  source_ = config.source;
  set_tagging(tagging_, tagged);
  quantum_cache_ = config.quantum_cache;
  heap_class_ = config.heap_class & 31;
  alignment_log2_ = static_cast<std::uint8_t>(lowest_bit(alignment));
  no_touch_ = config.no_touch != nullptr;
  stride_ = ((config.object_size + alignment - 1) & ~(alignment - 1)) + trailer();
  if (no_touch_) {
    untouched_.store(config.no_touch, std::memory_order_relaxed);
    untouched().initialize(*this);
  } else {
    choose_geometry();
    in_extents_ = extents.are_of(*source_) && slab_bytes_ <= Extents::kMostBytes;
  }
  if (slab_bytes_ <= UINT32_MAX / stride_)
    reciprocal_ = UINT32_MAX / static_cast<std::uint32_t>(stride_) + 1;  // 2^32 / stride, rounded up; 0 of 1
  return objects_ != 0 ? Status::kOk : Status::kInvalid;
}

/// Sets the objects of a slab of memory. @returns whether at most an eighth of what the source gives for it is wasted;
/// of a heap's slab with objects above kTightBytes a sixteenth, but for a checking build.
bool SlabLayer::fits() noexcept {
  const std::size_t count = (slab_bytes_ - sizeof(Slab)) / stride_;
  objects_ = static_cast<std::uint16_t>(count < UINT16_MAX ? count : UINT16_MAX);
  while (objects_ != 0 && objects_ * stride_ + overhead() > slab_bytes_) --objects_;
  const std::size_t drawn = round_up(slab_bytes_, source_->quantum());
  const std::size_t part = heap_class_ != 0 && stride_ > kTightBytes && !kChecked ? 16 : 8;
  return objects_ != 0 && (drawn - objects_ * (stride_ + kCheckBytes)) * part <= drawn;
}

void SlabLayer::choose_geometry() noexcept {
  const std::size_t least = alignment() * 2 > kPageBytes ? alignment() * 2 : kPageBytes;
  for (slab_bytes_ = least; !fits(); slab_bytes_ *= 2) {
    if (slab_bytes_ < kMaxSlabBytes) continue;
    objects_ = 1;
    for (slab_bytes_ = least; slab_bytes_ < stride_ + overhead();) slab_bytes_ *= 2;
    return;
  }
}

std::size_t SlabLayer::bytes_of_one() const noexcept {
  if (no_touch_) return stride_;
  const std::size_t quantum = source_->quantum();
  const std::size_t least = round_up(stride_ + overhead(), quantum % alignment() == 0 ? quantum : alignment());
  return least < slab_bytes_ ? least : slab_bytes_;
}

// ---- slabs come and go ----------------------------------------------------------------------------------------------

/// The colour of a whole slab that begins at @p start.
inline std::size_t SlabLayer::colour_of(std::uintptr_t start) const noexcept {
  const std::size_t natural = stride_ & (~stride_ + 1);
  const std::size_t step = natural > kColourBytes ? natural : kColourBytes;
  const std::size_t colours = (slab_bytes_ - overhead() - objects_ * stride_) / step + 1;
  return start / slab_bytes_ % colours * step;
}

/// Whether the source's quantum aligns a slab of memory by itself.
inline bool SlabLayer::is_aligned_by_source() const noexcept { return source_->quantum() % slab_bytes_ == 0; }

/// Whether a slab of @p bytes is drawn from an extent, if there is one.
inline bool SlabLayer::shares_extent(std::size_t bytes) const noexcept { return in_extents_ && bytes == slab_bytes_; }

inline std::uintptr_t SlabLayer::take_from_source(std::size_t bytes) noexcept {
  if (!shares_extent(bytes)) return take_segment(bytes);
  if (!fault::may_acquire(fault::Resource::kSegment)) return 0;
  if (const std::uintptr_t start = extents.take(bytes); start != 0) [[likely]]
    return start;
  const std::uintptr_t start = take_segment(bytes);
  if (start != 0) extents.note_outside(bytes);
  return start;
}

/// A segment of the source. Not inlined: it takes registers.
[[gnu::noinline]] std::uintptr_t SlabLayer::take_segment(std::size_t bytes) noexcept {
  if (is_aligned_by_source()) return source_->allocate(bytes, Fit::kInstant, nullptr, Effort::kQuiet);
  return source_->allocate_aligned(bytes, {slab_bytes_, slab_bytes_ - bytes}, nullptr, Effort::kQuiet);
}

void SlabLayer::give_to_source(std::uintptr_t start, std::size_t bytes) noexcept {
  if (shares_extent(bytes) && extents.give(start, bytes)) return;
  expect_taken_back(is_aligned_by_source() ? source_->free(start, bytes) : source_->free_constrained(start, bytes));
}

void SlabLayer::expect_taken_back(Status status) noexcept {
  if (status != Status::kOk) hal::Port::fatal("slab: its source does not know a slab");
}

/// Makes an empty slab, which is nobody's until take_fresh() enters it. @returns nullptr iff the limit is reached or the
/// source arena cannot supply one. Asks the source with no lock held.
Slab* SlabLayer::create() noexcept {
  if (limit_.load(std::memory_order_relaxed) != kNoLimit && at_limit()) return nullptr;
  if (no_touch_) return untouched().create(*this);
  unsigned objects = objects_;
  std::size_t bytes = bytes_of(objects);
  std::uintptr_t start = take_from_source(bytes);
  if (start == 0) {
    objects = 1;
    const std::size_t short_bytes = bytes_of_one();
    if (short_bytes == bytes || (start = take_from_source(short_bytes)) == 0) return nullptr;
    bytes = short_bytes;
  }
  if (heap_class_ != 0 && !page_map.mark(start, bytes, PageMap::tag_of(heap_class_))) {
    give_to_source(start, bytes);
    return nullptr;
  }
  auto* slab = new (reinterpret_cast<void*>(start + bytes - sizeof(Slab))) Slab;
  begin(*slab, lead() + (bytes == slab_bytes_ ? start + colour_of(start) : start), objects);
  return slab;
}

/// Fills in the header of a slab whose object 0 lies at @p start, and its bitmap.
void SlabLayer::begin(Slab& slab, std::uintptr_t start, unsigned objects) noexcept {
  slab.layer = this;
  slab.start = start;
  slab.objects = static_cast<std::uint16_t>(objects);
  for (unsigned word = 0; word < words(); ++word) {
    bits(slab, word) = objects >= kWordBits ? ~0UL : (1UL << objects) - 1;
    objects -= objects >= kWordBits ? kWordBits : objects;
  }
  if constexpr (kChecked) new (checks(slab)) ObjectCheck[objects_];
}

/// Gives the memory of a disowned slab back.
void SlabLayer::release(Slab* slab) noexcept {
  std::uint32_t* handles = slab->handles.load(std::memory_order_relaxed);
  if (handles != nullptr && observer() != nullptr) observer()->release_handles(handles, objects_);
  if (no_touch_) return untouched().release(*this, *slab);
  const std::size_t bytes = bytes_of(slab->objects);
  const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(slab + 1) - bytes;
  if (heap_class_ != 0) page_map.clear(start, bytes);
  give_to_source(start, bytes);
}

/// Enters a new slab, whose `in_use` is set. Lock held.
inline void SlabLayer::adopt(Slab& slab) noexcept {
  ++slabs_;
  short_slabs_ += slab.objects != objects_ ? 1 : 0;
  Ring<Slab>& list = slab.in_use == slab.objects ? full_ : usable_;
  if (slab.in_use != 0) {
    list.push_front(&slab);
  } else {
    list.push_back(&slab);
    ++empty_slabs_;
  }
  if (no_touch_) return untouched().enter(*this, slab);
  const auto header = reinterpret_cast<std::uintptr_t>(&slab);
  if (kCallSites || !bank_.load(std::memory_order_relaxed)->has(header)) widen(slab.start, header + sizeof(Slab));
}

/// Takes an empty slab out. Lock held.
void SlabLayer::disown(Slab& slab) noexcept {
  if (internal::leave_pass != nullptr) internal::leave_pass(*this, slab);
  --slabs_;
  --empty_slabs_;
  short_slabs_ -= slab.objects != objects_ ? 1 : 0;
  usable_.remove(&slab);
  if (no_touch_) untouched().leave(*this, slab);
}

// ---- objects --------------------------------------------------------------------------------------------------------

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

/// One object of slabs that there are, in half the instructions of take_some(). @returns nullptr instead of 0.
inline void* SlabLayer::take_one_present() noexcept {
  const LockGuard hold(lock_);
  Slab* const slab = usable_.front();
  if (slab == nullptr || room_locked() == 0) return nullptr;
  if (slab->in_use == 0) --empty_slabs_;
  std::size_t word = slab->first_word;
  while (bits(*slab, word) == 0) ++word;
  slab->first_word = static_cast<std::uint16_t>(word);
  const unsigned long left = bits(*slab, word);
  store_relaxed(bits(*slab, word), left & (left - 1));  // as in carve()
  if (++slab->in_use == slab->objects) {
    usable_.remove(slab);
    full_.push_front(slab);
  }
  count_taken_locked(1);
  return object(*slab, static_cast<unsigned>(word * kWordBits + lowest_bit(left)));
}

void* SlabLayer::take_one() noexcept {
  if (!fault::may_acquire(fault::Resource::kObjects)) return nullptr;
  void* const object = take_one_present();
  return object != nullptr ? object : take_new();
}

void SlabLayer::prepare() noexcept {
  if (!is_spent()) return;
  if (Slab* const fresh = create(); fresh != nullptr) take_fresh(*fresh, nullptr, 0);
}

void* SlabLayer::take_new() noexcept {
  void* object = nullptr;
  if (Slab* const fresh = create(); fresh != nullptr) take_fresh(*fresh, &object, 1);
  return object;
}

/// Enters a slab of create() and takes up to @p count objects of it, kBatch at most. @returns how many; fewer if it has no
/// more, or at the limit.
unsigned SlabLayer::take_fresh(Slab& fresh, void** objects, unsigned count) noexcept {
  const LockGuard hold(lock_);
  const std::uint32_t room = room_locked();
  if (count > room) count = room;
  if (count > fresh.objects) count = fresh.objects;
  std::uintptr_t object = fresh.start;
  for (void** const end = objects + count; objects != end; object += stride_)
    *objects++ = reinterpret_cast<void*>(object);
  bits(fresh, 0) &= ~0UL << count;
  fresh.in_use = static_cast<std::uint16_t>(count);
  adopt(fresh);
  count_taken_locked(count);
  return count;
}

SlabLayer::Taken SlabLayer::take(void** objects, unsigned count) noexcept {
  if (!fault::may_acquire(fault::Resource::kObjects)) return {};
  const unsigned taken = is_spent() ? 0 : take_some(objects, count);
  if (taken != 0) return {taken, false};
  Slab* const fresh = create();
  if (fresh == nullptr) return {};
  return {take_fresh(*fresh, objects, count < kBatch ? count : kBatch), true};
}

/// Takes back the youngest of @p count objects before @p end, as many as lie in one word of a slab's bitmap, one behind
/// the other. @returns how many; @p put says of a slab that has become surplus, and if the object after those cannot be
/// taken back. Lock held.
[[gnu::always_inline]] inline unsigned SlabLayer::put_run(void* const* end, unsigned count, Put& put) noexcept {
  Slab* const slab = find_locked(end[-1]);
  if (slab == nullptr) {
    put.next = Standing::kOutside;
    return 0;
  }
  Slab& here = *slab;
  // In locals: what is stored could be these.
  const std::uintptr_t start = here.start;
  const std::size_t stride = stride_;
  const std::uint64_t reciprocal = reciprocal_;
  const unsigned among = here.objects;
  const auto index_of = [=](const void* object) noexcept {
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(object) - start;
    const std::size_t at = reciprocal != 0 ? static_cast<std::size_t>(offset * reciprocal >> 32) : offset / stride;
    return at < among && at * stride == offset ? at : kNoIndex;
  };
  std::size_t at = index_of(end[-1]);
  if (at == kNoIndex) {
    put.next = Standing::kInside;
    return 0;
  }
  const std::size_t word = at / kWordBits;
  unsigned long free = bits(here, word);
  void* const* const from = end;
  void* const* const stop = end - count;
  do {
    const unsigned long bit = 1UL << (at % kWordBits);
    if ((free & bit) != 0) {
      put.next = Standing::kFree;
      break;
    }
    free |= bit;
    if (--end == stop) break;
    at = index_of(end[-1]);
  } while (at / kWordBits == word);  // kNoIndex is in none
  store_relaxed(bits(here, word), free);
  const auto taken = static_cast<unsigned>(from - end);
  if (taken == 0) return 0;
  if (word < here.first_word) here.first_word = static_cast<std::uint16_t>(word);
  const unsigned before = here.in_use;
  here.in_use = static_cast<std::uint16_t>(before - taken);
  if (before == among) {
    full_.remove(&here);
    usable_.push_front(&here);
  }
  if (before == taken) {
    usable_.remove(&here);
    usable_.push_back(&here);
    if (++empty_slabs_ > kEmptyKept) put.surplus = &here;
  }
  return taken;
}

SlabLayer::Put SlabLayer::put(void* const* objects, unsigned count) noexcept {
  Put put;
  unsigned left = count;
  const LockGuard hold(lock_);
  for (unsigned runs = 0; runs != kPutRuns && left != 0 && put.surplus == nullptr && put.next == Standing::kOut;
       ++runs) {
    left -= put_run(objects + left, left, put);
  }
  if (put.surplus != nullptr) disown(*put.surplus);
  put.count = count - left;
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
      if (slab != nullptr && slab->in_use != 0) slab = nullptr;
      if (slab != nullptr) disown(*slab);
    }
    if (slab == nullptr) {
      if (in_extents_) extents.trim();
      return bytes;
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
  if (objects_out() != 0) return Status::kBusy;
  reap();
  return Status::kOk;
}

std::size_t SlabLayer::objects_out() noexcept {
  const LockGuard hold(lock_);
  return out_;
}

std::size_t SlabLayer::bytes_locked() const noexcept {
  return (slabs_ - short_slabs_) * slab_bytes() + short_slabs_ * bytes_of_one();
}

std::size_t SlabLayer::bytes() noexcept {
  const LockGuard hold(lock_);
  return bytes_locked();
}

}  // namespace qm
