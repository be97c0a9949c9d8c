/// stray: accesses guarded blocks of the heap where it must not, and frees them wrongly, each in a function of its own.
/// It waits for a guarded block each time, so it damages nothing: see the command `guard`.
///
/// The functions have C linkage, so that the console prints plain names.

#include <qm/guards.hpp>
#include <qm/heap.hpp>

#include "workloads.hpp"

namespace {

constexpr std::size_t kBytes = 60;
/// Allocations until a block is guarded; more than a sensible `every N`.
constexpr unsigned kMostTries = 20'000;

enum Number : unsigned { kCommitted };

volatile char* as_bytes(void* block) noexcept { return static_cast<volatile char*>(block); }

}  // namespace

extern "C" {

/// A guarded block; nullptr if there was none. It keeps the others, in a list, until it has one: blocks that are freed at
/// once would come from the same magazine again.
[[gnu::noinline]] static void* take_guarded() {
  void* others = nullptr;
  void* found = nullptr;
  for (unsigned i = 0; i < kMostTries; ++i) {
    void* block = qm::heap::allocate(kBytes);
    qm::guards::Guarded guarded;
    if (block == nullptr || qm::guards::find(reinterpret_cast<std::uintptr_t>(block), guarded)) {
      found = block;
      break;
    }
    *static_cast<void**>(block) = others;
    others = block;
  }
  while (others != nullptr) {
    void* const next = *static_cast<void**>(others);
    qm::heap::free(others);
    others = next;
  }
  return found;
}

[[gnu::noinline]] static void release(void* block) {
  qm::heap::free(block);
  asm volatile("");
}

[[gnu::noinline]] static void write_behind_block(void* block) {
  as_bytes(block)[kBytes] = 1;
  release(block);
}
[[gnu::noinline]] static void read_before_block(void* block) {
  static_cast<void>(as_bytes(block)[-1]);
  static_cast<void>(as_bytes(block)[-4096]);
  release(block);
}
[[gnu::noinline]] static void write_freed_block(void* block) {
  release(block);
  as_bytes(block)[7] = 1;
}
[[gnu::noinline]] static void read_freed_block_masked(void* block) {
  release(block);
  const qm::hal::InterruptGuard masked;
  static_cast<void>(as_bytes(block)[9]);
}
[[gnu::noinline]] static void free_block_twice(void* block) {
  release(block);
  release(block);
}
[[gnu::noinline]] static void free_inside_block(void* block) {
  release(static_cast<char*>(block) + 16);
  release(block);
}

static void stray_task(qm::demo::WorkloadRun& run, unsigned hart) noexcept {
  if (run.place(hart) != 0) return;
  for (auto* const commit : {write_behind_block, read_before_block, write_freed_block, read_freed_block_masked,
                             free_block_twice, free_inside_block}) {
    void* const block = run.stopping() ? nullptr : take_guarded();
    if (block == nullptr) return;
    commit(block);
    run.numbers[kCommitted].fetch_add(1, std::memory_order_relaxed);
  }
}

}  // extern "C"

namespace qm::demo {
namespace {

void finish(WorkloadRun& run, console::Output& out) noexcept {
  console::Row(out, "end")
      .print("stray: committed {committed}\n",
             console::Counted{run.numbers[kCommitted].load(std::memory_order_relaxed), "time/times"});
}

}  // namespace

constinit const Workload kStray = {
    .name = "stray",
    .usage = "stray",
    .summary = "accesses guarded blocks outside and after their free, to be reported",
    .task = "stray",
    .counted = false,
    .option = {},
    .prepare = [](WorkloadRun&) noexcept -> const char* {
      return guards::stats().slots != 0 ? nullptr : "there are no guards: guard kmalloc every N";
    },
    .work = stray_task,
    .finish = finish,
    .release = nullptr,
};

}  // namespace qm::demo
