#pragma once
/// Misuse of caches and of the heap, and how it is reported.
///
///     misuse                               found                                                 by
///     free of null, of a foreign address,  when it passes from a magazine to its slab, or        every build
///     of an inner address; double free     earlier
///                                          at the free                                           QM_CHECKED, no magazines
///     free to a destroyed cache            at the next slow path, until its place is used again  every build
///     free with a wrong size               at the free                                           the heap
///     allocation of too many bytes         at the allocation, which fails                        every build
///     destroy with objects in use          at the destroy, which every build refuses             QM_CHECKED
///     write behind the object              at the free; by `verify`                              QM_CHECKED
///     write behind a block of the heap     at a free beside it; by `verify`                      every build
///     write after the free                 at the next allocation of the object; by `verify`     QM_CHECKED
///                                          when the object leaves quarantine; by `verify`        quarantine
///     double free                          at the second free                                    quarantine
///     access outside, or after the free    at the access                                         guarded samples
///
/// Each misuse that is found is reported once to the handler; that of a live cache is counted in CacheStats::misuses. A
/// bad free is ignored; a damaged redzone or poison is repaired. If an object that was freed twice is allocated from a
/// magazine before a check finds the second free, no check finds it, and two users have the object.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace qm {

class Arena;
class Cache;

/// The state of an address in a slab layer.
enum class ObjectState : std::uint8_t {
  kOut,      ///< an allocated object of the layer
  kFree,     ///< a free object of the layer
  kInside,   ///< in one of the slabs, but not at an object's start
  kOutside,  ///< in none of the slabs
};

enum class Misuse : std::uint8_t {
  kNull,            ///< free(nullptr) on a cache: harmless
  kDoubleFree,      ///< the object is free already
  kInterior,        ///< the address lies inside an object of the cache, not at its start
  kWrongCache,      ///< the address is in a slab of another cache, `owner`
  kForeign,         ///< the address is in no cache's slab
  kAfterDestroy,    ///< the cache was destroyed
  kWrongSize,       ///< a block of the heap was freed with a size that is not its own
  kOverflow,        ///< something wrote behind the object's end
  kWriteAfterFree,  ///< something wrote to the object while it was free
  kLeak,            ///< a destroy was refused: the object is still in use, one of `count`
  kTooLarge,        ///< an allocation was refused: it asked for `count` bytes of a cache whose objects have fewer
  kOutside,         ///< a guarded object (guards.hpp) of `count` bytes was accessed outside
  kUseAfterFree,    ///< the same, after its free
};

/// A few words for each, to print after an object's address: "is free already".
[[nodiscard]] const char* describe(Misuse kind) noexcept;

struct MisuseReport {
  Misuse kind = Misuse::kNull;
  /// The cache to which the object was freed, or that has the object; nullptr: an address given to the heap that is in
  /// none of its caches. With kAfterDestroy only its name is valid.
  Cache* cache = nullptr;
  /// kOverflow and kWriteAfterFree of a heap block: its arena. nullptr for a guarded block, and for all other reports.
  Arena* arena = nullptr;
  Cache* owner = nullptr;  ///< kWrongCache: the cache that has the object; may be destroyed meanwhile
  void* object = nullptr;  ///< the object's start; if there is none, the address as given
  /// From the object's start to the address or the first damaged byte. kOutside: an access N bytes before the start has
  /// the offset std::size_t{0} - N.
  std::size_t offset = 0;
  /// kOverflow of a block: the payload of the next block, whose header was overwritten. kWriteAfterFree: that of the
  /// block after the free one.
  void* neighbour = nullptr;
  std::size_t count = 0;           ///< kLeak: objects in use; kTooLarge: bytes requested; a guarded object's bytes
  std::uint32_t allocated_by = 0;  ///< stack (the observer's handle) that allocated the object last, 0: not known
  std::uint32_t freed_by = 0;      ///< stack that freed it last (QM_CHECKED, a quarantine, a guarded object)
  std::uint32_t found_by = 0;      ///< stack of the call that found it: in a checking build the call with the misuse
  std::uintptr_t pc =
      0;  ///< kOutside, kUseAfterFree: of the access, and found_by is the stack of its callers; 0: found
          ///< later, at the free or by `verify`
  bool is_write = false;  ///< kOutside, kUseAfterFree: whether the access was a write
};

/// Called for each misuse, after it was counted. Context: that of the free or the allocation, perhaps with interrupts
/// masked; must not call the allocator.
using MisuseHandler = void (*)(const MisuseReport& report) noexcept;
/// Sets the handler, nullptr for none. A hart that is just reporting a misuse may still call the previous one. Context:
/// any.
void set_misuse_handler(MisuseHandler handler) noexcept;

namespace internal {
/// The functions that complete a misuse report and call the handler. An image without a handler does not link them.
struct MisuseCalls {
  /// Adds the known stacks of the object.
  void (*tell)(MisuseReport& report) noexcept;
  void (*refused)(Cache& cache, void* address, ObjectState object_state) noexcept;  ///< counts it as well
};
extern constinit std::atomic<const MisuseCalls*> misuse_calls;
inline void tell_misuse(MisuseReport& report) noexcept {
  // acquire: pairs with the release in set_misuse_handler().
  if (const MisuseCalls* calls = misuse_calls.load(std::memory_order_acquire); calls != nullptr) calls->tell(report);
}
}  // namespace internal

/// Whether a handler is set. Context: any.
[[nodiscard]] inline bool has_misuse_handler() noexcept {
  return internal::misuse_calls.load(std::memory_order_relaxed) != nullptr;
}

}  // namespace qm
