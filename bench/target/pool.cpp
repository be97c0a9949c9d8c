/// Programs in as little memory as another malloc needs, on one hart, with blocks aligned to a word as the other's: the
/// cost of an operation when memory is short. All contents are checked.
///
/// The heap's pool is all memory that the allocator has. A program must run to its end in it. With magazines it is
/// 1.02 times picolibc's peak, the memory that picolibc had from sbrk; without them, for smaller memories, 1.03 times
/// TLSF's smallest pool.

#include <qm/bench/peers.hpp>
#include <qm/bench/program.hpp>
#include <qm/bench/replay_on.hpp>
#include <qm/bench/run_in_pool.hpp>
#include <qm/bench/smallest_pool.hpp>
#include <qm/bench/subjects.hpp>
#include <qm/cache.hpp>

namespace qm::bench {
namespace {

struct PooledHeap : ReplayedHeap {
  static bool start(void* memory, std::size_t bytes) noexcept {
    const MemoryRange pool{reinterpret_cast<std::uintptr_t>(memory), bytes};
    shutdown();
    const bool is_up = initialize({&pool, 1}, firmware::boot_info().hart_count) == Status::kOk;
    if (is_up) attach_hart(0);
    return is_up;
  }
};

struct PooledPicolibc {
  static constexpr std::string_view kName = "picolibc";
  static bool start(void* memory, std::size_t) noexcept {
    picolibc_start(memory);
    return true;
  }
  static void* allocate(std::size_t size) noexcept { return picolibc_malloc(size); }
  static void* reallocate(void* block, std::size_t size) noexcept { return picolibc_realloc(block, size); }
  static void free(void* block) noexcept { picolibc_free(block); }
};

template <class Allocator>
struct Counted : CountedFace<Allocator> {
  static bool start(void* memory, std::size_t bytes) noexcept {
    mallocs = frees = reallocs = {};
    return Allocator::start(memory, bytes);
  }
};

/// A program, and the memory for pools, which always lie at the same address.
class Subject {
 public:
  explicit Subject(const replay::Recording& recording) noexcept : name_(recording.name) {
    find_largest_range(memory_);
    replay::Header header;
    if (!replay::read_header(recording.file, header)) firmware::panic("bench: not a recording");
    void* const unpacked = take(replay::unpack_bytes(header));
    slots_ = take(header.slots * sizeof(replay::Slot));
    script_ = {replay::unpack(recording.file, unpacked), header.slots, header.peak_bytes};
    if (script_.operations.empty()) firmware::panic("bench: a damaged recording");
  }

  /// @returns whether the program ran to its end.
  template <class Allocator>
  bool runs_in(std::size_t pool_bytes) noexcept {
    if (pool_bytes > memory_.size) firmware::panic("bench: too little memory");
    const Ending ending =
        run_in_pool<Counted<Allocator>>(script_, slots_, reinterpret_cast<void*>(memory_.start), pool_bytes);
    if (ending == Ending::kDamaged) firmware::panic("bench: a block is damaged");
    return ending == Ending::kThrough;
  }

  /// Runs the program on the peer in its memory, then on the heap in @p percent of that.
  template <class Peer>
  void compare(std::size_t peer_bytes, unsigned percent) noexcept {
    measure<Peer>(Peer::kName, peer_bytes);
    measure<PooledHeap>(Peer::kName, peer_bytes * percent / 100);
  }

  [[nodiscard]] std::size_t peak_live() const noexcept { return script_.peak_bytes; }

 private:
  template <class Allocator>
  void measure(std::string_view peer, std::size_t pool_bytes) noexcept {
    if (!runs_in<Allocator>(pool_bytes)) firmware::panic("bench: out of memory");
    Row row(name_);
    row.text("pool of", peer).text("allocator", Allocator::kName);
    row.number("operations", script_.operations.size()).number("peak live", script_.peak_bytes);
    row.number("pool", pool_bytes).mean("pool / live", pool_bytes, script_.peak_bytes);
    put_counts(row, script_.operations.size());
  }

  void* take(std::size_t bytes) noexcept {
    constexpr std::size_t kAlignment = 4096;
    const std::size_t taken = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (taken > memory_.size) firmware::panic("bench: too little memory");
    void* const memory = reinterpret_cast<void*>(memory_.start);
    memory_ = {memory_.start + taken, memory_.size - taken};
    return memory;
  }

  std::string_view name_;
  MemoryRange memory_;
  Script script_;
  void* slots_ = nullptr;
};

void compare_with_picolibc(const replay::Recording& recording) noexcept {
  Subject subject(recording);
  if (!subject.runs_in<PooledPicolibc>(kPicolibcPoolBytes)) firmware::panic("bench: out of memory");
  subject.compare<PooledPicolibc>(picolibc_peak_bytes(), 102);
}

template <class Peer>
void compare_with(const replay::Recording& recording) noexcept {
  Subject subject(recording);
  const std::size_t bytes =
      smallest_pool(subject.peak_live(), [&](std::size_t most) { return subject.runs_in<Peer>(most); });
  subject.compare<Peer>(bytes, 103);
}

}  // namespace

void run() {
  if constexpr (kMagazines) {
    for (const replay::Recording& recording : replay::recordings()) compare_with_picolibc(recording);
  } else if constexpr (Tlsf::kGiven) {
    for (const Program& program : programs()) compare_with<Tlsf>(program.recording);
  }
}

}  // namespace qm::bench
