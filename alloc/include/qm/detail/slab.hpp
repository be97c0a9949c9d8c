#pragma once
/// The slab layer: raw objects of one size, carved from slabs of an arena. The layers above construct, cache and trace
/// objects.
///
/// The size of a slab of memory is a power of two of bytes. The slab is aligned to its size and has its header at its
/// end, so an address mask finds the header from any object:
///
///     | colour | object 0 | object 1 | ... | object n-1 | slack | free bitmap | Slab |      the bitmap's word 0 is its last
///     ^ aligned to slab_bytes                                                     end ^
///
/// The colour shifts the objects of neighbouring slabs against each other within the slack, so that objects of equal
/// index do not all fall into the same cache sets. It is derived from the slab's address and keeps every alignment that
/// the distance between objects gives.
///
/// A no-touch slab (ids, addresses that must not be written) keeps its bitmap and header in an object of `kmem_slab`; a
/// tree ordered by start finds it. The code for it is linked with the first no-touch cache: NoTouchCalls.
///
/// If the source is too short for a whole slab, the slab holds a single object. A short slab of memory ends where a
/// whole one would, so the same mask finds its header.
///
/// Invariants
/// - S1 A set bit of the bitmap is a free object: `in_use == objects - popcount(bitmap)`. No list runs through free
///      objects, so a write after free cannot damage the layer, and a new slab costs a few bitmap words, not n objects.
/// - S2 A slab is on `full_` iff in_use == objects, else on `usable_`, where slabs in use precede empty ones.
/// - S3 The lock is held for kTakeSteps (two to reach a slab, one for a run of neighbours in it), for kBatch objects of
///      a new slab, or to put kPutBatch objects into kPutRuns slabs; it is never held while the source arena is asked
///      for memory.
/// - S4 At most `limit_` objects are allocated.
///
/// Source: Bonwick 1994, section 3; the bitmap in place of a free list is FreeBSD UMA's.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <qm/detail/bits.hpp>
#include <qm/call_site.hpp>
#include <qm/fault.hpp>
#include <qm/detail/list.hpp>
#include <qm/detail/lock.hpp>
#include <qm/misuse.hpp>
#include <qm/detail/object_check.hpp>
#include <qm/detail/page_map.hpp>
#include <qm/detail/poison.hpp>
#include <qm/status.hpp>

