#pragma once
/// The narrow seam through which the books (layer trace/) see allocations. The allocator knows nothing else of tracing.
///
/// It is called from slow paths only. A cache whose state word says kWatch, kRecord or kStream has its cells closed, so
/// every allocation and free of it is a slow path; nothing on a fast path tests for an observer.
///
/// Invariants
/// - O1 record() runs after the object was taken and before the caller sees it; forget() before the object is released.
/// - O2 The state word is read in the same masked section in which record() or forget() runs.
/// - O3 Inside record() and forget() nothing is allocated: what they need was got by prepare(), with interrupts as the
///      caller had them and no lock held.
/// - O4 What a TracedPath does not do itself it leaves as it was for the slow half, which goes by O1 to O3.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/call_site.hpp>
#include <qm/effort.hpp>

namespace qm {

class Arena;
class Cache;
class Traceable;

/// The state word of a cache or an arena (traceable.hpp): what has to be slow and who is recorded. Changed by
/// compare-and-swap only. An arena has nothing that could be slow: each of its operations reads the word, and its flags
/// are a cache's so that the commands are the same.
namespace trace_state {
inline constexpr std::uint32_t kWatch = 128;  ///< frees look for a record: push is closed
inline constexpr std::uint32_t kStream =
    2;  ///< each allocation and free is told as an event, in the order in which they happen
inline constexpr std::uint32_t kRecord = 4;  ///< allocations are recorded
inline constexpr std::uint32_t kHold = 8;    ///< pop is closed as well
inline constexpr std::uint32_t kSettled =
    16;  ///< a stop has finished on every hart; with the last record the watch ends
inline constexpr std::uint32_t kFault =
    32;  ///< allocations are counted and some made to fail: pop is closed (fault.hpp)
inline constexpr std::uint32_t kStreamHold =
    64;  ///< pop and push are closed for the event stream, before its first event
/// Recorded, not told, and a record, which has the object's address / 8, goes with its object only: no sweep takes any.
/// Frees look at this alone. The sign, so that they find out by one branch.
inline constexpr std::uint32_t kOwned = std::uint32_t{1} << 31;
inline constexpr std::uint32_t kSampled = 256;  ///< with kRecord: not each allocation has a record
inline constexpr std::uint32_t kCounts = 512;   ///< with kRecord: no allocation has one, only counts are kept
static_assert((kRecord | kStream | kHold | kSettled | kFault | kStreamHold | kWatch | kSampled | kCounts) == 1022,
              "the flags overlap");
inline constexpr std::uint32_t kThin = kSampled | kCounts;
/// Any of these closes the pop.
inline constexpr std::uint32_t kClosesPop = kHold | kFault | kStreamHold;
/// Any of these makes the observer hear of an allocation, or of a free.
inline constexpr std::uint32_t kHearsAllocation = kRecord | kStream;
inline constexpr std::uint32_t kHearsFree = kWatch | kStream;
/// What belongs to others than the live trace (live_trace.hpp).
inline constexpr std::uint32_t kNotOfLiveTrace = kFault | kStream | kStreamHold;
}  // namespace trace_state

/// One allocation, as the seam describes it.
struct Allocation {
  Cache* cache = nullptr;          ///< the cache, or nullptr for an arena's segment
  Arena* arena = nullptr;          ///< the arena, or nullptr for a cache's object
  std::size_t requested = 0;       ///< bytes the user asked for
  const CallSite* site = nullptr;  ///< where in the source, if known
  std::uintptr_t frame = 0;        ///< frame pointer of an allocator function: the walk starts there
  Effort effort = Effort::kAuto;   ///< what the user allowed
};

class Observer {
 public:
  /// What prepare() found out for one allocation. The observer alone interprets it.
  struct Prepared {
    std::uint32_t stack = 0;   ///< handle of the stack, 0: none yet
    bool ready = false;        ///< prepare() has run
    std::uint32_t reason = 0;  ///< why something that record() needs cannot be had: it counts a drop
    std::uint32_t word = 0;    ///< the state word, read in the masked section that calls record() (O2)
  };

  /// Walks and stores the stack, and gets what record() said it lacks.
  /// @param[in] object the object, if it is in hand already (record() was called and said false), else nullptr.
  /// Context: any; interrupts as the caller has them, no lock held. May allocate from no-trace arenas.
  virtual void prepare(const Allocation& allocation, void* object, Prepared& prepared) noexcept = 0;

  /// Inserts the record, or counts a drop, and tells the event, as the state word says.
  /// @returns false when something is lacking: call prepare() with the object and then this again.
  /// Context: interrupts masked, on the hart that allocates.
  [[nodiscard]] virtual bool record(const Allocation& allocation, void* object, Prepared& prepared) noexcept = 0;

  /// Gives back what prepare() got and record() did not use.
  virtual void release(Prepared& prepared) noexcept = 0;

