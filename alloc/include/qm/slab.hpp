#pragma once
/// The slab layer: raw objects of one size, carved from slabs of an arena. What is constructed, cached per hart or
/// traced is decided above.
///
/// A slab of memory is a power of two of bytes, aligned to its size, with its header at its end, so that an address
/// mask finds the header from any object:
///
///     | colour | object 0 | object 1 | ... | object n-1 | slack | free bitmap | Slab |      the bitmap's word 0 is its last
///     ^ aligned to slab_bytes                                                     end ^
///
/// The colour shifts the objects of neighbouring slabs against each other within the slack, so that objects of equal
/// index do not all fall into the same cache sets. It comes from the slab's address and keeps every alignment that the
/// distance between objects gives.
///
/// A no-touch slab (ids, addresses that must not be written) keeps bitmap and header in an object of `kmem_slab`, found
/// through a tree ordered by start. What that takes is linked with the first cache that asks for it: UntouchedCalls.
///
/// Where the source is too short for a whole slab, it holds a single object. A short slab of memory ends where a whole
/// one would, so that the same mask finds its header.
///
/// Invariants
/// - S1 A set bit of the bitmap is a free object: `in_use == objects - popcount(bitmap)`. Nothing is threaded through
///      free objects, so a write after free cannot damage the layer, and a new slab costs a few bitmap words, not n
///      objects.
/// - S2 A slab is on `full_` iff in_use == objects, else on `usable_`, on which no empty slab is in front of one in
///      use.
/// - S3 The lock is held for kTakeSteps, two the way to a slab and one to a run of neighbours in it, for kBatch objects of a new
///      slab, or for putting kPutBatch objects into kPutRuns slabs; never while the source arena is asked.
/// - S4 At most `limit_` objects are out.
///
/// Source: Bonwick 1994, section 3; the bitmap in place of a free list is FreeBSD UMA's.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <qm/bits.hpp>
#include <qm/call_site.hpp>
#include <qm/fault.hpp>
#include <qm/list.hpp>
#include <qm/lock.hpp>
#include <qm/misuse.hpp>
#include <qm/object_check.hpp>
#include <qm/page_map.hpp>
#include <qm/status.hpp>

namespace qm {

class Arena;
class Cache;
class SlabLayer;

/// A slab's header.
struct Slab : ListNode {
  /// Whose slab this is: the check against a free to the wrong cache.
  const SlabLayer* layer = nullptr;
  std::atomic<std::uint32_t*> handles{nullptr};  ///< one trace handle an object, from the first record on
  std::uintptr_t start = 0;                      ///< of object 0, behind the colour
  std::uint16_t objects = 0;                     ///< objects in this slab
  std::uint16_t in_use = 0;                      ///< objects out
  std::uint16_t first_word = 0;                  ///< no free object lies in a bitmap word below this one
  std::uint16_t mark = 0;                        ///< of the SlabPass that has seen it
};

/// A no-touch slab's header, a node of the tree (a treap) of its layer.
struct ExternalSlab : Slab {
  ExternalSlab* children[2] = {nullptr, nullptr};  ///< lower and higher starts
  std::uint32_t priority = 0;                      ///< heap order: no child's is higher
};

/// Where an address lies in a slab.
struct ObjectPlace {
  std::uintptr_t slab = 0;  ///< start of the slab's first object
  void* object = nullptr;   ///< the object that has the address; nullptr: what belongs to no object
  std::size_t offset = 0;   ///< of the address in the object
  unsigned index = 0;       ///< of the object
  unsigned objects = 0;     ///< of the slab
  bool is_out = false;      ///< the layer has handed the object out
  bool in_header = false;   ///< the slab's header has the address, or the bitmap before it
};

/// What layers of no-touch slabs do otherwise: slab_untouched.cpp.
struct UntouchedCalls {
  /// Chooses the bytes and the objects of a slab.
  void (*initialize)(SlabLayer& layer) noexcept;
  /// As SlabLayer::create() and release().
  Slab* (*create)(SlabLayer& layer) noexcept;
  void (*release)(SlabLayer& layer, Slab& slab) noexcept;
  /// The tree. The layer's lock is held.
  void (*enter)(SlabLayer& layer, Slab& slab) noexcept;
  void (*leave)(SlabLayer& layer, Slab& slab) noexcept;
  Slab* (*find)(SlabLayer& layer, std::uintptr_t address) noexcept;
};
extern const UntouchedCalls untouched_calls;

namespace internal {
void leave_pass(SlabLayer& layer, Slab& slab) noexcept;
}

/// What a cache may ask of its slabs.
struct SlabConfig {
  Arena* source = nullptr;
  std::size_t object_size = 0;
  std::size_t alignment = 0;  ///< power of two; 0: the largest that divides the size, from 8 to 16; no-touch: 1
  /// &untouched_calls: the addresses are not memory, or must not be written; nullptr: they are memory.
  const UntouchedCalls* no_touch = nullptr;
  bool quantum_cache = false;  ///< slabs are segments of the source that its own quantum caches do not serve
  bool tagged = false;         ///< objects are charged to call sites: a ChargeHead stands before each
  /// The heap's, 1 to 31: the slabs' pages are tagged in the page map; 0: they are not.
  std::uint8_t heap_class = 0;
  std::size_t least_slab = 0;  ///< bytes that a slab should have, up to kUsualSlabBytes
};

struct SlabStats {
  std::size_t slabs = 0;
  std::size_t empty_slabs = 0;
  std::size_t bytes = 0;             ///< of all slabs
  std::size_t objects_out = 0;       ///< objects the layer has handed out
  std::size_t objects_out_high = 0;  ///< its high-water mark
  std::size_t objects_total = 0;
  std::size_t limit = 0;  ///< most objects out at a time; 0: none
  Word taken_ever = 0;    ///< objects handed out so far; QM_COUNT
};

class SlabLayer {
 public:
  static constexpr unsigned kBatch = 16;  ///< objects that who moves many moves at a time
  /// Most steps to what is taken under one hold of the lock: one to a run of neighbours, two to a slab.
  static constexpr unsigned kTakeSteps = 6;
  static constexpr unsigned kPutBatch = 13;  ///< most objects put under one hold of the lock ...
  static constexpr unsigned kPutRuns = 3;    ///< ... and most words of bitmaps that they are in
  static constexpr std::size_t kPageBytes = PageMap::kPageBytes;
  static constexpr std::size_t kUsualSlabBytes = 4096;  ///< more only for large objects
  static constexpr unsigned kNoIndex = ~0U;
  static constexpr unsigned kExternalObjects = kChecked ? 64 : 256;  ///< most objects of a no-touch slab
  static constexpr std::size_t kMinAlignment = 8;                    ///< of objects of memory, unless asked for less
  static constexpr std::size_t kMaxAlignment = 16;                   ///< of objects of memory, unless asked for more
  /// A line of the processor's cache: colours differ by at least one.
  static constexpr std::size_t kColourBytes = 64;
  /// Size of an object of `kmem_slab`.
  static constexpr std::size_t kExternalHead = kExternalObjects * kCheckBytes + kExternalObjects / 8;
  static constexpr std::size_t kExternalBytes = kExternalHead + sizeof(ExternalSlab);