namespace qm {

class Arena;
class Cache;
class SlabLayer;
namespace scan {
class Scanner;
}

/// A slab's header.
struct Slab : ListNode {
  /// The layer of this slab: checked to detect a free to the wrong cache.
  const SlabLayer* layer = nullptr;
  std::atomic<std::uint32_t*> handles{nullptr};  ///< one trace handle for each object, from the first record on
  std::uintptr_t start = 0;                      ///< address of object 0, behind the colour
  std::uint16_t objects = 0;                     ///< objects in this slab
  std::uint16_t in_use = 0;                      ///< allocated objects in this slab
  std::uint16_t first_word = 0;                  ///< no free object lies in a bitmap word below this one
  std::uint16_t mark = 0;                        ///< number of the SlabPass that has visited it
};

/// A no-touch slab's header, a node of the tree (a treap) of its layer.
struct ExternalSlab : Slab {
  ExternalSlab* children[2] = {nullptr, nullptr};  ///< lower and higher starts
  std::uint32_t priority = 0;                      ///< heap order: no child's is higher
};

/// The place of an address in a slab.
struct ObjectPlace {
  std::uintptr_t slab = 0;  ///< start of the slab's first object
  void* object = nullptr;   ///< the object that contains the address; nullptr: none does
  std::size_t offset = 0;   ///< of the address in the object
  unsigned index = 0;       ///< index of the object
  unsigned objects = 0;     ///< objects in the slab
  bool is_out = false;      ///< the object is allocated from the layer
  bool in_header = false;   ///< the address is in the slab's header or in the bitmap before it
};

/// Functions specific to layers of no-touch slabs: slab_no_touch.cpp.
struct NoTouchCalls {
  /// Chooses the bytes and the number of objects of a slab.
  void (*initialize)(SlabLayer& layer) noexcept;
  /// As SlabLayer::create() and release().
  Slab* (*create)(SlabLayer& layer) noexcept;
  void (*release)(SlabLayer& layer, Slab& slab) noexcept;
  /// Maintain the tree. The layer's lock is held.
  void (*enter)(SlabLayer& layer, Slab& slab) noexcept;
  void (*leave)(SlabLayer& layer, Slab& slab) noexcept;
  Slab* (*find)(SlabLayer& layer, std::uintptr_t address) noexcept;
};
extern const NoTouchCalls no_touch_calls;

namespace internal {
void leave_pass(SlabLayer& layer, Slab& slab) noexcept;
}

/// Configuration of a slab layer.
struct SlabConfig {
  Arena* source = nullptr;
  std::size_t object_size = 0;
  std::size_t alignment = 0;  ///< power of two; 0: the largest that divides the size, from 8 to 16; no-touch: 1
  /// &no_touch_calls: the addresses are not memory, or must not be written; nullptr: they are memory.
  const NoTouchCalls* no_touch = nullptr;
  bool quantum_cache = false;  ///< slabs are segments of the source that its own quantum caches do not serve
  bool tagged = false;         ///< objects are charged to call sites: a ChargeHead stands before each
  /// 1 to 31: size class of the heap, with which the slabs' pages are tagged in the page map; 0: none, no tags.
  std::uint8_t heap_class = 0;
  std::size_t least_slab = 0;  ///< least bytes of a slab, up to kUsualSlabBytes
};

struct SlabStats {
  std::size_t slabs = 0;
  std::size_t empty_slabs = 0;
  std::size_t bytes = 0;             ///< of all slabs
  std::size_t objects_out = 0;       ///< objects allocated from the layer
  std::size_t objects_out_high = 0;  ///< its high-water mark
  std::size_t objects_total = 0;
  std::size_t limit = 0;  ///< most objects allocated at a time; 0: no limit
  Word taken_ever = 0;    ///< objects allocated so far; QM_COUNT
};

class SlabLayer {
 public:
  static constexpr unsigned kBatch = 16;  ///< batch size of a bulk move
  /// Bound of the work under one hold of the lock, in steps: two to reach a slab, one for a run of neighbours.
  static constexpr unsigned kTakeSteps = 6;
  static constexpr unsigned kPutBatch = 13;  ///< most objects put under one hold of the lock ...
  static constexpr unsigned kPutRuns = 3;    ///< ... and most bitmap words that hold their bits
  static constexpr std::size_t kPageBytes = PageMap::kPageBytes;
  static constexpr std::size_t kUsualSlabBytes = 4096;  ///< larger only for large objects
  static constexpr unsigned kNoIndex = ~0U;
  static constexpr unsigned kExternalObjects = kChecked ? 64 : 256;  ///< most objects of a no-touch slab
  static constexpr std::size_t kMinAlignment = 8;   ///< least of objects of memory, unless a smaller one is requested
  static constexpr std::size_t kMaxAlignment = 16;  ///< largest of objects of memory, unless a larger one is requested
  /// A line of the processor's cache: the least difference between two colours.
  static constexpr std::size_t kColourBytes = 64;
  /// Size of an object of `kmem_slab`.
  static constexpr std::size_t kExternalHead = kExternalObjects * kCheckBytes + kExternalObjects / 8;
  static constexpr std::size_t kExternalBytes = kExternalHead + sizeof(ExternalSlab);

  /// @returns kInvalid for a size 0, sizes that cannot be rounded, and an alignment that is no power of two; kOk
  ///          otherwise.
  Status initialize(const SlabConfig& config) noexcept;

  /// Whether no slab has a free object. An estimate: reads without the lock.
  [[nodiscard]] bool is_spent() const noexcept { return usable_.empty(); }
  /// Takes up to @p count objects from existing slabs.
  /// @returns the number of objects taken; 0 iff the limit is reached or no slab has a free object.
  /// Complexity: O(count), bounded by kTakeSteps, so it may take fewer objects if they are scattered. Context: any.
  unsigned take_present(void** objects, unsigned count) noexcept {
    return fault::may_acquire(fault::Resource::kObjects) ? take_some(objects, count) : 0;
  }

