/// Allocations of real programs, in comparison with other mallocs: the peak memory of each for the bytes that the
/// program has live, and the cost of an operation. One hart, the recorded order, all contents checked.
///
/// The heap's peak is the most that the base arena had allocated: the allocator's own structures, boundary tags, slabs,
/// magazines and idle memory; it starts anew for each recording. picolibc's peak is the memory from sbrk. A peer has a
/// fixed pool and no peak here: the bench `ram` finds the smallest pool of each.

#include <qm/arena.hpp>
#include <qm/bench/bench.hpp>
#include <qm/bench/path.hpp>
#include <qm/bench/peer_subject.hpp>
#include <qm/bench/subjects.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/heap.hpp>
#include <qm/bench/replayed.hpp>
#include <qm/replay/replay.hpp>
#include <qm/system.hpp>

namespace qm::bench {
namespace {

Distribution mallocs, frees, reallocs;

/// For a profile: the operations of a program by kind.
struct Paths {
  explicit Paths(std::string_view name) noexcept
      : malloc("malloc", name, Path::Rows::kNone),
        free("free", name, Path::Rows::kNone),
        realloc("realloc", name, Path::Rows::kNone) {}
  Path malloc, free, realloc;
};
Paths* paths = nullptr;

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

struct Heap {
  static constexpr std::string_view kName = "heap";
  static void* allocate(std::size_t size) noexcept { return heap::allocate(size); }
  static void* reallocate(void* block, std::size_t size) noexcept { return heap::reallocate(block, size); }
  static void free(void* block) noexcept { heap::free(block); }
  static void warm_up() noexcept {}
  static std::size_t peak_bytes(std::size_t tables) noexcept { return base_arena().stats().high_water - tables; }
};

struct Picolibc {
  static constexpr std::string_view kName = "picolibc";
  static void* allocate(std::size_t size) noexcept { return picolibc_malloc(size); }
  static void* reallocate(void* block, std::size_t size) noexcept { return picolibc_realloc(block, size); }
  static void free(void* block) noexcept { picolibc_free(block); }
  /// Allocates the memory for its sbrk beforehand, because the bench supplies it and not the malloc.
  static void warm_up() noexcept {
    picolibc_free(picolibc_malloc(1));
    picolibc_reset();
  }
  static std::size_t peak_bytes(std::size_t) noexcept { return picolibc_peak_bytes(); }
};

/// warm_up() sets up a peer's pool, after the memory of the replay itself is allocated.
template <class Peer>
struct PooledPeer : Peer {
  static void warm_up() noexcept {
    constexpr std::size_t kPoolBytes = std::size_t{32} << 20;
    const std::uintptr_t pool = base_arena().allocate(kPoolBytes);
    if (pool == 0 || !Peer::start(reinterpret_cast<void*>(pool), kPoolBytes)) firmware::panic("bench: no pool");
  }
};

/// Restarts the allocator with no allocations and no caches, over the largest memory range. The device tree lies in the
/// middle of the machine's memory; the part that it cuts off is smaller than a recording and its program need at their
/// peak.
void start_anew() {
  MemoryRange memory;
  for (const hal::MemoryRange& range : firmware::boot_info().memory) {
    if (range.bytes() > memory.size) memory = {range.low, range.bytes()};
  }
  picolibc_give_up_memory();
  shutdown();
  if (initialize({&memory, 1}, firmware::boot_info().hart_count) != Status::kOk) firmware::panic("bench: no memory");
  attach_hart(0);
}

/// The same for a profile.
template <class Allocator>
struct MarkedFace : CountedFace<Allocator> {
  static void* allocate(std::size_t size) noexcept {
    void* block = nullptr;
    paths->malloc.add(measure([&] { block = Allocator::allocate(size); }));
    return block;
  }
  static void* reallocate(void* block, std::size_t size) noexcept {
    void* moved = nullptr;
    paths->realloc.add(measure([&] { moved = Allocator::reallocate(block, size); }));
    return moved;
  }
  static void free(void* block) noexcept {
    paths->free.add(measure([&] { Allocator::free(block); }));
  }
};

template <class Allocator, class Face = CountedFace<Allocator>>
void replay_on(const replay::Recording& recording) {
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
  constexpr bool kHasPeak = requires { Allocator::peak_bytes(0); };
  std::size_t peak = 0;
  if constexpr (kHasPeak) peak = Allocator::peak_bytes(tables);
  const replay::Result result = replay.result();
  Row row(recording.name);
  row.text("allocator", Allocator::kName)
      .number("operations", result.operations)
      .number("peak live", result.peak_bytes);
  if (kHasPeak) row.number("peak heap", peak).mean("heap / live", peak, result.peak_bytes);
  row.mean("mean", mallocs.sum() + frees.sum() + reallocs.sum(), result.operations);
  row.mean("malloc mean", mallocs.sum(), mallocs.operations()).number("malloc max", mallocs.max());
  row.mean("free mean", frees.sum(), frees.operations()).number("free max", frees.max());
  if (reallocs.operations() != 0) {
    row.mean("realloc mean", reallocs.sum(), reallocs.operations()).number("realloc max", reallocs.max());
  }
  // Freeing the blocks that the program left live is not one of its operations, and no figure counts it.
  if (result.operations != header.operations || result.errors() + replay.free_rest() != 0)
    firmware::panic("bench: replay broke");
}

}  // namespace

void run() {
  for (const replay::Recording& recording : replayed()) {
    if (kOfPeers) {
      for_each_peer([&]<class Peer> { replay_on<PooledPeer<Peer>>(recording); });
      continue;
    }
    if (profiling()) {
      Paths of_program(recording.name);
      paths = &of_program;
      replay_on<Heap, MarkedFace<Heap>>(recording);
      continue;
    }
    replay_on<Heap>(recording);
    replay_on<Picolibc>(recording);
  }
  if (profiling()) print_paths();
}

}  // namespace qm::bench
