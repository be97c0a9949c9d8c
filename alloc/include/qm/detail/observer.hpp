#pragma once
/// The interface through which the allocator calls the trace (layer trace/). The allocator knows tracing through this
/// interface only.
///
/// It is called from slow paths only. If a cache's state word says kRecord or kStream, its per-hart caches are closed;
/// with kWatch alone they are watching. So every allocation and free that the observer must see takes the slow path,
/// and the fast path has no test for an observer.
///
/// Invariants
/// - O1 record() runs after the object was taken and before the caller sees it; forget() runs before the object is
///      released.
/// - O2 The state word is read in the same masked section in which record() or forget() runs.
/// - O3 record() and forget() allocate nothing: prepare() acquires what they need, with interrupts as the caller had
///      them and no lock held.
/// - O4 If a TracedPath cannot complete an operation, it changes nothing and leaves the operation to the slow half,
///      which follows O1 to O3.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/call_site.hpp>
#include <qm/wait_policy.hpp>

namespace qm {

class Arena;
class Cache;
class Traceable;

/// The state word of a cache or an arena (traceable.hpp): which operations take the slow path and which are recorded.
/// Changed by compare-and-swap only. An arena has no fast path to close: each of its operations reads the word. It uses
/// the same flags as a cache so that the commands are the same.
namespace trace_state {
inline constexpr std::uint32_t kWatch = 128;  ///< frees look for a record: push is closed
inline constexpr std::uint32_t kStream =
    2;  ///< each allocation and free is sent as an event, in the order in which they happen
inline constexpr std::uint32_t kRecord = 4;  ///< allocations are recorded
inline constexpr std::uint32_t kHold = 8;    ///< pop is closed as well
inline constexpr std::uint32_t kSettled =
    16;  ///< a stop has finished on every hart; the watch ends with the last record
inline constexpr std::uint32_t kFault =
    32;  ///< allocations are counted and some are made to fail: pop is closed (fault.hpp)
inline constexpr std::uint32_t kStreamHold =
    64;  ///< pop and push are closed for the event stream, before its first event
/// Recorded, not sent as events, and without quarantine; only the free of an object removes its record, which holds the
/// object's address / 8: no sweep removes records. Frees test this flag only. It is the sign bit, so that one branch
/// tests it.
inline constexpr std::uint32_t kOwned = std::uint32_t{1} << 31;
inline constexpr std::uint32_t kSampled = 256;  ///< with kRecord: not each allocation has a record
inline constexpr std::uint32_t kCounts = 512;   ///< with kRecord: no allocation has one, only counts are kept
inline constexpr std::uint32_t kQuarantine =
    1024;  ///< push is closed: freed objects wait before they are used again (quarantine.hpp), or are looked for
           ///< among the guarded ones
/// Allocations on the slow path may be sampled (guards.hpp). A per-hart cache may be open.
inline constexpr std::uint32_t kGuard = 1;
/// With kQuarantine: push is closed for the guards too, so set_quarantine(0) leaves that flag.
inline constexpr std::uint32_t kGuardsFrees = 4096;
static_assert((kRecord | kStream | kHold | kSettled | kFault | kStreamHold | kWatch | kSampled | kCounts | kQuarantine |
               kGuard | kGuardsFrees) == 2047 + 4096,
              "the flags overlap");
inline constexpr std::uint32_t kThin = kSampled | kCounts;
/// A slow allocation may be sampled iff kGuard alone of these is set: a trace and a fault see each allocation.
inline constexpr std::uint32_t kAboutSamples = kGuard | kFault | kRecord | kStream;
/// Any of these closes the pop.
inline constexpr std::uint32_t kClosesPop = kHold | kFault | kStreamHold;
/// Either closes the push.
inline constexpr std::uint32_t kClosesPush = kWatch | kQuarantine;
/// Any of these makes an allocation, or a free, call the observer.
inline constexpr std::uint32_t kHearsAllocation = kRecord | kStream;
inline constexpr std::uint32_t kHearsFree = kWatch | kStream;
/// Flags that do not belong to the live trace (live_trace.hpp).
inline constexpr std::uint32_t kNotOfLiveTrace = kFault | kStream | kStreamHold | kQuarantine | kGuard | kGuardsFrees;
}  // namespace trace_state

/// One allocation, as the observer gets it.
struct Allocation {
  Cache* cache = nullptr;          ///< the cache, or nullptr for an arena's segment
  Arena* arena = nullptr;          ///< the arena, or nullptr for a cache's object
  std::size_t requested = 0;       ///< bytes the user asked for
  const CallSite* site = nullptr;  ///< the call site, if known
  std::uintptr_t frame = 0;        ///< frame pointer of an allocator function, at which the stack walk starts
  WaitPolicy wait_policy = WaitPolicy::kAuto;  ///< the wait policy
};

class Observer {
 public:
  /// Results of prepare() for one allocation. Only the observer interprets them.
  struct Prepared {
    std::uint32_t stack = 0;   ///< handle of the stack, 0: none yet
    bool ready = false;        ///< prepare() has run
    std::uint32_t reason = 0;  ///< why something that record() needs is not available: it counts a drop
    std::uint32_t word = 0;    ///< the state word, read in the masked section that calls record() (O2)
  };

