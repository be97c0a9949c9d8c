/// stacks N: keeps N objects of the cache `stacks` until `workload stop`. It allocates them through 64 call paths of
/// depth 4 to 28. Each level of a path calls one of two functions, selected by a bit of the path's number:
///
///     path      0   1-2   3-6   7-14   15 ... 63
///     levels    0    1     2     3      4 ... 24      and four frames more: stack_end, stacks_task, run_worker, the task's

#include <utility>

#include "../caches.hpp"
#include "workloads.hpp"

namespace qm::demo {
namespace {

constexpr unsigned kPaths = 64;

/// @returns the number of levels of a path. Paths of equal length differ in the bits that they use.
constexpr unsigned levels(unsigned path) {
  unsigned count = 0;
  while (count < 4 && path + 1 >= (2U << count)) ++count;
  return count < 4 ? count : 4 + (path - 15) * 20 / 48;
}
static_assert(levels(0) == 0 && levels(2) == 1 && levels(6) == 2 && levels(14) == 3 && levels(15) == 4 &&
              levels(63) == 24);

enum Number : unsigned { kHeld, kFailed };

struct Held {
  Held* next;
};
/// The objects of all runs of `stacks`, which share one list.
std::atomic<Held*> held{nullptr};

}  // namespace
}  // namespace qm::demo

extern "C" {

static void* stack_left(unsigned path, unsigned depth);
static void* stack_right(unsigned path, unsigned depth);

[[gnu::noinline]] static void* stack_end() { return QM_ALLOC(qm::demo::caches().stacks->allocate); }

/// Calls the next level. The empty asm keeps the compiler from turning the call into a jump or a loop.
static inline void* stack_step(unsigned path, unsigned depth) {
  void* object = nullptr;
  if (depth == 0) {
    object = stack_end();
  } else if ((path >> ((depth - 1) % 6) & 1) != 0) {
    object = stack_left(path, depth - 1);
  } else {
    object = stack_right(path, depth - 1);
  }
  asm volatile("" : "+r"(object));
  return object;
}

[[gnu::noinline]] static void* stack_left(unsigned path, unsigned depth) { return stack_step(path, depth); }
[[gnu::noinline]] static void* stack_right(unsigned path, unsigned depth) { return stack_step(path, depth); }

}  // extern "C"

namespace qm::demo {
namespace {

void stacks_task(WorkloadRun& run, unsigned hart) noexcept {
  const unsigned harts = run.participants();
  for (std::uint32_t i = run.place(hart); i < run.count && !run.stopping(); i += harts) {
    const unsigned path = i % kPaths;
    auto* object = static_cast<Held*>(stack_step(path, levels(path)));
    if (object == nullptr) {
      run.numbers[kFailed].fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    run.numbers[kHeld].fetch_add(1, std::memory_order_relaxed);
    object->next = held.load(std::memory_order_relaxed);
    // release: pairs with the acquire in release().
    while (!held.compare_exchange_weak(object->next, object, std::memory_order_release, std::memory_order_relaxed)) {
    }
    if (i % 16 == 0) firmware::yield();
  }
}

void finish(WorkloadRun& run, console::Output& out) noexcept {
  const std::uint32_t failed = run.numbers[kFailed].load(std::memory_order_relaxed);
  if (failed != 0)
    console::Row(out, "failed").print("stacks: {failed} failed\n", console::Counted{failed, "allocation/allocations"});
  console::Row(out, "end")
      .print("stacks: {held} from {paths}\n",
             console::Counted{run.numbers[kHeld].load(std::memory_order_relaxed), "object/objects"},
             console::Counted{run.count < kPaths ? run.count : kPaths, "path/paths"});
}

void release(WorkloadRun& run) noexcept {
  Held* object = held.exchange(nullptr, std::memory_order_acquire);
  while (object != nullptr) caches().stacks->free(std::exchange(object, object->next));
  run.numbers[kHeld].store(0, std::memory_order_relaxed);
}

}  // namespace

constinit const Workload kStacks = {
    .name = "stacks",
    .usage = "stacks N",
    .summary = "holds N objects from 64 call paths until workload stop",
    .task = "stacks",
    .counted = true,
    .option = {},
    .prepare = [](WorkloadRun&) noexcept -> const char* { return nullptr; },
    .work = stacks_task,
    .finish = finish,
    .release = release,
};

}  // namespace qm::demo
