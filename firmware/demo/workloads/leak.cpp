/// leak N [list]: receives N packets; on one error path, about one in ten, a copy is made for a report that nobody ever
/// writes. That copy is what is found later.
///
/// Plain C names for the functions on the path: this is how the console prints them.

#include "../caches.hpp"
#include "workloads.hpp"

namespace {

using qm::demo::Packet;

/// Addresses of the forgotten, for `list`. More than these are counted, not listed.
constexpr std::uint32_t kListed = 8192;
std::array<void*, kListed> leaked;

enum Number : unsigned { kForgotten, kFailed };

}  // namespace

extern "C" {

[[gnu::noinline]] static Packet* packet_alloc() {
  return static_cast<Packet*>(QM_ALLOC(qm::demo::caches().packet->allocate));
}

[[gnu::noinline]] static void packet_free(Packet* packet) { qm::demo::caches().packet->free(packet); }

/// Keeps a copy of the broken packet - and loses it.
[[gnu::noinline]] static void rx_checksum_error(qm::demo::WorkloadRun& run, const Packet* packet) {
  Packet* copy = packet_alloc();
  if (copy == nullptr) {
    run.numbers[kFailed].fetch_add(1, std::memory_order_relaxed);
    return;
  }
  copy->sequence = packet->sequence;
  copy->checksum = packet->checksum;
  const std::uint32_t at = run.numbers[kForgotten].fetch_add(1, std::memory_order_relaxed);
  if (at < kListed) leaked[at] = copy;
}

[[gnu::noinline]] static void rx_deliver(qm::demo::WorkloadRun& run, std::uint32_t sequence, std::uint32_t checksum) {
  Packet* packet = packet_alloc();
  if (packet == nullptr) {
    run.numbers[kFailed].fetch_add(1, std::memory_order_relaxed);
    return;
  }
  packet->sequence = sequence;
  packet->checksum = checksum;
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
      console::Row(out, "leaked")
          .print("leaked {address}\n", console::Address{reinterpret_cast<std::uintptr_t>(leaked[i])});
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
