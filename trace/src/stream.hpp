#pragma once
/// The event stream's insides: what is told (inlined into books_record.cpp and traced_path.cpp) and the state of the
/// stream.

#include <qm/trace/event_ring.hpp>
#include <qm/trace/event_stream.hpp>

#include <qm/call_sites.hpp>
#include <qm/lock.hpp>

#include "books.hpp"

namespace qm::trace {

/// What one hart has counted of one source since the stream began.
struct StreamCounts {
  std::atomic<Word> allocations{0};
  std::atomic<Word> frees{0};
  std::atomic<Word> reallocations{0};
  std::atomic<Word> requested{0};
  std::atomic<Word> allocated{0};  ///< of an arena
  std::atomic<Word> freed{0};      ///< of an arena
  std::atomic<Word> moved_in{0};   ///< reallocations that came from elsewhere
  std::atomic<Word> moved_out{0};

  static void add(std::atomic<Word>& counter, Word value) noexcept {
    store_relaxed(counter, counter.load(std::memory_order_relaxed) + value);
  }
};

/// What the stream keeps of a source; its harts' counts lie behind it.
struct alignas(StreamCounts) SourceStream {
  std::uint32_t threshold = UINT32_MAX;  ///< of the sample, for a cache's objects
  std::uint32_t object_bytes = 0;        ///< of a cache; of an arena its quantum
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

/// One allocation or free, to be told.
struct Telling {
  std::uint32_t source = 0;  ///< number
  std::uint64_t address = 0;
  std::uint32_t stack_context = 0;
  std::size_t requested = 0;
  std::size_t allocated = 0;  ///< bytes of an arena's segment
  std::uint32_t site = 0;     ///< the number of the call site of who allocated, 0: none
  std::uint32_t flags = 0;    ///< wire::AllocationFlag
};

/// What there is to tell of an allocation. @param[in] stack_context of its record.
inline Telling telling_of(const Allocation& allocation, std::uint32_t source, const void* object,
                          std::uint32_t stack_context) noexcept {
  Telling telling{source, reinterpret_cast<std::uintptr_t>(object), stack_context, allocation.requested};
  if (allocation.arena != nullptr)
    telling.allocated = allocation.arena->size_of(reinterpret_cast<std::uintptr_t>(object));
  if constexpr (kCallSites) {
    const bool known = allocation.site != nullptr && allocation.site != &qm_untagged_site;
    telling.site = known ? call_sites::number_of(allocation.site) + 1 : 0;
  }
  const Effort kind = kind_of(allocation.effort);
  if (kind == Effort::kAtomic) telling.flags = wire::kAtomic;
  if (kind == Effort::kWait) telling.flags = wire::kWait;
  return telling;
}

class EventStream {
 public:
  constexpr EventStream() noexcept = default;

  /// Tell an operation of the running hart, and count it. Context: masked, kStream read in the same section.
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
  /// In place. @param[in] former bytes of the segment before.
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

  /// A reallocation that moved, as one operation, or as what is left of it where one half is not told. @param[in] from,
  /// to what the stream keeps of the two sources; nullptr: not told.
  void moved(SourceStream* from, const Telling& block, SourceStream* to, const Telling& new_block,
             unsigned hart) noexcept;
  /// Keeps the stack of an allocation that moved() will tell.
  void keep(unsigned hart, const Telling& telling) noexcept {
    moves[hart] = {telling.address, telling.stack_context, telling.site, 0};
  }
  /// Whether moved() has told the free of @p address that is under way; asked once.
  [[nodiscard]] bool was_moved(unsigned hart, std::uint64_t address) noexcept {
    if (moves[hart].freeing != address) return false;
    moves[hart].freeing = 0;
    return true;
  }

  /// Takes the memory of the rings and of what was defined, or none of it. @returns whether it could. Context: the
  /// token's holder, kOff.
  [[nodiscard]] bool take_memory() noexcept;
  /// Gives all of it back. Context: nobody tells and nobody reads.
  void give_memory() noexcept;

  /// As new, for a test that sets up again.
  void forget() noexcept;

  // State: the token's holder writes it, and the reader.
  std::atomic<StreamState> state{StreamState::kOff};
  StreamOptions options;
  char pattern[kNameBytes] = {};
  std::atomic<std::uint32_t> joining{0};   ///< new sources join: 1 while a stream is on
  std::atomic<std::uint32_t> unjoined{0};  ///< sources that could not be, for want of memory
  Lock lock;                               ///< of SourceBooks::stream; a leaf
  std::uint32_t seed = 0;
  std::uint16_t number = 0;
  bool from_boot = false;
  std::uint64_t start_ticks = 0, stop_ticks = 0;
  wire::StreamMode mode = wire::StreamMode::kFull;
  wire::StreamMode first_mode = wire::StreamMode::kFull;
  std::uint64_t boot = 0;
  std::size_t ring_bytes = kRingBytes;
  std::size_t taken_bytes = 0;  ///< of `memory`
  // Taken at a start, given back at the stream's end.
  void* memory = nullptr;  ///< of all rings
  std::uint32_t* defined_stacks = nullptr;
  std::uint32_t* defined_sites = nullptr;  ///< in a build with call sites
  std::uint32_t defined_contexts[(1U << kContextIdBits) / 32] = {};

  EventRing rings[hal::Port::kMaxHarts];
  /// What the reader has taken out.
  struct Taken {
    std::uint64_t numbers = 0;  ///< the hart's number of the next event
    std::uint64_t events = 0;
    std::uint64_t ticks = 0;
    std::uint32_t global_number = 0;
  };
  Taken taken[hal::Port::kMaxHarts];
  /// The reallocation under way on a hart: its new block, and while the old one is freed that.
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
  /// How an entry tells the allocated bytes: 0 if wire::segment_bytes() is right, kQuantumMore or kBytes.
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

/// What the stream keeps of @p one; nullptr if it never was in a stream.
[[nodiscard]] inline SourceStream* stream_of(const SourceBooks& one) noexcept {
  // acquire: pairs with the release of whoever made it.
  return one.stream.load(std::memory_order_acquire);
}

/// Makes @p source, new and with its name, part of the stream that is on, if it is to be. Context: of
/// Observer::created().
void join_stream(Traceable& source) noexcept;

}  // namespace qm::trace
