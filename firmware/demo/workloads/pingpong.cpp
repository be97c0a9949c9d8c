/// pingpong N: one hart allocates, another frees. With one hart, it does both.

#include "../caches.hpp"
#include "mailbox.hpp"
#include "workloads.hpp"

namespace qm::demo {
namespace {

enum Number : unsigned { kServed, kReturned, kCrossed };

Mailbox table;

void serve(WorkloadRun& run) noexcept {
  for (std::uint32_t i = 0; i < run.count && !run.stopping(); ++i) {
    void* packet = QM_ALLOC(caches().packet->allocate);
    if (packet == nullptr) break;
    while (!table.put(packet)) firmware::sleep_until(hal::Port::ticks() + hal::Port::tick_rate() / 20000);
    run.numbers[kServed].fetch_add(1, std::memory_order_release);
    if (i % 16 == 0) firmware::yield();
  }
  run.numbers[kReturned].store(1, std::memory_order_release);  // no packet follows
}

void take_back(WorkloadRun& run, bool other_hart) noexcept {
  for (;;) {
    // acquire: pairs with the last release in serve(): if the table is empty after it, it stays empty.
    const bool last = run.numbers[kReturned].load(std::memory_order_acquire) != 0;
    void* packet = table.take();
    if (packet != nullptr) {
      caches().packet->free(packet);
      if (other_hart) run.numbers[kCrossed].fetch_add(1, std::memory_order_relaxed);
    } else if (last) {
      return;
    } else {
      firmware::sleep_until(hal::Port::ticks() + hal::Port::tick_rate() / 20000);
    }
  }
}

void pingpong_task(WorkloadRun& run, unsigned hart) noexcept {
  if (run.participants() == 1) {
    for (std::uint32_t i = 0; i < run.count && !run.stopping(); ++i) {
      void* packet = QM_ALLOC(caches().packet->allocate);
      if (packet != nullptr) caches().packet->free(packet);
      if (i % 16 == 0) firmware::yield();
    }
    return;
  }
  if (run.place(hart) == 0) serve(run);
  if (run.place(hart) == 1) take_back(run, true);
}

void finish(WorkloadRun& run, console::Output& out) noexcept {
  console::Row(out, "end")
      .print("pingpong: {crossed} crossed\n",
             console::Counted{run.numbers[kCrossed].load(std::memory_order_relaxed), "object/objects"});
}

}  // namespace

constinit const Workload kPingpong = {
    .name = "pingpong",
    .usage = "pingpong N",
    .summary = "one hart allocates N packets, another frees them",
    .task = "pingpong",
    .counted = true,
    .option = {},
    .prepare = [](WorkloadRun&) noexcept -> const char* { return nullptr; },
    .work = pingpong_task,
    .finish = finish,
    .release = nullptr,
};

}  // namespace qm::demo
