#pragma once
/// The books themselves: one object that sees allocations through qm::Observer, and what it keeps per traced source. A
/// source is a cache with its objects or an arena with its segments.
///
///     Traceable::books -> SourceBooks | figures of hart 0 | figures of hart 1 | ...   in `ktrace`, reused, never given back
///     Books::directory_[Record::cache()] -> the same SourceBooks
///
/// Locks: directory_lock_ and the pools' locks are leaves. The command token is no lock: its holder may wait for harts.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/observer.hpp>
#include <qm/trace/context_table.hpp>
#include <qm/trace/live_trace.hpp>
#include <qm/trace/record_table.hpp>
#include <qm/trace/sequence.hpp>
#include <qm/trace/stack_depot.hpp>
#include <qm/trace/unwind.hpp>

#include "key_walk.hpp"

namespace qm::trace {

/// What one hart has counted of one source. Written by that hart, masked; read by others for reports.
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
  /// Adds what was counted since @p base.
  void add_to(Figures& figures, const Counts& base) const noexcept;
};

struct HartBooks {
  Counts now;                      ///< since the source's books were made; wraps
  Counts base;                     ///< `now` at the last reset
  Counts pending;                  ///< `now` at the hart's visit of a reset that is under way
  std::uint64_t dead_before = 0;   ///< records of this hart with a lower number are dead; token holder only
  std::uint64_t pending_dead = 0;  ///< written at the visit
  bool visited = false;            ///< the hart was visited by the reset under way
  /// Allocations before the next one of the sample; written by that hart, masked, and while the cache is off.
  /// prepare(), where a start may come in between, looks without.
  std::atomic<std::uint32_t> to_leave_out{0};
  std::uint32_t random = 1;  ///< xorshift, for the one after; as above
  Word unused[1] = {};       ///< with 64-bit words a power of two of bytes: found by a shift
};
static_assert(sizeof(Word) == 4 || sizeof(HartBooks) == 256);

struct SourceStream;

struct alignas(HartBooks) SourceBooks {
  std::atomic<Traceable*> source{nullptr};    ///< nullptr: free for another source
  std::uint16_t number = 0;                   ///< index in the directory; owner of stacks, cache of records
  std::uintptr_t base = 0;                    ///< a multiple of the unit, from which on objects lie
  std::size_t unit = 1;                       ///< a record names an object by object / unit, modulo 2^32
  std::atomic<std::uint32_t> incarnation{0};  ///< +1 when the source is destroyed
  std::atomic<std::uint32_t> resets{0};
  std::atomic<Word> from_before_start{0};

  /// Of Books::note_change(), whose numbers no other books have had.
  std::atomic<std::uint32_t> adopted{0};  ///< the number that they began with for their source
  std::atomic<std::uint32_t> changes{0};  ///< the last one: it was adopted, started, stopped or reset
  std::atomic<bool> traced{false};        ///< it was started, or recorded from its creation on; not: only told
  bool reported = false;                  ///< part of the stack report under way; its holder only
  const Arena* own_of = nullptr;          ///< the same: whose slabs and spans do not count; compared, never followed

  /// Of Keeping; 0: counts. Changed by the token holder while nothing is out.
  std::atomic<std::uint32_t> every{1};
  std::atomic<std::uint32_t> counted_bare{0};  ///< objects that are counted and have no stack: the depot was full
  std::size_t object_size = 0;                 ///< of a cache; 0: an arena's segments are whole units
  [[nodiscard]] std::uint64_t held_bytes(std::size_t requested) const noexcept {
    return object_size != 0 ? object_size : (std::uint64_t{requested} + unit - 1) / unit * unit;
  }
  [[nodiscard]] Keeping keeping() const noexcept {
    const std::uint32_t one_of = every.load(std::memory_order_relaxed);
    return one_of != 0 ? Keeping{one_of, false} : Keeping{1, true};
  }

  std::atomic<SourceStream*> stream{nullptr};   ///< stream.hpp; never given back
  std::atomic<std::uint32_t> stream_number{0};  ///< the last stream it was in

  // Token holder only:
  SourceBooks* next_selected = nullptr;
  bool selected = false;
  bool changing = false;       ///< the command under way has changed the state word
  std::uint32_t previous = 0;  ///< the state word before that

  [[nodiscard]] HartBooks* harts() noexcept { return reinterpret_cast<HartBooks*>(this + 1); }
  static std::size_t bytes(unsigned harts) noexcept { return sizeof(SourceBooks) + harts * sizeof(HartBooks); }
};
static_assert(sizeof(SourceBooks) % alignof(HartBooks) == 0);

