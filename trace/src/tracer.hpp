#pragma once
/// The trace itself: one object that is notified of allocations through qm::Observer, and the data that it keeps per
/// traced source. A source is a cache with its objects or an arena with its segments.
///
///     Traceable::traced_source -> TracedSource | figures of hart 0 | figures of hart 1 | ...   in `ktrace`, reused, never freed
///     Tracer::directory_ by Record::cache(), in parts -> the same TracedSource
///
/// When the first source is traced, the trace allocates the memory that every source needs: one page of `base` with up
/// to four harts, three pages with eight. It allocates all other memory when needed: chunks of records and their
/// directory, regions of stacks, parts of the context table and of the directory, handles.
///
/// Locks: directory_lock_ and the pools' locks are leaves. The command token is not a lock: its holder may wait for
/// harts.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/detail/observer.hpp>
#include <qm/trace/context_table.hpp>
#include <qm/trace/live_trace.hpp>
#include <qm/trace/record_table.hpp>
#include <qm/trace/sequence.hpp>
#include <qm/trace/stack_depot.hpp>
#include <qm/trace/unwind.hpp>

#include "key_walk.hpp"

namespace qm::trace {

/// One hart's counts of one source. Only that hart writes them, with interrupts masked; other harts read them for
/// reports.
struct Counts {
  std::atomic<Word> recorded{0};
  std::atomic<Word> left_out{0};
  std::atomic<Word> dropped[kDropReasons] = {};
  std::atomic<Word> truncated_stacks{0};
  std::atomic<Word> lost_stacks{0};
  std::atomic<Word> lost_contexts{0};

  /// Adds one to a counter of the running hart.
  static void add(std::atomic<Word>& counter) noexcept {
    store_relaxed(counter, counter.load(std::memory_order_relaxed) + 1);
  }
  void copy_from(const Counts& other) noexcept;
  /// Adds the counts since @p base.
  void add_to(Figures& figures, const Counts& base) const noexcept;
};

struct HartTrace {
  Counts now;                      ///< since the source's trace was created; wraps
  Counts base;                     ///< `now` at the last reset
  Counts pending;                  ///< `now` at the hart's visit of the reset that is running
  std::uint64_t dead_before = 0;   ///< records of this hart with a lower number are dead; token holder only
  std::uint64_t pending_dead = 0;  ///< written at the visit
  bool visited = false;            ///< the running reset has visited the hart
  /// Allocations to leave out before the next one of the sample. Written by its hart, masked, and by a start while the
  /// cache is off. prepare() reads it unmasked, when a start may write it.
  std::atomic<std::uint32_t> to_leave_out{0};
  std::uint32_t random = 1;  ///< xorshift state for the next interval; written as above
  Word unused[1] = {};       ///< pads the struct to 256 bytes with 64-bit words, so that a shift finds it
};
static_assert(sizeof(Word) == 4 || sizeof(HartTrace) == 256);

struct SourceStream;

struct alignas(HartTrace) TracedSource {
  std::atomic<Traceable*> source{nullptr};    ///< nullptr: free for another source
  std::uint16_t number = 0;                   ///< index in the directory; owner of stacks, cache of records
  std::uintptr_t base = 0;                    ///< a multiple of the unit; the lowest address of an object
  std::size_t unit = 1;                       ///< a record names an object by object / unit, modulo 2^32
  std::atomic<std::uint32_t> incarnation{0};  ///< +1 when the source is destroyed
  std::atomic<std::uint32_t> resets{0};
  std::atomic<Word> from_before_start{0};

  /// Numbers of Tracer::note_change(); no other source's trace has had the same numbers.
  std::atomic<std::uint32_t> adopted{0};  ///< the number from when this source adopted the trace
  std::atomic<std::uint32_t> changes{0};  ///< the number of the last change: adopted, started, stopped or reset
  std::atomic<bool> traced{false};        ///< started, or recorded from its creation on; a stream does not set it
  bool reported = false;                  ///< part of the running stack report; used by the report's holder only
  const Arena* own_of = nullptr;          ///< the same: the arena whose own slabs and spans do not count; only compared

  /// Keeping::every; 0: counts. The token holder changes it while no object has a record or a count.
  std::atomic<std::uint32_t> every{1};
  std::atomic<std::uint32_t> counted_bare{0};  ///< counted objects without a stack, because the depot was full
  std::size_t object_size = 0;                 ///< for a cache; 0: an arena, whose segments are whole units
  [[nodiscard]] std::uint64_t held_bytes(std::size_t requested) const noexcept {
    return object_size != 0 ? object_size : (std::uint64_t{requested} + unit - 1) / unit * unit;
  }
  [[nodiscard]] Keeping keeping() const noexcept {
    const std::uint32_t one_of = every.load(std::memory_order_relaxed);
    return one_of != 0 ? Keeping{one_of, false} : Keeping{1, true};
  }

