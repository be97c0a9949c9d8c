/// The memory that the allocator itself takes, and the memory that objects take.

#include <array>

#include <qm/arena.hpp>
#include <qm/bench/bench.hpp>
#include <qm/bench/subjects.hpp>
#include <qm/detail/boundary_tag.hpp>
#include <qm/cache.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/heap.hpp>
#include <qm/system.hpp>
#include <qm/trace/live_trace.hpp>

extern "C" {
extern const char __qm_trace_data_start[], __qm_trace_data_end[], __qm_trace_bss_start[], __qm_trace_bss_end[];
extern const char __tls_blocks[], __tls_first_block_end[];
}

namespace qm::bench {
namespace {

std::array<void*, 1000> live;

/// Bytes of RAM in use: pages of `base`, the page that the first boundary tags lie in, `.data` and `.bss` of alloc and
/// trace, the hart-local blocks.
void show_ram(const char* when) {
  const std::size_t pages = base_arena().stats().allocated + SlabLayer::kPageBytes;
  const auto data = static_cast<std::size_t>(__qm_trace_data_end - __qm_trace_data_start);
  const auto bss = static_cast<std::size_t>(__qm_trace_bss_end - __qm_trace_bss_start);
  const unsigned harts = firmware::boot_info().hart_count;
  const std::size_t hart_locals = harts * static_cast<std::size_t>(__tls_first_block_end - __tls_blocks);
  Row(when)
      .number("harts", harts)
      .number("pages", pages)
      .number("data", data)
      .number("bss", bss)
      .number("hart-locals", hart_locals)
      .number("RAM", pages + data + bss + hart_locals);
}

void show_objects(std::size_t size) {
  CacheConfig config;
  config.name = "objects";
  config.object_size = size;
  Cache* cache = Cache::create(config);
  for (void*& object : live) object = cache->allocate();
  const CacheStats stats = cache->stats();
  PicolibcSubject picolibc;
  for (std::size_t i = 0; i < live.size(); ++i) static_cast<void>(picolibc.allocate(size));
  Row("1000 live objects")
      .number("harts", firmware::boot_info().hart_count)
      .number("object", size)
      .number("slabs", stats.slabs)
      .mean("bytes an object", stats.slabs * stats.slab_bytes, live.size())
      .mean("of picolibc", picolibc.taken_bytes(), live.size());
  for (void* object : live) cache->free(object);
  Cache::destroy(cache);
}

}  // namespace

void run() {
  show_ram("after bootstrap");
  trace::Config config;
  config.object_base = firmware::boot_info().memory.front().low;
  if (trace::initialize(config) != Status::kOk) return;
  show_ram("with the trace");
  CacheConfig traced;
  traced.name = "traced";
  traced.object_size = 64;
  Cache* cache = Cache::create(traced);
  trace::start("traced");
  show_ram("with one cache traced");
  trace::stop("traced");
  Cache::destroy(cache);
  for (const std::size_t size : {16, 24, 48, 64, 100, 256, 1000, 4096}) show_objects(size);
}

}  // namespace qm::bench
