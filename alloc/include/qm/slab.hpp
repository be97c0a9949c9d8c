#pragma once
/// The slab layer: raw objects of one size, carved from slabs of an arena. What is constructed, cached per hart or traced is
/// decided above.
///
/// A slab of memory is a power of two of bytes, aligned to its size, with its header at its end, so that an address mask
/// finds the header from any object:
///
///     | object 0 | object 1 | ... | object n-1 | slack | free bitmap | Slab |
///     ^ slab start, aligned to slab_bytes                            end ^
///
/// A no-touch slab (ids, addresses that must not be written) keeps bitmap and header in an object of `kmem_slab`, found
/// through a tree ordered by start. Where the source is too short for a whole one, it holds a single object.
///
/// Invariants
/// - S1 A set bit of the bitmap is a free object: `in_use == objects - popcount(bitmap)`. Nothing is threaded through free
///      objects, so a write after free cannot damage the layer, and a new slab costs a few bitmap words, not n objects.
/// - S2 A slab is on `full_` iff in_use == objects, on `empty_` iff in_use == 0, else on `partial_`.
/// - S3 The lock is held for one slab and at most kBatch objects; never while the source arena is asked.
///
/// Source: Bonwick 1994, section 3; the bitmap in place of a free list is FreeBSD UMA's.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/bits.hpp>
#include <qm/list.hpp>
#include <qm/lock.hpp>
#include <qm/object_check.hpp>
#include <qm/status.hpp>

namespace qm {

class Arena;
class Cache;
class SlabLayer;

/// A slab's header.
struct Slab : ListNode {
  Cache* cache = nullptr;                             ///< whose slab this is: the check against a free to the wrong cache
  std::atomic<std::uint32_t*> handles{nullptr};       ///< one trace handle an object, from the first record on
  std::uintptr_t start = 0;                           ///< of object 0
  std::uint16_t objects = 0;                          ///< objects in this slab
  std::uint16_t in_use = 0;                           ///< objects out
  std::uint16_t first_word = 0;                       ///< no free object lies in a bitmap word below this one
  std::uint16_t mark = 0;                             ///< of the SlabPass that has seen it
};

/// A no-touch slab's header, a node of the tree (a treap) of its layer.
struct ExternalSlab : Slab {
  ExternalSlab* children[2] = {nullptr, nullptr};  ///< lower and higher starts
  std::uint32_t priority = 0;                      ///< heap order: no child's is higher
};

/// Where an address lies in a slab.
struct ObjectPlace {
  std::uintptr_t slab = 0;       ///< start of the slab's first object
  void* object = nullptr;        ///< the object that has the address; nullptr: what belongs to no object
  std::size_t offset = 0;        ///< of the address in the object
  unsigned index = 0;            ///< of the object
  unsigned objects = 0;          ///< of the slab
  bool is_out = false;           ///< the layer has handed the object out
};

/// What a cache may ask of its slabs.
struct SlabConfig {
  Cache* cache = nullptr;            ///< written into each slab; never followed here
  Arena* source = nullptr;
  std::size_t object_size = 0;
  std::size_t alignment = 0;         ///< power of two; 0: 16, or the object's size rounded down to a power of two if less
  bool no_touch = false;             ///< the addresses are not memory, or must not be written
  bool quantum_cache = false;        ///< slabs are segments of the source that its own quantum caches do not serve
  bool mapped = false;               ///< slabs are entered in the page map, and a page each
  SlabLayer* headers = nullptr;      ///< no-touch: where headers come from
};

struct SlabStats {
  std::size_t slabs = 0;
  std::size_t empty_slabs = 0;
  std::size_t bytes = 0;             ///< of all slabs
  std::size_t objects_out = 0;       ///< objects the layer has handed out
  std::size_t objects_out_high = 0;  ///< its high-water mark
  std::size_t objects_total = 0;
  std::size_t taken_ever = 0;        ///< objects handed out so far
};

class SlabLayer {
 public:
  static constexpr unsigned kBatch = 16;             ///< most objects moved under one hold of the lock
  static constexpr unsigned kFreshBatch = 8;         ///< most objects taken by an operation that created a slab
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr unsigned kNoIndex = ~0U;
  static constexpr unsigned kExternalObjects = 64;   ///< most objects of a no-touch slab
  /// Size of an object of `kmem_slab`.
  static constexpr std::size_t kExternalHead = kExternalObjects * kCheckBytes + kExternalObjects / 8;
  static constexpr std::size_t kExternalBytes = kExternalHead + sizeof(ExternalSlab);

  /// @returns kInvalid for a size 0, a size that cannot be rounded, an alignment that is no power of two or, without memory
  ///          to touch, headers that are missing; kOk otherwise.
  Status initialize(const SlabConfig& config) noexcept;

  /// Takes up to @p count objects, all from one slab.
  /// @returns how many; 0 iff the source arena could not supply a slab.
  /// Complexity: O(count); creating a slab adds one allocation of the source.
  /// Context:    any; asks the source with no lock held.
  unsigned take(void** objects, unsigned count) noexcept;

  /// Takes an object back.
  /// @returns kMismatch if the address is not an object's start in a slab of this layer; kNotFound if the object is free
  ///          already. Nothing is changed then.
  /// Context: any; may give a slab back to the source, with no lock held.
  Status put(void* object) noexcept;

  /// Gives every empty slab back to the source.
  /// @returns the bytes given back.
  std::size_t reap() noexcept;