  struct Taken {
    unsigned count = 0;
    bool created = false;  ///< a slab was created: the operation should take no other costly step
  };
  /// Takes up to @p count objects, from a new slab if existing ones have none. @returns the number of objects taken; 0
  /// iff create() has failed, or other harts have reached the limit meanwhile.
  Taken take(void** objects, unsigned count) noexcept;
  /// The same for one object, on a shorter path; take_new() always creates a slab. @returns nullptr instead of 0.
  [[nodiscard]] void* take_one() noexcept;
  [[nodiscard]] void* take_new() noexcept { return take_fresh(1, nullptr); }
  /// The same for one object from existing slabs, without a call of the acquisition test. For a build without
  /// magazines; interrupts masked.
  [[nodiscard]] void* take_plain() noexcept;

  /// Preallocates a slab if none has a free object. Complexity, context: as take().
  void prepare() noexcept {
    if (is_spent()) static_cast<void>(take_fresh(0, nullptr));
  }

  using ObjectState = qm::ObjectState;

  struct Put {
    unsigned count = 0;                    ///< objects put
    ObjectState next = ObjectState::kOut;  ///< if not kOut: why the next object was not put
    Slab* surplus = nullptr;               ///< a slab that the caller must release
  };
  /// Puts objects into their slabs, the last object first. It stops at an object that is not allocated, when a slab has
  /// become surplus, or when the bound of work is reached.
  /// @param[in] count at most kPutBatch.
  /// Complexity: O(count), in one word of a bitmap for a no-touch layer. Context: any; the caller releases the surplus
  ///             slab, with interrupts as it found them.
  Put put(void* const* objects, unsigned count) noexcept;
  /// Returns a surplus slab's memory to the source. Context: any, no lock held.
  void release(Slab* slab) noexcept;

  /// Puts one object into its slab if it is allocated, the slab is of memory, and no slab becomes surplus. @returns
  /// false, and nothing has changed, otherwise. For a build without magazines; interrupts masked.
  [[nodiscard]] bool put_plain(void* object) noexcept;

  /// Puts one object into its slab.
  /// @returns kMismatch if the address is not an object's start in a slab of this layer; kNotFound if the object is
  ///          free already. Nothing has changed then.
  /// Context: any; may return a slab to the source, with no lock held.
  Status put(void* object) noexcept;

  /// Returns every empty slab to the source, or to the extents of its arena, whose pages are available to all slabs.
  /// @returns the bytes returned.
  std::size_t reap() noexcept;

  /// Frees all slabs. Precondition: no object is allocated.
  /// @returns kBusy, and nothing has changed, if one is.
  Status destroy() noexcept;

  /// Limits the allocated objects to @p objects from now on; 0: no limit. Objects above a new limit stay allocated.
  void set_limit(std::size_t objects) noexcept;
  /// Whether only the limit prevents an allocation.
  [[nodiscard]] bool at_limit() noexcept;

  /// Classifies an address. Complexity: about 40 instructions; O(log slabs) for no-touch. Context: any.
  [[nodiscard]] ObjectState classify(const void* address) noexcept;
  /// Whether two addresses, which are idle in a magazine, are two objects allocated from the layer. Complexity: about
  /// 60 instructions; as classify() for no-touch. Context: any.
  [[nodiscard]] bool are_out(void* const* pair) noexcept;