/// The books of a source; nullptr: it has none.
[[nodiscard]] inline SourceBooks* books_at(const Traceable& source) noexcept {
  // acquire: pairs with the release in Books::adopt_locked().
  return static_cast<SourceBooks*>(source.books.load(std::memory_order_acquire));
}

/// What the books remember of the context that a hart last recorded in. A key names a context for ever, so what goes
/// with it is right wherever it is found.
struct alignas(4 * sizeof(void*)) KnownContext {
  /// Not a key: the port has none for what it does not know, and that is not kept here.
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::atomic<std::uint32_t> key{kNone};  ///< of the port. Written last, and cleared first
  std::uint32_t packed = 0;               ///< Record::pack() of the label's id without a stack
  std::uintptr_t lowest = 0;              ///< frames that lie wholly in its stack
  std::uintptr_t highest = 0;

  [[nodiscard]] bool is(std::uint32_t wanted) const noexcept {
    return load_relaxed(key) == std::intptr_t{static_cast<std::int32_t>(wanted)};
  }
};

/// A stack that is known in a context that is known.
struct KnownStack {
  const StackEntry* entry = nullptr;  ///< nullptr: nothing is known
  std::uintptr_t packed = 0;          ///< Record::stack_context in its lower 32 bits
};

/// Which stacks were found lately, by their first return address and the frame it leads to: a place to look first. What
/// is found there is compared with the stack frame by frame, so a wrong one costs time and nothing else.
class RecentStacks {
 public:
  static constexpr unsigned kPlacesLog2 = PageMap::kPageBytes == 4096 ? 9 : 5;
  static constexpr unsigned kPlaces = 1U << kPlacesLog2;
  [[nodiscard]] std::atomic<StackHandle>& at(Link from) const noexcept {
    constexpr auto kFactor = static_cast<std::uintptr_t>(0x9E37'79B9'7F4A'7C15);
    constexpr unsigned kShift = std::numeric_limits<std::uintptr_t>::digits - kPlacesLog2;
    return places_[(from.pc + from.frame) * kFactor >> kShift];
  }
  void initialize(std::atomic<StackHandle>* places) noexcept { places_ = places; }

 private:
  std::atomic<StackHandle>* places_ = nullptr;
};

class Books final : public Observer {
 public:
  static constexpr unsigned kMaxPatterns = 8;
  /// In a handle: the object is free, and the rest is the stack_context of the record it had.
  static constexpr std::uint32_t kFormer = Record::kMark;
  /// Owner of stacks that belong to no traced cache: those of reports of misuse.
  static constexpr std::uint16_t kNoOwner = 0;

  constexpr Books() noexcept = default;
  Status initialize(const Config& config) noexcept;
  void shutdown() noexcept;
  [[nodiscard]] bool ready() const noexcept { return trace_cache_ != nullptr; }
  /// @returns kNoMemory, and nothing is kept. Context: the holder of the token, or before there is a command.
  Status open() noexcept;

  void prepare(const Allocation& allocation, void* object, Prepared& prepared) noexcept override;
  [[nodiscard]] bool record(const Allocation& allocation, void* object, Prepared& prepared) noexcept override;
  /// The TracedPath. @returns nullptr, false: nothing was done.
  [[nodiscard]] void* insert_known(Cache& cache, SourceBooks& one, std::size_t requested, KnownStack found) noexcept;
  /// Finds the running context and the stack that begins with @p from. @returns nothing if one of the two is not known.
  [[nodiscard]] KnownStack find_lately(Link from) const noexcept;
  [[nodiscard]] KnownStack find_in_depot(Cache& cache, std::uintptr_t frame) noexcept;
  /// See to it that there is a slot for a record and a round, or room for both. @returns whether there is, and was not.
  [[nodiscard]] bool supply(Cache& cache) noexcept;
  [[nodiscard]] bool make_room(Cache& cache) noexcept;
  [[nodiscard]] bool free_traced(Cache& cache, void* object) noexcept;
  [[nodiscard]] bool free_watched(Cache& cache, void* object) noexcept;
  [[nodiscard]] bool free_bare(Cache& cache, void* object) noexcept;
  /// The same for an object that the sample leaves out, for one of a cache that keeps counts, and for one that is told.
  [[nodiscard]] void* leave_out(Cache& cache) noexcept;
  [[nodiscard]] void* count_known(Cache& cache, SourceBooks& one, KnownStack found) noexcept;
  [[nodiscard]] void* tell_known(const Allocation& allocation, const SourceBooks& one, KnownStack found) noexcept;
  [[nodiscard]] bool free_shared(Cache& cache, void* object) noexcept;
  [[nodiscard]] bool free_told(Cache& cache, void* object) noexcept;
  void moved(Traceable& from, void* block, Traceable& to, void* new_block, std::size_t requested) noexcept override;
  void release(Prepared& prepared) noexcept override;
  void forget(Cache& cache, void* object) noexcept override;
  void forget(Arena& arena, std::uintptr_t start) noexcept override;
  std::uint32_t stack(std::uintptr_t frame) noexcept override;
  std::uint32_t allocating_stack(Cache& cache, void* object) noexcept override;
  void resized(Arena& arena, std::uintptr_t start, std::size_t requested, std::size_t former) noexcept override;
  void resized(Cache& cache, void* object, std::size_t requested) noexcept override;
  void release_handles(std::uint32_t* handles, std::size_t count) noexcept override;
  void created(Cache& cache) noexcept override;
  void created(Arena& arena) noexcept override;
  void destroyed(Cache& cache) noexcept override;
  void destroyed(Arena& arena) noexcept override;

