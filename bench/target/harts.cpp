/// The cost that harts cause one another: hot pairs on each hart and on all, objects that one hart allocates and the
/// next one frees, and blocks of the heap, for which all harts take the same lock.

#include <array>

#include <qm/arena.hpp>
#include <qm/bench/bench.hpp>
#include <qm/bench/harts.hpp>
#include <qm/bench/path.hpp>
#include <qm/bench/subjects.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/heap.hpp>
#include <qm/system.hpp>

namespace qm::bench {
namespace {

constexpr std::size_t kSize = 64;
constexpr unsigned kMaxHarts = 8;

template <class Subject>
void pairs(Subject& subject, unsigned count) noexcept {
  for (unsigned left = count; left != 0; --left) subject.free(subject.allocate(kSize));
}

/// Runs on each hart in turn while the others sleep. All harts must have the same cost.
template <class Subject>
void in_turn() {
  constexpr unsigned kPairs = 1000;
  Subject subject(kSize);
  unsigned long least = ~0UL, most = 0;
  for (unsigned hart = 0; hart < harts(); ++hart) {
    on_harts(hart, hart, [&](unsigned) {
      pairs(subject, 2);
      const unsigned long cost = count([&] { pairs(subject, kPairs); });
      if (cost < least) least = cost;
      if (cost > most) most = cost;
    });
  }
  Row("pair, hot, one hart after the other")
      .text("allocator", Subject::kName)
      .number("harts", harts())
      .mean("least", least, kPairs)
      .mean("most", most, kPairs);
}

/// Instructions of all harts together for each pair, without the cost of waking them.
template <class Subject>
void at_once() {
  constexpr unsigned kPairs = 20'000;
  Subject subject(kSize);
  const auto work = [&](unsigned pairs_each) {
    return count([&] { on_harts(0, harts() - 1, [&](unsigned) { pairs(subject, pairs_each); }); });
  };
  work(2);
  const unsigned long wake = work(0);
  const unsigned long cost = work(kPairs);
  Row("pair, hot, all harts at once")
      .text("allocator", Subject::kName)
      .number("harts", harts())
      .mean("pair", cost > wake ? cost - wake : 0, static_cast<std::uint64_t>(kPairs) * harts());
}

/// Hart h frees, in batches, the objects that hart h - 1 allocated: every magazine goes through the depot.
template <class Subject>
void ping_pong() {
  constexpr std::size_t kBatch = 256;
  constexpr unsigned kRounds = 20;
  if (harts() == 1) return;
  Subject subject(kSize);
  static std::array<std::array<void*, kBatch>, kMaxHarts> batches;
  static Distribution mallocs, frees;
  mallocs = {};
  frees = {};
  auto allocate = [&](unsigned hart) {
    for (void*& slot : batches[hart]) {
      void* object = nullptr;
      mallocs.add(count([&] { object = subject.allocate(kSize); }));
      slot = object;
    }
  };
  auto free = [&](unsigned hart) {
    for (void* object : batches[(hart + harts() - 1) % harts()]) frees.add(count([&] { subject.free(object); }));
  };
  for (unsigned round = 0; round < kRounds + 2; ++round) {
    if (round == 2) mallocs = frees = {};  // slabs and magazines exist now
    for (unsigned hart = 0; hart < harts(); ++hart) on_harts(hart, hart, allocate);
    for (unsigned hart = 0; hart < harts(); ++hart) on_harts(hart, hart, free);
  }
  Row("allocated here, freed on the next hart")
      .text("allocator", Subject::kName)
      .number("harts", harts())
      .distribution("malloc", mallocs)
      .distribution("free", frees);
}

template <class Subject>
void all() {
  in_turn<Subject>();
  at_once<Subject>();
  ping_pong<Subject>();
}

/// For subjects without locks: never two harts at once.
template <class Subject>
void one_at_a_time() {
  in_turn<Subject>();
  ping_pong<Subject>();
}

/// Blocks of a range of sizes: each hart frees one of its own and allocates another.
class Blocks {
 public:
  Blocks(std::size_t least, std::size_t most) noexcept : least_(least), sizes_(most - least + 1) { blocks_ = {}; }
  ~Blocks() {
    for (auto& own : blocks_) {
      for (void* block : own) heap::free(block);
    }
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  void replace(unsigned hart, unsigned operations) noexcept {
    for (; operations != 0; --operations) {
      void*& block = blocks_[hart][random_[hart].below(kLive)];
      heap::free(block);
      block = heap::allocate(least_ + random_[hart].below(sizes_));
      if (block == nullptr) firmware::panic("bench: no memory");
    }
  }

 private:
  static constexpr std::size_t kLive = 8;
  static inline std::array<std::array<void*, kLive>, kMaxHarts> blocks_;
  static inline std::array<Random, kMaxHarts> random_;
  std::size_t least_;
  std::size_t sizes_;
};

/// One hart after the other, then all at once. `bench/run harts` adds the longest section with interrupts masked.
void shared_lock(std::string_view name, std::size_t least, std::size_t most) {
  constexpr unsigned kPairs = 2000;
  Blocks blocks(least, most);
  Path path(name, "heap", Path::Rows::kNone);
  for (unsigned hart = 0; hart < harts(); ++hart) on_harts(hart, hart, [&](unsigned) { blocks.replace(hart, 100); });
  unsigned long alone = 0;
  for (unsigned hart = 0; hart < harts(); ++hart) {
    on_harts(hart, hart, [&](unsigned) { alone += measure([&] { blocks.replace(hart, kPairs); }); });
  }
  const auto work = [&](unsigned pairs_each) {
    auto replace = [&](unsigned hart) { static_cast<void>(measure([&] { blocks.replace(hart, pairs_each); })); };
    return count([&] { on_harts(0, harts() - 1, replace); });
  };
  const unsigned long wake = work(0);
  const unsigned long together = work(kPairs);
  path.add(together);
  Row(name)
      .text("allocator", "heap")
      .number("harts", harts())
      .mean("alone", alone, std::uint64_t{kPairs} * harts())
      .mean("at once", together > wake ? together - wake : 0, std::uint64_t{kPairs} * harts());
}

/// So little memory that no size class has a cache: all harts take blocks from one arena.
void start_small() {
  constexpr std::size_t kBytes = std::size_t{160} << 10;
  const MemoryRange memory{base_arena().allocate(kBytes), kBytes};
  shutdown();
  if (initialize({&memory, 1}, harts()) != Status::kOk) firmware::panic("bench: the allocator does not start");
  for (unsigned hart = 0; hart < harts(); ++hart) {
    on_harts(hart, hart, [](unsigned own) { static_cast<void>(attach_hart(own)); });
  }
}

}  // namespace

void run() {
  all<CacheSubject>();
  all<HeapSubject>();
  one_at_a_time<PicolibcSubject>();
  one_at_a_time<FreeListSubject>();
  shared_lock("blocks above the classes, 1100 to 4096 bytes", 1100, 4096);
  start_small();
  shared_lock("blocks of classes without a cache, 16 to 512 bytes", 16, 512);
}

}  // namespace qm::bench