  /// The slab of an address; nullptr if no slab of this layer has it.
  [[nodiscard]] Slab* find(const void* address) noexcept;
  /// As find(), inlined, for slabs of memory: nullptr for others. Returns a slab also for addresses in it that are in
  /// no object.
  [[nodiscard]] Slab* find_by_mask(const void* address) const noexcept {
    const std::uintptr_t header = (reinterpret_cast<std::uintptr_t>(address) | (slab_bytes_ - 1)) + 1 - sizeof(Slab);
    auto* slab = reinterpret_cast<Slab*>(header);
    if (!is_memory(header)) return nullptr;
    const SlabLayer* const layer = poison::kHides ? poison::glance(slab->layer) : slab->layer;
    return layer == this ? slab : nullptr;
  }
  /// Index of the object that starts at @p object in a slab that find_by_mask() found; kNoIndex if none starts there.
  /// Without a reciprocal it finds only object 0.
  [[nodiscard]] unsigned index_by_reciprocal(const Slab& slab, const void* object) const noexcept {
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(object) - slab.start;
    const std::size_t at = index_around(offset);
    return at < slab.objects && starts_at(at, offset) ? static_cast<unsigned>(at) : kNoIndex;
  }
  /// The same in two steps. index_around(): the index of the object around @p offset from object 0 of such a slab,
  /// which may have fewer objects; 0 without a reciprocal. starts_at(): whether an object starts there.
  [[nodiscard]] std::size_t index_around(std::size_t offset) const noexcept {
    return static_cast<std::size_t>((static_cast<std::uint64_t>(offset) * reciprocal_) >> 32);
  }
  [[nodiscard]] bool starts_at(std::size_t index, std::size_t offset) const noexcept {
    return index * stride_ == offset;
  }
  /// Index of @p object in @p slab; kNoIndex if it is no object's start.
  [[nodiscard]] unsigned index(const Slab& slab, const void* object) const noexcept {
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(object) - slab.start;
    const std::size_t at = reciprocal_ != 0 ? index_around(offset) : offset / stride_;
    return at < slab.objects && starts_at(at, offset) ? static_cast<unsigned>(at) : kNoIndex;
  }

  /// The start of object @p index.
  [[nodiscard]] void* object(const Slab& slab, unsigned index) const noexcept {
    return reinterpret_cast<void*>(slab.start + index * stride_);
  }
  /// The data that a checking build keeps of the objects of @p slab, in the order of their indexes.
  [[nodiscard]] ObjectCheck* checks(Slab& slab) const noexcept {
    return reinterpret_cast<ObjectCheck*>(&bits(slab, words() - 1)) - objects_;
  }

  /// object_size(): bytes of an object, alignment included; stride(): bytes from one object to the next.
  [[nodiscard]] std::size_t object_size() const noexcept { return stride_ - trailer(); }
  /// Whether it is a size class of the heap.
  [[nodiscard]] bool of_heap() const noexcept { return heap_class_ != 0; }
  [[nodiscard]] std::size_t stride() const noexcept { return stride_; }
  /// Offset in a stride at which the redzone of a checking build ends.
  [[nodiscard]] std::size_t redzone_end() const noexcept { return stride_ - lead(); }
  /// Whether @p address is between the first and the last slab of memory that there ever were. Build with call sites.
  [[nodiscard, gnu::always_inline]] bool spans(const void* address) const noexcept {
    const std::uintptr_t low = low_.load(std::memory_order_relaxed);
    return reinterpret_cast<std::uintptr_t>(address) - low < high_.load(std::memory_order_relaxed) - low;
  }
  [[nodiscard]] std::size_t alignment() const noexcept { return std::size_t{1} << alignment_log2_; }
  /// Bytes that a slab takes from the source, unless the source is short.
  [[nodiscard]] std::size_t slab_bytes() const noexcept { return bytes_of(objects_); }
  [[nodiscard]] unsigned objects() const noexcept { return objects_; }
  [[nodiscard]] Arena& source() const noexcept { return *source_; }
  [[nodiscard]] bool no_touch() const noexcept { return no_touch_; }
  /// Objects allocated from the layer; bytes of all slabs.
  [[nodiscard]] std::size_t objects_out() noexcept;
  [[nodiscard]] std::size_t bytes() noexcept;

  // ---- for reports: slab_look.cpp -------------------------------------------------------------------------------------

  [[nodiscard]] SlabStats stats() noexcept;
  /// Finds the place of @p address; in a slab of memory also before its first object. @returns false if no slab of this
  /// layer has it. Complexity, context: as classify().
  [[nodiscard]] bool locate(std::uintptr_t address, ObjectPlace& place) noexcept;
  /// Whether the slab satisfies S1 and its header names this layer. Context: that of a SlabPass's visit.
  [[nodiscard]] bool is_sound(Slab& slab) noexcept;