  /// The source's books, made if need be. @returns nullptr if there is no memory or no number left.
  /// Context: the holder of the token; anybody once the books are open.
  SourceBooks* books_of(Traceable& source) noexcept;
  /// Ends the watch of a settled source without records.
  static void end_watch_if_done(Traceable& source) noexcept;
  /// Frees every dead record, or every one, of the selected sources. Token holder only.
  enum class Sweep : std::uint8_t { kDead, kAll };
  void sweep(Sweep what) noexcept;
  /// Counts every object of a cache off that its handle says is counted. No hart counts any meanwhile. Token holder
  /// only.
  /// @returns false if the pass over the slabs has not come to its end. Complexity: O(slabs), in short lock holds.
  [[nodiscard]] bool drop_counts(Cache& cache) noexcept;
  /// Keeps a pattern: what it names is traced from its creation on. @returns kInvalid for an empty or overlong one,
  /// kNoMemory after kMaxPatterns.
  Status keep_pattern(std::string_view pattern) noexcept;
  /// Drops the patterns that are @p pattern or that it matches. @returns whether there was one.
  bool drop_patterns(std::string_view pattern) noexcept;
  /// Drops @p pattern, and none that it matches.
  void drop_pattern(std::string_view pattern) noexcept;
  [[nodiscard]] bool keeps(std::string_view pattern) noexcept;
  /// Whether a kept pattern names @p name.
  [[nodiscard]] bool joins(const char* name) noexcept;

  /// The object that a record names.
  [[nodiscard]] std::uintptr_t object_of(const SourceBooks& one, const Record& record) const noexcept;
  [[nodiscard]] std::uintptr_t pc_of(std::uint32_t offset) const noexcept {
    return ranges_.plain.low + static_cast<std::uintptr_t>(std::intptr_t{static_cast<std::int32_t>(offset)});
  }
  [[nodiscard]] std::uint64_t age_ticks(const Record& record) const noexcept;
  [[nodiscard]] SourceBooks* books_numbered(std::uint32_t number) const noexcept {
    return directory_[number].load(std::memory_order_acquire);
  }
  /// Gives @p one another number of changes. @returns it.
  std::uint32_t note_change(SourceBooks& one) noexcept {
    const std::uint32_t number = changes_.fetch_add(1, std::memory_order_relaxed) + 1;
    one.changes.store(number, std::memory_order_relaxed);
    return number;
  }
  /// The first books behind @p number, 0 to begin with, that are of a source, be it hidden by a destroy that may still
  /// be refused; nullptr at the end. Context: the token's holder, for whom each source stays.
  [[nodiscard]] SourceBooks* books_after(unsigned number) noexcept;
  /// The source's state word and live records, if it has not been destroyed.
  [[nodiscard]] bool look(const SourceBooks& one, std::uint32_t& word, std::uint32_t& live) noexcept;
  [[nodiscard]] const Config& config() const noexcept { return config_; }
  [[nodiscard]] unsigned harts() const noexcept { return harts_; }
  [[nodiscard]] unsigned cache_limit() const noexcept { return cache_limit_; }

  RecordTable records;
  StackDepot stacks;
  ContextTable contexts;
  Sequence sequence;

  /// Memory of `ktrace`, zeroed; nullptr if there is none. And back.
  [[nodiscard]] void* take(std::size_t bytes, std::size_t alignment = 64) noexcept;
  void give(void* piece, std::size_t bytes) noexcept;
  /// Hands what is free of `ktrace` as a whole span on to `base`.
  void give_idle() noexcept;