  /// @returns kInvalid for a size 0, sizes that cannot be rounded, and an alignment that is no power of two; kOk
  ///          otherwise.
  Status initialize(const SlabConfig& config) noexcept;

  /// Whether no slab has a free object. An estimate: looks without the lock.
  [[nodiscard]] bool is_spent() const noexcept { return usable_.empty(); }
  /// Takes up to @p count objects of slabs that there are.
  /// @returns how many; 0 iff the limit is reached or no slab has a free object.
  /// Complexity: O(count), bounded by kTakeSteps, so that it may take fewer where they lie scattered. Context: any.
  unsigned take_present(void** objects, unsigned count) noexcept {
    return fault::may_acquire(fault::Resource::kObjects) ? take_some(objects, count) : 0;
  }

  struct Taken {
    unsigned count = 0;
    bool created = false;  ///< a slab was created: the operation has cost enough
  };
  /// Takes up to @p count objects, of a new slab if others have none. @returns how many; 0 iff create() has failed, or
  /// others have reached the limit meanwhile.
  Taken take(void** objects, unsigned count) noexcept;
  /// The same for one object, by a shorter way; and of a new slab in any case. @returns nullptr instead of 0.
  [[nodiscard]] void* take_one() noexcept;
  [[nodiscard]] void* take_new() noexcept { return take_fresh(1, nullptr); }
  /// The same for one object of slabs that there are; no test fails it. For a build without magazines; masked.
  [[nodiscard]] void* take_plain() noexcept;

  /// Makes a slab, if none has a free object, ahead of who will take one. Complexity, context: as take().
  void prepare() noexcept {
    if (is_spent()) static_cast<void>(take_fresh(0, nullptr));
  }

  using Standing = qm::Standing;

  struct Put {
    unsigned count = 0;              ///< objects taken back
    Standing next = Standing::kOut;  ///< if not kOut, why the object after those was not
    Slab* surplus = nullptr;         ///< a slab that is to be released
  };
  /// Takes objects back, the last first: until one is none that is out, until a slab has become surplus, or until
  /// enough was done.
  /// @param[in] count at most kPutBatch.
  /// Complexity: O(count), in one word of a bitmap for a no-touch layer. Context: any; the caller releases the surplus
  /// slab, with interrupts as it found them.
  Put put(void* const* objects, unsigned count) noexcept;
  /// Gives a surplus slab's memory back to the source. Context: any, no lock held.
  void release(Slab* slab) noexcept;