  /// Checks S1 and S2 over all slabs, and the counters against them.
  /// Context: tests and the console; holds the lock for O(slabs).
  [[nodiscard]] bool validate() noexcept;

 private:
  friend class SlabPass;
  friend class scan::Scanner;
  friend struct CacheLayout;
  friend struct NoTouch;
  static constexpr std::uint32_t kNoLimit = UINT32_MAX;
  static constexpr std::size_t kRedzone = kRedzoneBytes;  ///< for debuggers
  void choose_geometry(std::size_t least) noexcept;
  bool fits() noexcept;
  [[nodiscard]] Slab* create() noexcept;
  [[nodiscard]] void* take_fresh(unsigned count, unsigned* taken) noexcept;
  std::uintptr_t fill_in(Slab& slab, unsigned objects) noexcept;
  void begin(Slab& slab, std::uintptr_t start, unsigned objects) noexcept;
  void adopt(Slab& slab) noexcept;
  void disown(Slab& slab) noexcept;
  [[nodiscard]] static std::size_t free_word_locked(Slab& slab) noexcept;
  void note_taken_locked(Slab& slab, unsigned count) noexcept;
  void** carve(Slab& slab, void** next, void** end, unsigned& steps) noexcept;
  unsigned take_some(void** objects, unsigned count) noexcept;
  void* take_one_locked() noexcept;
  void* take_one_present() noexcept;
  bool put_plain_locked(void* object) noexcept;
  void count_taken_locked(unsigned count) noexcept {
    out_ += count;
    taken_ever_ += count;
    if (out_ > out_high_) out_high_ = out_;
  }
  [[nodiscard]] std::uint32_t room_locked() const noexcept {
    const std::uint32_t limit = limit_.load(std::memory_order_relaxed);
    return out_ < limit ? limit - out_ : 0;
  }
  [[nodiscard]] std::size_t bytes_locked() const noexcept;
  [[nodiscard]] unsigned words() const noexcept { return (objects_ + kWordBits - 1) / kWordBits; }
  /// A word of the slab's free bitmap.
  [[nodiscard]] static unsigned long& bits(Slab& slab, std::size_t word) noexcept {
    return *(reinterpret_cast<unsigned long*>(&slab) - 1 - word);
  }
  /// Bytes of a slab of @p objects: a whole slab, or a slab of a single object, which is as short as possible.
  [[nodiscard]] std::size_t bytes_of(unsigned objects) const noexcept {
    return objects != 1 ? slab_bytes_ : bytes_of_one();
  }
  [[nodiscard]] std::size_t bytes_of_one() const noexcept;
  [[nodiscard]] std::size_t overhead() const noexcept {
    return sizeof(Slab) + words() * sizeof(long) + objects_ * kCheckBytes;
  }
  /// Bytes that a build with call sites leaves before each object, for a ChargeHead.
  [[nodiscard]] std::size_t lead() const noexcept { return tagging_.is_tagged() ? alignment() : 0; }
  /// lead(), plus the bytes that a checking build leaves behind an object so that the next object stays aligned.
  [[nodiscard]] std::size_t trailer() const noexcept {
    if constexpr (kRedzoneBytes == 0) return lead();
    const std::size_t redzone = no_touch_ ? 0 : kRedzoneBytes;
    return lead() + ((redzone + alignment() - 1) & ~(alignment() - 1));
  }
  [[nodiscard]] std::size_t colour_of(std::uintptr_t start, std::uintptr_t end) const noexcept;
  [[nodiscard]] bool is_aligned_by_source() const noexcept;
  [[nodiscard]] bool shares_extent(std::size_t bytes) const noexcept;
  [[nodiscard]] std::uintptr_t take_from_source(std::size_t bytes) noexcept;
  [[nodiscard]] std::uintptr_t take_segment(std::size_t bytes) noexcept;
  void give_to_source(std::uintptr_t start, std::size_t bytes) noexcept;
  static void expect_taken_back(Status status) noexcept;
  [[nodiscard]] bool is_free(Slab& slab, unsigned index) const noexcept;
  [[nodiscard]] ObjectState object_state(Slab* slab, const void* address) const noexcept;
  [[nodiscard, gnu::noinline]] ObjectState classify_no_touch(const void* address) noexcept;
  [[nodiscard]] Slab* next_in_lists(Slab* slab) noexcept;
  void widen(std::uintptr_t first, std::uintptr_t header) noexcept;
  /// Whether @p header, which a mask has found, may be read: it lies in a memory region or, if slabs of this layer lie
  /// in none, between the first and the last slab that the layer ever had. Then it is memory, but perhaps of another
  /// cache, whose header says so, or of any user. Inlined, because a function that calls none needs no frame.
  [[nodiscard, gnu::always_inline]] bool is_memory(std::uintptr_t header) const noexcept {
    const PageMap::Region* latest = region_.load(kFollowed);
    if (latest->has(header)) [[likely]]
      return true;
    if (no_touch_) return false;  // remains of a slab of memory could look like a header
    if (page_map.region_of(header).bytes != 0) return true;
    return latest == &PageMap::kNoRegion && spans(reinterpret_cast<const void*>(header));
  }
  [[nodiscard]] Slab* find_in_memory(std::uintptr_t address) const noexcept {
    Slab* slab = find_by_mask(reinterpret_cast<const void*>(address));
    return slab != nullptr && address - slab->start < slab_bytes_ ? slab : nullptr;
  }
  void* const* put_run(Slab& slab, std::uintptr_t object, void* const* end, std::uintptr_t stop, Put& put) noexcept;