 private:
  template <class Drops>
  bool drop_patterns_if(Drops drops) noexcept;
  [[nodiscard]] bool insert_record(const Allocation& allocation, SourceBooks& one, void* object,
                                   Prepared& prepared) noexcept;
  [[nodiscard]] bool count_object(const Allocation& allocation, SourceBooks& one, void* object,
                                  Prepared& prepared) noexcept;
  void count_in(Traceable& source, SourceBooks& one, HartBooks& mine, std::uint32_t& handle,
                StackHandle stack) noexcept;
  [[nodiscard]] bool count_off(SourceBooks& one, std::uint32_t& handle) noexcept;
  static void note_losses(HartBooks& mine, const StackEntry* stack, std::uint32_t context) noexcept;
  [[nodiscard]] StackHandle store_stack(std::uint16_t owner, std::uintptr_t frame) noexcept;
  [[nodiscard]] std::uint32_t capture(const SourceBooks& one, std::uintptr_t frame) noexcept;
  void add_records(Prepared& prepared) noexcept;
  void reserve_records() noexcept;
  [[nodiscard]] bool is_stack_of(const StackEntry& entry, Link from, const KnownContext& known) const noexcept;
  [[nodiscard]] bool is_still(const KnownContext& known, std::uint32_t key) const noexcept;
  void enter(Traceable& source, SourceBooks& one, HartBooks& mine, std::size_t hart, std::uintptr_t slot,
             std::uint32_t& handle, RecordInRegisters& record) noexcept;
  /// The handle of an object of memory; nullptr also where finding it takes more than a mask.
  [[nodiscard]] static std::uint32_t* held(const Cache& cache, const void* object, std::intptr_t& says) noexcept;
  [[nodiscard]] static std::uint32_t* plain_handle(const Cache& cache, const void* object) noexcept;
  /// The code of an object of memory, whose alignment nobody doubts, in the lower 32 bits; so is coarse_time().
  static std::uintptr_t plain_code(const void* object) noexcept;
  /// Whether that code says it all: what is freed may be no object, but lie in one.
  [[nodiscard]] static bool is_code_whole(const void* object) noexcept;
  /// encode() for such an object. @returns false if a record cannot name it.
  [[nodiscard]] bool plain_code(const void* object, std::uintptr_t& code) const noexcept;
  bool forget_at(Traceable& source, std::uint32_t* handle, const void* object) noexcept;
  bool forget_named(Traceable& source, SourceBooks& one, std::uint32_t& handle, std::uint32_t code) noexcept;
  void tell_free(Cache& cache, unsigned hart, const void* object) noexcept;
  void resize_at(Traceable& source, std::uint32_t* handle, const void* object, std::size_t requested) noexcept;
  void add_handles(Cache& cache, void* object, Prepared& prepared) noexcept;
  [[nodiscard]] bool encode(const SourceBooks& one, const void* object, std::uint32_t& code) const noexcept;
  SourceBooks* adopt_locked(Traceable& source, void*& fresh) noexcept;
  void name_objects(SourceBooks& one, Traceable& source) const noexcept;
  void join(Traceable& source) noexcept;
  void close_books(Traceable& source) noexcept;
  [[nodiscard]] static bool count_out(Traceable& source) noexcept;
  [[nodiscard]] std::uint32_t current_context() const noexcept;
  [[nodiscard]] std::uintptr_t coarse_time() const noexcept;

  Config config_;
  Cache* trace_cache_ = nullptr;        ///< kmem_trace
  std::atomic<std::uint32_t> open_{0};  ///< 1: stacks and tables have their memory
  std::atomic<SourceBooks*>* directory_ = nullptr;
  WalkRanges ranges_;  ///< frames are kept as distances from the plain text's begin
  KnownContext known_[hal::Port::kMaxHarts];
  RecentStacks recent_;
  unsigned cache_limit_ = 0;
  unsigned harts_ = 0;
  unsigned time_shift_ = 0;
  Lock directory_lock_;
  std::atomic<std::uint32_t> changes_{0};
  std::uint32_t pattern_count_ = 0;  ///< this and the patterns: under the directory's lock
  char patterns_[kMaxPatterns][kNameBytes] = {};
};

/// What allocations and frees of traced caches go through.
extern const TracedPath kTracedPath;

/// The one instance.
extern constinit Books books;

/// Held by the one command that changes state words. Waits for the holder, serving rounds meanwhile.
class CommandToken {
 public:
  /// @param[in] deadline_ms 0: none.
  explicit CommandToken(std::uint32_t deadline_ms, hal::AbortTest abort = nullptr) noexcept;
  ~CommandToken();
  CommandToken(const CommandToken&) = delete;
  CommandToken& operator=(const CommandToken&) = delete;
  [[nodiscard]] Status status() const noexcept { return status_; }

 private:
  Status status_ = Status::kOk;
};

}  // namespace qm::trace
