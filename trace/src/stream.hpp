#pragma once
/// The internals of the event stream: the functions that put events (inlined into tracer_record.cpp and traced_path.cpp)
/// and the state of the stream.

#include <qm/trace/event_ring.hpp>
#include <qm/trace/event_stream.hpp>

#include <qm/detail/call_sites.hpp>
#include <qm/detail/lock.hpp>

#include "tracer.hpp"

namespace qm::trace {

/// One hart's counts of one source since the stream began.
struct StreamCounts {
  std::atomic<Word> allocations{0};
  std::atomic<Word> frees{0};
  std::atomic<Word> reallocations{0};
  std::atomic<Word> requested{0};
  std::atomic<Word> allocated{0};  ///< for an arena
  std::atomic<Word> freed{0};      ///< for an arena
  std::atomic<Word> moved_in{0};   ///< reallocations that came from another source
  std::atomic<Word> moved_out{0};

  static void add(std::atomic<Word>& counter, Word value) noexcept {
    store_relaxed(counter, counter.load(std::memory_order_relaxed) + value);
  }
};

/// The stream's data on one source; its harts' counts follow it.
struct alignas(StreamCounts) SourceStream {
  std::uint32_t threshold = UINT32_MAX;  ///< sample threshold, for a cache's objects
  std::uint32_t object_bytes = 0;        ///< for a cache; an arena's quantum
  std::uint32_t allocated_bytes = 0;     ///< wire::Definition::allocated_bytes
  std::uint32_t outstanding = 0;
  wire::SourceKind kind = wire::SourceKind::kCache;
  bool defined = false;
  std::uint32_t parent = 0;  ///< wire::Definition::parent
  char name[kNameBytes] = {};

  [[nodiscard]] bool is_arena() const noexcept {
    return kind == wire::SourceKind::kArena || kind == wire::SourceKind::kHeapArena;
  }
  [[nodiscard]] StreamCounts* harts() noexcept { return reinterpret_cast<StreamCounts*>(this + 1); }
  static std::size_t bytes(unsigned harts) noexcept { return sizeof(SourceStream) + harts * sizeof(StreamCounts); }
};
static_assert(sizeof(SourceStream) % alignof(StreamCounts) == 0);

/// One allocation or free that becomes an event.
struct Telling {
  std::uint32_t source = 0;  ///< its number
  std::uint64_t address = 0;
  std::uint32_t stack_context = 0;
  std::size_t requested = 0;
  std::size_t allocated = 0;  ///< for an arena's segment, in bytes
  std::uint32_t site = 0;     ///< number of the call site of the allocation, 0: none
  std::uint32_t flags = 0;    ///< wire::AllocationFlag
};

/// The event data of an allocation. @param[in] stack_context that of its record.
inline Telling telling_of(const Allocation& allocation, std::uint32_t source, const void* object,
                          std::uint32_t stack_context) noexcept {
  Telling telling{source, reinterpret_cast<std::uintptr_t>(object), stack_context, allocation.requested};
  if (allocation.arena != nullptr)
    telling.allocated = allocation.arena->size_of(reinterpret_cast<std::uintptr_t>(object));
  if constexpr (kCallSites) {
    const bool known = allocation.site != nullptr && allocation.site != &qm_untagged_site;
    telling.site = known ? call_sites::number_of(allocation.site) + 1 : 0;
  }
  const WaitPolicy kind = kind_of(allocation.wait_policy);
  if (kind == WaitPolicy::kAtomic) telling.flags = wire::kAtomic;
  if (kind == WaitPolicy::kWait) telling.flags = wire::kWait;
  return telling;
}

class EventStream {
 public:
  constexpr EventStream() noexcept = default;

  /// Put an event of the running hart, and count it. Context: masked, after kStream was read in the same section.
  void allocated(SourceStream& of, unsigned hart, const Telling& telling) noexcept {
    if (is_small(of, telling.allocated)) return;
    StreamCounts& mine = of.harts()[hart];
    StreamCounts::add(mine.allocations, 1);
    StreamCounts::add(mine.requested, telling.requested);
    if (of.is_arena()) StreamCounts::add(mine.allocated, telling.allocated);
    put(of, hart, wire::Operation::kAllocate, telling);
  }
  void freed(SourceStream& of, unsigned hart, const Telling& telling) noexcept {
    if (is_small(of, telling.allocated)) return;
    StreamCounts& mine = of.harts()[hart];
    StreamCounts::add(mine.frees, 1);
    if (of.is_arena()) StreamCounts::add(mine.freed, telling.allocated);
    put(of, hart, wire::Operation::kFree, telling);
  }
  /// For a reallocation in place. @param[in] former the segment's size before, in bytes.
  void resized(SourceStream& of, unsigned hart, const Telling& telling, std::size_t former) noexcept {
    if (is_small(of, former) && is_small(of, telling.allocated)) return;
    StreamCounts& mine = of.harts()[hart];
    StreamCounts::add(mine.reallocations, 1);
    StreamCounts::add(mine.requested, telling.requested);
    if (of.is_arena()) {
      StreamCounts::add(mine.allocated, telling.allocated);
      StreamCounts::add(mine.freed, former);
    }
    put(of, hart, wire::Operation::kReallocate, telling);
  }

