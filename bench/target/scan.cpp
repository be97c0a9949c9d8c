/// The leak scan: what a word, a pointer and an object cost, how long the harts stand still, and how long a sliced scan
/// keeps an interrupt waiting.

#include <algorithm>
#include <array>
#include <cstring>

#include <qm/bench/bench.hpp>
#include <qm/cache.hpp>
#include <qm/firmware/console_io.hpp>
#include <qm/firmware/interrupt.hpp>
#include <qm/firmware/stacks.hpp>
#include <qm/firmware/text.hpp>
#include <qm/scan.hpp>

namespace qm::bench {
namespace {

constexpr std::size_t kWords = 1 << 16;
constexpr std::size_t kObjectBytes = 64;
constexpr std::size_t kObjects = (1 << 20) / kObjectBytes;

std::array<void*, kWords> words;
std::size_t roots = 0;  // of the words

void visit(scan::Roots& to, std::uintptr_t sp) noexcept {
  firmware::visit_stacks(
      sp,
      [](const firmware::LiveStack& stack, void* argument) noexcept {
        static_cast<scan::Roots*>(argument)->stack(stack.whole, stack.sp);
      },
      &to);
  const auto start = reinterpret_cast<std::uintptr_t>(words.data());
  if (roots != 0) to.range(start, start + roots * sizeof(void*));
}

/// The instructions of a stopped scan with @p count of the words as roots.
unsigned long stopped(std::size_t count, std::size_t leaked = 0) noexcept {
  roots = count;
  LeakScan scan;
  const unsigned long before = instructions();
  const Status status = scan.run();
  const unsigned long cost = instructions() - before - kReadCost;
  if (status != Status::kOk || scan.summary().leaked != leaked)
    Row("the scan failed").number("leaked", scan.summary().leaked);
  return cost;
}

// ---- how long an interrupt waits ------------------------------------------------------------------------------------

constexpr std::uint32_t kPeriod = 97;  // of the timer, in ticks: they come at ever other places of the code
constexpr unsigned long kInstructions = kPeriod * 100;  // as many instructions, under icount

constexpr unsigned long kJitter = 64;  // instructions by which interrupts that do not wait differ
constexpr unsigned long kMost = 500;   // instructions that an interrupt may wait

struct Waits {
  unsigned long least = kInstructions;
  unsigned long most = 0;
  unsigned long interrupts = 0;
  unsigned long above = 0;  ///< interrupts that waited for more than kMost
};
Waits waits;
unsigned long phase = 0;  // of an interrupt that did not wait

/// An interrupt that waits comes late in its period.
void note_wait(void*) noexcept {
  unsigned long late = (instructions() + kInstructions + kJitter - phase) % kInstructions;
  late -= std::min(late, kJitter);
  waits.least = std::min(waits.least, late);
  waits.most = std::max(waits.most, late);
  waits.above += late > kMost ? 1 : 0;
  ++waits.interrupts;
}

/// Calls @p work while the timer interrupts it.
template <class Work>
Waits interrupt(const Work& work) noexcept {
  firmware::set_tick_handler(note_wait, nullptr);
  firmware::set_tick_period(0, kPeriod);
  // Nothing is masked here: the first interrupts tell the phase.
  waits = {};
  phase = kJitter;
  while (waits.interrupts < 8) asm volatile("" : : : "memory");
  phase = waits.least + kJitter;
  waits = {};
  work();
  firmware::set_tick_period(0, 0);
  return waits;
}

/// A sliced scan without interrupts, for its cost, and @p times beside the timer. At which instructions the interrupts
/// come depends on all that ran before: how long the longest one waits is printed, and not a figure.
void show_sliced(const char* name, unsigned times) noexcept {
  LeakSummary of{};
  const auto scan_once = [&]() noexcept {
    LeakScan scan;
    const unsigned long before = instructions();
    if (scan.run_sliced() != Status::kOk) Row("the sliced scan failed");
    const unsigned long cost = instructions() - before - kReadCost;
    of = scan.summary();
    return cost;
  };
  const unsigned long cost = scan_once();
  const LeakSummary alone = of;
  const Waits during = interrupt([&]() noexcept {
    for (unsigned i = 0; i < times; ++i) scan_once();
  });
  std::array<char, 80> buffer;
  firmware::Text line(buffer);
  line.decimal(during.interrupts) << " interrupts; the longest wait: ";
  line.decimal(during.most) << " instructions\n";
  firmware::console_write(line.view());
  Row(name)
      .number("objects", alone.live)
      .number("instructions", cost)
      .number("passes", alone.passes)
      .number("waits above 500", during.above);
}

/// Allocates an object and writes over the stack that may have its address. @returns the address's complement.
[[gnu::noinline]] std::uintptr_t forget(Cache& cache) noexcept {
  void* volatile leak = cache.allocate();
  std::memset(leak, 0, kObjectBytes);
  const std::uintptr_t complement = ~reinterpret_cast<std::uintptr_t>(leak);
  leak = nullptr;
  return complement;
}

}  // namespace

void run() {
  static constinit const scan::Platform platform{.visit = visit, .memory = {}};
  scan::set_platform(&platform);
  const unsigned long alone = stopped(0);
  const unsigned long more = stopped(kWords);
  Row("word").mean("instructions", more - alone, kWords);

  Cache* const cache = Cache::create({.name = "node", .object_size = kObjectBytes});
  void** const first = static_cast<void**>(cache->allocate());
  std::memset(first, 0, kObjectBytes);
  words[0] = first;
  const unsigned long one = stopped(kWords);
  words.fill(first);
  Row("pointer").mean("instructions", stopped(kWords) - one, kWords - 1);
  words.fill(nullptr);

  std::array<std::uintptr_t, 8> leaks{};
  for (std::uintptr_t& leak : leaks) leak = forget(*cache);
  show_sliced("sliced, a few leaks", 40);  // often enough for an interrupt at each place of the code
  for (const std::uintptr_t leak : leaks) cache->free(reinterpret_cast<void*>(~leak));

  words[0] = first;
  void** last = first;
  for (std::size_t i = 1; i < kObjects; ++i) {
    void** const next = static_cast<void**>(cache->allocate());
    std::memset(next, 0, kObjectBytes);
    *last = next;
    last = next;
  }
  const unsigned long list = stopped(1);
  Row("stopped, 1 MiB of live objects").number("objects", kObjects).number("instructions", list);
  Row("object").mean("instructions", list - alone, kObjects);
  show_sliced("sliced, 1 MiB of live objects", 1);
  // The same objects as leaks.
  words[0] = nullptr;
  Row("stopped, 1 MiB of leaks").number("objects", kObjects).number("instructions", stopped(1, kObjects));
  show_sliced("sliced, 1 MiB of leaks", 1);
}

}  // namespace qm::bench
