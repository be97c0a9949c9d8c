#pragma once
/// Caches of the core form (QM_FULL=OFF): a supply of equal-sized objects, straight from their slabs under the cache's
/// lock. There are no magazines, no reserve and no books; an allocation that finds no memory says so at once.
///
///     allocate()           the first free object of the first slab that has one
///       grow()               a slab of the source; of what other caches have idle, if there is none
///     free()               its slab by the page map, its bit in there; a second empty slab goes back to the source
///
///     | Slab | free bitmap | pad | object 0 | object 1 | ... | object n-1 | slack |     whole pages, from the source
///
/// Invariants
/// - S1 A set bit of the bitmap is a free object: `in_use == objects - popcount(bitmap)`. Free objects are not written.
/// - S2 A slab with a free object is on `usable_`; an empty one behind all others, and it is `idle_`: there is one at
///      most.
/// - S3 No lock is held while the source, a constructor or a destructor runs.
/// - S4 At most `limit_` objects are out.
/// - C3 Objects out are constructed; objects in slabs are raw.

#include <cstddef>
#include <cstdint>

#include <qm/call_site.hpp>
#include <qm/call_sites.hpp>
#include <qm/effort.hpp>
#include <qm/list.hpp>
#include <qm/lock.hpp>
#include <qm/status.hpp>
#include <qm/traceable.hpp>

namespace qm {

class Arena;
class Cache;

namespace internal {
/// Part of qm::initialize(): the cache of caches.
Status initialize_caches() noexcept;
}  // namespace internal
/// See <qm/system.hpp>.
std::size_t reclaim() noexcept;

namespace cache_flags {
inline constexpr std::uint32_t kNoTouch = 1;  ///< refused: the headers of slabs lie in them
inline constexpr std::uint32_t kNoTrace = 2;  ///< never traced
}  // namespace cache_flags

/// @returns false if the object could not be constructed: the allocation fails. The two must not throw; their types are those of C.
using Constructor = bool (*)(void* object, void* context);
using Destructor = void (*)(void* object, void* context);

struct CacheConfig {
  const char* name = nullptr;   ///< kept, not copied; looked at by the trace alone
  std::size_t object_size = 0;  ///< bytes
  std::size_t alignment = 0;    ///< power of two, at most a page; 0: the largest that divides the size, from 8 to 16
  std::uint32_t flags = 0;      ///< cache_flags
  Arena* source = nullptr;      ///< of memory given to qm::initialize(), by whole pages; nullptr: base_arena()
  Constructor constructor = nullptr;
  Destructor destructor = nullptr;
  void* context = nullptr;  ///< handed to the callbacks
  std::size_t limit = 0;    ///< most objects out; 0: none
};

/// Counts of objects. What the full form has in magazines, the depot and the reserve is nothing here.
struct CacheStats {
  std::size_t object_size = 0;  ///< bytes of an object, alignment included
  std::size_t objects = 0;      ///< objects in all slabs
  std::size_t in_use = 0;       ///< users hold them
  std::size_t in_slabs = 0;     ///< free in slabs
  std::size_t high_water = 0;   ///< most objects ever out at once
  std::size_t failures = 0;     ///< allocations that returned nullptr
  std::size_t misuses = 0;      ///< frees that were refused
  std::size_t slabs = 0;
  std::size_t slab_bytes = 0;
  static constexpr std::size_t in_magazines = 0;
  static constexpr std::size_t in_depot = 0;
  static constexpr std::size_t reserved = 0;
};

/// A slab's header, at its start. The bitmap follows it.
struct Slab : ListNode {
  Cache* cache = nullptr;
  std::uintptr_t first = 0;   ///< of object 0
  std::uint32_t in_use = 0;   ///< objects out
  std::uint32_t objects = 0;  ///< objects in this slab
  [[nodiscard]] unsigned long& bits(std::size_t word) noexcept {
    return reinterpret_cast<unsigned long*>(this + 1)[word];
  }
};

class Cache {
 public:
  [[gnu::noinline]] constexpr Cache() noexcept {}
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  /// Makes a cache, open for use on every hart.
  /// @param[out] why  if not null: kOk; kInvalid (size, alignment, a source whose quantum is no multiple of a page);
  ///                  kRefused (flags); kNoMemory.
  /// @returns the cache; nullptr with a reason in @p why.
  /// Context: any.
  [[nodiscard]] static Cache* create(const CacheConfig& config, Status* why = nullptr) noexcept;

  /// Gives back everything the cache took.
  /// @returns kBusy, and nothing is freed, while users hold objects. Context: nobody else uses the cache any more.
  static Status destroy(Cache* cache) noexcept;

