/// neutral N: N iterations on every hart of allocations and frees in several caches and sizes. The next hart frees
/// about one packet in four. The workload frees all its objects, so a trace of it shows nothing outstanding.

#include <qm/heap.hpp>

#include "../caches.hpp"
#include "mailbox.hpp"
#include "workloads.hpp"

namespace qm::demo {
namespace {

enum Number : unsigned { kTaken, kGiven, kFailed };

/// mailboxes[h] has the objects that hart h frees. One run uses them, as a mailbox has one writer and one reader.
std::array<Mailbox, hal::Port::kMaxHarts> mailboxes;
constinit std::atomic<std::uint32_t> under_way{0};

/// Counts the allocations and frees of one task, and adds the counts to the run at the end.
class Ledger {
 public:
  explicit Ledger(WorkloadRun& run) noexcept : run_(run) {}
  ~Ledger() {
    run_.numbers[kTaken].fetch_add(taken_, std::memory_order_relaxed);
    run_.numbers[kGiven].fetch_add(given_, std::memory_order_relaxed);
    run_.numbers[kFailed].fetch_add(failed_, std::memory_order_relaxed);
  }
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Converted functions: they charge an allocation to their caller's site.
  void* take_at(const CallSite* site, Cache& cache) noexcept { return note(cache.allocate_at(site)); }
  void* take_at(const CallSite* site, std::size_t bytes) noexcept { return note(heap::allocate_at(site, bytes)); }
  void give(Cache& cache, void* object) noexcept {
    if (object == nullptr) return;
    cache.free(object);
    ++given_;
  }
  void give(void* block) noexcept {
    if (block == nullptr) return;
    heap::free(block);
    ++given_;
  }

 private:
  void* note(void* object) noexcept {
    ++(object != nullptr ? taken_ : failed_);
    return object;
  }
  WorkloadRun& run_;
  std::uint32_t taken_ = 0;
  std::uint32_t given_ = 0;
  std::uint32_t failed_ = 0;
};

void empty_mailbox(unsigned hart, Ledger& ledger) noexcept {
  while (void* packet = mailboxes[hart].take()) ledger.give(*caches().packet, packet);
}

[[gnu::noinline]] void neutral_round(WorkloadRun& run, unsigned hart, Random& random, Ledger& ledger) noexcept {
  void* packet = QM_AT(ledger.take_at, *caches().packet);
  void* session = QM_AT(ledger.take_at, *caches().session);
  void* small = QM_AT(ledger.take_at, 1 + random.below(300));
  void* large = QM_AT(ledger.take_at, 600 + random.below(3000));
  empty_mailbox(hart, ledger);
  const unsigned next = run.hart_at((run.place(hart) + 1) % run.participants());
  if (packet == nullptr || random.below(4) != 0 || !mailboxes[next].put(packet)) ledger.give(*caches().packet, packet);
  ledger.give(small);
  ledger.give(*caches().session, session);
  ledger.give(large);
}

const char* prepare(WorkloadRun&) noexcept {
  return under_way.exchange(1, std::memory_order_acquire) != 0 ? "neutral is under way already" : nullptr;
}

void neutral_task(WorkloadRun& run, unsigned hart) noexcept {
  Ledger ledger(run);
  Random random = run.random(hart);
  for (std::uint32_t i = 0; i < run.count && !run.stopping(); ++i) {
    neutral_round(run, hart, random, ledger);
    if (i % 8 == 0) firmware::yield();
  }
  run.barrier();
  empty_mailbox(hart, ledger);
}

void finish(WorkloadRun& run, console::Output& out) noexcept {
  const std::uint32_t failed = run.numbers[kFailed].load(std::memory_order_relaxed);
  if (failed != 0)
    console::Row(out, "failed").print("neutral: {failed} failed\n", console::Counted{failed, "allocation/allocations"});
  console::Row(out, "end")
      .print("neutral: {}{rounds}, outstanding {outstanding}\n", run.stopping() ? "stopped, of " : "",
             console::Counted{run.count, "round/rounds"},
             run.numbers[kTaken].load(std::memory_order_relaxed) - run.numbers[kGiven].load(std::memory_order_relaxed));
  under_way.store(0, std::memory_order_release);
}

}  // namespace

constinit const Workload kNeutral = {
    .name = "neutral",
    .usage = "neutral N",
    .summary = "N rounds of allocations and frees on all harts, some freed on another hart",
    .task = "neutral",
    .counted = true,
    .option = {},
    .prepare = prepare,
    .work = neutral_task,
    .finish = finish,
    .release = nullptr,
};

}  // namespace qm::demo