  /// Tells the event of a free, if the state word says so, and removes the record of the object or the segment, if it
  /// has one; with the last record of a settled source, ends the watch.
  /// Context: interrupts masked.
  virtual void forget(Cache& cache, void* object) noexcept = 0;
  virtual void forget(Arena& arena, std::uintptr_t start) noexcept = 0;
  /// The segment at @p start has grown or shrunk where it stands, from @p former bytes to @p requested: its record
  /// stays. Context: as forget().
  virtual void resized(Arena& arena, std::uintptr_t start, std::size_t requested, std::size_t former) noexcept = 0;

  /// The object stays with its user, who asked for another size of it: a reallocation in place. The record stays as
  /// well, with its stack and its age. Context: interrupts masked.
  virtual void resized(Cache& cache, void* object, std::size_t requested) noexcept {
    (void)cache;
    (void)object;
    (void)requested;
  }

  /// A reallocation has moved a block: the new one was allocated with Effort::kMoving, and the old one is freed by the
  /// caller at once, which is told no more. Tells one event. Context: interrupts masked until the old block is free.
  virtual void moved(Traceable& from, void* block, Traceable& to, void* new_block, std::size_t requested) noexcept {
    (void)from;
    (void)block;
    (void)to;
    (void)new_block;
    (void)requested;
  }

  // Segments of an arena whose state word is not 0. Defined here for all observers, so that an image without one has
  // none of it.

  /// Records a segment that was allocated, if the word says so.
  virtual void taken(Arena& arena, std::uintptr_t start, std::size_t requested, const CallSite* site,
                     Effort effort) noexcept;
  /// Removes the record of a segment that is about to be freed, unless @p size says that the free will be refused.
  /// @param[in] size the segment's size, or SIZE_MAX: whatever it is.
  virtual void going(Arena& arena, std::uintptr_t start, std::size_t size) noexcept;

  // For reports of misuse (misuse.hpp). An observer without stacks answers 0.

  /// Stores the call stack that begins at @p frame. @returns its handle. Context: any; takes no lock, allocates
  /// nothing.
  virtual std::uint32_t stack(std::uintptr_t frame) noexcept {
    (void)frame;
    return 0;
  }
  /// @returns the stack that allocated @p object, the one before if it is free; 0 if that was not recorded. Context:
  ///          any.
  virtual std::uint32_t allocating_stack(Cache& cache, void* object) noexcept {
    (void)cache;
    (void)object;
    return 0;
  }

  /// Takes back a slab's array of handles, when the slab goes back to its source.
  virtual void release_handles(std::uint32_t* handles, std::size_t count) noexcept = 0;

  /// A cache was made, and nobody has used it yet: its state word may be set at once, since its cells start closed.
  virtual void created(Cache& cache) noexcept = 0;
  /// An arena was made and has its name; whoever made it has not been told yet.
  virtual void created(Arena& arena) noexcept { (void)arena; }

  /// The cache or arena is about to go, and none of its objects is out: drops what is left of its books. May wait for a
  /// command that is under way. Context: of destroy(), hal::may_wait().
  virtual void destroyed(Cache& cache) noexcept = 0;
  virtual void destroyed(Arena& arena) noexcept = 0;

 protected:
  ~Observer() = default;
};

/// Makes the function that it is in keep a frame, whatever it is compiled with: from below, a walk then finds who has
/// called it.
[[gnu::always_inline]] inline void keep_frame() noexcept { asm volatile("" : : "r"(__builtin_frame_address(0))); }

/// Begins a function that ends in jumps to others, and calls none that walks over the stack. Its source is compiled with
/// -foptimize-sibling-calls and -fomit-frame-pointer (the CMakeLists.txt of its layer), so it has no frame and is in
/// no stack. Without optimisation there are no such jumps, nor under ThreadSanitizer: then it keeps its frame, and a walk
/// passes it as any other of the allocator's. So does the single-file form, which is compiled as one.
#if defined(__SANITIZE_THREAD__)
#define QM_THREAD_SANITIZER
#elif defined(__has_feature)  // Clang
#if __has_feature(thread_sanitizer)
#define QM_THREAD_SANITIZER
#endif
#endif
#if defined(__OPTIMIZE__) && !defined(QM_THREAD_SANITIZER)
#define QM_JUMPS() static_cast<void>(0)
#else
#define QM_JUMPS() ::qm::keep_frame()
#endif

/// The observer's way through an allocation or a free that it hears of: the whole operation in one function, if all it
/// needs is there; else it goes on with qm_cache_allocate_other() and qm_cache_free_other(). Jumped to, so that its own
/// frame's return address is the user's.
struct TracedPath {
  using Allocate = void* (*)(Cache* cache, const CallSite* site, std::size_t requested, Effort effort) noexcept;
  using Free = void (*)(Cache* cache, void* object) noexcept;
  Allocate allocate;        ///< of a cache that records, and nothing else
  Allocate allocate_mixed;  ///< of one that is sampled or counted, or told as a stream
  Free free;                ///< to one whose records go with their objects only
  Free free_watched;        ///< to another that watches
  Free free_told;           ///< to one that is told as a stream, and does not watch
};
/// Does nothing itself.
extern const TracedPath kNoTracedPath;

/// The observer, or nullptr. Set once, before the first cache is traced.
Observer* observer() noexcept;
void set_observer(Observer* observer, const TracedPath& path = kNoTracedPath) noexcept;

}  // namespace qm