  /// Takes one object back if it is out, of a slab of memory, and no slab becomes surplus. @returns false, and nothing has
  /// changed, otherwise. For a build without magazines; masked.
  [[nodiscard]] bool put_plain(void* object) noexcept;

  /// Takes one object back.
  /// @returns kMismatch if the address is not an object's start in a slab of this layer; kNotFound if the object is
  ///          free already. Nothing is changed then.
  /// Context: any; may give a slab back to the source, with no lock held.
  Status put(void* object) noexcept;

  /// Gives every empty slab back to the source, or to the extents of its arena, whose pages all slabs can have.
  /// @returns the bytes given back.
  std::size_t reap() noexcept;

  /// Frees all slabs. Precondition: no object is out.
  /// @returns kBusy, and nothing happens, if one is.
  Status destroy() noexcept;

  /// Lets at most @p objects be out from now on; 0: as many as there is memory for. What is out stays out.
  void set_limit(std::size_t objects) noexcept;
  /// Whether the limit is all that keeps an object from being taken.
  [[nodiscard]] bool at_limit() noexcept;

  /// Complexity: about 40 instructions; O(log slabs) for no-touch. Context: any.
  [[nodiscard]] Standing judge(const void* address) noexcept;
  /// Whether two addresses, which are idle in a magazine, are two objects that are out. Complexity: about 60 instructions;
  /// as judge() for no-touch. Context: any.
  [[nodiscard]] bool are_out(void* const* pair) noexcept;

  /// The slab of an address; nullptr if it is in none of this layer's.
  [[nodiscard]] Slab* find(const void* address) noexcept;
  /// As find(), inlined, for slabs of memory: nullptr for others, and a slab also for what lies beside its objects.
  [[nodiscard]] Slab* find_by_mask(const void* address) const noexcept {
    const std::uintptr_t header = (reinterpret_cast<std::uintptr_t>(address) | (slab_bytes_ - 1)) + 1 - sizeof(Slab);
    auto* slab = reinterpret_cast<Slab*>(header);
    return is_memory(header) && slab->layer == this ? slab : nullptr;
  }
  /// Index of what lies at @p object in a slab that find_by_mask() found; kNoIndex if it is no object's start, or,
  /// where there is no reciprocal, perhaps.
  [[nodiscard]] unsigned index_by_reciprocal(const Slab& slab, const void* object) const noexcept {
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(object) - slab.start;
    const std::size_t at = index_around(offset);
    return at < slab.objects && starts_at(at, offset) ? static_cast<unsigned>(at) : kNoIndex;
  }
  /// The same in two steps: the index of what lies at @p offset from object 0 of such a slab, which may have fewer
  /// objects, or 0 where there is no reciprocal; and whether an object starts there.
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
  /// What a checking build keeps of the objects of @p slab, in the order of their indexes.
  [[nodiscard]] ObjectCheck* checks(Slab& slab) const noexcept {
    return reinterpret_cast<ObjectCheck*>(&bits(slab, words() - 1)) - objects_;
  }

  /// Bytes of an object, alignment included, and from one object to the next.
  [[nodiscard]] std::size_t object_size() const noexcept { return stride_ - trailer(); }
  [[nodiscard]] std::size_t stride() const noexcept { return stride_; }
  /// Where in a stride the redzone of a checking build ends.
  [[nodiscard]] std::size_t redzone_end() const noexcept { return stride_ - lead(); }
  /// Whether @p address is between the first and the last slab of memory that there ever were. Build with call sites.
  [[nodiscard, gnu::always_inline]] bool spans(const void* address) const noexcept {
    const std::uintptr_t low = low_.load(std::memory_order_relaxed);
    return reinterpret_cast<std::uintptr_t>(address) - low < high_.load(std::memory_order_relaxed) - low;
  }
  [[nodiscard]] std::size_t alignment() const noexcept { return std::size_t{1} << alignment_log2_; }
  /// What a slab takes of the source, unless that is short.
  [[nodiscard]] std::size_t slab_bytes() const noexcept { return bytes_of(objects_); }
  [[nodiscard]] unsigned objects() const noexcept { return objects_; }
  [[nodiscard]] Arena& source() const noexcept { return *source_; }
  [[nodiscard]] bool no_touch() const noexcept { return no_touch_; }
  /// Objects handed out, and bytes of all slabs.
  [[nodiscard]] std::size_t objects_out() noexcept;
  [[nodiscard]] std::size_t bytes() noexcept;

  // ---- for reports: slab_look.cpp -------------------------------------------------------------------------------------

