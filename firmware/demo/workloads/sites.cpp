/// sites N: N iterations on every hart, each with one allocation in each way that call sites support. The objects stay
/// until `workload stop`, except every second object of each list, which the next hart frees. `allocinfo` then shows
/// the site that is charged:
///
///     sites_hooked       a hook at the allocation: a session, or a block that another hook enlarges
///     sites_converted    calls report_alloc(), a helper that passes its caller's site on
///     record_alloc       a helper with its own hook: its callers' blocks are charged to it
///     <untagged>         no hook: small blocks, and large ones

#include <utility>

#include <qm/heap.hpp>

#include "../caches.hpp"
#include "workloads.hpp"

namespace qm::demo {
namespace {

enum Number : unsigned { kHeld, kFailed };

struct Held {
  Held* next;
  Cache* cache;  ///< nullptr: the heap
};

/// The objects of each hart; one run at a time.
std::array<Held*, hal::Port::kMaxHarts> held;
std::atomic<std::uint32_t> is_held{0};

}  // namespace

/// Converted: charges the line that calls report_alloc().
void* report_alloc_at(const CallSite* site, std::size_t bytes) noexcept { return heap::allocate_at(site, bytes); }
#define report_alloc(bytes) QM_AT(::qm::demo::report_alloc_at, bytes)

}  // namespace qm::demo

extern "C" {

[[gnu::noinline]] static void* record_alloc() { return QM_ALLOC(qm::heap::allocate, 40); }

[[gnu::noinline]] static void* sites_hooked(bool is_session) {
  if (is_session) return QM_ALLOC(qm::demo::caches().session->allocate);
  void* block = QM_ALLOC(qm::heap::allocate, 60);
  void* larger = QM_ALLOC(qm::heap::reallocate, block, 500);
  return larger != nullptr ? larger : block;
}

[[gnu::noinline]] static void* sites_converted() { return report_alloc(100); }
[[gnu::noinline]] static void* sites_untagged(bool is_large) { return qm::heap::allocate(is_large ? 5000 : 24); }

}  // extern "C"

namespace qm::demo {
namespace {

void keep(WorkloadRun& run, Held*& list, void* place, Cache* cache) noexcept {
  run.numbers[place != nullptr ? kHeld : kFailed].fetch_add(1, std::memory_order_relaxed);
  if (place != nullptr) list = new (place) Held{list, cache};
}

void give(Held* one) noexcept {
  if (one->cache != nullptr) return one->cache->free(one);
  heap::free(one);
}

void sites_task(WorkloadRun& run, unsigned hart) noexcept {
  for (std::uint32_t i = 0; i < run.count && !run.stopping(); ++i) {
    keep(run, held[hart], sites_hooked(true), caches().session);
    keep(run, held[hart], sites_hooked(false), nullptr);
    keep(run, held[hart], sites_converted(), nullptr);
    keep(run, held[hart], record_alloc(), nullptr);
    keep(run, held[hart], sites_untagged(i % 8 == 0), nullptr);
    if (i % 8 == 0) firmware::yield();
  }
  run.barrier();
  Held** at = &held[run.hart_at((run.place(hart) + 1) % run.participants())];
  for (std::uint32_t i = 0; *at != nullptr; ++i) {
    if (i % 2 == 0) {
      at = &(*at)->next;
    } else {
      give(std::exchange(*at, (*at)->next));
      run.numbers[kHeld].fetch_sub(1, std::memory_order_relaxed);
    }
  }
}

void finish(WorkloadRun& run, console::Output& out) noexcept {
  const std::uint32_t failed = run.numbers[kFailed].load(std::memory_order_relaxed);
  if (failed != 0)
    console::Row(out, "failed").print("sites: {failed} failed\n", console::Counted{failed, "allocation/allocations"});
  console::Row(out, "end")
      .print("sites: {rounds}, {held} held\n", console::Counted{run.count, "round/rounds"},
             console::Counted{run.numbers[kHeld].load(std::memory_order_relaxed), "object/objects"});
}

void release(WorkloadRun&) noexcept {
  for (Held*& list : held) {
    while (list != nullptr) give(std::exchange(list, list->next));
  }
  is_held.store(0, std::memory_order_release);
}

}  // namespace

constinit const Workload kSites = {
    .name = "sites",
    .usage = "sites N",
    .summary = "N allocations a hart in each way that allocinfo tells apart; holds half until workload stop",
    .task = "sites",
    .counted = true,
    .option = {},
    .prepare = [](WorkloadRun&) noexcept -> const char* {
      return is_held.exchange(1, std::memory_order_acquire) != 0 ? "sites holds what it took: workload stop" : nullptr;
    },
    .work = sites_task,
    .finish = finish,
    .release = release,
};

}  // namespace qm::demo
