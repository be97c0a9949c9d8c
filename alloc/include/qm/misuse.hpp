#pragma once
/// What a user of a cache can do wrong, and how it is told.
///
///     found                          when                                                    by
///     free to a destroyed cache      at the next slow path, while the cache's place is not used again
///     null, foreign, interior        when the object passes a slow path: a full or closed    every build
///     or already free object         magazine, at its exchange perhaps, always the slab
///     the same, at once              at the free                                             QM_CHECKED
///     a write behind the object      at the free, by `verify`                                QM_CHECKED
///     a write after the free         at the next allocation of the object, by `verify`       QM_CHECKED
///     objects out at a destroy       at the destroy, which is refused                        QM_CHECKED names holders
///     more bytes than an object has  at the allocation, which fails                          every build
///
/// What is found is counted in CacheStats::misuses, told once to the handler, and otherwise without effect: the bad
/// free is ignored, a damaged redzone or poison is mended.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace qm {

class Arena;
class Cache;

/// How an address stands to a slab layer.
enum class Standing : std::uint8_t {
  kOut,      ///< an object that the layer has handed out
  kFree,     ///< an object that the layer has
  kInside,   ///< in one of the slabs, at no object's start
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
  kLeak,            ///< a destroy was refused: the object is still out, one of `count`
  kTooLarge,        ///< an allocation was refused: it asked for `count` bytes of a cache whose objects have fewer
};

/// A few words for each, to follow an object's address: "is free already".
[[nodiscard]] const char* describe(Misuse kind) noexcept;

struct MisuseReport {
  Misuse kind = Misuse::kNull;
  /// To which the object was freed, or whose object it is; nullptr: an address given to the heap that is in none of its
  /// caches. With kAfterDestroy its name alone is valid.
  Cache* cache = nullptr;
  /// Whose block it is, with kOverflow and kWriteAfterFree of a block that is no cache's object.
  Arena* arena = nullptr;
  Cache* owner = nullptr;  ///< kWrongCache: whose object it is; may be destroyed meanwhile
  void* object = nullptr;  ///< the object's start; where there is none, the address as it was given
  std::size_t offset = 0;  ///< of the address or the first damaged byte from the object's start
  /// kOverflow of a block: the payload behind it, whose header was overwritten. kWriteAfterFree: the one behind the free block.
  void* neighbour = nullptr;
  std::size_t count = 0;           ///< kLeak: objects out; kTooLarge: bytes asked for
  std::uint32_t allocated_by = 0;  ///< stack (the observer's handle) that allocated the object last, 0: not known
  std::uint32_t freed_by = 0;      ///< stack that freed it last (QM_CHECKED)
  std::uint32_t found_by = 0;      ///< stack of the call that found it: in a checking build the wrong one itself
};

/// Called for each misuse, after it was counted. Context: as the free's or the allocation's, interrupts masked perhaps;
/// must not call the allocator.
using MisuseHandler = void (*)(const MisuseReport& report) noexcept;
/// Sets it, nullptr for none. A hart that is about to tell of a misuse may still call the one before. Context: any.
void set_misuse_handler(MisuseHandler handler) noexcept;

namespace internal {
/// What finds out more about a misuse and tells it. An image without a handler does not link it.
struct MisuseCalls {
  /// Fills in what is known of the object's stacks.
  void (*tell)(MisuseReport& report) noexcept;
  void (*refused)(Cache& cache, void* address, Standing standing) noexcept;  ///< counts it, too
};
extern constinit std::atomic<const MisuseCalls*> misuse_calls;
inline void tell_misuse(MisuseReport& report) noexcept {
  // acquire: pairs with the release in set_misuse_handler().
  if (const MisuseCalls* calls = misuse_calls.load(std::memory_order_acquire); calls != nullptr) calls->tell(report);
}
}  // namespace internal

}  // namespace qm