  /// Takes one object. Its contents are indeterminate unless the cache has a constructor.
  /// @returns the object, aligned as the cache was created with; nullptr iff the source cannot supply a slab even after
  ///          the idle slabs of all caches went back, the limit is reached, or construction failed; counted in stats().
  /// Complexity: bounded by the words of a slab's bitmap, 16 for objects of 8 bytes; a new slab is an allocation of the
  ///             source.
  /// Context:    any hart, any interrupt level; never blocks.
  [[nodiscard]] void* allocate() noexcept;
  /// As allocate(): site, size and effort change nothing.
  [[nodiscard]] void* allocate_at(const CallSite*, std::size_t = 0, Effort = Effort::kAuto) noexcept {
    return allocate();
  }
  [[nodiscard]] void* allocate(std::size_t, Effort = Effort::kAuto) noexcept { return allocate(); }

  /// Takes up to @p count objects. @param[out] objects room for @p count.
  /// @returns how many; fewer than @p count iff the next single allocation failed.
  [[nodiscard]] std::size_t allocate_bulk(void** objects, std::size_t count, Effort = Effort::kAuto) noexcept;
  [[nodiscard]] std::size_t allocate_bulk_at(const CallSite*, void** objects, std::size_t count,
                                             Effort = Effort::kAuto) noexcept {
    return allocate_bulk(objects, count);
  }
  void free_bulk(void* const* objects, std::size_t count) noexcept;

  /// Gives an object back. What is none of the cache's objects, or free already, is counted and otherwise ignored;
  /// nullptr too.
  /// Complexity: O(1). Context: as allocate().
  void free(void* object) noexcept;

  /// @returns kRefused: there is no reserve in this form; kOk for none.
  static Status reserve(std::size_t objects) noexcept { return objects == 0 ? Status::kOk : Status::kRefused; }

  /// Gives the idle slab back to the source. @returns its bytes. Context: any.
  std::size_t reap() noexcept;

  /// Whether @p address is an object that is out.
  [[nodiscard]] bool has_out(const void* address) noexcept;
  /// The cache in whose slab @p address lies, any number at all; nullptr: in none.
  [[nodiscard]] static Cache* of(const void* address) noexcept;

  /// Bytes of an object, alignment included.
  [[nodiscard]] std::size_t object_size() const noexcept { return stride_; }
  [[nodiscard]] std::size_t alignment() const noexcept { return alignment_; }
  [[nodiscard]] Arena& source() const noexcept { return *source_; }
  [[nodiscard]] const char* name() const noexcept { return name_; }
  /// Objects that users hold.
  [[nodiscard]] std::size_t in_use() noexcept { return std::atomic_ref(out_).load(std::memory_order_relaxed); }
  [[nodiscard]] Traceable& traceable() noexcept { return traceable_; }
  /// Calls @p visit with each cache, while none is created or destroyed. Builds with the trace; O(caches).
  static void for_each(void (*visit)(Cache& cache, void* context) noexcept, void* context) noexcept;
  [[nodiscard]] CacheStats stats() noexcept {
    const LockGuard hold(lock_);
    const std::size_t objects = slabs_ * objects_;
    const std::size_t failures = std::atomic_ref(failures_).load(std::memory_order_relaxed);
    const std::size_t misuses = std::atomic_ref(misuses_).load(std::memory_order_relaxed);
    return {stride_, objects, out_, objects - out_, out_high_, failures, misuses, slabs_, slab_bytes_};
  }

 private:
  friend Status internal::initialize_caches() noexcept;
  friend std::size_t reclaim() noexcept;
  /// A slab that is on no list any more.
  struct Released {
    Arena* source = nullptr;
    std::uintptr_t start = 0;
    std::size_t bytes = 0;
    /// Its memory, if there is one, to the source. @returns the bytes.
    std::size_t give_back() const noexcept;
  };
  Status initialize(const CacheConfig& config) noexcept;
  [[nodiscard]] bool choose_geometry() noexcept;
  [[nodiscard]] bool grow() noexcept;
  [[nodiscard]] void* take() noexcept;
  bool put(const void* object) noexcept;
  [[nodiscard]] Slab* find(const void* address, std::size_t& index) const noexcept;
  [[nodiscard]] Released take_idle_locked() noexcept;

  static Lock list_lock_;
  static Cache* list_;

  const char* name_ = nullptr;
  Arena* source_ = nullptr;
  Constructor constructor_ = nullptr;
  Destructor destructor_ = nullptr;
  void* context_ = nullptr;
  Cache* next_ = nullptr;  ///< in the list of all
  std::size_t stride_ = 0;
  std::uint16_t alignment_ = 0;
  [[no_unique_address]] Traceable traceable_;
  std::size_t slab_bytes_ = 0;
  std::size_t first_ = 0;    ///< from a slab's start to its object 0
  std::size_t objects_ = 0;  ///< of a slab
  Lock lock_;
  Ring<Slab> usable_;
  Slab* idle_ = nullptr;
  std::uint32_t slabs_ = 0;
  std::uint32_t out_ = 0;
  std::uint32_t out_high_ = 0;
  std::uint32_t limit_ = UINT32_MAX;
  std::uint32_t failures_ = 0;
  std::uint32_t misuses_ = 0;
};
static_assert(sizeof(Cache) <= (sizeof(void*) == 4 ? 80 : 144));

}  // namespace qm
