#pragma once
/// Replays a recorded program on an allocator that starts anew, and counts the instructions of each operation. One
/// hart, the recorded order, all contents checked.
///
///     struct Heap {
///       static void* allocate(std::size_t size) noexcept; ...reallocate(block, size), free(block)
///       static void warm_up() noexcept;  // after the start, before the memory of the replay itself is allocated
///     };
///     replay_on<Heap>(recording, [](const replay::Result& result, std::size_t tables) { Row(...); });
///
/// The last argument is called after the last operation, with the result and the bytes of the replay's own memory.

#include <qm/arena.hpp>
#include <qm/bench/bench.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/heap.hpp>
#include <qm/replay/replay.hpp>
#include <qm/system.hpp>

namespace qm::bench {

/// Of the latest replay.
inline constinit Distribution mallocs, frees, reallocs;
/// Adds the columns for them.
inline void put_counts(Row& row, std::size_t operations) noexcept {
  row.mean("mean", mallocs.sum() + frees.sum() + reallocs.sum(), operations);
  row.mean("malloc mean", mallocs.sum(), mallocs.operations()).number("malloc max", mallocs.max());
  row.mean("free mean", frees.sum(), frees.operations()).number("free max", frees.max());
  if (reallocs.operations() != 0) {
    row.mean("realloc mean", reallocs.sum(), reallocs.operations()).number("realloc max", reallocs.max());
  }
}

/// The parts that all allocators share: counts, and no waits, since one worker does everything in order.
template <class Allocator>
struct CountedFace {
  static void* allocate(std::size_t size) noexcept {
    void* block = nullptr;
    mallocs.add(count([&] { block = Allocator::allocate(size); }));
    return block;
  }
  static void* reallocate(void* block, std::size_t size) noexcept {
    void* moved = nullptr;
    reallocs.add(count([&] { moved = Allocator::reallocate(block, size); }));
    return moved;
  }
  static void free(void* block) noexcept {
    frees.add(count([&] { Allocator::free(block); }));
  }
  template <class Ready>
  static void wait(const Ready&) noexcept {
    firmware::panic("bench: an operation waits for itself");
  }
  static void wake(std::uint32_t) noexcept {}
};

/// The heap, as most benches replay it.
struct ReplayedHeap {
  static constexpr std::string_view kName = "heap";
  static void* allocate(std::size_t size) noexcept { return heap::allocate(size); }
  static void* reallocate(void* block, std::size_t size) noexcept { return heap::reallocate(block, size); }
  static void free(void* block) noexcept { heap::free(block); }
  static void warm_up() noexcept {}
  static std::size_t peak_bytes(std::size_t tables) noexcept { return base_arena().stats().high_water - tables; }
};

/// The device tree lies in the middle of the machine's memory. The part that it cuts off is smaller than a recording and
/// its program need at their peak.
inline void find_largest_range(MemoryRange& largest) {
  for (const hal::MemoryRange& range : firmware::boot_info().memory) {
    if (range.bytes() > largest.size) largest = {range.low, range.bytes()};
  }
}

/// Restarts the allocator with no allocations and no caches, over the largest memory range.
inline void start_anew() {
  MemoryRange memory;
  find_largest_range(memory);
  shutdown();
  if (initialize({&memory, 1}, firmware::boot_info().hart_count) != Status::kOk) firmware::panic("bench: no memory");
  attach_hart(0);
}

template <class Allocator, class Face = CountedFace<Allocator>, class Show>
void replay_on(const replay::Recording& recording, Show show) {
  using Replay = replay::Replay<Face>;
  start_anew();
  Allocator::warm_up();
  mallocs = {};
  frees = {};
  reallocs = {};
  replay::Header header;
  if (!replay::read_header(recording.file, header)) firmware::panic("bench: not a recording");
  const std::uintptr_t unpacked = base_arena().allocate(replay::unpack_bytes(header));
  const std::uintptr_t slots = base_arena().allocate(Replay::slots_bytes(header));
  const std::size_t tables = base_arena().size_of(unpacked) + base_arena().size_of(slots);
  const auto operations = replay::unpack(recording.file, reinterpret_cast<void*>(unpacked));
  Replay replay(header, operations, reinterpret_cast<void*>(slots));
  replay.work(0, 1, [] { return true; });
  const replay::Result result = replay.result();
  show(result, tables);
  // Freeing the blocks that the program left live is not one of its operations, and no figure counts it.
  if (result.operations != header.operations || result.errors() + replay.free_rest() != 0)
    firmware::panic("bench: replay broke");
}

}  // namespace qm::bench