  [[nodiscard]] SlabStats stats() noexcept;
  /// Finds where @p address lies, in a slab of memory also before its first object. @returns false if in none of this
  /// layer's slabs. Complexity, context: as judge().
  [[nodiscard]] bool locate(std::uintptr_t address, ObjectPlace& place) noexcept;
  /// Whether the slab keeps S1 and knows its layer. Context: as a SlabPass shows it.
  [[nodiscard]] bool is_sound(Slab& slab) noexcept;

  /// Checks S1 and S2 over all slabs, and the counters against them.
  /// Context: tests and the console; holds the lock for O(slabs).
  [[nodiscard]] bool validate() noexcept;

 private:
  friend class SlabPass;
  friend struct CacheLayout;
  friend struct Untouched;
  static constexpr std::uint32_t kNoLimit = UINT32_MAX;
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
  /// Bytes of a slab of @p objects: of all that fit a whole one, or of a single one, which has no more behind it than
  /// needed.
  [[nodiscard]] std::size_t bytes_of(unsigned objects) const noexcept {
    return objects != 1 ? slab_bytes_ : bytes_of_one();
  }
  [[nodiscard]] std::size_t bytes_of_one() const noexcept;
  [[nodiscard]] std::size_t overhead() const noexcept {
    return sizeof(Slab) + words() * sizeof(long) + objects_ * kCheckBytes;
  }
  /// What a build with call sites leaves before each object, for a ChargeHead.
  [[nodiscard]] std::size_t lead() const noexcept { return tagging_.is_tagged() ? alignment() : 0; }
  /// With what a checking build leaves behind it, so that the next keeps its alignment.
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
  [[nodiscard]] Standing standing(Slab* slab, const void* address) const noexcept;
  [[nodiscard, gnu::noinline]] Standing judge_untouched(const void* address) noexcept;
  [[nodiscard]] Slab* next_in_lists(Slab* slab) noexcept;
  void widen(std::uintptr_t low, std::uintptr_t high) noexcept;
  /// Whether @p header, which a mask has found, may be read: it lies in a bank, or, where a slab lies in none, between
  /// the first and the last such slab there ever were. Then it is memory - of another cache, perhaps, whose header says so,
  /// or of anybody. Inlined, as what calls nobody needs no frame.
  [[nodiscard, gnu::always_inline]] bool is_memory(std::uintptr_t header) const noexcept {
    const PageMap::Bank* latest = bank_.load(kFollowed);
    if (latest->has(header)) [[likely]]
      return true;
    if (no_touch_) return false;  // what a slab of memory has left there could be taken for a header
    if (page_map.bank_of(header).bytes != 0) return true;
    return latest == &PageMap::kNoBank && spans(reinterpret_cast<const void*>(header));
  }
  [[nodiscard]] Slab* find_in_memory(std::uintptr_t address) const noexcept {
    Slab* slab = find_by_mask(reinterpret_cast<const void*>(address));
    return slab != nullptr && address - slab->start < slab_bytes_ ? slab : nullptr;
  }
  void* const* put_run(Slab& slab, std::uintptr_t object, void* const* end, std::uintptr_t stop, Put& put) noexcept;

  /// Set by the first layer of the kind.
  static inline constinit std::atomic<const UntouchedCalls*> untouched_{nullptr};
  static const UntouchedCalls& untouched() noexcept { return *untouched_.load(std::memory_order_relaxed); }

  Arena* source_ = nullptr;
  std::size_t stride_ = 0;
  std::size_t slab_bytes_ = 0;    ///< of a whole slab; memory: a power of two, less one the mask
  std::uint32_t reciprocal_ = 0;  ///< ceil(2^32 / stride), 0 where that is not exact over a slab
  std::uint16_t objects_ = 0;
  std::uint8_t alignment_log2_ = 0;
  bool no_touch_ : 1 = false;
  bool quantum_cache_ : 1 = false;
  bool in_extents_ : 1 = false;  ///< whole slabs are drawn from extents
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
  Ring<Slab> usable_;                           ///< partial ones in front, empty ones behind
  Ring<Slab> full_;
  union {
    /// All slabs of memory that ever were lie in [low_, high_); without call sites those in no bank.
    std::atomic<std::uintptr_t> low_{UINTPTR_MAX};
    ExternalSlab* root_;  ///< no-touch: of the tree
  };
  std::atomic<std::uintptr_t> high_{0};
  std::uint32_t slabs_ = 0;
  std::uint32_t short_slabs_ : 24 = 0;  ///< those of a single object, which is a page at least
  std::uint32_t empty_slabs_ : 8 = 0;   ///< kEmptyKept, and one for each hart at most
  std::uint32_t out_ = 0;
  std::uint32_t out_high_ = 0;
  /// Of the latest slab of memory, mostly of all; kNoBank for ever once one lies in none.
  std::atomic<const PageMap::Bank*> bank_{&PageMap::kNoBank};
  [[no_unique_address]] std::conditional_t<kCounted, Word, NoCount> taken_ever_{};
};

}  // namespace qm
