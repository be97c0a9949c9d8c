/// Allocations of real programs, in comparison with other mallocs: the peak memory of each for the bytes that the
/// program has live, and the cost of an operation. One hart, the recorded order, all contents checked.
///
/// The heap's peak is the most that the base arena had allocated: the allocator's own structures, boundary tags, slabs,
/// magazines and idle memory; it starts anew for each recording. picolibc's peak is the memory from sbrk. A peer has a
/// fixed pool and no peak here: the bench `ram` finds the smallest pool of each.

#include <qm/bench/path.hpp>
#include <qm/bench/peer_subject.hpp>
#include <qm/bench/replay_on.hpp>
#include <qm/bench/replayed.hpp>
#include <qm/bench/subjects.hpp>

namespace qm::bench {
namespace {

/// For a profile: the operations of a program by kind.
struct Paths {
  explicit Paths(std::string_view name) noexcept
      : malloc("malloc", name, Path::Rows::kNone),
        free("free", name, Path::Rows::kNone),
        realloc("realloc", name, Path::Rows::kNone) {}
  Path malloc, free, realloc;
};
Paths* paths = nullptr;

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

/// For a profile: each operation is one of a path.
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
void measure_on(const replay::Recording& recording) {
  picolibc_give_up_memory();
  replay_on<Allocator, Face>(recording, [&](const replay::Result& result, std::size_t tables) {
    constexpr bool kHasPeak = requires { Allocator::peak_bytes(0); };
    std::size_t peak = 0;
    if constexpr (kHasPeak) peak = Allocator::peak_bytes(tables);
    Row row(recording.name);
    row.text("allocator", Allocator::kName)
        .number("operations", result.operations)
        .number("peak live", result.peak_bytes);
    if (kHasPeak) row.number("peak heap", peak).mean("heap / live", peak, result.peak_bytes);
    put_counts(row, result.operations);
  });
}

}  // namespace

void run() {
  for (const replay::Recording& recording : replayed()) {
    if (kOfPeers) {
      for_each_peer([&]<class Peer> { measure_on<PooledPeer<Peer>>(recording); });
      continue;
    }
    if (profiling()) {
      Paths of_program(recording.name);
      paths = &of_program;
      measure_on<ReplayedHeap, MarkedFace<ReplayedHeap>>(recording);
      continue;
    }
    measure_on<ReplayedHeap>(recording);
    measure_on<Picolibc>(recording);
  }
  if (profiling()) print_paths();
}

}  // namespace qm::bench
