#pragma once
/// A new allocator with its trace for each test.

#include <support/system_fixture.hpp>

#include <qm/trace/dump.hpp>
#include <qm/trace/live_trace.hpp>

namespace qm::test {

/// Another stack for each number.
template <int kPath>
[[gnu::noinline]] void* allocate_by(Cache& cache) {
  void* object = cache.allocate();
  asm volatile("" : "+r"(object) : "i"(kPath));
  return object;
}

class TraceTest : public SystemTest {
 protected:
  void SetUp() override { begin({}); }
  void TearDown() override {
    trace::shutdown();
    shutdown();
  }

  /// Sets up the allocator and the trace; fills in @p config's object_base.
  void begin(trace::Config config, unsigned harts = 1, std::size_t bytes = kPoolBytes) {
    start(bytes, harts);
    config.object_base = reinterpret_cast<std::uintptr_t>(pool());
    ASSERT_EQ(trace::initialize(config), Status::kOk);
  }
  void begin_again(trace::Config config, unsigned harts = 1, std::size_t bytes = kPoolBytes) {
    trace::shutdown();
    shutdown();
    begin(config, harts, bytes);
  }

  static Cache* make(const char* name, std::size_t size = 64, std::uint32_t flags = 0) {
    CacheConfig config;
    config.name = name;
    config.object_size = size;
    config.flags = flags;
    return Cache::create(config);
  }

  static std::uint64_t recorded(Cache& cache) { return trace::cache_trace(cache).figures.recorded; }
  static std::uint64_t dropped(Cache& cache) { return trace::cache_trace(cache).figures.all_dropped(); }

  /// Dumps a cache and ignores the entries.
  static trace::DumpSummary dump_of(Cache& cache) {
    static trace::Dump dump;
    trace::DumpEntry entry;
    dump.begin(cache);
    while (dump.next(entry)) {
    }
    return dump.finish();
  }
};

}  // namespace qm::test
