/// leak N [list]: receives N packets. On an error path, for about one packet in ten, it makes a copy for a report that
/// is never written. That copy is the leak.
///
/// The functions on the path have C linkage, so that the console prints plain names.

#include "../caches.hpp"
#include "workloads.hpp"

namespace {

using qm::demo::Packet;

/// Complements of leaked addresses, for `list`: a leak scan would see plain ones as pointers. More leaks only count.
constexpr std::uint32_t kListed = 8192;
std::array<std::uintptr_t, kListed> leaked;

enum Number : unsigned { kForgotten, kFailed };

}  // namespace

extern "C" {

[[gnu::noinline]] static Packet* packet_alloc() {
  return static_cast<Packet*>(QM_ALLOC(qm::demo::caches().packet->allocate));
}

[[gnu::noinline]] static void packet_free(Packet* packet) { qm::demo::caches().packet->free(packet); }

/// Makes a copy of the broken packet, and loses it.
[[gnu::noinline]] static void rx_checksum_error(qm::demo::WorkloadRun& run, const Packet* packet) {
  Packet* copy = packet_alloc();
  if (copy == nullptr) {
    run.numbers[kFailed].fetch_add(1, std::memory_order_relaxed);
    return;
  }
  // The whole packet: in the copy, the memory's old contents could look like a pointer to a leak scan.
  *copy = *packet;
  const std::uint32_t at = run.numbers[kForgotten].fetch_add(1, std::memory_order_relaxed);
  if (at < kListed) leaked[at] = ~reinterpret_cast<std::uintptr_t>(copy);
}

[[gnu::noinline]] static void rx_deliver(qm::demo::WorkloadRun& run, std::uint32_t sequence, std::uint32_t checksum) {
  Packet* packet = packet_alloc();
  if (packet == nullptr) {
    run.numbers[kFailed].fetch_add(1, std::memory_order_relaxed);
    return;
  }
  *packet = {sequence, checksum, nullptr, {}};
  // About one packet in ten counts as broken.
  if (checksum % 10 == 0) rx_checksum_error(run, packet);
  packet_free(packet);
}

[[gnu::noinline]] static void net_task(qm::demo::WorkloadRun& run, unsigned hart) noexcept {
  qm::demo::Random random = run.random(hart);
  const unsigned harts = run.participants();
  for (std::uint32_t i = run.place(hart); i < run.count && !run.stopping(); i += harts) {
    rx_deliver(run, i, random.next());
    if (i % 16 == 0) qm::firmware::yield();
  }
}

}  // extern "C"

namespace qm::demo {
namespace {

void finish(WorkloadRun& run, console::Output& out) noexcept {
  const std::uint32_t forgotten = run.numbers[kForgotten].load(std::memory_order_relaxed);
  if (run.option) {
    for (std::uint32_t i = 0; i < forgotten && i < kListed; ++i) {
      console::Row(out, "leaked").print("leaked {address}\n", console::Address{~leaked[i]});
    }
    if (forgotten > kListed)
      console::Row(out, "not_listed").print("leak: {objects} more are not listed\n", forgotten - kListed);
  }
  const std::uint32_t failed = run.numbers[kFailed].load(std::memory_order_relaxed);
  if (failed != 0)
    console::Row(out, "failed").print("leak: {failed} failed\n", console::Counted{failed, "allocation/allocations"});
  console::Row(out, "end")
      .print("leak: forgot {forgotten} of packet in rx_checksum_error\n",
             console::Counted{forgotten, "object/objects"});
}

}  // namespace

constinit const Workload kLeak = {
    .name = "leak",
    .usage = "leak N [list]",
    .summary = "receives N packets and forgets some of them",
    .task = "net-rx",
    .counted = true,
    .option = "list",
    .prepare = [](WorkloadRun&) noexcept -> const char* { return nullptr; },
    .work = net_task,
    .finish = finish,
    .release = nullptr,
};

}  // namespace qm::demo
