/// misuse: misuses packets and sessions in several ways, one after the other, and frees everything. The console reports
/// each misuse: in an ordinary build when the object comes to a slow path, at the latest at this workload's end; in a
/// checking build at once. It writes behind an object only in a checking build, and to a freed one also if packets have
/// a quarantine.
///
/// The functions that misuse objects have C linkage, so that the console prints plain names.

#include <qm/detail/object_check.hpp>

#include "../caches.hpp"
#include "workloads.hpp"

namespace {

using qm::Cache;

enum Number : unsigned { kCommitted };

}  // namespace

extern "C" {

[[gnu::noinline]] static void free_twice(Cache* cache) {
  void* object = QM_ALLOC(cache->allocate);
  cache->free(object);
  cache->free(object);
}

[[gnu::noinline]] static void free_inside(Cache* cache) {
  auto* object = static_cast<std::byte*>(QM_ALLOC(cache->allocate));
  cache->free(object + 16);
  cache->free(object);
}

[[gnu::noinline]] static void free_to_another(Cache* cache, Cache* owner) {
  void* object = QM_ALLOC(owner->allocate);
  cache->free(object);
  owner->free(object);
}

[[gnu::noinline, maybe_unused]] static void write_behind(Cache* cache) {
  auto* object = static_cast<volatile char*>(QM_ALLOC(cache->allocate));
  object[cache->object_size()] = 1;
  cache->free(const_cast<char*>(object));
}

[[gnu::noinline]] static void write_after_free(Cache* cache) {
  auto* object = static_cast<volatile char*>(QM_ALLOC(cache->allocate));
  cache->free(const_cast<char*>(object));
  object[40] = 1;
  cache->free(QM_ALLOC(cache->allocate));
}

[[gnu::noinline]] static void misuse_task(qm::demo::WorkloadRun& run, unsigned hart) noexcept {
  if (run.place(hart) != 0) return;
  const qm::demo::Caches& caches = qm::demo::caches();
  std::uint32_t committed = 3;
  free_inside(caches.packet);
  free_to_another(caches.packet, caches.session);
  free_twice(caches.packet);
  // Without redzones a write behind an object changes the next object.
  if constexpr (qm::kChecked) {
    ++committed;
    write_behind(caches.packet);
  }
  if (qm::kChecked || caches.packet->stats().quarantine != 0) {
    ++committed;
    write_after_free(caches.packet);
  }
  run.numbers[kCommitted].store(committed, std::memory_order_relaxed);
}

}  // extern "C"

namespace qm::demo {
namespace {

void finish(WorkloadRun& run, console::Output& out) noexcept {
  caches().packet->reap();
  console::Row(out, "end")
      .print("misuse: committed {committed}\n",
             console::Counted{run.numbers[kCommitted].load(std::memory_order_relaxed), "time/times"});
}

}  // namespace

constinit const Workload kMisuse = {
    .name = "misuse",
    .usage = "misuse",
    .summary = "frees objects twice, to the wrong cache and worse, to be reported",
    .task = "misuse",
    .counted = false,
    .option = {},
    .prepare = [](WorkloadRun&) noexcept -> const char* { return nullptr; },
    .work = misuse_task,
    .finish = finish,
    .release = nullptr,
};

}  // namespace qm::demo
