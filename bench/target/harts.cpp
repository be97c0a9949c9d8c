/// The cost that harts cause one another: hot pairs on each hart and on all, and objects that one hart allocates and
/// the next one frees.

#include <array>

#include <qm/bench/bench.hpp>
#include <qm/bench/harts.hpp>
#include <qm/bench/subjects.hpp>
#include <qm/firmware/boot.hpp>

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

}  // namespace

void run() {
  all<CacheSubject>();
  all<HeapSubject>();
  one_at_a_time<PicolibcSubject>();
  one_at_a_time<FreeListSubject>();
}

}  // namespace qm::bench
