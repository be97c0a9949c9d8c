/// The cost of guarded samples: of the recorded programs with about one allocation of the heap in 1000 sampled, beside
/// the same with the guards linked and never started, and with them started and nothing selected; and of one sample by
/// itself. One hart. Two benches: `guards`, in an image without the trace, and `guards_traced`, in which a sample also
/// has the stacks of its allocation and its free, and blocks outside of size classes are sampled too.

#include <array>

#include <qm/bench/path.hpp>
#include <qm/bench/replay_on.hpp>
#include <qm/bench/replayed.hpp>
#include <qm/bench/trace_link.hpp>
#include <qm/guards.hpp>

namespace qm::bench {
namespace {

constexpr std::uint32_t kEvery = 1000;
constexpr std::size_t kSize = 64;

void start_guards(std::uint32_t every) noexcept {
  if (guards::start({.every = every}) != Status::kOk) firmware::panic("bench: no guards");
  if (!guards::stats().traps) firmware::panic("bench: the memory does not trap");
}

void select_heap() noexcept {
  if (guards::select_heap() != Status::kOk) firmware::panic("bench: the heap is not selected");
}

enum class State : std::uint8_t { kOff, kStarted, kSampled };

template <State kState>
struct GuardedHeap : ReplayedHeap {
  static void warm_up() noexcept {
    open_trace();
    if (kState != State::kOff) start_guards(kEvery);
    if (kState == State::kSampled) select_heap();
  }
};

// Of the latest replay.
std::uint32_t operations;
guards::Stats stats;

/// @returns the instructions of all operations.
template <State kState>
std::uint64_t replay_in(const replay::Recording& recording) {
  std::uint64_t sum = 0;
  replay_on<GuardedHeap<kState>>(recording, [&](const replay::Result& result, std::size_t) {
    sum = mallocs.sum() + frees.sum() + reallocs.sum();
    operations = result.operations;
    stats = guards::stats();
  });
  close_trace();
  return sum;
}

void show(const replay::Recording& recording, std::uint64_t off) {
  const std::uint64_t started = replay_in<State::kStarted>(recording);
  const std::uint64_t sampled = replay_in<State::kSampled>(recording);
  Row(recording.name)
      .number("operations", operations)
      .mean("off", off, operations)
      .mean("started", started, operations)
      .mean("1 in 1000", sampled, operations)
      .mean("% of off", 100 * sampled, off)
      .number("samples", stats.sampled)
      .number("missed", stats.missed);
}

bool is_guarded(const void* block) noexcept {
  guards::Guarded guarded;
  return guards::find(reinterpret_cast<std::uintptr_t>(block), guarded);
}

/// Every allocation on the slow path is sampled. When the hart's magazines are empty, each allocation takes it.
void measure_samples() {
  constexpr unsigned kRounds = 10;
  static std::array<void*, 100> samples, plain;
  start_anew();
  open_trace();
  start_guards(1);
  select_heap();
  std::size_t count = 0;
  for (;;) {
    void* block = heap::allocate(kSize);
    if (is_guarded(block)) {
      heap::free(block);
      break;
    }
    if (count == plain.size()) firmware::panic("bench: no sample");
    plain[count++] = block;
  }
  Path allocations("malloc: a sample", "heap", Path::Rows::kNone),
      releases("free: a sample", "heap", Path::Rows::kNone);
  mallocs = {};
  frees = {};
  // The sides of the places are random, with a seed from the clock, and differ a little: only those at one side count,
  // and only when each place has been used.
  const auto counts = [](const void* block) { return reinterpret_cast<std::uintptr_t>(block) % 4096 == 0; };
  for (unsigned round = 0; round < kRounds; ++round) {
    for (void*& sample : samples) {
      void* block = nullptr;
      const unsigned long cost = measure([&] { block = heap::allocate(kSize); });
      if (!is_guarded(block)) firmware::panic("bench: not a sample");
      allocations.add(cost);
      if (round > 2 && counts(block)) mallocs.add(cost);
      sample = block;
    }
    for (void* sample : samples) {
      const unsigned long cost = measure([&] { heap::free(sample); });
      releases.add(cost);
      if (round > 2 && counts(sample)) frees.add(cost);
    }
  }
  while (count != 0) heap::free(plain[--count]);
  Row("a sample of 64 bytes").distribution("malloc", mallocs).distribution("free", frees);
  close_trace();
}

}  // namespace

void run() {
  if (!profiling()) {
    std::array<std::uint64_t, 8> off{};
    if (replayed().size() > off.size()) firmware::panic("bench: too many programs");
    // All of them before the first start of the guards.
    for (std::size_t i = 0; i < replayed().size(); ++i) off[i] = replay_in<State::kOff>(replayed()[i]);
    for (std::size_t i = 0; i < replayed().size(); ++i) show(replayed()[i], off[i]);
  }
  measure_samples();
}

}  // namespace qm::bench