  /// For a reallocation that moved: one event, or an allocation or a free if the stream has only one of the two
  /// sources.
  /// @param[in] from, to the stream's data on the two sources; nullptr: not in the stream.
  void moved(SourceStream* from, const Telling& block, SourceStream* to, const Telling& new_block,
             unsigned hart) noexcept;
  /// Stores the stack of an allocation, for the call of moved() that follows.
  void keep(unsigned hart, const Telling& telling) noexcept {
    moves[hart] = {telling.address, telling.stack_context, telling.site, 0};
  }
  /// Whether moved() has put the event for the running free of @p address. A second call returns false.
  [[nodiscard]] bool was_moved(unsigned hart, std::uint64_t address) noexcept {
    if (moves[hart].freeing != address) return false;
    moves[hart].freeing = 0;
    return true;
  }

  /// Allocates the memory of the rings and of the marks for sent definitions, or nothing. @returns whether it
  /// succeeded. Context: the token holder, state kOff.
  [[nodiscard]] bool take_memory() noexcept;
  /// Frees all of it. Context: no hart puts events and the reader is not active.
  void give_memory() noexcept;

  /// Returns to the initial state, for a test that sets up again.
  void forget() noexcept;

  // State: written by the token holder and the reader.
  std::atomic<StreamState> state{StreamState::kOff};
  StreamOptions options;
  char pattern[kNameBytes] = {};
  std::atomic<std::uint32_t> joining{0};   ///< 1 while a stream is on: new sources join
  std::atomic<std::uint32_t> unjoined{0};  ///< sources that could not join, because memory was lacking
  Lock lock;                               ///< protects TracedSource::stream; a leaf
  std::uint32_t seed = 0;
  std::uint16_t number = 0;
  bool from_boot = false;
  std::uint64_t start_ticks = 0, stop_ticks = 0;
  wire::StreamMode mode = wire::StreamMode::kFull;
  wire::StreamMode first_mode = wire::StreamMode::kFull;
  std::uint64_t boot = 0;
  std::size_t ring_bytes = kRingBytes;
  std::size_t taken_bytes = 0;  ///< size of `memory`
  // Allocated at the start, freed at the end of the stream.
  void* memory = nullptr;  ///< for all rings
  std::uint32_t* defined_stacks = nullptr;
  std::uint32_t* defined_sites = nullptr;  ///< in a build with call sites
  std::uint32_t defined_contexts[(1U << kContextIdBits) / 32] = {};

  EventRing rings[hal::Port::kMaxHarts];
  /// Counts of the entries that the reader has taken.
  struct Taken {
    std::uint64_t numbers = 0;  ///< the hart's number of its next event
    std::uint64_t events = 0;
    std::uint64_t ticks = 0;
    std::uint32_t global_number = 0;
  };
  Taken taken[hal::Port::kMaxHarts];
  /// The reallocation that is running on a hart: its new block, and the old block while it is freed.
  struct Move {
    std::uint64_t address = 0;
    std::uint32_t stack_context = 0;
    std::uint32_t call_site = 0;
    std::uint64_t freeing = 0;
  };
  Move moves[hal::Port::kMaxHarts];
  std::atomic<std::uint32_t> numbers{0};

 private:
  static std::uint32_t narrow(std::size_t size) noexcept {
    return static_cast<std::uint32_t>(size < UINT32_MAX ? size : UINT32_MAX);
  }
  [[nodiscard]] bool is_small(const SourceStream& of, std::size_t bytes) const noexcept {
    return of.is_arena() && bytes < options.minimum_bytes;
  }
  /// How an entry expresses the allocated bytes: 0 if wire::segment_bytes() is right, otherwise kQuantumMore or kBytes.
  [[nodiscard]] static std::uint32_t bytes_told(const SourceStream& of, const Telling& telling) noexcept {
    const std::size_t more = telling.allocated - telling.requested;
    if (!of.is_arena() || more < of.object_bytes) return 0;
    return more - of.object_bytes < of.object_bytes ? RingEntry::kQuantumMore : RingEntry::kBytes;
  }
  [[gnu::always_inline]] void put(SourceStream& of, unsigned hart, wire::Operation operation,
                                  const Telling& telling) noexcept {
    EventRing& ring = rings[hart];
    if (ring.mode() != wire::StreamMode::kFull && is_left_out(ring, of, telling)) [[unlikely]]
      return;
    const std::uint32_t bytes = bytes_told(of, telling);
    ring.put(RingEntry::pack(telling.source, operation, telling.flags) | bytes, telling.address, telling.stack_context,
             narrow(telling.requested), bytes != RingEntry::kBytes ? telling.site : narrow(telling.allocated), numbers,
             static_cast<std::uint32_t>(hal::Port::ticks()));
  }
  [[nodiscard]] bool is_left_out(const EventRing& ring, const SourceStream& of, const Telling& telling) const noexcept;
};

extern constinit EventStream stream;

/// The stream's data on @p one; nullptr if it was never in a stream.
[[nodiscard]] inline SourceStream* stream_of(const TracedSource& one) noexcept {
  // acquire: pairs with the release in enroll().
  return one.stream.load(std::memory_order_acquire);
}

/// Makes the new @p source, which has its name, part of the running stream if the stream's options select it. Context:
/// Observer::created().
void join_stream(Traceable& source) noexcept;

}  // namespace qm::trace