  std::atomic<SourceStream*> stream{nullptr};   ///< stream.hpp; never freed
  std::atomic<std::uint32_t> stream_number{0};  ///< the last stream that it was in

  // Token holder only:
  TracedSource* next_selected = nullptr;
  bool selected = false;
  bool changing = false;       ///< the running command has changed the state word
  std::uint32_t previous = 0;  ///< the state word before that change

  [[nodiscard]] HartTrace* harts() noexcept { return reinterpret_cast<HartTrace*>(this + 1); }
  static std::size_t bytes(unsigned harts) noexcept { return sizeof(TracedSource) + harts * sizeof(HartTrace); }
};
static_assert(sizeof(TracedSource) % alignof(HartTrace) == 0);

/// The trace of a source; nullptr if it has none.
[[nodiscard]] inline TracedSource* traced_source(const Traceable& source) noexcept {
  // acquire: pairs with the release in Tracer::adopt_locked().
  return static_cast<TracedSource*>(source.traced_source.load(std::memory_order_acquire));
}

/// What the trace remembers of the context in which a hart recorded last. A key always stands for the same context, so
/// the data stored with it is right on every hart.
struct alignas(4 * sizeof(void*)) KnownContext {
  /// Not a valid key. A port returns 0 for contexts without a key, and those are not stored here.
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::atomic<std::uint32_t> key{kNone};  ///< the port's key. Written last, and cleared first
  std::uint32_t packed = 0;               ///< Record::pack() of the label's id, without a stack
  std::uintptr_t lowest = 0;              ///< bounds of frames that lie wholly in the context's stack
  std::uintptr_t highest = 0;

  [[nodiscard]] bool is(std::uint32_t wanted) const noexcept {
    return load_relaxed(key) == std::intptr_t{static_cast<std::int32_t>(wanted)};
  }
};

/// A known stack in a known context.
struct KnownStack {
  const StackEntry* entry = nullptr;  ///< nullptr: not known
  std::uintptr_t packed = 0;          ///< Record::stack_context, in the lower 32 bits
};

/// A table of recently found stacks, by their first return address and the frame it leads to. A look-up tries this
/// table first and compares the stack frame by frame, so a wrong entry costs only time.
class RecentStacks {
 public:
  using Place = std::atomic<StackHandle>;
  static constexpr unsigned kFirstLog2 = 5;  ///< log2 of the places, at first and when there are many stacks
  static constexpr unsigned kPlacesLog2 = PageMap::kPageBytes == 4096 ? 9 : kFirstLog2;
  static constexpr std::size_t kFirstBytes = sizeof(Place) << kFirstLog2;
  static constexpr std::size_t kBytes = sizeof(Place) << kPlacesLog2;
  static constexpr std::size_t kAlignment = 64;  ///< alignment of the table

  [[nodiscard]] Place& at(Link from) const noexcept {
    constexpr auto kFactor = static_cast<std::uintptr_t>(0x9E37'79B9'7F4A'7C15);
    const std::uintptr_t places = places_.load(kFollowed);
    return reinterpret_cast<Place*>(places & ~kShift)[(from.pc + from.frame) * kFactor >> (places & kShift)];
  }
  [[nodiscard]] bool may_grow() const noexcept {
    return kPlacesLog2 != kFirstLog2 && (places_.load(std::memory_order_relaxed) & kShift) == kWidth - kFirstLog2;
  }
  /// Starts again with the zeroed memory at @p places. The old table is not freed, since another hart may still use it.
  void initialize(void* places, unsigned log2) noexcept {
    // release: pairs with kFollowed above.
    places_.store(reinterpret_cast<std::uintptr_t>(places) | (kWidth - log2), std::memory_order_release);
  }

 private:
  static constexpr unsigned kWidth = std::numeric_limits<std::uintptr_t>::digits;
  static constexpr std::uintptr_t kShift = kWidth - 1;
  static_assert(kShift < kAlignment);
  std::atomic<std::uintptr_t> places_{0};  ///< the table's address, combined with the shift of the hash product
};

class Tracer final : public Observer {
 public:
  static constexpr unsigned kMaxPatterns = 8;
  /// Set in a handle if the object is free; the other bits are the stack_context of its former record.
  static constexpr std::uint32_t kFormer = Record::kMark;
  /// Owner of stacks that belong to no traced cache: those of misuse reports.
  static constexpr std::uint16_t kNoOwner = 0;