  /// Walks and stores the stack, and acquires what record() needs.
  /// @param[in] object the object, if record() was called for it and returned false, else nullptr.
  /// Context: any; interrupts as the caller has them, no lock held. May allocate from no-trace arenas.
  virtual void prepare(const Allocation& allocation, void* object, Prepared& prepared) noexcept = 0;

  /// Inserts the record or counts a drop, and sends the event, as the state word says.
  /// @returns false if something is lacking: call prepare() with the object and then this function again.
  /// Context: interrupts masked, on the hart that allocates.
  [[nodiscard]] virtual bool record(const Allocation& allocation, void* object, Prepared& prepared) noexcept = 0;

  /// Releases what prepare() acquired and record() did not use.
  virtual void release(Prepared& prepared) noexcept = 0;

  /// Sends the event of a free, if the state word says so, and removes the record of the object or the segment, if
  /// there is one; ends the watch with the last record of a settled source.
  /// Context: interrupts masked.
  virtual void forget(Cache& cache, void* object) noexcept = 0;
  virtual void forget(Arena& arena, std::uintptr_t start) noexcept = 0;
  /// Called after the segment at @p start has grown or shrunk in place, from @p former bytes to @p requested: its
  /// record stays. Context: as forget().
  virtual void resized(Arena& arena, std::uintptr_t start, std::size_t requested, std::size_t former) noexcept = 0;

  /// Called after a reallocation in place: the object stays with its user, who requested another size. The record stays
  /// as well, with its stack and its age. Context: interrupts masked.
  virtual void resized(Cache& cache, void* object, std::size_t requested) noexcept {
    (void)cache;
    (void)object;
    (void)requested;
  }

  /// Called after a reallocation has moved a block. The new block was allocated with WaitPolicy::kMoving; the caller
  /// frees the old one at once, without another event. Sends one event. Context: interrupts masked until the old block
  /// is free.
  virtual void moved(Traceable& from, void* block, Traceable& to, void* new_block, std::size_t requested) noexcept {
    (void)from;
    (void)block;
    (void)to;
    (void)new_block;
    (void)requested;
  }

  // Segments of an arena whose state word is not 0. Defined once for all observers, so that an image without an
  // observer does not contain the code.

  /// Records an allocated segment, if the word says so.
  virtual void taken(Arena& arena, std::uintptr_t start, std::size_t requested, const CallSite* site,
                     WaitPolicy wait_policy) noexcept;
  /// Removes the record of a segment that is about to be freed, unless @p size shows that the free will be refused.
  /// @param[in] size the segment's size, or SIZE_MAX for any size.
  virtual void going(Arena& arena, std::uintptr_t start, std::size_t size) noexcept;