  /// Frees all slabs. Precondition: no object is out.
  /// @returns kBusy, and nothing happens, if one is.
  Status destroy() noexcept;

  /// How an address stands to this layer. Complexity: about 20 instructions; O(log slabs) for no-touch. Context: any.
  enum class Standing : std::uint8_t {
    kOut,      ///< an object that the layer has handed out
    kFree,     ///< an object that the layer has
    kInside,   ///< in one of the slabs, at no object's start
    kOutside,  ///< in none of the slabs
  };
  [[nodiscard]] Standing judge(const void* address) noexcept;
  /// Finds where @p address lies. @returns false if in none of this layer's slabs. Complexity, context: as judge().
  [[nodiscard]] bool locate(std::uintptr_t address, ObjectPlace& place) noexcept;

  /// The slab of an address; nullptr if it is in none of this layer's.
  [[nodiscard]] Slab* find(const void* address) noexcept;
  /// Index of @p object in @p slab; kNoIndex if it is no object's start.
  [[nodiscard]] unsigned index(const Slab& slab, const void* object) const noexcept;

  /// The start of object @p index.
  [[nodiscard]] void* object(const Slab& slab, unsigned index) const noexcept {
    return reinterpret_cast<void*>(slab.start + index * stride_);
  }
  /// What a checking build keeps of the objects of @p slab, in the order of their indexes.
  [[nodiscard]] ObjectCheck* checks(Slab& slab) const noexcept { return reinterpret_cast<ObjectCheck*>(bitmap(slab)) - objects_; }
  /// Whether the slab keeps S1 and knows its layer. Context: as a SlabPass shows it.
  [[nodiscard]] bool is_sound(Slab& slab) noexcept;

  /// Bytes of an object, alignment included, and from one object to the next.
  [[nodiscard]] std::size_t object_size() const noexcept { return kChecked ? size_ : stride_; }
  [[nodiscard]] std::size_t stride() const noexcept { return stride_; }
  [[nodiscard]] std::size_t slab_bytes() const noexcept { return slab_bytes_; }
  [[nodiscard]] unsigned objects() const noexcept { return objects_; }
  [[nodiscard]] Arena& source() const noexcept { return *source_; }
  [[nodiscard]] bool no_touch() const noexcept { return no_touch_; }
  [[nodiscard]] SlabStats stats() noexcept;

  /// Checks S1 and S2 over all slabs, and the counters against them.
  /// Context: tests and the console; holds the lock for O(slabs).
  [[nodiscard]] bool validate() noexcept;

 private:
  friend class SlabPass;
  bool choose_geometry(std::size_t alignment) noexcept;
  bool fits(std::size_t slab_bytes) noexcept;
  Slab* create() noexcept;
  Slab* create(unsigned objects) noexcept;
  void adopt(Slab* slab) noexcept;
  void disown(Slab* slab) noexcept;
  void release(Slab* slab) noexcept;
  unsigned carve(Slab& slab, void** objects, unsigned count) noexcept;
  [[nodiscard]] unsigned words() const noexcept { return (objects_ + kWordBits - 1) / kWordBits; }
  [[nodiscard]] unsigned long* bitmap(Slab& slab) const noexcept {
    return reinterpret_cast<unsigned long*>(&slab) - words();
  }
  [[nodiscard]] std::size_t bytes_of(unsigned objects) const noexcept { return objects == objects_ ? slab_bytes_ : stride_; }
  [[nodiscard]] std::uintptr_t take_from_source(std::size_t bytes) noexcept;
  void give_to_source(std::uintptr_t start, std::size_t bytes) noexcept;
  [[nodiscard]] bool is_free(Slab& slab, unsigned index) const noexcept;
  [[nodiscard]] Slab* next_in_lists(Slab* slab) noexcept;
  void leave_pass(Slab* slab) noexcept;
  void widen(std::uintptr_t low, std::uintptr_t high) noexcept;

  void insert_in_tree(ExternalSlab* slab) noexcept;
  void remove_from_tree(ExternalSlab* slab) noexcept;
  [[nodiscard]] Slab* find_in_tree(std::uintptr_t address) noexcept;

  Cache* cache_ = nullptr;
  Arena* source_ = nullptr;
  SlabLayer* headers_ = nullptr;
  std::size_t size_ = 0;          ///< of an object, where that is not the distance (kChecked)
  std::size_t stride_ = 0;
  std::size_t slab_bytes_ = 0;
  std::uint32_t reciprocal_ = 0;  ///< ceil(2^32 / stride), 0 where that is not exact over a slab
  std::uint16_t objects_ = 0;
  bool no_touch_ = false;
  bool quantum_cache_ = false;
  bool mapped_ = false;
  bool aligned_source_ = false;   ///< the source's quantum aligns a slab by itself

  Lock lock_;
  List<Slab> partial_;
  List<Slab> full_;
  List<Slab> empty_;
  ExternalSlab* root_ = nullptr;
  std::atomic<std::uintptr_t> low_{UINTPTR_MAX};  ///< all slabs of memory that ever were lie in [low_, high_)
  std::atomic<std::uintptr_t> high_{0};
  std::atomic<bool> in_banks_{false};             ///< low_ and high_ are not in the same bank of memory
  std::size_t slabs_ = 0;
  std::size_t empty_slabs_ = 0;
  std::size_t objects_total_ = 0;
  std::size_t bytes_ = 0;
  std::size_t out_ = 0;
  std::size_t out_high_ = 0;
  std::size_t taken_ever_ = 0;
};

}  // namespace qm