  constexpr Tracer() noexcept = default;
  Status initialize(const Config& config) noexcept;
  void shutdown() noexcept;
  [[nodiscard]] bool ready() const noexcept { return trace_cache_ != nullptr; }
  /// @returns kNoMemory, with nothing allocated. Context: the token holder, or before the first command.
  Status open() noexcept;

  void prepare(const Allocation& allocation, void* object, Prepared& prepared) noexcept override;
  [[nodiscard]] bool record(const Allocation& allocation, void* object, Prepared& prepared) noexcept override;
  /// The steps of the TracedPath. @returns nullptr or false if nothing was done.
  [[nodiscard]] void* insert_known(Cache& cache, TracedSource& one, std::size_t requested, KnownStack found) noexcept;
  /// Finds the running context and the stack that begins with @p from. @returns no entry if one of them is not known.
  [[nodiscard]] KnownStack find_lately(Link from) const noexcept;
  [[nodiscard]] KnownStack find_in_depot(Cache& cache, std::uintptr_t frame) noexcept;
  /// Make sure that there is a slot for a record and an object in the magazine, or room for both. @returns whether
  /// something was lacking and is there now.
  [[nodiscard]] bool supply(Cache& cache) noexcept;
  [[nodiscard]] bool make_room(Cache& cache) noexcept;
  [[nodiscard]] bool free_traced(Cache& cache, void* object) noexcept;
  [[nodiscard]] bool free_watched(Cache& cache, void* object) noexcept;
  [[nodiscard]] bool free_bare(Cache& cache, void* object) noexcept;
  /// The same for an object that is left out of the sample, for an object of a cache that keeps counts, and for a
  /// streamed one.
  [[nodiscard]] void* leave_out(Cache& cache) noexcept;
  [[nodiscard]] void* count_known(Cache& cache, TracedSource& one, KnownStack found) noexcept;
  [[nodiscard]] void* tell_known(const Allocation& allocation, const TracedSource& one, KnownStack found) noexcept;
  [[nodiscard]] bool free_shared(Cache& cache, void* object) noexcept;
  [[nodiscard]] bool free_told(Cache& cache, void* object) noexcept;
  void moved(Traceable& from, void* block, Traceable& to, void* new_block, std::size_t requested) noexcept override;
  void release(Prepared& prepared) noexcept override;
  void forget(Cache& cache, void* object) noexcept override;
  void forget(Arena& arena, std::uintptr_t start) noexcept override;
  void need_stacks() noexcept override;
  std::uint32_t stack(std::uintptr_t frame) noexcept override;
  std::uint32_t stack_of_allocation(std::uintptr_t frame) noexcept override;
  std::uint32_t allocating_stack(Cache& cache, void* object) noexcept override;
  void resized(Arena& arena, std::uintptr_t start, std::size_t requested, std::size_t former) noexcept override;
  void resized(Cache& cache, void* object, std::size_t requested) noexcept override;
  void release_handles(std::uint32_t* handles, std::size_t count) noexcept override;
  void created(Cache& cache) noexcept override;
  void created(Arena& arena) noexcept override;
  void destroyed(Cache& cache) noexcept override;
  void destroyed(Arena& arena) noexcept override;

  /// The source's trace, created if needed. @returns nullptr if there is no memory or no number left.
  /// Context: the token holder; any code once the trace is open.
  TracedSource* ensure_source(Traceable& source) noexcept;
  /// Ends the watching of a settled source that has no record left.
  static void end_watch_if_done(Traceable& source) noexcept;
  /// Frees the dead records, or all records, of the selected sources. Token holder only.
  enum class Sweep : std::uint8_t { kDead, kAll };
  void sweep(Sweep what) noexcept;
  /// Takes every counted object of a cache off its count. No hart counts objects of the cache meanwhile. Token holder
  /// only.
  /// @returns false if the pass over the slabs did not reach the end. Complexity: O(slabs), in short lock holds.
  [[nodiscard]] bool drop_counts(Cache& cache) noexcept;
  /// Keeps a pattern: sources that it matches are traced from their creation on. @returns kInvalid for an empty or
  /// overlong pattern, kNoMemory after kMaxPatterns.
  Status keep_pattern(std::string_view pattern) noexcept;
  /// Drops the patterns that are @p pattern or that it matches. @returns whether there was one.
  bool drop_patterns(std::string_view pattern) noexcept;
  /// Drops only @p pattern itself.
  void drop_pattern(std::string_view pattern) noexcept;
  [[nodiscard]] bool keeps(std::string_view pattern) noexcept;
  /// Whether a kept pattern matches @p name.
  [[nodiscard]] bool joins(const char* name) noexcept;