  // For reports of misuse (misuse.hpp). An observer without stacks returns 0.

  /// Allocates the memory for stacks, if it is not there yet and there is memory. Context: hal::may_ask_harts().
  virtual void need_stacks() noexcept {}

  /// Stores the call stack that begins at @p frame. @returns its handle. Context: any; takes no lock, allocates
  /// nothing.
  virtual std::uint32_t stack(std::uintptr_t frame) noexcept {
    (void)frame;
    return 0;
  }
  /// The same for an allocation: it allocates memory for stacks if little is left. Context: any; no lock held.
  virtual std::uint32_t stack_of_allocation(std::uintptr_t frame) noexcept { return stack(frame); }
  /// @returns the stack of the last allocation of @p object, also if the object is free by now; 0 if it was not
  ///          recorded.
  ///          Context: any.
  virtual std::uint32_t allocating_stack(Cache& cache, void* object) noexcept {
    (void)cache;
    (void)object;
    return 0;
  }

  /// Frees a slab's array of handles, when the slab returns to its source.
  virtual void release_handles(std::uint32_t* handles, std::size_t count) noexcept = 0;

  /// Called after a cache was created, before its first use: its state word may be set at once, since its per-hart
  /// caches start closed.
  virtual void created(Cache& cache) noexcept = 0;
  /// Called after an arena was created and has its name, before its creator gets it.
  virtual void created(Arena& arena) noexcept { (void)arena; }

  /// Called before a cache or an arena is destroyed, when none of its objects is in use: drops the rest of its trace.
  /// May wait for a command that is under way. Context: of destroy(), hal::may_wait().
  virtual void destroyed(Cache& cache) noexcept = 0;
  virtual void destroyed(Arena& arena) noexcept = 0;

 protected:
  ~Observer() = default;
};

/// Makes the enclosing function keep a frame, whatever its compiler flags: a stack walk that starts below it then finds
/// its caller.
[[gnu::always_inline]] inline void keep_frame() noexcept { asm volatile("" : : "r"(__builtin_frame_address(0))); }

/// Marks a function that ends in jumps to other functions, and calls none that walks the stack. Its source is compiled
/// with -foptimize-sibling-calls and -fomit-frame-pointer (the CMakeLists.txt of its layer), so it has no frame and
/// appears in no stack. Without optimisation and under ThreadSanitizer there are no such jumps; then the function keeps
/// its frame, and a walk skips it as any other function of the allocator. The same holds for the single-file form,
/// which is compiled as one source.
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

/// The observer's functions for an allocation or a free that it must see. Each does the whole operation if all it needs
/// is ready; else it continues with qm_cache_allocate_other() or qm_cache_free_other(). They are jumped to, so the
/// return address in their own frame is the user's.
struct TracedPath {
  using Allocate = void* (*)(Cache* cache, const CallSite* site, std::size_t requested,
                             WaitPolicy wait_policy) noexcept;
  using Free = void (*)(Cache* cache, void* object) noexcept;
  Allocate allocate;        ///< of a cache that only records
  Allocate allocate_mixed;  ///< of a cache that is sampled or counted, or has an event stream
  Free free;                ///< to a cache whose records are removed by frees only
  Free free_watched;        ///< to another cache that watches
  Free free_told;           ///< to a cache that has an event stream and does not watch
};
/// Completes no operation.
extern const TracedPath kNoTracedPath;

/// The path in use. Build with magazines.
TracedPath& current_traced_path() noexcept;

/// The observer, or nullptr. Set once, before the first cache is traced.
Observer* observer() noexcept;
void set_observer(Observer* observer, const TracedPath& path = kNoTracedPath) noexcept;

}  // namespace qm