  /// Set by the first layer of no-touch slabs.
  static inline constinit std::atomic<const NoTouchCalls*> no_touch_support_{nullptr};
  static const NoTouchCalls& no_touch_support() noexcept { return *no_touch_support_.load(std::memory_order_relaxed); }

  Arena* source_ = nullptr;
  std::size_t stride_ = 0;
  std::size_t slab_bytes_ = 0;    ///< of a whole slab; memory: a power of two, one more than the mask
  std::uint32_t reciprocal_ = 0;  ///< ceil(2^32 / stride); 0 if that is not exact over a slab
  std::uint16_t objects_ = 0;
  std::uint8_t alignment_log2_ = 0;
  bool no_touch_ : 1 = false;
  bool quantum_cache_ : 1 = false;
  bool in_extents_ : 1 = false;  ///< whole slabs are allocated from extents
  std::uint8_t heap_class_ : 5 = 0;

  struct Tagging {
    bool tagged = false;
    [[nodiscard]] bool is_tagged() const noexcept { return tagged; }
  };
  struct NoTagging {
    static constexpr bool tagged = false;
    [[nodiscard]] static constexpr bool is_tagged() noexcept { return false; }
  };
  [[no_unique_address]] std::conditional_t<kCallSites, Tagging, NoTagging> tagging_;

  Lock lock_;
  std::atomic<std::uint32_t> limit_{kNoLimit};  ///< written under the lock
  Ring<Slab> usable_;                           ///< slabs in use first, then empty ones
  Ring<Slab> full_;
  union {
    /// All slabs of memory that the layer ever had lie in [low_, high_); without call sites only those in no memory
    /// region.
    std::atomic<std::uintptr_t> low_{UINTPTR_MAX};
    ExternalSlab* root_;  ///< no-touch: root of the tree
  };
  std::atomic<std::uintptr_t> high_{0};
  std::uint32_t slabs_ = 0;
  std::uint32_t short_slabs_ : 24 = 0;  ///< slabs of a single object of at least a page
  std::uint32_t empty_slabs_ : 8 = 0;   ///< at most kEmptyKept, plus one for each hart
  std::uint32_t out_ = 0;
  std::uint32_t out_high_ = 0;
  /// Memory region of the newest slab of memory, usually of all slabs; kNoRegion for ever once a slab lies in none.
  std::atomic<const PageMap::Region*> region_{&PageMap::kNoRegion};
  [[no_unique_address]] std::conditional_t<kCounted, Word, NoCount> taken_ever_{};
};

}  // namespace qm
