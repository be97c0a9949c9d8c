#include <qm/detail/slab.hpp>

#include <bit>
#include <new>

#include <qm/arena.hpp>
#include <qm/detail/bits.hpp>
#include <qm/fault.hpp>
#include <qm/detail/observer.hpp>
#include <qm/detail/page_map.hpp>
#include <qm/detail/poison.hpp>

#include "slab/extents.hpp"
#include "slab/slab_take.hpp"

namespace qm {

/// Defined in slab_pass.cpp, if the program has such passes: @p slab leaves the layer. Lock held.
[[gnu::weak]] void internal::leave_pass(SlabLayer& layer, Slab& slab) noexcept;

namespace {

/// Largest slab that is chosen to keep the waste low; objects for which none is good enough get a slab each.
constexpr std::size_t kMaxSlabBytes = std::size_t{1} << 20;
/// A slab of the heap with objects above this size wastes at most a sixteenth, any other slab an eighth.
constexpr std::size_t kTightBytes = 1024;

/// Sets the flag, which only a build with call sites has.
void set_tagging(auto& tagging, bool tagged) noexcept {
  if constexpr (kCallSites) tagging.tagged = tagged;
}

}  // namespace

// ---- geometry -------------------------------------------------------------------------------------------------------

Status SlabLayer::initialize(const SlabConfig& config) noexcept {
  std::size_t alignment = config.alignment;
  // The most that a type of this size can need, since a size is a multiple of its alignment; between the two bounds.
  if (alignment == 0) alignment = config.object_size % kMaxAlignment == 0 ? kMaxAlignment : kMinAlignment;
  if (config.no_touch != nullptr && config.alignment == 0) alignment = 1;
  const bool tagged = kCallSites && config.tagged;
  if (tagged && alignment < kChargeHeadBytes) alignment = kChargeHeadBytes;
  constexpr std::size_t kMost = SIZE_MAX / 16;
  const bool aligned = config.alignment == 0 || is_power_of_two(config.alignment);
  if (config.source == nullptr || config.object_size - 1 >= kMost || !aligned || alignment > kMost)
    return Status::kInvalid;
  source_ = config.source;
  set_tagging(tagging_, tagged);
  quantum_cache_ = config.quantum_cache;
  heap_class_ = config.heap_class & 31;
  alignment_log2_ = static_cast<std::uint8_t>(lowest_bit(alignment));
  no_touch_ = config.no_touch != nullptr;
  stride_ = ((config.object_size + alignment - 1) & ~(alignment - 1)) + trailer();
  if (no_touch_) {
    no_touch_support_.store(config.no_touch, std::memory_order_relaxed);
    no_touch_support().initialize(*this);
  } else {
    choose_geometry(config.least_slab);
    in_extents_ = extents.are_of(*source_) && slab_bytes_ >= Extents::kPageBytes && slab_bytes_ <= Extents::kMostBytes;
  }
  if (slab_bytes_ <= UINT32_MAX / stride_)
    reciprocal_ = UINT32_MAX / static_cast<std::uint32_t>(stride_) + 1;  // 2^32 / stride, rounded up; 0 of 1
  return objects_ != 0 ? Status::kOk : Status::kInvalid;
}

/// Sets the number of objects of a slab of memory. @returns whether at most an eighth of the memory that the source
/// gives for it is wasted; for a slab of the heap with objects above kTightBytes a sixteenth, except in a checking
/// build.
bool SlabLayer::fits() noexcept {
  const std::size_t count = (slab_bytes_ - sizeof(Slab)) / stride_;
  objects_ = static_cast<std::uint16_t>(count < UINT16_MAX ? count : UINT16_MAX);
  while (objects_ != 0 && objects_ * stride_ + overhead() > slab_bytes_) --objects_;
  const std::size_t drawn = round_up(slab_bytes_, source_->quantum());
  const std::size_t part = heap_class_ != 0 && stride_ > kTightBytes && !kChecked ? 16 : 8;
  return objects_ != 0 && (drawn - objects_ * (stride_ + kCheckBytes)) * part <= drawn;
}

/// @param[in] wanted SlabConfig::least_slab
void SlabLayer::choose_geometry(std::size_t wanted) noexcept {
  std::size_t least = kPageBytes;
  while (least < wanted && least < kUsualSlabBytes) least *= 2;
  if (least < alignment() * 2) least = alignment() * 2;
  const std::size_t some =
      heap_class_ != 0 && stride_ > kTightBytes ? 4 * stride_ : stride_;  // fewer objects do not fit
  while (least < some && least < kMaxSlabBytes) least *= 2;
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

// ---- creating and releasing slabs -----------------------------------------------------------------------------------

/// The colour of a whole slab that begins at @p start and has room for objects up to @p end.
inline std::size_t SlabLayer::colour_of(std::uintptr_t start, std::uintptr_t end) const noexcept {
  const std::size_t natural = stride_ & (~stride_ + 1);
  const std::size_t step = natural > kColourBytes ? natural : kColourBytes;
  const std::size_t slack = end - start - objects_ * stride_;
  return start / slab_bytes_ * step % ((slack | (step - 1)) + 1);
}

/// Whether the source's quantum alone aligns a slab of memory.
inline bool SlabLayer::is_aligned_by_source() const noexcept { return (source_->quantum() & (slab_bytes_ - 1)) == 0; }

/// Whether a slab of @p bytes lies in an extent, if there is one.
inline bool SlabLayer::shares_extent(std::size_t bytes) const noexcept {
  return kExtents && in_extents_ && bytes == slab_bytes_;
}

inline std::uintptr_t SlabLayer::take_from_source(std::size_t bytes) noexcept {
  if (!shares_extent(bytes)) return take_segment(bytes);
  if (!fault::may_acquire(fault::Resource::kSegment, source_)) return 0;
  if (const std::uintptr_t start = extents.take(bytes); start != 0) [[likely]]
    return start;
  const std::uintptr_t start = take_segment(bytes);
  if (start != 0) extents.note_outside(bytes);
  return start;
}

/// Allocates a segment of the source. Not inlined: it uses many registers.
[[gnu::noinline]] std::uintptr_t SlabLayer::take_segment(std::size_t bytes) noexcept {
  if (is_aligned_by_source()) return source_->allocate(bytes, Fit::kInstant, nullptr, WaitPolicy::kQuiet);
  return source_->allocate_aligned(bytes, {slab_bytes_, slab_bytes_ - bytes}, nullptr, WaitPolicy::kQuiet);
}

void SlabLayer::give_to_source(std::uintptr_t start, std::size_t bytes) noexcept {
  if (shares_extent(bytes) && extents.give(start, bytes)) return;
  expect_taken_back(is_aligned_by_source() ? source_->free(start, bytes) : source_->free_constrained(start, bytes));
}

void SlabLayer::expect_taken_back(Status status) noexcept {
  if (status != Status::kOk) hal::Port::fatal("slab: its source does not know a slab");
}

/// Fills in the header of a slab, except `start`, and its bitmap. @returns the start of the bitmap.
[[gnu::always_inline]] inline std::uintptr_t SlabLayer::fill_in(Slab& slab, unsigned objects) noexcept {
  slab.layer = this;
  slab.objects = static_cast<std::uint16_t>(objects);
  unsigned long* word = &bits(slab, 0);
  unsigned left = objects;
  for (; left > kWordBits; left -= kWordBits) *word-- = ~0UL;
  *word = ~0UL >> (-left % kWordBits);
  if (objects != objects_) [[unlikely]] {  // a short slab has the bitmap of a whole one
    while (word != &bits(slab, words() - 1)) *--word = 0;
  }
  if constexpr (kChecked) new (checks(slab)) ObjectCheck[objects_];
  return reinterpret_cast<std::uintptr_t>(word);
}

/// Fills in the header of a slab whose object 0 lies at @p start, and its bitmap.
void SlabLayer::begin(Slab& slab, std::uintptr_t start, unsigned objects) noexcept {
  fill_in(slab, objects);
  slab.start = start;
}

/// Makes an empty slab, which no other hart can reach until take_fresh() enters it. @returns nullptr iff the limit is
/// reached or the source arena cannot supply one. Calls the source with no lock held.
[[gnu::always_inline]] inline Slab* SlabLayer::create() noexcept {
  if (limit_.load(std::memory_order_relaxed) != kNoLimit && at_limit()) return nullptr;
  if (no_touch_) return no_touch_support().create(*this);
  unsigned objects = objects_;
  std::size_t bytes = bytes_of(objects);
  std::uintptr_t start = take_from_source(bytes);
  if (start == 0) [[unlikely]] {
    objects = 1;
    const std::size_t short_bytes = bytes_of_one();
    if (short_bytes == bytes || (start = take_from_source(short_bytes)) == 0) return nullptr;
    bytes = short_bytes;
  }
  if (heap_class_ != 0) [[likely]] {
    if (!page_map.mark(start, bytes, PageMap::tag_of(heap_class_))) {
      give_to_source(start, bytes);
      return nullptr;
    }
  }
  auto* slab = new (reinterpret_cast<void*>(start + bytes - sizeof(Slab))) Slab;
  const std::uintptr_t end = fill_in(*slab, objects) - objects_ * kCheckBytes;
  if (bytes == slab_bytes_) [[likely]]
    start += colour_of(start, end);
  slab->start = start + lead();
  return slab;
}

/// Gives the memory of a disowned slab back to the source.
void SlabLayer::release(Slab* slab) noexcept {
  std::uint32_t* handles = slab->handles.load(std::memory_order_relaxed);
  if (handles != nullptr && observer() != nullptr) observer()->release_handles(handles, objects_);
  if (no_touch_) return no_touch_support().release(*this, *slab);
  const std::size_t bytes = bytes_of(slab->objects);
  const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(slab + 1) - bytes;
  if (heap_class_ != 0) page_map.clear(start, bytes);
  slab->layer = nullptr;  // from now on, no address in this memory is taken for an object
  if constexpr (poison::kHides) poison::show(reinterpret_cast<void*>(start), bytes);
  give_to_source(start, bytes);
}

/// Lets find() search where a new slab lies: from its first object to its header. Lock held.
void SlabLayer::widen(std::uintptr_t first, std::uintptr_t header) noexcept {
  const PageMap::Region& region = page_map.region_of(first);
  if (kCallSites || &region == &PageMap::kNoRegion) {
    // Neither bound is the address of an object, which a leak scan that finds it in a register would keep.
    if (first <= low_.load(std::memory_order_relaxed)) store_relaxed(low_, first - 1);
    if (header >= high_.load(std::memory_order_relaxed)) store_relaxed(high_, header + 1);
  }
  // release: pairs with the load in is_memory()
  if (slabs_ == 1 || region_.load(std::memory_order_relaxed) != &PageMap::kNoRegion)
    region_.store(&region, std::memory_order_release);
}

/// Enters a new slab, except into a list. Lock held.
[[gnu::always_inline]] inline void SlabLayer::adopt(Slab& slab) noexcept {
  ++slabs_;
  if (slab.objects != objects_) [[unlikely]]
    ++short_slabs_;
  const auto header = reinterpret_cast<std::uintptr_t>(&slab);
  if (!kCallSites && region_.load(kFollowed)->has(header)) [[likely]]
    return;
  if (no_touch_) return no_touch_support().enter(*this, slab);  // region_ of a no-touch layer is empty
  widen(slab.start, header);
}

/// Removes an empty slab from the layer. Lock held.
void SlabLayer::disown(Slab& slab) noexcept {
  if (internal::leave_pass != nullptr) internal::leave_pass(*this, slab);
  --slabs_;
  --empty_slabs_;
  if (slab.objects != objects_) --short_slabs_;
  usable_.remove(&slab);
  if (no_touch_) no_touch_support().leave(*this, slab);
}

// ---- objects --------------------------------------------------------------------------------------------------------

/// Takes free objects of one word of the bitmap of @p slab, up to @p end and at most @p steps runs. @returns the place
/// behind the last.
/// Precondition: lock held, a free object exists.
inline void** SlabLayer::carve(Slab& slab, void** next, void** end, unsigned& steps) noexcept {
  void** const first = next;
  const std::size_t stride = stride_;
  const std::size_t word = free_word_locked(slab);
  unsigned long left = bits(slab, word);
  do {
    const std::size_t low = lowest_bit(left);
    const unsigned long behind = left + (1UL << low);  // the bit behind the run, if the word has one, and the bits
                                                       // above
    std::size_t count = (behind != 0 ? lowest_bit(behind) : kWordBits) - low;
    const auto room = static_cast<std::size_t>(end - next);
    left &= count <= room ? behind : ~0UL << (low + room);
    if (count > room) count = room;
    std::uintptr_t object = slab.start + (word * kWordBits + low) * stride;
    for (void** const stop = next + count; next != stop; object += stride) *next++ = reinterpret_cast<void*>(object);
  } while (left != 0 && next != end && --steps != 0);
  store_relaxed(bits(slab, word), left);  // is_free() reads it without the lock
  note_taken_locked(slab, static_cast<unsigned>(next - first));
  return next;
}

/// take_present() without the fault injection; from an empty slab only if no other has a free object.
unsigned SlabLayer::take_some(void** objects, unsigned count) noexcept {
  const LockGuard hold(lock_);
  const std::uint32_t room = room_locked();
  void** next = objects;
  void** const end = objects + (room < count ? room : count);
  for (unsigned steps = kTakeSteps; steps > 2 && next != end;) {
    Slab* slab = usable_.front();
    if (slab == nullptr || (slab->in_use == 0 && next != objects)) break;
    steps -= 2;
    next = carve(*slab, next, end, steps);
  }
  const auto taken = static_cast<unsigned>(next - objects);
  count_taken_locked(taken);
  return taken;
}

/// Takes one object of the existing slabs, in half the instructions of take_some(). @returns nullptr if there is none.
[[gnu::always_inline]] inline void* SlabLayer::take_one_present() noexcept {
  const LockGuard hold(lock_);
  return take_one_locked();
}

void* SlabLayer::take_one() noexcept {
  if (!fault::may_acquire(fault::Resource::kObjects)) return nullptr;
  void* const object = take_one_present();
  return object != nullptr ? object : take_new();
}

/// Makes a slab and takes up to @p count consecutive objects of it, kBatch at most; fewer if the slab has fewer, or
/// others have reached the limit meanwhile. If it takes none, the slab stays, empty.
/// @param[out] taken the number, unless null.
/// @returns the first.
void* SlabLayer::take_fresh(unsigned count, unsigned* taken) noexcept {
  Slab* const slab = create();
  if (slab == nullptr) return nullptr;
  const LockGuard hold(lock_);
  adopt(*slab);
  const unsigned objects = slab->objects;
  if (count > objects) count = objects;
  if (const std::uint32_t room = room_locked(); count > room) count = room;
  if (count == 0) [[unlikely]] {
    usable_.push_back(slab);
    ++empty_slabs_;
    return nullptr;
  }
  bits(*slab, 0) &= ~0UL << count;
  slab->in_use = static_cast<std::uint16_t>(count);
  (count == objects ? full_ : usable_).push_front(slab);
  count_taken_locked(count);
  if (taken != nullptr) *taken = count;
  return reinterpret_cast<void*>(slab->start);
}

SlabLayer::Taken SlabLayer::take(void** objects, unsigned count) noexcept {
  if (!fault::may_acquire(fault::Resource::kObjects)) return {};
  const unsigned taken = is_spent() ? 0 : take_some(objects, count);
  if (taken != 0) return {taken, false};
  Taken fresh;
  std::byte* object = static_cast<std::byte*>(take_fresh(count < kBatch ? count : kBatch, &fresh.count));
  for (void** const end = objects + fresh.count; objects != end; object += stride_) *objects++ = object;
  fresh.created = fresh.count != 0;
  return fresh;
}

/// Takes back objects between @p stop and @p end, the last first: as many in a row as lie in one word of the bitmap of
/// @p slab.
/// @param[out] put the slab, if it has become surplus, and the reason if the object before cannot be taken back.
/// @returns the place of the last one taken back. Lock held.
[[gnu::always_inline]] inline void* const* SlabLayer::put_run(Slab& slab, std::uintptr_t object, void* const* end,
                                                              std::uintptr_t stop, Put& put) noexcept {
  // In locals: the stores below could alias the members.
  const std::size_t stride = stride_;
  const std::size_t reciprocal = reciprocal_;
  const auto index_of = [=](std::size_t offset, std::size_t among) noexcept {
    auto at = static_cast<std::size_t>(static_cast<std::uint64_t>(offset) * reciprocal >> 32);
    if (at < among && at * stride == offset) [[likely]]
      return at;
    if (reciprocal != 0) return std::size_t{kNoIndex};
    at = offset / stride;
    return at < among && at * stride == offset ? at : std::size_t{kNoIndex};
  };
  const std::size_t objects = slab.objects;
  std::uintptr_t start = slab.start;
  const std::size_t offset = object - start;
  std::size_t at = index_of(offset, objects);
  if (at == kNoIndex) [[unlikely]] {
    put.next = offset < slab_bytes_ ? ObjectState::kInside : ObjectState::kOutside;
    return end;
  }
  std::size_t among = objects;
  std::size_t word = 0;
  if (at >= kWordBits) [[unlikely]] {
    word = at / kWordBits;
    start += word * kWordBits * stride;
    among -= word * kWordBits;
    at %= kWordBits;
  }
  if (among > kWordBits) among = kWordBits;
  unsigned long& place = bits(slab, word);
  unsigned long free = place;
  void* const* const from = end;
  do {
    const unsigned long bit = 1UL << at;
    if ((free & bit) != 0) [[unlikely]] {
      put.next = ObjectState::kFree;
      break;
    }
    free |= bit;
    if (reinterpret_cast<std::uintptr_t>(--end) == stop) break;
    at = index_of(reinterpret_cast<std::uintptr_t>(end[-1]) - start, among);
  } while (at != kNoIndex);
  store_relaxed(place, free);
  if (word < slab.first_word) slab.first_word = static_cast<std::uint16_t>(word);
  const std::size_t before = slab.in_use;
  const std::size_t after = before - static_cast<std::size_t>(from - end);
  slab.in_use = static_cast<std::uint16_t>(after);
  if (before == objects) {
    full_.remove(&slab);
    usable_.push_front(&slab);
  }
  if (after == 0 && before != 0) [[unlikely]] {
    usable_.remove(&slab);
    usable_.push_back(&slab);
    if (++empty_slabs_ > kEmptyKept) put.surplus = &slab;
  }
  return end;
}

/// The rest of are_out(), for an address that fails its quick test. A separate function, so that are_out() saves no
/// registers for it.
[[gnu::noinline]] static bool are_judged_out(SlabLayer& layer, void* const* pair) noexcept {
  return layer.classify(pair[0]) == ObjectState::kOut && layer.classify(pair[1]) == ObjectState::kOut &&
         pair[0] != pair[1];
}

bool SlabLayer::are_out(void* const* pair) noexcept {
  const PageMap::Region& region = *region_.load(kFollowed);
  const std::uintptr_t low = region.low;
  const std::size_t bytes = region.bytes;
  const std::uintptr_t mask = slab_bytes_ - 1;
  const std::size_t stride = stride_;
  const std::uint64_t reciprocal = reciprocal_;
  for (void* const* at = pair; at != pair + 2; ++at) {
    const auto address = reinterpret_cast<std::uintptr_t>(*at);
    const std::uintptr_t header = (address | mask) + 1 - sizeof(Slab);
    auto& slab = *reinterpret_cast<Slab*>(header);
    if (header - low >= bytes || slab.layer != this) return are_judged_out(*this, pair);
    const std::size_t offset = address - slab.start;
    const auto index = static_cast<std::size_t>(offset * reciprocal >> 32);
    if (index >= slab.objects || index * stride != offset) return are_judged_out(*this, pair);
    const std::atomic_ref<unsigned long> word(bits(slab, index / kWordBits));  // as is_free() does
    if ((word.load(std::memory_order_relaxed) >> (index % kWordBits) & 1) != 0) return false;
  }
  return pair[0] != pair[1];
}

SlabLayer::Put SlabLayer::put(void* const* objects, unsigned count) noexcept {
  Put put;
  const LockGuard hold(lock_);
  void* const* end = objects + count;
  const auto stop = reinterpret_cast<std::uintptr_t>(objects);
  unsigned runs = kPutRuns;
  Slab* no_touch_slab = nullptr;
  if (no_touch_ && count != 0) [[unlikely]] {  // one run, so that the loop makes no call
    no_touch_slab = no_touch_support().find(*this, reinterpret_cast<std::uintptr_t>(end[-1]));
    runs = 1;
  }
  const std::uintptr_t mask = slab_bytes_ - 1;
  const PageMap::Region* const region = region_.load(kFollowed);
  const std::uintptr_t low = region->low;
  const std::size_t bytes = region->bytes;
  while (reinterpret_cast<std::uintptr_t>(end) > stop) {
    const auto object = reinterpret_cast<std::uintptr_t>(end[-1]);
    const std::uintptr_t header = (object | mask) + 1 - sizeof(Slab);
    auto* slab = reinterpret_cast<Slab*>(header);
    if (header - low >= bytes) [[unlikely]] {
      if (!is_memory(header)) slab = no_touch_slab;
      if (slab == nullptr) {
        put.next = ObjectState::kOutside;
        break;
      }
    }
    if (slab->layer != this) [[unlikely]] {
      put.next = ObjectState::kOutside;
      break;
    }
    end = put_run(*slab, object, end, stop, put);
    if (put.surplus != nullptr || put.next != ObjectState::kOut) [[unlikely]]
      break;
    if (--runs == 0) break;
  }
  if (put.surplus != nullptr) disown(*put.surplus);
  put.count = static_cast<unsigned>(objects + count - end);
  out_ -= put.count;
  return put;
}

Status SlabLayer::put(void* object) noexcept {
  const Put put = this->put(&object, 1);
  if (put.surplus != nullptr) release(put.surplus);
  if (put.count != 0) return Status::kOk;
  return put.next == ObjectState::kFree ? Status::kNotFound : Status::kMismatch;
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
      if (kExtents && in_extents_) extents.trim();
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
