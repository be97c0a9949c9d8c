/// The live trace of the core form: under interrupts that allocate, and what it adds, to the instruction (cost.hpp).

#include <support/system_fixture.hpp>

#include <array>

#include <qm/firmware/interrupt.hpp>
#include <qm/test/seed.hpp>
#include <qm/trace/dump.hpp>
#include <qm/trace/live_trace.hpp>

#include "cost.hpp"

namespace {

using namespace qm;

using qm::test::Cost;

// ---- interrupts -----------------------------------------------------------------------------------------------------

/// Objects of one side, replaced at random.
struct Holder {
  Cache* cache;
  qm::test::Random random;
  std::array<void*, 40> objects{};
  std::uint32_t steps = 0;

  void step() {
    const auto i = static_cast<std::size_t>(random.below(objects.size()));
    void* const fresh = i % 4 == 0 ? heap::allocate(random.below(400)) : cache->allocate();
    void* const old = objects[i];
    objects[i] = fresh;
    if (old != nullptr) i % 4 == 0 ? heap::free(old) : cache->free(old);
    ++steps;
  }
  /// Whether every object has its record. @param[out] stacks those that do not begin and end as they should.
  bool has_records(unsigned& stacks) {
    for (std::size_t i = 0; i != objects.size(); ++i) {
      if (objects[i] == nullptr) continue;
      const Traceable& source = i % 4 == 0 ? heap::traceable() : cache->traceable();
      trace::DumpEntry entry;
      if (!trace::find(source, reinterpret_cast<std::uintptr_t>(objects[i]), entry)) return false;
      if (entry.truncated || entry.depth == 0) ++stacks;
    }
    return true;
  }
  void free_all() {
    for (std::size_t i = 0; i != objects.size(); ++i) {
      if (objects[i] != nullptr) i % 4 == 0 ? heap::free(objects[i]) : cache->free(objects[i]);
    }
  }
};

void interrupted(void* argument) {
  auto& holder = *static_cast<Holder*>(argument);
  for (std::uint64_t i = holder.random.below(3); i-- != 0;) holder.step();
  firmware::set_tick_period(0, static_cast<std::uint32_t>(holder.random.between(40, 200)));
}

class CoreTraceInterrupts : public qm::test::SystemTest {};

TEST_F(CoreTraceInterrupts, handlers_that_allocate_and_free_leave_each_object_its_record) {
  ASSERT_EQ(trace::initialize({.stack_bytes = 16384, .record_bytes = 90 * trace::kBytesPerRecord}), Status::kOk);
  Cache* cache = Cache::create({.name = "shared", .object_size = 64});
  ASSERT_EQ(trace::start(*cache), Status::kOk);
  ASSERT_EQ(trace::start("kmalloc").status, Status::kOk);
  static Holder outside, inside;
  outside = {cache, qm::test::Random(qm::test::seed())};
  inside = {cache, qm::test::Random(qm::test::seed() + 1)};
  firmware::set_tick_handler(interrupted, &inside);
  firmware::set_tick_period(0, 100);
  while (outside.steps != 4000) outside.step();
  firmware::set_tick_handler(nullptr, nullptr);
  firmware::set_tick_period(0, 10000);
  EXPECT_GT(inside.steps, 40U);
  EXPECT_TRUE(trace::validate());
  EXPECT_EQ(trace::totals().dropped, 0U);
  unsigned wrong_stacks = 0;
  EXPECT_TRUE(outside.has_records(wrong_stacks));
  EXPECT_TRUE(inside.has_records(wrong_stacks));
  EXPECT_EQ(wrong_stacks, 0U);
  outside.free_all();
  inside.free_all();
  EXPECT_EQ(trace::totals().record_bytes, 0U);
  EXPECT_EQ(cache->stats().misuses + heap::misuses(), 0U);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  trace::shutdown();
}

// ---- costs ----------------------------------------------------------------------------------------------------------

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
