/// exhaust: every hart allocates memory until none is left: large blocks, smaller blocks, then objects of the cache
/// `exhaust`. When an allocation has failed on every hart, all harts free their memory.

#include <qm/heap.hpp>
#include <qm/system.hpp>

#include "../caches.hpp"
#include "workloads.hpp"

namespace qm::demo {
namespace {

enum Number : unsigned { kMebibytes, kRest, kObjects };

struct Block {
  Block* next;
  std::size_t bytes;
};

void push(Block*& list, void* place, std::size_t bytes) noexcept {
  auto* block = static_cast<Block*>(place);
  block->next = list;
  block->bytes = bytes;
  list = block;
}

[[gnu::noinline]] Block* take_blocks(WorkloadRun& run) noexcept {
  Block* blocks = nullptr;
  for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{64} << 10}) {
    while (!run.stopping()) {
      void* place = QM_ALLOC(heap::allocate, bytes);
      if (place == nullptr) break;
      push(blocks, place, bytes);
      firmware::yield();
    }
  }
  return blocks;
}

[[gnu::noinline]] Block* take_objects(WorkloadRun& run) noexcept {
  Block* objects = nullptr;
  while (!run.stopping()) {
    void* place = QM_ALLOC(caches().exhaust->allocate);
    if (place == nullptr) break;
    push(objects, place, caches().exhaust->object_size());
    run.numbers[kObjects].fetch_add(1, std::memory_order_relaxed);
    firmware::yield();
  }
  return objects;
}

void count(WorkloadRun& run, std::size_t bytes) noexcept {
  run.numbers[kMebibytes].fetch_add(static_cast<std::uint32_t>(bytes >> 20), std::memory_order_relaxed);
  run.numbers[kRest].fetch_add(static_cast<std::uint32_t>(bytes & 0xfffff), std::memory_order_relaxed);
}

void exhaust_task(WorkloadRun& run, unsigned) noexcept {
  Block* blocks = take_blocks(run);
  Block* objects = take_objects(run);
  run.barrier();
  std::size_t bytes = 0;
  while (blocks != nullptr) {
    Block* block = blocks;
    blocks = block->next;
    bytes += block->bytes;
    heap::free(block);
  }
  while (objects != nullptr) {
    Block* object = objects;
    objects = object->next;
    bytes += object->bytes;
    caches().exhaust->free(object);
  }
  count(run, bytes);
}

void finish(WorkloadRun& run, console::Output& out) noexcept {
  reclaim();
  const auto number = [&](Number which) { return run.numbers[which].load(std::memory_order_relaxed); };
  console::Row row(out, "end");
  row.print("exhaust: {objects} of exhaust\n", console::Counted{number(kObjects), "object/objects"});
  row.print("exhaust: survived, {recovered_bytes} bytes recovered\n",
            (std::uint64_t{number(kMebibytes)} << 20) + number(kRest));
}

}  // namespace

constinit const Workload kExhaust = {
    .name = "exhaust",
    .usage = "exhaust",
    .summary = "takes memory until none is left on every hart, and frees all",
    .task = "exhaust",
    .counted = false,
    .option = {},
    .prepare = [](WorkloadRun&) noexcept -> const char* { return nullptr; },
    .work = exhaust_task,
    .finish = finish,
    .release = nullptr,
};

}  // namespace qm::demo
