/// Real programs' allocations, beside other mallocs: how much memory each takes at its peak for what the program
/// has live, and what an operation costs. One hart, the recorded order, all contents checked.
///
/// The heap's peak is everything the base arena had handed out: the allocator's own structures, boundary tags, slabs,
/// magazines and idle memory; it starts anew for each recording. picolibc's is what it had from sbrk. A peer has a pool, and no peak here: the bench `ram` has the
/// smallest pool of each.

#include <qm/arena.hpp>
#include <qm/bench/bench.hpp>
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

/// What is common to both: counts, and no waits, since one worker does everything in order.
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
  /// Its sbrk's memory is had beforehand: that is the bench's affair.
  static void warm_up() noexcept {
    picolibc_free(picolibc_malloc(1));
    picolibc_reset();
  }
  static std::size_t peak_bytes(std::size_t) noexcept { return picolibc_peak_bytes(); }
};

/// A peer's pool is set up in warm_up(), after what replays.
template <class Peer>
struct PooledPeer : Peer {
  static void warm_up() noexcept {
    constexpr std::size_t kPoolBytes = std::size_t{32} << 20;
    const std::uintptr_t pool = base_arena().allocate(kPoolBytes);
    if (pool == 0 || !Peer::start(reinterpret_cast<void*>(pool), kPoolBytes)) firmware::panic("bench: no pool");
  }
};

/// Sets the allocator up anew, with nothing taken and no caches, over the largest range of memory: the device tree lies
/// in the midst of the machine's, and what it cuts off is less than a recording and its program have at their peak.
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

template <class Allocator>
void replay_on(const replay::Recording& recording) {
  using Replay = replay::Replay<CountedFace<Allocator>>;
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
  // Frees of what the program never freed are not its operations, and are counted in no figure.
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
    replay_on<Heap>(recording);
    replay_on<Picolibc>(recording);
  }
}

}  // namespace qm::bench