  /// The object that a record names.
  [[nodiscard]] std::uintptr_t object_of(const TracedSource& one, const Record& record) const noexcept;
  [[nodiscard]] std::uintptr_t pc_of(std::uint32_t offset) const noexcept {
    return ranges_.plain.low + static_cast<std::uintptr_t>(std::intptr_t{static_cast<std::int32_t>(offset)});
  }
  [[nodiscard]] std::uint64_t age_ticks(const Record& record) const noexcept;
  [[nodiscard]] TracedSource* source_numbered(std::uint32_t number) const noexcept {
    // acquire: pairs with the release in adopt_locked().
    const DirectoryEntry* part = directory_[number / kPartEntries].load(std::memory_order_acquire);
    return part != nullptr ? part[number % kPartEntries].load(std::memory_order_acquire) : nullptr;
  }
  /// Gives @p one a new change number. @returns it.
  std::uint32_t note_change(TracedSource& one) noexcept {
    const std::uint32_t number = changes_.fetch_add(1, std::memory_order_relaxed) + 1;
    one.changes.store(number, std::memory_order_relaxed);
    return number;
  }
  /// The first trace after @p number (0 to begin with) that belongs to a source; nullptr at the end. It includes a
  /// source that is hidden by a destroy that may still be refused. Context: the token holder, which keeps every source
  /// from being destroyed.
  [[nodiscard]] TracedSource* source_after(unsigned number) noexcept;
  /// Reads the source's state word and live records, if the source has not been destroyed.
  [[nodiscard]] bool look(const TracedSource& one, std::uint32_t& word, std::uint32_t& live) noexcept;
  [[nodiscard]] const Config& config() const noexcept { return config_; }
  [[nodiscard]] unsigned harts() const noexcept { return harts_; }
  [[nodiscard]] unsigned cache_limit() const noexcept { return cache_limit_; }

  RecordTable records;
  StackDepot stacks;
  ContextTable contexts;
  Sequence sequence;

  /// Allocates zeroed memory from `ktrace`, nullptr if there is none; and frees it.
  [[nodiscard]] void* take(std::size_t bytes, std::size_t alignment = 64) noexcept;
  [[nodiscard]] void* take_as_it_is(std::size_t bytes, std::size_t alignment) noexcept;  ///< not zeroed
  void give(void* piece, std::size_t bytes) noexcept;
  /// Returns the spans of `ktrace` that are wholly free to `base`.
  void give_idle() noexcept;

