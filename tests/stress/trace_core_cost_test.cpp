/// What the live trace of the core form adds, to the instruction: see cost.hpp.

#include <support/system_fixture.hpp>

#include <array>

#include <qm/trace/dump.hpp>
#include <qm/trace/live_trace.hpp>

#include "cost.hpp"

namespace {

using namespace qm;

using qm::test::Cost;

class CoreTraceCost : public qm::test::SystemTest {};

/// Calls @p work from so many frames.
template <int kFrames, class Work>
[[gnu::noinline]] void* at_depth(Work& work) {
  void* object = nullptr;
  if constexpr (kFrames == 0) {
    object = work();
  } else {
    object = at_depth<kFrames - 1>(work);
  }
  asm volatile("" : "+r"(object));  // no jump instead of the call
  return object;
}

struct Pair {
  Cost allocations;
  Cost frees;
  unsigned depth = 0;  ///< of the stacks that were recorded
};

/// Random replacement of 200 objects, so that their records lie in a trie.
Pair measure(Cache& cache) {
  static std::array<void*, 200> objects;
  objects = {};
  Pair pair;
  std::uint32_t random = 1;
  auto allocate = [&] { return pair.allocations.measure([&] { return cache.allocate(); }); };
  for (unsigned i = 0; i < 4000; ++i) {
    random = random * 1664525 + 1013904223;
    void*& object = objects[random / 65536 % objects.size()];
    if (object != nullptr) pair.frees.measure([&] { return cache.free(object), 0; });
    object = at_depth<5>(allocate);
    trace::DumpEntry entry;
    if (trace::find(cache.traceable(), reinterpret_cast<std::uintptr_t>(object), entry)) pair.depth = entry.depth;
  }
  for (void* object : objects) {
    if (object != nullptr) cache.free(object);
  }
  return pair;
}

TEST_F(CoreTraceCost, an_allocation_with_a_known_stack_and_a_free) {
  ASSERT_EQ(trace::initialize({.record_bytes = 201 * trace::kBytesPerRecord}), Status::kOk);
  Cache* cache = Cache::create({.name = "hot", .object_size = 64});
  const Pair off = measure(*cache);
  ASSERT_EQ(trace::start(*cache), Status::kOk);
  void* const kept = cache->allocate();
  const Pair on = measure(*cache);
  ASSERT_EQ(trace::stop(*cache), Status::kOk);
  const Pair stopped = measure(*cache);
  cache->free(kept);
  EXPECT_EQ(trace::totals().dropped, 0U);
  EXPECT_EQ(off.depth + stopped.depth, 0U);
  EXPECT_GE(on.depth, 8U);
  off.allocations.print("allocation, not traced");
  off.frees.print("free, not traced");
  qm::test::put("frames: ");
  qm::test::put(on.depth);
  qm::test::put("\n");
  on.allocations.print("allocation, traced");
  on.frees.print("free, traced");
  stopped.allocations.print("allocation, after stop");
  stopped.frees.print("free, after stop");
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  trace::shutdown();
  if (!qm::test::counter_is_exact() || sizeof(void*) != 4) return;
  EXPECT_LE(on.allocations.mean(), off.allocations.mean() + 1050);
  EXPECT_LE(on.frees.mean(), off.frees.mean() + 240);
}

}  // namespace
