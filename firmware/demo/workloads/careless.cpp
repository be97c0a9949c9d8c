/// careless NAME: code that handles a failed allocation wrongly, in one of three ways. Without a failure it works.
///
///     null   uses the result of an allocation without a check
///     leak   returns on the error path without freeing its first object
///     lock   returns on the error path with a lock held; the next iteration waits for that lock

#include "../caches.hpp"
#include "workloads.hpp"

namespace qm::demo {
namespace {

constexpr unsigned kRounds = 3;

enum class Bug : std::uint8_t { kNull, kLeak, kLock };
Bug bug;  // set by prepare(); there is one console

enum Number : unsigned { kFailed };

std::atomic<std::uint32_t> locked;

void lock(const WorkloadRun& run) noexcept {
  while (locked.exchange(1, std::memory_order_acquire) != 0 && !run.stopping()) firmware::yield();
}

void unlock() noexcept { locked.store(0, std::memory_order_release); }

[[gnu::noinline]] Packet* take(WorkloadRun& run) noexcept {
  auto* const packet = static_cast<Packet*>(QM_ALLOC(caches().packet->allocate));
  if (packet == nullptr) run.numbers[kFailed].fetch_add(1, std::memory_order_relaxed);
  return packet;
}

void write_unchecked(WorkloadRun& run) noexcept {
  Packet* const packet = take(run);
  *const_cast<volatile std::uint32_t*>(&packet->sequence) = 1;
  caches().packet->free(packet);
}

void leak_on_error(WorkloadRun& run) noexcept {
  Packet* const first = take(run);
  if (first == nullptr) return;
  Packet* const second = take(run);
  if (second == nullptr) return;  // and first?
  caches().packet->free(second);
  caches().packet->free(first);
}

void stay_locked_on_error(WorkloadRun& run) noexcept {
  lock(run);
  Packet* const packet = take(run);
  if (packet == nullptr) return;  // and the lock?
  caches().packet->free(packet);
  unlock();
}

const char* prepare(WorkloadRun& run) noexcept {
  bug = run.text == "null" ? Bug::kNull : run.text == "leak" ? Bug::kLeak : Bug::kLock;
  locked.store(0, std::memory_order_relaxed);
  return nullptr;
}

void work(WorkloadRun& run, unsigned hart) noexcept {
  if (run.place(hart) != 0) return;
  for (unsigned round = 0; round < kRounds; ++round) {
    switch (bug) {
      case Bug::kNull: write_unchecked(run); break;
      case Bug::kLeak: leak_on_error(run); break;
      case Bug::kLock: stay_locked_on_error(run); break;
    }
  }
}

void finish(WorkloadRun& run, console::Output& out) noexcept {
  console::Row(out, "end")
      .print("careless: {failed} failed\n",
             console::Counted{run.numbers[kFailed].load(std::memory_order_relaxed), "allocation/allocations"});
}

}  // namespace

constinit const Workload kCareless = {
    .name = "careless",
    .usage = "careless NAME",
    .summary = "code that forgets that an allocation may fail: null, leak or lock",
    .task = "careless",
    .counted = false,
    .named = true,
    .option = {},
    .names = "null,leak,lock",
    .prepare = prepare,
    .work = work,
    .finish = finish,
    .release = nullptr,
};

}  // namespace qm::demo
