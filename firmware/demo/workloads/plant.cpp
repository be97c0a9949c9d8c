/// plant N [list]: leaks N lists, trees, cycles, objects with an interior pointer only, and large blocks that point to
/// an object. hold: keeps objects through every kind of root of a leak scan, until workload stop.

#include <utility>

#include <qm/heap.hpp>
#include <qm/scan.hpp>

#include "../caches.hpp"
#include "workloads.hpp"

namespace qm::demo {
namespace {

constexpr std::size_t kSession = 192, kBlock = 100, kLarge = 50'000;

enum Number : unsigned { kHeads, kObjects, kFailed, kBroken };

/// The complements of the leaked addresses: a leak scan would see plain addresses as pointers.
constexpr std::uint32_t kListed = 4096;
std::array<std::uintptr_t, kListed> planted;

void** take_packet() noexcept {
  return static_cast<void**>(cleared(QM_ALLOC(caches().packet->allocate), sizeof(Packet)));
}
void** take_session() noexcept { return static_cast<void**>(cleared(QM_ALLOC(caches().session->allocate), kSession)); }
void** take_block(std::size_t bytes) noexcept {
  void* const block = QM_ALLOC(heap::allocate, bytes);
  // A leak scan reads past the requested bytes.
  return static_cast<void**>(cleared(block, block != nullptr ? heap::usable_size(block) : 0));
}

// ---- plant ----------------------------------------------------------------------------------------------------------

/// Counts an object of a shape, or a failure. @returns false if @p object is null.
bool plant_one(WorkloadRun& run, void** object) noexcept {
  if (object == nullptr) {
    run.numbers[kFailed].fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  const std::uint32_t at = run.numbers[kObjects].fetch_add(1, std::memory_order_relaxed);
  if (at < kListed) planted[at] = ~reinterpret_cast<std::uintptr_t>(object);
  return true;
}

/// Leaks a list. If memory runs out, the shorter list is leaked.
[[gnu::noinline]] void plant_list(WorkloadRun& run) noexcept {
  void** behind = nullptr;
  for (unsigned i = 0; i < 5; ++i) {
    void** const packet = take_packet();
    if (!plant_one(run, packet)) break;
    packet[1] = behind;
    behind = packet;
  }
}

void** plant_subtree(WorkloadRun& run, unsigned levels) noexcept {
  void** const session = take_session();
  if (!plant_one(run, session) || levels == 1) return session;
  session[2] = plant_subtree(run, levels - 1);
  session[3] = plant_subtree(run, levels - 1);
  return session;
}
[[gnu::noinline]] void plant_tree(WorkloadRun& run) noexcept { plant_subtree(run, 3); }

[[gnu::noinline]] void plant_cycles(WorkloadRun& run) noexcept {
  std::array<void**, 3> blocks{};
  for (void**& block : blocks) {
    block = take_block(kBlock);
    if (!plant_one(run, block)) return;
  }
  for (unsigned i = 0; i < blocks.size(); ++i) blocks[i][4] = blocks[(i + 1) % blocks.size()];
  blocks.fill(nullptr);
  void** const packet = take_packet();
  if (plant_one(run, packet)) packet[5] = packet;
}

[[gnu::noinline]] void plant_inner(WorkloadRun& run) noexcept {
  void** const block = take_block(kBlock);
  void** const session = take_session();
  if (plant_one(run, block) && plant_one(run, session)) block[1] = session + 7;
}

[[gnu::noinline]] void plant_large(WorkloadRun& run) noexcept {
  void** const block = take_block(kLarge);
  void** const packet = take_packet();
  if (plant_one(run, block) && plant_one(run, packet)) block[kLarge / sizeof(void*) - 1] = packet;
}

constexpr std::uint32_t kHeadsOfEach = 6;

void plant_task(WorkloadRun& run, unsigned hart) noexcept {
  const unsigned harts = run.participants();
  for (std::uint32_t i = run.place(hart); i < run.count && !run.stopping(); i += harts) {
    plant_list(run);
    plant_tree(run);
    plant_cycles(run);
    plant_inner(run);
    plant_large(run);
    run.numbers[kHeads].fetch_add(kHeadsOfEach, std::memory_order_relaxed);
    firmware::yield();
  }
}

void finish_plant(WorkloadRun& run, console::Output& out) noexcept {
  const auto number = [&](Number which) { return run.numbers[which].load(std::memory_order_relaxed); };
  for (std::uint32_t i = 0; run.option && i < number(kObjects) && i < kListed; ++i)
    console::Row(out, "leaked").print("leaked {address}\n", console::Address{~planted[i]});
  if (number(kFailed) != 0)
    console::Row(out, "failed")
        .print("plant: {failed} failed\n", console::Counted{number(kFailed), "allocation/allocations"});
  console::Row(out, "end")
      .print("plant: leaked {objects} under {heads}\n", console::Counted{number(kObjects), "object/objects"},
             console::Counted{number(kHeads), "head/heads"});
}

// ---- hold -----------------------------------------------------------------------------------------------------------

constexpr std::size_t kRingBytes = 256;
Cache* rings = nullptr;  // rings of descriptors; a scan reads only the declared ones
qm_scan_root ring_root;

const char* prepare_hold(WorkloadRun&) noexcept {
  if (rings != nullptr) return "hold runs already";
  CacheConfig config;
  config.name = "descriptors";
  config.object_size = kRingBytes;
  config.flags = cache_flags::kNoPointers;
  rings = Cache::create(config);
  void** const ring = rings != nullptr ? static_cast<void**>(cleared(rings->allocate(), kRingBytes)) : nullptr;
  if (ring == nullptr) return "no memory for a ring of descriptors";
  ring_root = {ring, kRingBytes, "descriptors", nullptr};
  return scan::add_root(ring_root) == Status::kOk ? nullptr : "the ring cannot be declared";
}

/// Keeps the object of @p slot only in a register for a while: loads it, clears the slot, loops, and stores it back.
[[gnu::noinline]] void hold_in_register(void* volatile& slot, std::uintptr_t turns) noexcept {
#if __riscv_xlen == 64
  asm volatile(
      "ld t5, (%1)\n\tsd zero, (%1)\n\t"
      "1: addi %0, %0, -1\n\tbnez %0, 1b\n\t"
      "sd t5, (%1)\n\tli t5, 0"
      : "+r"(turns)
      : "r"(&slot)
      : "t5", "memory");
#else
  asm volatile(
      "lw t5, (%1)\n\tsw zero, (%1)\n\t"
      "1: addi %0, %0, -1\n\tbnez %0, 1b\n\t"
      "sw t5, (%1)\n\tli t5, 0"
      : "+r"(turns)
      : "r"(&slot)
      : "t5", "memory");
#endif
}

/// Each hart keeps a packet in the declared ring, a list of sessions whose head is on this stack, a packet with only an
/// interior pointer, and a block in a register.
void hold_task(WorkloadRun& run, unsigned hart) noexcept {
  auto** const ring = static_cast<void**>(const_cast<void*>(ring_root.start));
  ring[hart] = take_packet();
  void** list = take_session();
  for (unsigned i = 0; i < 9 && list != nullptr; ++i) {
    if (void** const next = take_session()) next[0] = std::exchange(list, next);
  }
  void** const packet = take_packet();
  void** volatile inner = packet != nullptr ? packet + 20 : nullptr;
  void* volatile in_register = take_block(kBlock);
  run.numbers[kObjects].fetch_add(13, std::memory_order_relaxed);
  while (!run.stopping()) {
    for (unsigned i = 0; i < 8 && !run.stopping(); ++i) {
      hold_in_register(in_register, 200'000);
      firmware::yield();
    }
    firmware::sleep_until(hal::Port::ticks() + hal::ticks_of(1));
  }
  heap::free(in_register);
  if (inner != nullptr) caches().packet->free(inner - 20);
  while (list != nullptr) {
    void** const next = static_cast<void**>(list[0]);
    caches().session->free(std::exchange(list, next));
  }
  void* const ringed = std::exchange(ring[hart], nullptr);
  if (ringed != nullptr) caches().packet->free(ringed);
}

void finish_hold(WorkloadRun& run, console::Output& out) noexcept {
  scan::remove_root(ring_root);
  rings->free(const_cast<void*>(ring_root.start));
  Cache::destroy(std::exchange(rings, nullptr));
  console::Row(out, "end")
      .print("hold: held {objects}\n",
             console::Counted{run.numbers[kObjects].load(std::memory_order_relaxed), "object/objects"});
}

}  // namespace

constinit const Workload kPlant = {
    .name = "plant",
    .usage = "plant N [list]",
    .summary = "leaks N lists, trees, cycles and more, for findleaks",
    .task = "plant",
    .counted = true,
    .option = "list",
    .prepare = [](WorkloadRun&) noexcept -> const char* { return nullptr; },
    .work = plant_task,
    .finish = finish_plant,
    .release = nullptr,
};

constinit const Workload kHold = {
    .name = "hold",
    .usage = "hold",
    .summary = "holds objects by registers, stacks and a declared ring until workload stop",
    .task = "hold",
    .counted = false,
    .option = {},
    .prepare = prepare_hold,
    .work = hold_task,
    .finish = finish_hold,
    .release = nullptr,
};

}  // namespace qm::demo
