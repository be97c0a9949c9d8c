/// churn N: N operations on every hart with random sizes and lifetimes; all objects are freed at the end. One operation
/// in four allocates a session, the others a block of the heap.

#include <cstring>

#include <qm/heap.hpp>

#include "../caches.hpp"
#include "workloads.hpp"

namespace qm::demo {
namespace {

enum Number : unsigned { kOut, kLive, kPeak, kFailed, kBroken };

struct Block {
  unsigned char* start = nullptr;
  std::uint32_t bytes = 0;
  bool session = false;
  unsigned char fill = 0;
};

void count_taken(WorkloadRun& run, std::uint32_t bytes) noexcept {
  run.numbers[kOut].fetch_add(1, std::memory_order_relaxed);
  const std::uint32_t live = run.numbers[kLive].fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::uint32_t peak = run.numbers[kPeak].load(std::memory_order_relaxed);
  while (live > peak && !run.numbers[kPeak].compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
}

[[gnu::noinline]] void churn_take(WorkloadRun& run, Block& block, Random& random) noexcept {
  block.session = random.below(4) == 0;
  block.bytes = block.session ? 192 : static_cast<std::uint32_t>(1 + random.below(random.below(8) == 0 ? 4000 : 400));
  block.start = static_cast<unsigned char*>(block.session ? QM_ALLOC(caches().session->allocate)
                                                          : QM_ALLOC(heap::allocate, block.bytes));
  if (block.start == nullptr) {
    run.numbers[kFailed].fetch_add(1, std::memory_order_relaxed);
    return;
  }
  // Fill the whole block with bytes that form no address: for a leak scan, old contents could point to other objects.
  block.fill = static_cast<unsigned char>(random.next() & 0x7f);
  std::memset(block.start, block.fill, block.session ? block.bytes : heap::usable_size(block.start));
  count_taken(run, block.bytes);
}

[[gnu::noinline]] void churn_give(WorkloadRun& run, Block& block) noexcept {
  if (block.start == nullptr) return;
  if (block.start[0] != block.fill || block.start[block.bytes - 1] != block.fill) {
    run.numbers[kBroken].fetch_add(1, std::memory_order_relaxed);
  }
  if (block.session) {
    caches().session->free(block.start);
  } else {
    heap::free(block.start);
  }
  block.start = nullptr;
  run.numbers[kOut].fetch_sub(1, std::memory_order_relaxed);
  run.numbers[kLive].fetch_sub(block.bytes, std::memory_order_relaxed);
}

void churn_task(WorkloadRun& run, unsigned hart) noexcept {
  std::array<Block, 64> blocks;
  Random random = run.random(hart);
  for (std::uint32_t i = 0; i < run.count && !run.stopping(); ++i) {
    Block& block = blocks[random.below(blocks.size())];
    if (block.start != nullptr) {
      churn_give(run, block);
    } else {
      churn_take(run, block, random);
    }
    if (i % 16 == 0) firmware::yield();
  }
  for (Block& block : blocks) churn_give(run, block);
}

void finish(WorkloadRun& run, console::Output& out) noexcept {
  const auto number = [&](Number which) { return run.numbers[which].load(std::memory_order_relaxed); };
  if (number(kFailed) != 0)
    console::Row(out, "failed")
        .print("churn: {failed} failed\n", console::Counted{number(kFailed), "allocation/allocations"});
  if (number(kBroken) != 0)
    console::Row(out, "broken")
        .print("churn: {broken} overwritten\n", console::Counted{number(kBroken), "block was/blocks were"});
  console::Row(out, "end")
      .print("churn: {}{operations}, peak {peak_bytes} bytes, outstanding {outstanding}\n",
             run.stopping() ? "stopped, of " : "", console::Counted{run.count, "operation/operations"}, number(kPeak),
             number(kOut));
}

}  // namespace

constinit const Workload kChurn = {
    .name = "churn",
    .usage = "churn N",
    .summary = "N operations on each hart, random sizes and lifetimes, all freed at the end",
    .task = "churn",
    .counted = true,
    .option = {},
    .prepare = [](WorkloadRun&) noexcept -> const char* { return nullptr; },
    .work = churn_task,
    .finish = finish,
    .release = nullptr,
};

}  // namespace qm::demo