 private:
  using DirectoryEntry = std::atomic<TracedSource*>;
  using DirectoryPart = std::atomic<DirectoryEntry*>;
  static constexpr unsigned kPartEntries = 16;
  static constexpr std::size_t kPartBytes = kPartEntries * sizeof(DirectoryEntry);
  /// Memory that adopt_locked() may use; nullptr where there is none.
  struct Fresh {
    void* source = nullptr;
    void* part = nullptr;  ///< a part of the directory
    bool lacks_part = false;
  };
  [[nodiscard]] bool add_stacks() noexcept;
  [[nodiscard]] bool add_stacks(std::uint32_t region) noexcept;
  [[nodiscard]] bool add_contexts() noexcept;
  [[nodiscard]] bool add_record_directory() noexcept;
  template <class Drops>
  bool drop_patterns_if(Drops drops) noexcept;
  [[nodiscard]] bool insert_record(const Allocation& allocation, TracedSource& one, void* object,
                                   Prepared& prepared) noexcept;
  [[nodiscard]] bool count_object(const Allocation& allocation, TracedSource& one, void* object,
                                  Prepared& prepared) noexcept;
  void count_in(Traceable& source, TracedSource& one, HartTrace& mine, std::uint32_t& handle,
                StackHandle stack) noexcept;
  [[nodiscard]] bool count_off(TracedSource& one, std::uint32_t& handle) noexcept;
  static void note_losses(HartTrace& mine, const StackEntry* stack, std::uint32_t context) noexcept;
  [[nodiscard]] bool leaves_too_little() const noexcept;
  [[nodiscard]] StackHandle store_stack(std::uint16_t owner, std::uintptr_t frame, bool may_grow) noexcept;
  [[nodiscard]] std::uint32_t capture(const TracedSource& one, std::uintptr_t frame) noexcept;
  void add_records(Prepared& prepared) noexcept;
  void reserve_stacks() noexcept;
  void reserve_records() noexcept;
  [[nodiscard]] bool is_stack_of(const StackEntry& entry, Link from, const KnownContext& known) const noexcept;
  [[nodiscard]] bool is_still(const KnownContext& known, std::uint32_t key) const noexcept;
  void enter(Traceable& source, TracedSource& one, HartTrace& mine, std::size_t hart, std::uintptr_t slot,
             std::uint32_t& handle, RecordInRegisters& record) noexcept;
  /// The handle of an object in memory; nullptr if there is none, or if finding it takes more than a mask.
  [[nodiscard]] static std::uint32_t* held(const Cache& cache, const void* object, std::intptr_t& says) noexcept;
  [[nodiscard]] static std::uint32_t* plain_handle(const Cache& cache, const void* object) noexcept;
  /// The code of an object in memory that is known to be aligned. The code is in the lower 32 bits, like the result of
  /// coarse_time().
  static std::uintptr_t plain_code(const void* object) noexcept;
  /// Whether the code identifies the address: a freed address may lie inside an object.
  [[nodiscard]] static bool is_code_whole(const void* object) noexcept;
  /// encode() for such an object. @returns false if a record cannot express it.
  [[nodiscard]] bool plain_code(const void* object, std::uintptr_t& code) const noexcept;
  bool forget_at(Traceable& source, std::uint32_t* handle, const void* object) noexcept;
  bool forget_named(Traceable& source, TracedSource& one, std::uint32_t& handle, std::uint32_t code) noexcept;
  void tell_free(Cache& cache, unsigned hart, const void* object) noexcept;
  void resize_at(Traceable& source, std::uint32_t* handle, const void* object, std::size_t requested) noexcept;
  void add_handles(Cache& cache, void* object, Prepared& prepared) noexcept;
  [[nodiscard]] bool encode(const TracedSource& one, const void* object, std::uint32_t& code) const noexcept;
  TracedSource* adopt_locked(Traceable& source, Fresh& fresh) noexcept;
  void name_objects(TracedSource& one, Traceable& source) const noexcept;
  void join(Traceable& source) noexcept;
  void close_trace(Traceable& source) noexcept;
  [[nodiscard]] static bool count_out(Traceable& source) noexcept;
  [[nodiscard]] std::uint32_t current_context() const noexcept;
  [[nodiscard]] std::uintptr_t coarse_time() const noexcept;

  Config config_;
  Cache* trace_cache_ = nullptr;        ///< kmem_trace
  std::atomic<std::uint32_t> open_{0};  ///< 1: stacks and tables have their memory
  /// Bytes that stacks of allocations leave for those of frees and faults, which cannot allocate memory.
  std::atomic<std::uint32_t> stacks_left_{0};
  static constexpr std::uint32_t kStacksForFrees = 8 * StackEntry::bytes(kStackDepth);
  DirectoryPart* directory_ = nullptr;
  WalkRanges ranges_;  ///< frames are stored as distances from the start of `plain`
  KnownContext known_[hal::Port::kMaxHarts];
  RecentStacks recent_;
  unsigned cache_limit_ = 0;
  unsigned harts_ = 0;
  unsigned time_shift_ = 0;
  Lock directory_lock_;
  std::atomic<std::uint32_t> changes_{0};
  std::uint32_t pattern_count_ = 0;  ///< protected, like the patterns, by the directory's lock
  char patterns_[kMaxPatterns][kNameBytes] = {};
};

/// The functions for allocations and frees of traced caches.
extern const TracedPath kTracedPath;

/// The one instance of the trace.
extern constinit Tracer tracer;

/// Held by the one command that changes state words. The constructor waits for the holder; the hart serves broadcasts
/// meanwhile.
class CommandToken {
 public:
  /// @param[in] deadline_ms 0: no deadline.
  explicit CommandToken(std::uint32_t deadline_ms, hal::AbortTest abort = nullptr) noexcept;
  ~CommandToken();
  CommandToken(const CommandToken&) = delete;
  CommandToken& operator=(const CommandToken&) = delete;
  [[nodiscard]] Status status() const noexcept { return status_; }

 private:
  Status status_ = Status::kOk;
};

}  // namespace qm::trace
